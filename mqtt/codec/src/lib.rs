//! Bytes to packets and back: MQTT 3.1, 3.1.1 and 5.0.
//!
//! Owns: framing, decoding by borrowing, encoding, the limits that apply at the header.
//! Does not know: sockets, time, threads, sessions.

#![forbid(unsafe_code)]
