//! What a client remembers over connections: its side of the session.

use std::collections::{BTreeMap, BTreeSet};

use zzq_types::QoS;

use crate::history::MessageId;

/// See the file.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// QoS 1 and 2 messages that it publishes, in the order of their first PUBLISH.
    pub(super) under_way: Vec<UnderWay>,
    /// QoS 2 messages that it was sent and that were not released.
    pub(super) open: BTreeMap<u16, Option<MessageId>>,
    /// QoS 1 messages that the connection before has brought and that it had no time to answer.
    pub(super) unanswered: BTreeMap<u16, Option<MessageId>>,
    /// It is subscribed to history, for certain.
    pub(super) reads_history: bool,
    /// The highest place in the log that it was shown.
    pub(super) last_offset: u64,
    /// Filters that it may be subscribed to.
    pub(super) filters: BTreeSet<String>,
    last_id: u16,
}

/// A message that it publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnderWay {
    pub(super) message: MessageId,
    pub(super) packet_id: u16,
    pub(super) qos: QoS,
    /// PUBREC has come, and PUBREL was sent.
    pub(super) received: bool,
    /// How often it was sent again on this connection, and so how many further PUBRECs may come.
    pub(super) repeats: u32,
}

/// Identifiers are few, so that they come round.
const IDS: u16 = 60;

impl Memory {
    /// The next identifier that no message under way has.
    pub(super) fn next_id(&mut self) -> u16 {
        loop {
            self.last_id = self.last_id % IDS + 1;
            if self.at(self.last_id).is_none() {
                return self.last_id;
            }
        }
    }

    pub(super) fn at(&self, packet_id: u16) -> Option<usize> {
        self.under_way.iter().position(|one| one.packet_id == packet_id)
    }

    /// What it waits for, in words.
    pub(super) fn waits_for_what(&self) -> Option<String> {
        if let Some(one) = self.under_way.first() {
            return Some(format!("the end of {one:?}"));
        }
        let (id, message) = self.open.first_key_value()?;
        Some(format!("PUBREL of {id}, {message:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_come_round_past_those_under_way() {
        let mut memory = Memory::default();
        let first = memory.next_id();
        memory.under_way.push(UnderWay {
            message: MessageId(0),
            packet_id: first,
            qos: QoS::AtLeastOnce,
            received: false,
            repeats: 0,
        });
        let ids: BTreeSet<u16> = (0..200).map(|_| memory.next_id()).collect();
        assert_eq!(ids.len(), usize::from(IDS) - 1);
        assert!(!ids.contains(&first) && memory.waits_for_what().is_some());
    }
}
