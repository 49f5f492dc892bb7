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

use zzq_types::{PacketId, Properties, PropertyScope, ProtocolVersion};

use crate::cursor::Cursor;
use crate::{
    AckKind, Answer, Connect, DecodeError, Fault, FixedHeader, Limits, Malformed, Packet,
    PacketType, Sender, Violation, frame,
};

pub(crate) use publish::decode_behind_topic;

/// A packet with its size; `None` where more bytes are needed.
pub type Decoded<'a> = Result<Option<(Packet<'a>, usize)>, DecodeError>;

/// Reads what one peer sends. Holds no bytes: the caller keeps the buffer.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    sender: Sender,
    version: Option<ProtocolVersion>,
    limits: Limits,
    bridges: bool,
    /// The packet types that may come, a bit each.
    expected: u16,
}

impl Decoder {
    /// For a server: reads what a client sends, CONNECT first.
    pub const fn of_clients(limits: Limits) -> Self {
        let expected = expected(Sender::Client, None);
        Self { sender: Sender::Client, version: None, limits, bridges: false, expected }
    }

    /// For a client: reads what a server sends, in the version that CONNECT named.
    pub const fn of_servers(version: ProtocolVersion, limits: Limits) -> Self {
        let expected = expected(Sender::Server, Some(version));
        let version = Some(version);
        Self { sender: Sender::Server, version, limits, bridges: false, expected }
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
        self.expected = expected(self.sender, self.version);
    }

    /// Other limits from the next packet on.
    pub const fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// What the sender is held to.
    #[inline]
    pub const fn limits(self) -> Limits {
        self.limits
    }

    /// The version that CONNECT has named.
    #[inline]
    pub const fn version(self) -> Option<ProtocolVersion> {
        self.version
    }

    /// Who is read.
    #[inline]
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
        match FixedHeader::read(packet, bytes, self.limits, self.version) {
            Ok(header) => Ok(header),
            Err(fault) => Err(self.header_error(packet, fault, bytes)),
        }
    }

    /// A CONNECT that is too large may name its version at its front all the same.
    #[cold]
    fn header_error(self, packet: PacketType, fault: Fault, bytes: &[u8]) -> DecodeError {
        match fault {
            Fault::TooLarge { .. } if packet == PacketType::Connect => {
                let answer = Answer::to_connect(connect::version_ahead(bytes), &fault);
                DecodeError::new(Some(packet), fault, answer)
            }
            _ => self.error(packet, fault),
        }
    }

    /// Decodes the packet at the front of `bytes` and returns it with its size; `None` if more
    /// bytes are needed. [`Decoder::header`] says how many.
    ///
    /// # Errors
    /// Every fault ends the connection; [`DecodeError::answer`] says with which last packet.
    #[inline]
    pub fn decode(self, bytes: &[u8]) -> Decoded<'_> {
        let Some(header) = self.header(bytes)? else { return Ok(None) };
        let Some(packet) = bytes.get(..header.total_len()) else { return Ok(None) };
        self.body(header, &packet[header.header_len()..])
    }

    /// Decodes the body that belongs to `header`. Each arm makes the result whole, once: a `Packet`
    /// has room for a CONNECT, and moving that about costs more than reading a short packet.
    #[inline]
    fn body(self, header: FixedHeader, body: &[u8]) -> Decoded<'_> {
        let (packet, size) = (header.packet(), header.total_len());
        let Some(version) = self.version else {
            return self.connect(body).map(|connect| Some((Packet::Connect(connect), size)));
        };
        let context = Context { sender: self.sender, version, first: header.first_byte() };
        let fail = |fault| self.error(packet, fault);
        let ack = |kind| ack::decode(context, kind, body).map_err(fail);
        match packet {
            PacketType::Publish => {
                let publish = publish::decode(context, body).map_err(fail)?;
                Ok(Some((Packet::Publish(publish), size)))
            }
            PacketType::PubAck => Ok(Some((Packet::PubAck(ack(AckKind::PubAck)?), size))),
            PacketType::PubRec => Ok(Some((Packet::PubRec(ack(AckKind::PubRec)?), size))),
            PacketType::PubRel => Ok(Some((Packet::PubRel(ack(AckKind::PubRel)?), size))),
            PacketType::PubComp => Ok(Some((Packet::PubComp(ack(AckKind::PubComp)?), size))),
            // No body: the header has held them to that.
            PacketType::PingReq => Ok(Some((Packet::PingReq, size))),
            PacketType::PingResp => Ok(Some((Packet::PingResp, size))),
            _ => match context.rare_body(packet, body) {
                Ok(packet) => Ok(Some((packet, size))),
                Err(fault) => Err(self.error(packet, fault)),
            },
        }
    }

    fn connect(self, body: &[u8]) -> Result<Connect<'_>, DecodeError> {
        connect::decode(body, self.bridges).map_err(|(version, fault)| {
            let answer = Answer::to_connect(version, &fault);
            DecodeError::new(Some(PacketType::Connect), fault, answer)
        })
    }

    /// What the first byte says, if it may come now.
    #[inline]
    fn packet_type(self, first: u8) -> Result<PacketType, DecodeError> {
        match PacketType::from_first_byte(first) {
            Some(packet) if self.expected & 1 << (first >> 4) != 0 => {
                match frame::check_flags(packet, first, self.version) {
                    Ok(()) => Ok(packet),
                    Err(fault) => Err(self.error(packet, fault.into())),
                }
            }
            packet => Err(self.unexpected(packet)),
        }
    }

    #[cold]
    fn unexpected(self, packet: Option<PacketType>) -> DecodeError {
        let Some(packet) = packet else {
            let fault = Malformed::ReservedType(0).into();
            return DecodeError::new(None, fault, Answer::on_connection(self.version, &fault));
        };
        let fault = match (self.version, packet) {
            (None, _) => Violation::NotConnected.into(),
            (Some(version), PacketType::Auth) if !version.is_v5() => {
                Malformed::ReservedType(15).into()
            }
            (Some(_), PacketType::Connect) if self.sender == Sender::Client => {
                Violation::ConnectedTwice.into()
            }
            (Some(_), _) => Violation::WrongSender.into(),
        };
        self.error(packet, fault)
    }

    #[cold]
    pub(crate) fn error(self, packet: PacketType, fault: Fault) -> DecodeError {
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
    /// Bodies of packets that come once in a while.
    fn rare_body(self, packet: PacketType, body: &[u8]) -> Result<Packet<'_>, Fault> {
        Ok(match packet {
            PacketType::Subscribe => Packet::Subscribe(subscribe::decode(self, body)?),
            PacketType::SubAck => Packet::SubAck(subscribe::decode_ack(self, body)?),
            PacketType::Unsubscribe => Packet::Unsubscribe(unsubscribe::decode(self, body)?),
            PacketType::UnsubAck => Packet::UnsubAck(unsubscribe::decode_ack(self, body)?),
            PacketType::ConnAck => Packet::ConnAck(connack::decode(self, body)?),
            PacketType::Disconnect => Packet::Disconnect(disconnect::decode(self, body)?),
            PacketType::Auth => Packet::Auth(auth::decode(self, body)?),
            _ => return Err(Violation::ConnectedTwice.into()),
        })
    }
}

/// The packet types that may come, a bit each.
//= MQTT311-3.1.0-1
//= MQTT311-3.1.0-2
//= MQTT5-3.1.0-1
//= MQTT5-3.1.0-2
const fn expected(sender: Sender, version: Option<ProtocolVersion>) -> u16 {
    let Some(version) = version else { return 1 << (PacketType::Connect as u8) };
    let mut expected = 0;
    let mut at = 0;
    while at < PacketType::ALL.len() {
        let packet = PacketType::ALL[at];
        at += 1;
        let barred = match packet {
            PacketType::Connect => true,
            PacketType::Auth => !version.is_v5(),
            PacketType::Disconnect => !version.is_v5() && matches!(sender, Sender::Server),
            _ => false,
        };
        if !barred && packet.sent_by(sender) {
            expected |= 1 << (packet as u8);
        }
    }
    expected
}

/// What requests and their answers begin with: identifier and, in MQTT 5, properties. The cursor
/// is left at their list.
fn before_list(
    context: Context,
    scope: PropertyScope,
    body: &[u8],
) -> Result<(PacketId, Properties<'_>, Cursor<'_>), Fault> {
    let mut cursor = Cursor::new(body);
    let packet_id = packet_id(&mut cursor)?;
    let mut properties = Properties::EMPTY;
    if context.version.is_v5() {
        properties = cursor.properties(scope)?;
    }
    Ok((packet_id, properties, cursor))
}

/// A packet identifier.
//= MQTT311-2.3.1-1
//= MQTT5-2.2.1-3
//= MQTT5-2.2.1-4
#[inline]
fn packet_id(cursor: &mut Cursor<'_>) -> Result<PacketId, Fault> {
    PacketId::new(cursor.u16()?).ok_or(Fault::Violation(Violation::ZeroPacketId))
}
