//! CONNECT, its will, and CONNACK.

use zzq_types::{Properties, ProtocolVersion, QoS, ReasonCode, TopicName};

/// CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connect<'a> {
    /// By protocol name and level.
    pub version: ProtocolVersion,
    /// The peer is a bridge and says so by bit 0x80 of the level, as mosquitto's do.
    pub bridge: bool,
    /// Clean Start of MQTT 5, Clean Session of MQTT 3.
    pub clean_start: bool,
    /// In seconds; 0: none.
    pub keep_alive: u16,
    /// Empty before MQTT 5.
    pub properties: Properties<'a>,
    /// Empty: the server makes one.
    pub client_id: &'a str,
    /// What is published if the client is lost.
    pub will: Option<Will<'a>>,
    /// May be present and empty.
    pub user_name: Option<&'a str>,
    /// May be present and empty.
    pub password: Option<&'a [u8]>,
}

impl<'a> Connect<'a> {
    /// A CONNECT without will, credentials and properties; clean start, no keep alive.
    pub const fn new(version: ProtocolVersion, client_id: &'a str) -> Self {
        Self {
            version,
            bridge: false,
            clean_start: true,
            keep_alive: 0,
            properties: Properties::EMPTY,
            client_id,
            will: None,
            user_name: None,
            password: None,
        }
    }
}

/// The will of a CONNECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Will<'a> {
    /// Of its publication.
    pub qos: QoS,
    /// Whether it is retained.
    pub retain: bool,
    /// Its delay, and what is published with it; empty before MQTT 5.
    pub properties: Properties<'a>,
    /// Where it is published.
    pub topic: TopicName<'a>,
    /// What is published.
    pub payload: &'a [u8],
}

/// CONNACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnAck<'a> {
    /// The server goes on with a session; MQTT 3.1 does not say.
    pub session_present: bool,
    /// For MQTT 3 those that its return codes state.
    pub reason: ReasonCode,
    /// Empty before MQTT 5.
    pub properties: Properties<'a>,
}

impl<'a> ConnAck<'a> {
    /// The connection is accepted.
    pub const fn accepted(session_present: bool, properties: Properties<'a>) -> Self {
        Self { session_present, reason: ReasonCode::Success, properties }
    }

    /// The connection is refused.
    pub const fn refused(reason: ReasonCode) -> Self {
        Self { session_present: false, reason, properties: Properties::EMPTY }
    }
}
