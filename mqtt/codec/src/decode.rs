//! Decoding: one packet at a time from the front of a buffer, borrowed from it.
//!
//! Which packets may come, and what they may hold, is decided from who sends them and from the
//! version that was agreed; what a session makes of them is not known here.

mod ack;
mod auth;
mod connack;
mod connect;
mod disconnect;
mod publish;
mod subscribe;
mod unsubscribe;

use zzq_types::{PacketId, ProtocolVersion};

use crate::cursor::Cursor;
use crate::{
    AckKind, Answer, DecodeError, Fault, FixedHeader, Limits, Malformed, Packet, PacketType,
    Sender, Violation, frame,
};

pub(crate) use publish::decode_behind_topic;

/// Reads what one peer sends. Holds no bytes: the caller keeps the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    sender: Sender,
    version: Option<ProtocolVersion>,
    limits: Limits,
    bridges: bool,
}

impl Decoder {
    /// For a server: reads what a client sends, CONNECT first.
    pub const fn of_clients(limits: Limits) -> Self {
        Self { sender: Sender::Client, version: None, limits, bridges: false }
    }

    /// For a client: reads what a server sends, in the version that CONNECT named.
    pub const fn of_servers(version: ProtocolVersion, limits: Limits) -> Self {
        Self { sender: Sender::Server, version: Some(version), limits, bridges: false }
    }

    /// Accepts mosquitto's bridges, which set bit 0x80 of the protocol level.
    #[must_use]
    pub const fn with_bridges(mut self) -> Self {
        self.bridges = true;
        self
    }

    /// CONNECT has named its version: no other may follow, everything else may.
    pub const fn connected(&mut self, version: ProtocolVersion) {
        self.version = Some(version);
    }

    /// Other limits from the next packet on.
    pub const fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// The version that CONNECT has named.
    pub const fn version(self) -> Option<ProtocolVersion> {
        self.version
    }

    /// Who is read.
    pub const fn sender(self) -> Sender {
        self.sender
    }

    /// Reads the fixed header at the front of `bytes`: at most five bytes say what comes and how
    /// long it is. `None` if more bytes are needed. Limits, flags and sender are checked, the first
    /// of them from the first byte, so that nothing is buffered for what will be refused.
    #[inline]
    pub fn header(self, bytes: &[u8]) -> Result<Option<FixedHeader>, DecodeError> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        let packet = self.packet_type(first)?;
        let header = FixedHeader::read(packet, bytes, self.limits)
            .map_err(|fault| self.error(packet, fault))?;
        if let Some(header) = header {
            header.check_body_len(self.version).map_err(|fault| self.error(packet, fault))?;
        }
        Ok(header)
    }

    /// Decodes the packet at the front of `bytes` and returns it with its size; `None` if more
    /// bytes are needed. [`Decoder::header`] says how many.
    ///
    /// # Errors
    /// Every fault ends the connection; [`DecodeError::answer`] says with which last packet.
    #[inline]
    pub fn decode(self, bytes: &[u8]) -> Result<Option<(Packet<'_>, usize)>, DecodeError> {
        let Some(header) = self.header(bytes)? else { return Ok(None) };
        let Some(packet) = bytes.get(..header.total_len()) else { return Ok(None) };
        let body = &packet[header.header_len()..];
        Ok(Some((self.body(header, body)?, header.total_len())))
    }

    /// Decodes the body that belongs to `header`.
    #[inline]
    fn body(self, header: FixedHeader, body: &[u8]) -> Result<Packet<'_>, DecodeError> {
        let packet = header.packet();
        let Some(version) = self.version else {
            return connect::decode(body, self.bridges).map(Packet::Connect).map_err(
                |(version, fault)| {
                    DecodeError::new(Some(packet), fault, Answer::to_connect(version, &fault))
                },
            );
        };
        let context = Context { sender: self.sender, version, first: header.first_byte() };
        context.body(packet, body).map_err(|fault| self.error(packet, fault))
    }

    /// What the first byte says, if it may come now.
    #[inline]
    fn packet_type(self, first: u8) -> Result<PacketType, DecodeError> {
        let Some(packet) = PacketType::from_first_byte(first) else {
            let fault = Malformed::ReservedType(0).into();
            return Err(DecodeError::new(None, fault, Answer::on_connection(self.version, &fault)));
        };
        self.check_packet(packet, first).map_err(|fault| self.error(packet, fault))?;
        Ok(packet)
    }

    //= MQTT311-3.1.0-1
    //= MQTT311-3.1.0-2
    //= MQTT5-3.1.0-1
    //= MQTT5-3.1.0-2
    #[inline]
    fn check_packet(self, packet: PacketType, first: u8) -> Result<(), Fault> {
        match (self.version, packet) {
            (None, PacketType::Connect) => {}
            (None, _) => return Err(Violation::NotConnected.into()),
            (Some(version), PacketType::Auth) if !version.is_v5() => {
                return Err(Malformed::ReservedType(15).into());
            }
            (Some(version), PacketType::Disconnect)
                if !version.is_v5() && self.sender == Sender::Server =>
            {
                return Err(Violation::WrongSender.into());
            }
            (Some(_), PacketType::Connect) if self.sender == Sender::Client => {
                return Err(Violation::ConnectedTwice.into());
            }
            (Some(_), _) if !packet.sent_by(self.sender) => {
                return Err(Violation::WrongSender.into());
            }
            (Some(_), _) => {}
        }
        frame::check_flags(packet, first, self.version).map_err(Fault::from)
    }

    #[cold]
    pub(crate) fn error(self, packet: PacketType, fault: impl Into<Fault>) -> DecodeError {
        let fault = fault.into();
        let answer = if packet == PacketType::Connect && self.version.is_none() {
            Answer::to_connect(None, &fault)
        } else {
            Answer::on_connection(self.version, &fault)
        };
        DecodeError::new(Some(packet), fault, answer)
    }
}

/// What the bodies of packets are read by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub(crate) sender: Sender,
    pub(crate) version: ProtocolVersion,
    /// The first byte of the packet.
    pub(crate) first: u8,
}

impl Context {
    #[inline]
    fn body(self, packet: PacketType, body: &[u8]) -> Result<Packet<'_>, Fault> {
        Ok(match packet {
            PacketType::Publish => Packet::Publish(publish::decode(self, body)?),
            PacketType::PubAck => Packet::PubAck(ack::decode(self, AckKind::PubAck, body)?),
            PacketType::PubRec => Packet::PubRec(ack::decode(self, AckKind::PubRec, body)?),
            PacketType::PubRel => Packet::PubRel(ack::decode(self, AckKind::PubRel, body)?),
            PacketType::PubComp => Packet::PubComp(ack::decode(self, AckKind::PubComp, body)?),
            PacketType::Subscribe => Packet::Subscribe(subscribe::decode(self, body)?),
            PacketType::SubAck => Packet::SubAck(subscribe::decode_ack(self, body)?),
            PacketType::Unsubscribe => Packet::Unsubscribe(unsubscribe::decode(self, body)?),
            PacketType::UnsubAck => Packet::UnsubAck(unsubscribe::decode_ack(self, body)?),
            PacketType::ConnAck => Packet::ConnAck(connack::decode(self, body)?),
            PacketType::Disconnect => Packet::Disconnect(disconnect::decode(self, body)?),
            PacketType::Auth => Packet::Auth(auth::decode(self, body)?),
            // No body: the header has held them to that.
            PacketType::PingReq => Packet::PingReq,
            PacketType::PingResp => Packet::PingResp,
            PacketType::Connect => return Err(Violation::ConnectedTwice.into()),
        })
    }
}

/// A packet identifier.
//= MQTT311-2.3.1-1
//= MQTT5-2.2.1-3
//= MQTT5-2.2.1-4
#[inline]
fn packet_id(cursor: &mut Cursor<'_>) -> Result<PacketId, Fault> {
    PacketId::new(cursor.u16()?).ok_or(Fault::Violation(Violation::ZeroPacketId))
}
