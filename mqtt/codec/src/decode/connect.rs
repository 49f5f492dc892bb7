//! CONNECT: name and level first, as nothing behind them can be read without; then by version.

use zzq_types::{Properties, PropertyScope, ProtocolVersion, QoS, TopicError, read_varint};

use crate::cursor::Cursor;
use crate::{Connect, Fault, Field, Malformed, Refusal, Will};

const RESERVED: u8 = 0x01;
const CLEAN_START: u8 = 0x02;
const WILL: u8 = 0x04;
const WILL_RETAIN: u8 = 0x20;
const PASSWORD: u8 = 0x40;
const USER_NAME: u8 = 0x80;

/// The longest client identifier of MQTT 3.1, in characters.
const V31_CLIENT_ID_MAX: usize = 23;

/// The version as far as it was read, for the answer, and the fault.
type ConnectFault = (Option<ProtocolVersion>, Fault);

pub(super) fn decode(body: &[u8], bridges: bool) -> Result<Connect<'_>, ConnectFault> {
    let mut cursor = Cursor::new(body);
    let (version, bridge) = prologue(&mut cursor, bridges).map_err(|fault| (None, fault))?;
    let connect = behind_level(cursor, version).map_err(|fault| (Some(version), fault))?;
    Ok(Connect { bridge, ..connect })
}

/// The version that a CONNECT names which begins with these bytes, header included, if they reach
/// so far.
pub(super) fn version_ahead(bytes: &[u8]) -> Option<ProtocolVersion> {
    let (_, rest) = bytes.split_first()?;
    let (_, len) = read_varint(rest).ok()?;
    let (version, _) = prologue(&mut Cursor::new(rest.get(len..)?), true).ok()?;
    Some(version)
}

/// Protocol name and level.
//= MQTT311-3.1.2-1
//= MQTT311-3.1.2-2
//= MQTT5-3.1.2-1
//= MQTT5-3.1.2-2
fn prologue(cursor: &mut Cursor<'_>, bridges: bool) -> Result<(ProtocolVersion, bool), Fault> {
    let name = cursor.binary()?;
    let level = cursor.byte()?;
    let bridge = bridges && level & 0x80 != 0;
    let plain = if bridge { level & 0x7F } else { level };
    match ProtocolVersion::from_level(plain) {
        Some(version) if version.name().as_bytes() == name => Ok((version, bridge)),
        _ if name == b"MQTT" || name == b"MQIsdp" => Err(Refusal::ProtocolLevel(level).into()),
        _ => Err(Refusal::ProtocolName(level).into()),
    }
}

//= MQTT311-3.1.2-19
//= MQTT311-3.1.2-21
//= MQTT311-3.1.3-1
//= MQTT311-3.1.3-3
//= MQTT311-3.1.3-4
//= MQTT311-3.1.3-5
//= MQTT311-3.1.3-11
//= MQTT311-3.1.4-1
//= MQTT5-3.1.2-17
//= MQTT5-3.1.2-19
//= MQTT5-3.1.3-1
//= MQTT5-3.1.3-3
//= MQTT5-3.1.3-4
//= MQTT5-3.1.3-5
//= MQTT5-3.1.3-12
//= MQTT5-3.1.4-1
fn behind_level(mut cursor: Cursor<'_>, version: ProtocolVersion) -> Result<Connect<'_>, Fault> {
    let flags = cursor.byte()?;
    check_flags(flags, version)?;
    let keep_alive = cursor.u16()?;
    let properties = properties(&mut cursor, version, PropertyScope::Connect)?;
    let client_id = cursor.text(Field::ClientId)?;
    let will = will(&mut cursor, flags, version)?;
    let user_name = if flags & USER_NAME != 0 && !left_out(cursor, version) {
        Some(cursor.text(Field::UserName)?)
    } else {
        None
    };
    let password = if flags & PASSWORD != 0 && !left_out(cursor, version) {
        Some(cursor.binary()?)
    } else {
        None
    };
    cursor.finish()?;
    let clean_start = flags & CLEAN_START != 0;
    check_client_id(client_id, clean_start, version)?;
    Ok(Connect {
        version,
        bridge: false,
        clean_start,
        keep_alive,
        properties,
        client_id,
        will,
        user_name,
        password,
    })
}

/// MQTT 3.1 leaves the fields of a will that is not there unread, and has no reserved flag.
//= MQTT311-3.1.2-3
//= MQTT311-3.1.2-11
//= MQTT311-3.1.2-13
//= MQTT311-3.1.2-14
//= MQTT311-3.1.2-15
//= MQTT311-3.1.2-22
//= MQTT5-3.1.2-3
//= MQTT5-3.1.2-11
//= MQTT5-3.1.2-12
//= MQTT5-3.1.2-13
fn check_flags(flags: u8, version: ProtocolVersion) -> Result<(), Malformed> {
    let old = version == ProtocolVersion::V31;
    let will = flags & WILL != 0;
    if !old && flags & RESERVED != 0 {
        return Err(Malformed::ReservedConnectFlag);
    }
    if (will || !old) && will_qos(flags).is_none() {
        return Err(Malformed::WillQoS3);
    }
    if !old && !will && flags & (WILL_RETAIN | 0x18) != 0 {
        return Err(Malformed::WillFlagsWithoutWill);
    }
    if !version.is_v5() && flags & PASSWORD != 0 && flags & USER_NAME == 0 {
        return Err(Malformed::PasswordWithoutUserName);
    }
    Ok(())
}

const fn will_qos(flags: u8) -> Option<QoS> {
    QoS::from_bits(flags >> 3 & 3)
}

//= MQTT311-3.1.2-9
//= MQTT311-3.1.3-10
//= MQTT5-3.1.2-9
//= MQTT5-3.1.3-10
//= MQTT5-3.1.3-11
fn will<'a>(
    cursor: &mut Cursor<'a>,
    flags: u8,
    version: ProtocolVersion,
) -> Result<Option<Will<'a>>, Fault> {
    if flags & WILL == 0 {
        return Ok(None);
    }
    let properties = properties(cursor, version, PropertyScope::Will)?;
    let empty = Malformed::Topic(Field::WillTopic, TopicError::Empty);
    let topic = cursor.topic(Field::WillTopic)?.ok_or(empty)?;
    Ok(Some(Will {
        qos: will_qos(flags).ok_or(Malformed::WillQoS3)?,
        retain: flags & WILL_RETAIN != 0,
        properties,
        topic,
        payload: cursor.binary()?,
    }))
}

fn properties<'a>(
    cursor: &mut Cursor<'a>,
    version: ProtocolVersion,
    scope: PropertyScope,
) -> Result<Properties<'a>, Fault> {
    if version.is_v5() { cursor.properties(scope) } else { Ok(Properties::EMPTY) }
}

/// In MQTT 3.1 the remaining length counts more than the flags: user name and password may be
/// missing at the end. Later versions hold the flags to it.
fn left_out(cursor: Cursor<'_>, version: ProtocolVersion) -> bool {
    version == ProtocolVersion::V31 && cursor.is_empty()
}

//= MQTT311-3.1.3-7
//= MQTT311-3.1.3-8
fn check_client_id(
    client_id: &str,
    clean_start: bool,
    version: ProtocolVersion,
) -> Result<(), Refusal> {
    match version {
        ProtocolVersion::V31 => {
            let len = client_id.chars().count();
            let good = (1..=V31_CLIENT_ID_MAX).contains(&len);
            if good { Ok(()) } else { Err(Refusal::ClientIdLength(len)) }
        }
        ProtocolVersion::V311 if client_id.is_empty() && !clean_start => Err(Refusal::NoClientId),
        ProtocolVersion::V311 | ProtocolVersion::V5 => Ok(()),
    }
}
