//! Who takes part: publishers, each with its topics, and receivers with sessions that outlive their
//! connections.
//!
//! Owns: names, versions, levels, topics, and which receivers must have a message between them.
//! Does not know: what was said.

use zzq_types::{ProtocolVersion, QoS};

/// A client, by its kind and place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// One of [`PUBLISHERS`].
    Publisher(usize),
    /// One of [`RECEIVERS`].
    Receiver(usize),
}

/// Who publishes messages 1, 2, 3 and so on.
#[derive(Clone, Copy, Debug)]
pub struct Publisher {
    /// Its client identifier.
    pub name: &'static str,
    /// Of MQTT.
    pub version: ProtocolVersion,
    /// Of all its messages.
    pub qos: QoS,
    /// Of its topics, if all its messages are retained: they go round them.
    pub kept: Option<u64>,
    /// Its messages are wills, one for each connection.
    pub is_mourned: bool,
}

/// Who takes messages.
#[derive(Clone, Copy, Debug)]
pub struct Receiver {
    /// Its client identifier.
    pub name: &'static str,
    /// Of MQTT.
    pub version: ProtocolVersion,
    /// Of its subscription.
    pub qos: QoS,
    /// What it subscribes to.
    pub filter: &'static str,
    /// Connected only when accounts are settled.
    pub is_away: bool,
    /// It unsubscribes and subscribes again all the time.
    pub comes_and_goes: bool,
}

const V3: ProtocolVersion = ProtocolVersion::V31;
const V4: ProtocolVersion = ProtocolVersion::V311;
const V5: ProtocolVersion = ProtocolVersion::V5;

const fn publisher(name: &'static str, version: ProtocolVersion, qos: QoS) -> Publisher {
    Publisher { name, version, qos, kept: None, is_mourned: false }
}

const fn keeper(name: &'static str, version: ProtocolVersion, qos: QoS) -> Publisher {
    Publisher { kept: Some(KEPT), ..publisher(name, version, qos) }
}

const fn mourned(name: &'static str, version: ProtocolVersion, qos: QoS) -> Publisher {
    Publisher { is_mourned: true, ..publisher(name, version, qos) }
}

/// Retained topics of one publisher.
const KEPT: u64 = 7;

/// All of them.
pub const PUBLISHERS: [Publisher; 11] = [
    publisher("rig-one-3", V4, QoS::AtLeastOnce),
    publisher("rig-one-5", V5, QoS::AtLeastOnce),
    publisher("rig-two-3", V4, QoS::ExactlyOnce),
    publisher("rig-two-5", V5, QoS::ExactlyOnce),
    publisher("rig-none-3", V4, QoS::AtMostOnce),
    publisher("rig-none-5", V5, QoS::AtMostOnce),
    keeper("rig-keeps-5", V5, QoS::AtLeastOnce),
    keeper("rig-keeps-3", V4, QoS::ExactlyOnce),
    mourned("rig-mourned-5", V5, QoS::ExactlyOnce),
    mourned("rig-mourned-3", V4, QoS::AtLeastOnce),
    publisher("rig-oldest-one", V3, QoS::AtLeastOnce),
];

/// All that is not retained.
const LIVE: &str = "rig/live/#";
const SHARED: &str = "$share/rig/rig/live/#";
/// All that is retained.
pub const KEPT_FILTER: &str = "rig/kept/#";

const fn receiver(
    name: &'static str,
    version: ProtocolVersion,
    qos: QoS,
    filter: &'static str,
) -> Receiver {
    Receiver { name, version, qos, filter, is_away: false, comes_and_goes: false }
}

/// All of them.
pub const RECEIVERS: [Receiver; 8] = [
    receiver("rig-all", V5, QoS::ExactlyOnce, LIVE),
    receiver("rig-less", V4, QoS::AtLeastOnce, LIVE),
    Receiver { is_away: true, ..receiver("rig-away", V4, QoS::ExactlyOnce, LIVE) },
    receiver("rig-member-1", V5, QoS::ExactlyOnce, SHARED),
    receiver("rig-member-2", V5, QoS::ExactlyOnce, SHARED),
    Receiver { comes_and_goes: true, ..receiver("rig-churns", V5, QoS::ExactlyOnce, LIVE) },
    receiver("rig-hears", V5, QoS::AtMostOnce, LIVE),
    receiver("rig-oldest", V3, QoS::ExactlyOnce, LIVE),
];

/// Receivers that must have each message between them.
pub const AUDIENCES: [&[usize]; 7] = [&[0], &[1], &[2], &[5], &[6], &[7], &[3, 4]];

impl Publisher {
    /// Where a message goes.
    pub fn topic(&self, at: usize, seq: u64) -> String {
        match self.kept {
            Some(topics) => format!("rig/kept/{at}/{}", seq % topics),
            None => format!("rig/live/{at}"),
        }
    }
}

impl Receiver {
    /// Whether nothing is kept for it: it is owed what comes while it is connected.
    pub fn only_hears(&self) -> bool {
        matches!(self.qos, QoS::AtMostOnce)
    }
}

/// Audiences that are owed what was acknowledged, whoever of them is connected then.
pub fn kept_for() -> impl Iterator<Item = usize> {
    (0..AUDIENCES.len()).filter(|one| AUDIENCES[*one].iter().all(|at| !RECEIVERS[*at].only_hears()))
}

/// The audience of a receiver.
pub fn audience_of(receiver: usize) -> Option<usize> {
    AUDIENCES.iter().position(|members| members.contains(&receiver))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_in_one_audience_and_has_a_name_of_its_own() {
        for receiver in 0..RECEIVERS.len() {
            let count = AUDIENCES.iter().filter(|members| members.contains(&receiver)).count();
            assert_eq!(count, 1, "{receiver}");
        }
        let names =
            PUBLISHERS.iter().map(|one| one.name).chain(RECEIVERS.iter().map(|one| one.name));
        let names: std::collections::BTreeSet<_> = names.collect();
        assert_eq!(names.len(), PUBLISHERS.len() + RECEIVERS.len());
    }
}
