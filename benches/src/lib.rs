//! What benches share: the load generator's engine.
//!
//! Owns: load, its accounting, the processes it is put on. Does not know: the product, but for
//! the codec it speaks with.

#![forbid(unsafe_code)]

pub mod load;
