//! Load generator, suite and benches.
