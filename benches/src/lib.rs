//! What benches share: the load generator's engine, and how results are told.
//!
//! Owns: load, its accounting, the processes it is put on; clients that fill a broker; spreads and
//! charts. Does not know: the product, but for the codec it speaks with.

#![forbid(unsafe_code)]

pub mod chart;
pub mod client;
pub mod load;
pub mod spread;
