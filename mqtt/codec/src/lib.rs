//! Bytes to packets and back: MQTT 3.1, 3.1.1 and 5.0.
//!
//! Owns: framing, decoding by borrowing, encoding, the limits that apply at the header, and the
//! faults of packets with what they are answered by.
//! Does not know: sockets, time, threads, sessions.
//!
//! A [`Decoder`] says who sends and what was agreed; it reads one packet at a time from the front
//! of a buffer. An [`Encoder`] says what the peer takes; it appends packets to a `Vec<u8>`.
//!
//! ```
//! use zzq_codec::{Decoder, Limits, Packet};
//!
//! let bytes = [0x10, 0x0D, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 60, 0, 1, b'a'];
//! let mut decoder = Decoder::of_clients(Limits::default());
//! assert_eq!(decoder.decode(&bytes[..9])?, None);
//! let Some((Packet::Connect(connect), size)) = decoder.decode(&bytes)? else { unreachable!() };
//! assert_eq!((connect.client_id, size), ("a", 15));
//! decoder.connected(connect.version);
//! # Ok::<(), zzq_codec::DecodeError>(())
//! ```

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod cursor;
mod decode;
mod encode;
mod error;
mod frame;
mod packet;
mod reasons;
mod role;
mod run;

pub use decode::{Decoded, Decoder};
pub use encode::{EncodeError, Encoder, PublishHead, PublishPlace, encode_ack};
pub use error::{Answer, DecodeError, Fault, Field, Malformed, Refusal, Violation};
pub use frame::{FixedHeader, Limits};
pub use packet::{
    Ack, AckKind, Auth, ConnAck, Connect, Delivery, Disconnect, Filters, FiltersIter, Packet,
    Publish, ReasonCodes, SubAck, Subscribe, Subscription, Subscriptions, SubscriptionsBuf,
    SubscriptionsIter, UnsubAck, Unsubscribe, Will,
};
pub use role::{PacketType, Sender};
pub use run::{AckRun, Run, RunMessage, RunPlaces};
