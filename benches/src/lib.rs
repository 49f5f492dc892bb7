//! Load generator, suite and benches.

#![forbid(unsafe_code)]
