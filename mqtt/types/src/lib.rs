//! The vocabulary: topics, filters, QoS, reason codes, properties, offsets.
//!
//! Owns: what these words mean and how they are checked.
//! Does not know: sockets, time, threads, packets.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod filter;
mod lsn;
mod packet_id;
mod properties;
mod property;
mod qos;
mod reason;
mod subscription;
mod text;
mod topic;
pub mod units;
mod varint;
mod version;
mod when;

pub use filter::{Filter, FilterError, TopicFilter};
pub use lsn::Lsn;
pub use packet_id::PacketId;
pub use properties::{Properties, PropertiesBuf, PropertiesIter, PropertyError, PropertyScope};
pub use property::{Property, PropertyId, PropertyKind};
pub use qos::QoS;
pub use reason::ReasonCode;
pub use subscription::{RetainHandling, SubscribeOptions, SubscribeOptionsError, SubscriptionId};
pub use text::{TextError, check_text};
pub use topic::{TopicError, TopicName};
pub use varint::{VARINT_MAX, VarintError, read_varint, varint_len, write_varint};
pub use version::ProtocolVersion;
pub use when::{Moment, parse_rfc3339, rfc3339};
