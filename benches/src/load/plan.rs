//! What a run does: who publishes to whom, how much, how fast.

use std::time::Duration;

use zzq_codec::AckKind;
use zzq_types::{ProtocolVersion, QoS};

/// Digits of the number of a topic, where there are several.
pub const TOPIC_DIGITS: usize = 8;

/// Who publishes to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// This many publishers, each with one subscriber and topic of its own.
    Pairs(u32),
    /// One publisher, this many subscribers of its topic.
    FanOut(u32),
    /// This many publishers with a topic each, one subscriber of all.
    FanIn(u32),
    /// One publisher, a group of this many subscribers of which one gets each message.
    Shared(u32),
}

/// How many messages, and how fast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// As fast as windows and sockets allow.
    Closed,
    /// This many messages a second from all publishers together, each at its time.
    Paced(f64),
}

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Who publishes to whom.
    pub pattern: Pattern,
    /// Topics of each publisher, which it takes in turns; subscribers hear all of them.
    pub topics: u32,
    /// Of publishes and subscriptions.
    pub qos: QoS,
    /// Bytes of a payload. Below [`super::STAMP_LEN`] it has no mark: then messages of one
    /// publisher are counted as they come, and when they were sent is not known.
    pub payload: usize,
    /// Publishes at QoS 1 and 2 that a publisher may have unacknowledged.
    pub window: u16,
    /// How fast.
    pub load: Load,
    /// How long messages are published.
    pub duration: Duration,
    /// Messages of each publisher, if fewer than the duration allows.
    pub count: Option<u64>,
    /// What is spoken.
    pub version: ProtocolVersion,
    /// Sessions of subscribers outlive their connection.
    pub persistent: bool,
    /// Threads that the load is made with: 1, or 2 with subscribers in one of their own.
    pub threads: u8,
    /// Subscribers read nothing for so long at the start.
    pub stall: Duration,
    /// How long everybody is connected before the clock starts: what a broker still does about
    /// their coming is not the cost of messages.
    pub settle: Duration,
    /// How many addresses, from the target's on, connections go to in turns, 1 at least. A system
    /// has fewer than 30 000 ports for each, and the last ones take it long to find.
    pub hosts: u8,
    /// How long to wait for deliveries when nothing comes any more.
    pub patience: Duration,
}

impl Plan {
    /// One topic for each publisher and 64-byte payloads for a second, as fast as a window of 100
    /// allows; what a run does otherwise it says.
    pub const fn plain(pattern: Pattern, qos: QoS) -> Self {
        Self {
            pattern,
            topics: 1,
            qos,
            payload: 64,
            window: 100,
            load: Load::Closed,
            duration: Duration::from_secs(1),
            count: None,
            version: ProtocolVersion::V311,
            persistent: false,
            threads: 1,
            stall: Duration::ZERO,
            settle: Duration::ZERO,
            hosts: 1,
            patience: Duration::from_secs(3),
        }
    }

    /// How many publish.
    pub fn publishers(&self) -> u32 {
        match self.pattern {
            Pattern::Pairs(n) | Pattern::FanIn(n) => n,
            Pattern::FanOut(_) | Pattern::Shared(_) => 1,
        }
    }

    /// How many subscribe.
    pub fn subscribers(&self) -> u32 {
        match self.pattern {
            Pattern::Pairs(n) | Pattern::FanOut(n) | Pattern::Shared(n) => n,
            Pattern::FanIn(_) => 1,
        }
    }

    /// How many get each message.
    pub fn receivers(&self) -> u32 {
        match self.pattern {
            Pattern::Pairs(_) | Pattern::FanIn(_) | Pattern::Shared(_) => 1,
            Pattern::FanOut(n) => n,
        }
    }

    /// Where a publisher publishes first. With several topics they end in a number of
    /// [`TOPIC_DIGITS`] digits.
    pub fn topic(&self, publisher: u32) -> String {
        let own = format!("load/{publisher}");
        if self.topics > 1 { format!("{own}/{:0TOPIC_DIGITS$}", 0) } else { own }
    }

    /// What a subscriber subscribes to.
    pub fn filter(&self, subscriber: u32) -> String {
        let own = match self.pattern {
            Pattern::Pairs(_) => format!("load/{subscriber}"),
            Pattern::FanOut(_) => "load/0".to_owned(),
            Pattern::FanIn(_) => "load/+".to_owned(),
            Pattern::Shared(_) => "$share/load/load/0".to_owned(),
        };
        if self.topics > 1 { own + "/+" } else { own }
    }

    /// The publishers whose messages a subscriber gets: the first, and how many.
    pub fn sources(&self, subscriber: u32) -> (u32, u32) {
        match self.pattern {
            Pattern::Pairs(_) => (subscriber, 1),
            Pattern::FanOut(_) | Pattern::Shared(_) => (0, 1),
            Pattern::FanIn(n) => (0, n),
        }
    }

    /// When the n-th message of a publisher is due, in nanoseconds since the start, n from 1;
    /// `None` without a pace. The publishers take turns.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "times of a run are far below 2^53 ns"
    )]
    pub fn due(&self, publisher: u32, n: u64) -> Option<u64> {
        match self.load {
            Load::Closed => None,
            Load::Paced(rate) => {
                let turn = (n - 1) as f64 * f64::from(self.publishers()) + f64::from(publisher);
                Some((turn * 1e9 / rate).round() as u64)
            }
        }
    }

    /// The answer that ends the handshake of a publish.
    pub(super) fn last_ack(&self) -> Option<AckKind> {
        match self.qos {
            QoS::AtMostOnce => None,
            QoS::AtLeastOnce => Some(AckKind::PubAck),
            QoS::ExactlyOnce => Some(AckKind::PubComp),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::load) fn plan(pattern: Pattern, load: Load) -> Plan {
        Plan {
            window: 10,
            load,
            duration: Duration::from_millis(200),
            patience: Duration::from_secs(1),
            ..Plan::plain(pattern, QoS::AtLeastOnce)
        }
    }

    #[test]
    fn paced_publishers_take_turns() {
        let plan = plan(Pattern::FanIn(4), Load::Paced(1000.0));
        assert_eq!(plan.due(0, 1), Some(0));
        assert_eq!(plan.due(3, 1), Some(3_000_000));
        assert_eq!(plan.due(0, 2), Some(4_000_000));
        assert_eq!(plan.due(3, 251), Some(1_003_000_000));
    }

    #[test]
    fn everybody_knows_whom_they_hear() {
        let pairs = plan(Pattern::Pairs(3), Load::Closed);
        assert_eq!((pairs.publishers(), pairs.subscribers(), pairs.receivers()), (3, 3, 1));
        assert_eq!((pairs.topic(2), pairs.sources(2)), (pairs.filter(2), (2, 1)));
        let out = plan(Pattern::FanOut(3), Load::Closed);
        assert_eq!((out.publishers(), out.subscribers(), out.receivers()), (1, 3, 3));
        assert_eq!((out.topic(0), out.sources(2)), (out.filter(2), (0, 1)));
        let into = plan(Pattern::FanIn(3), Load::Closed);
        assert_eq!((into.publishers(), into.subscribers(), into.receivers()), (3, 1, 1));
        assert_eq!((into.filter(0).as_str(), into.sources(0)), ("load/+", (0, 3)));
        let shared = plan(Pattern::Shared(3), Load::Closed);
        assert_eq!((shared.publishers(), shared.subscribers(), shared.receivers()), (1, 3, 1));
        assert_eq!((shared.filter(2).as_str(), shared.sources(2)), ("$share/load/load/0", (0, 1)));
        let many = Plan { topics: 5, ..into };
        assert_eq!(
            (many.filter(0).as_str(), many.topic(2)),
            ("load/+/+", "load/2/00000000".into())
        );
    }
}
