//! Encoding: packets appended to a `Vec<u8>`, within what the peer takes.
//!
//! What is refused here is the caller's fault, not the peer's; the buffer is then as it was.

mod ack;
mod auth;
mod connack;
mod connect;
mod disconnect;
mod fit;
mod list;
mod publish;
mod subscribe;
mod unsubscribe;

use alloc::vec::Vec;

use thiserror::Error;
use zzq_types::{
    Property, PropertyId, ProtocolVersion, ReasonCode, VARINT_MAX, varint_len, write_varint,
};

use crate::{AckKind, Connect, Field, Limits, Packet, PacketType, Sender};

pub use ack::encode_ack;
pub use publish::{PublishHead, PublishPlace};

/// Writes for one peer: its version, and what it asked for at CONNECT or CONNACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoder {
    /// What is written in.
    pub version: ProtocolVersion,
    /// What the peer takes.
    pub limits: Limits,
    /// Whether a client wants reason strings and user properties with packets other than PUBLISH,
    /// CONNACK and DISCONNECT. True for servers.
    pub problem_info: bool,
}

/// Why a packet cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EncodeError {
    /// More than the peer takes, or than a packet can be, with everything left out that may be.
    #[error("{packet} of {size} bytes, the peer takes {limit}")]
    TooLarge {
        /// The packet.
        packet: PacketType,
        /// Its size, header included.
        size: usize,
        /// The peer's Maximum Packet Size, or what the encoding allows.
        limit: u32,
    },
    /// A string or binary above 65 535 bytes.
    #[error("{0} of {1} bytes, at most 65535 can be written")]
    TooLong(Field, usize),
    /// The version does not have this packet.
    #[error("{0} is no packet of this version")]
    NotInVersion(PacketType),
    /// The packet does not carry this reason, in MQTT 3 because no return code says it.
    #[error("{0} cannot say '{1}'")]
    Reason(PacketType, ReasonCode),
    /// No topic, and no alias for one.
    #[error("PUBLISH without topic and alias")]
    NoTopic,
    /// A request or an answer that lists nothing.
    #[error("{0} with an empty list")]
    NothingListed(PacketType),
    /// DUP in a PUBLISH that is never sent again.
    #[error("PUBLISH with DUP at QoS 0")]
    DupAtQoS0,
    /// MQTT 3 has no password without a user name.
    #[error("CONNECT with a password and no user name")]
    PasswordWithoutUserName,
    /// The version does not allow this client identifier.
    #[error("CONNECT with a client identifier that its version does not allow")]
    ClientId,
}

impl Encoder {
    /// For a peer without wishes of its own.
    pub const fn new(version: ProtocolVersion) -> Self {
        let limits = Limits { max_packet: VARINT_MAX + 5 };
        Self { version, limits, problem_info: true }
    }

    /// For a server: writes what the client that sent `connect` takes.
    pub fn for_client(connect: &Connect<'_>) -> Self {
        let mut encoder = Self::new(connect.version);
        for property in connect.properties {
            match property {
                Property::MaximumPacketSize(most) => encoder.limit_to(most),
                Property::RequestProblemInfo(wanted) => encoder.problem_info = wanted != 0,
                _ => {}
            }
        }
        encoder
    }

    /// For a client: the server's CONNACK has named its Maximum Packet Size.
    pub const fn limit_to(&mut self, max_packet: u32) {
        let own = VARINT_MAX + 5;
        self.limits.max_packet = if max_packet < own { max_packet } else { own };
    }

    /// Appends any packet.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing is appended.
    pub fn encode(self, packet: &Packet<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match packet {
            Packet::Connect(connect) => self.connect(connect, out),
            Packet::ConnAck(ack) => self.conn_ack(ack, out),
            Packet::Publish(publish) => self.publish(publish, out),
            Packet::PubAck(ack) => self.ack(AckKind::PubAck, ack, out),
            Packet::PubRec(ack) => self.ack(AckKind::PubRec, ack, out),
            Packet::PubRel(ack) => self.ack(AckKind::PubRel, ack, out),
            Packet::PubComp(ack) => self.ack(AckKind::PubComp, ack, out),
            Packet::Subscribe(subscribe) => self.subscribe(subscribe, out),
            Packet::SubAck(ack) => self.sub_ack(ack, out),
            Packet::Unsubscribe(unsubscribe) => self.unsubscribe(unsubscribe, out),
            Packet::UnsubAck(ack) => self.unsub_ack(ack, out),
            Packet::PingReq => self.ping(PacketType::PingReq, out),
            Packet::PingResp => self.ping(PacketType::PingResp, out),
            Packet::Disconnect(disconnect) => self.disconnect(disconnect, out),
            Packet::Auth(auth) => self.auth(auth, out),
        }
    }

    fn ping(self, packet: PacketType, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.begin(packet, packet.bits(), 0, out).map(|_| ())
    }

    /// Writes the fixed header of a packet with `body` bytes behind it, if the peer takes it;
    /// returns where the packet will end.
    //= MQTT5-1.5.5-1
    //= MQTT5-3.1.2-24
    //= MQTT5-3.2.2-15
    #[inline]
    fn begin(
        self,
        packet: PacketType,
        first: u8,
        body: usize,
        out: &mut Vec<u8>,
    ) -> Result<usize, EncodeError> {
        let remaining = self.remaining(packet, body)?;
        let start = out.len();
        out.push(first);
        write_varint(out, remaining);
        assert_eq!(out.len() - start, header_len(remaining), "the header is as long as counted");
        Ok(out.len() + body)
    }

    /// The remaining length for a body, if the peer takes the packet.
    #[inline]
    fn remaining(self, packet: PacketType, body: usize) -> Result<u32, EncodeError> {
        let limit = self.limits.max_packet;
        match u32::try_from(body) {
            Ok(remaining) if remaining <= VARINT_MAX => {
                let size = header_len(remaining) + body;
                if size > limit as usize {
                    return Err(EncodeError::TooLarge { packet, size, limit });
                }
                Ok(remaining)
            }
            _ => Err(EncodeError::TooLarge { packet, size: body.saturating_add(5), limit }),
        }
    }
}

/// A packet was written as long as its header says: pairs with [`Encoder::begin`].
#[inline]
fn ended(packet: PacketType, end: usize, out: &[u8]) {
    assert_eq!(out.len(), end, "{packet} is as long as counted");
}

/// Refuses a reason that the reader of `packet` would refuse.
fn check_reason(
    packet: PacketType,
    reason: ReasonCode,
    senders: &[Sender],
) -> Result<(), EncodeError> {
    let good = senders.iter().any(|sender| crate::reasons::allowed(packet, *sender, reason));
    if good { Ok(()) } else { Err(EncodeError::Reason(packet, reason)) }
}

/// Both sides: who writes is known by the caller alone.
const ANYONE: &[Sender] = &[Sender::Client, Sender::Server];

#[inline]
const fn header_len(remaining: u32) -> usize {
    1 + varint_len(remaining)
}

/// What properties take with their length in front.
//= MQTT5-2.2.2-1
#[inline]
fn properties_len(block: usize) -> Result<usize, TooMany> {
    match u32::try_from(block) {
        Ok(len) if len <= VARINT_MAX => Ok(varint_len(len) + block),
        _ => Err(TooMany),
    }
}

/// Properties beyond what their length can say: no packet is that large either.
struct TooMany;

/// Writes properties behind their length.
//= MQTT5-2.2.2-1
#[inline]
fn put_properties(out: &mut Vec<u8>, block: &[u8]) {
    let len = u32::try_from(block.len());
    assert!(len.is_ok_and(|len| len <= VARINT_MAX), "properties were counted before");
    write_varint(out, len.unwrap_or(VARINT_MAX));
    out.extend_from_slice(block);
}

/// Writes bytes behind a length of two bytes.
#[inline]
fn put_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len());
    assert!(len.is_ok(), "lengths were checked before");
    out.extend_from_slice(&len.unwrap_or(u16::MAX).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// What [`put_binary`] takes, if it can write `bytes`.
#[inline]
fn binary_len(field: Field, bytes: &[u8]) -> Result<usize, EncodeError> {
    if bytes.len() > usize::from(u16::MAX) {
        return Err(EncodeError::TooLong(field, bytes.len()));
    }
    Ok(2 + bytes.len())
}

/// Whether a property may be left out where the packet would be too large for the peer.
const fn is_droppable(id: PropertyId) -> bool {
    matches!(id, PropertyId::UserProperty | PropertyId::ReasonString)
}

#[cfg(test)]
mod tests;
