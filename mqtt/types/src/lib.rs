//! The vocabulary: topics, filters, QoS, reason codes, properties, offsets.
//!
//! Owns: what these words mean and how they are checked.
//! Does not know: sockets, time, threads, packets.

#![forbid(unsafe_code)]
