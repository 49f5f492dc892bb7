//! IO lanes: a thread, its connections, its buffers.
//!
//! Owns: sockets, readiness, buffers, rings between lanes, transports.
//! Does not know: MQTT packet types, files.

#![forbid(unsafe_code)]
