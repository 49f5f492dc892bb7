//! What benches share: the load generator's engine, and how results are told.
//!
//! Owns: load, its accounting, the processes it is put on; clients that fill a broker; spreads,
//! slopes and charts; results that are kept, and pages that tell of them. Does not know: the
//! product, but for the codec it speaks with.

#![forbid(unsafe_code)]

pub mod chart;
pub mod client;
pub mod curve;
pub mod growth;
pub mod lines;
pub mod load;
pub mod machine;
pub mod page;
pub mod program;
pub mod spread;
mod svg;
