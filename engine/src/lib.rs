//! The truth: records become state, state becomes effects.
//!
//! Owns: the record kinds and their one encoding, `State` and `apply`, the subscription index and
//! routing, retained messages, queues and queue numbers, the overlay, images as sections.
//! Does not know: files, sockets, clocks, threads, randomness, hash-map order. `now` and random
//! numbers are arguments.

#![forbid(unsafe_code)]
