//! MQTT-SN 1.2: codec and gateway.
//!
//! Owns: the MQTT-SN packets, client states, topic ids, their translation to MQTT.
//! Does not know: files, the log, unsafe code.
//!
//! Filled by the MQTT-SN issue; until then this comment is the whole crate.

#![forbid(unsafe_code)]
