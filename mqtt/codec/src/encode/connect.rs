//! CONNECT.

use alloc::vec::Vec;

use zzq_types::{Properties, ProtocolVersion};

use super::{EncodeError, Encoder, binary_len, ended, properties_len, put_binary, put_properties};
use crate::{Connect, Field, PacketType, Will};

impl Encoder {
    /// Appends CONNECT in the version it names itself.
    ///
    /// # Errors
    /// [`EncodeError`]; nothing is appended.
    //= MQTT311-3.1.3-1
    //= MQTT311-3.1.3-7
    //= MQTT5-3.1.3-1
    pub fn connect(self, connect: &Connect<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        check(connect)?;
        let body = self.connect_len(connect)?;
        let end = self.begin(PacketType::Connect, PacketType::Connect.bits(), body, out)?;
        put_binary(out, connect.version.name().as_bytes());
        out.push(connect.version.level() | u8::from(connect.bridge) << 7);
        out.push(flags(connect));
        out.extend_from_slice(&connect.keep_alive.to_be_bytes());
        put_payload(connect, out);
        ended(PacketType::Connect, end, out);
        Ok(())
    }

    fn connect_len(self, connect: &Connect<'_>) -> Result<usize, EncodeError> {
        let version = connect.version;
        let behind_name = 1 + 1 + 2;
        let mut body = 2 + version.name().len() + behind_name;
        body += self.connect_block_len(version, connect.properties)?;
        body += binary_len(Field::ClientId, connect.client_id.as_bytes())?;
        if let Some(will) = &connect.will {
            body += self.connect_block_len(version, will.properties)?;
            body += binary_len(Field::WillTopic, will.topic.as_str().as_bytes())?;
            body += binary_len(Field::WillPayload, will.payload)?;
        }
        if let Some(user_name) = connect.user_name {
            body += binary_len(Field::UserName, user_name.as_bytes())?;
        }
        if let Some(password) = connect.password {
            body += binary_len(Field::Password, password)?;
        }
        Ok(body)
    }

    fn connect_block_len(
        self,
        version: ProtocolVersion,
        properties: Properties<'_>,
    ) -> Result<usize, EncodeError> {
        if !version.is_v5() {
            return Ok(0);
        }
        let block = properties.as_bytes().len();
        properties_len(block).map_err(|_| self.too_large(PacketType::Connect, block))
    }
}

fn put_payload(connect: &Connect<'_>, out: &mut Vec<u8>) {
    if connect.version.is_v5() {
        put_properties(out, connect.properties.as_bytes());
    }
    put_binary(out, connect.client_id.as_bytes());
    if let Some(will) = &connect.will {
        put_will(will, connect.version, out);
    }
    if let Some(user_name) = connect.user_name {
        put_binary(out, user_name.as_bytes());
    }
    if let Some(password) = connect.password {
        put_binary(out, password);
    }
}

fn put_will(will: &Will<'_>, version: ProtocolVersion, out: &mut Vec<u8>) {
    if version.is_v5() {
        put_properties(out, will.properties.as_bytes());
    }
    put_binary(out, will.topic.as_str().as_bytes());
    put_binary(out, will.payload);
}

/// What a server would have to refuse is not sent.
//= MQTT311-3.1.2-22
fn check(connect: &Connect<'_>) -> Result<(), EncodeError> {
    if !connect.version.is_v5() && connect.password.is_some() && connect.user_name.is_none() {
        return Err(EncodeError::PasswordWithoutUserName);
    }
    let id = connect.client_id;
    let good = match connect.version {
        ProtocolVersion::V31 => (1..=23).contains(&id.chars().count()),
        ProtocolVersion::V311 => !id.is_empty() || connect.clean_start,
        ProtocolVersion::V5 => true,
    };
    if good { Ok(()) } else { Err(EncodeError::ClientId) }
}

//= MQTT311-3.1.2-11
//= MQTT311-3.1.2-18
//= MQTT311-3.1.2-19
//= MQTT311-3.1.2-20
//= MQTT311-3.1.2-21
//= MQTT5-3.1.2-16
//= MQTT5-3.1.2-17
//= MQTT5-3.1.2-18
//= MQTT5-3.1.2-19
fn flags(connect: &Connect<'_>) -> u8 {
    let will = match &connect.will {
        Some(will) => 0x04 | will.qos.bits() << 3 | u8::from(will.retain) << 5,
        None => 0,
    };
    will | u8::from(connect.clean_start) << 1
        | u8::from(connect.password.is_some()) << 6
        | u8::from(connect.user_name.is_some()) << 7
}
