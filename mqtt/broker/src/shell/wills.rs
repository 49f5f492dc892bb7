//! The messages of wills, held until they are published or taken back.
//!
//! Owns: what they take in memory. Does not know: sessions, or when a will is due.

use rustc_hash::FxHashMap;
use zzq_engine::Record;
use zzq_types::{Lsn, QoS};

use super::message::Message;
use super::wire::Content;

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct HeldWill {
    qos: QoS,
    retain: bool,
    message: Message,
    /// It found no room, which was counted.
    refused: bool,
}

impl HeldWill {
    /// A copy of the will that a record sets.
    pub(crate) fn of(record: &Record<'_>) -> Option<Self> {
        let will = match record {
            Record::Connect(connect) => connect.will,
            Record::WillSet(set) => set.will,
            _ => None,
        }?;
        let content = Content {
            topic: will.topic,
            properties: will.properties,
            payload: will.payload,
            expires_ms: None,
            time_ms: 0,
            place: None,
        };
        let message = Message::copy(content);
        Some(Self { qos: will.qos, retain: will.retain, message, refused: false })
    }

    pub(super) const fn qos(&self) -> QoS {
        self.qos
    }

    pub(super) const fn retain(&self) -> bool {
        self.retain
    }

    pub(super) fn content(&self) -> Content<'_> {
        self.message.content()
    }

    fn memory(&self) -> u64 {
        (self.message.weight() + size_of::<Self>()) as u64
    }
}

/// Those of a lane, by the records that set them.
#[derive(Debug, Default)]
pub(crate) struct Wills {
    held: FxHashMap<Lsn, HeldWill>,
    memory: u64,
}

impl Wills {
    pub(crate) fn insert(&mut self, lsn: Lsn, will: HeldWill) {
        self.memory += will.memory();
        if let Some(before) = self.held.insert(lsn, will) {
            self.memory -= before.memory();
        }
    }

    pub(super) fn remove(&mut self, lsn: Lsn) {
        if let Some(will) = self.held.remove(&lsn) {
            self.memory -= will.memory();
        }
    }

    pub(super) fn get(&self, lsn: Lsn) -> Option<&HeldWill> {
        self.held.get(&lsn)
    }

    /// A will finds no room; whether it is for the first time.
    pub(super) fn refuse(&mut self, lsn: Lsn) -> bool {
        let held = self.held.get_mut(&lsn);
        held.is_some_and(|held| !std::mem::replace(&mut held.refused, true))
    }

    /// What they take in memory, about.
    pub(super) const fn memory(&self) -> u64 {
        self.memory
    }
}

impl FromIterator<(Lsn, HeldWill)> for Wills {
    fn from_iter<T: IntoIterator<Item = (Lsn, HeldWill)>>(wills: T) -> Self {
        let mut all = Self::default();
        wills.into_iter().for_each(|(lsn, will)| all.insert(lsn, will));
        all
    }
}

#[cfg(test)]
mod tests {
    use zzq_engine::SessionNumber;
    use zzq_engine::record::{WillMessage, WillSet};
    use zzq_types::{Properties, TopicName};

    use super::*;

    fn will(payload: &[u8]) -> HeldWill {
        let (topic, properties) = (TopicName::new("t").unwrap(), Properties::EMPTY);
        let qos = QoS::AtLeastOnce;
        let will = WillMessage { topic, qos, retain: true, delay_s: 0, properties, payload };
        let session = SessionNumber::new(1).unwrap();
        HeldWill::of(&Record::WillSet(WillSet { session, will: Some(will) })).unwrap()
    }

    #[test]
    fn what_is_held_is_counted_and_a_refusal_is_told_once() {
        let lsns = [1, 2].map(Lsn::new);
        let mut wills: Wills = lsns.map(|lsn| (lsn, will(&[0; 1000]))).into_iter().collect();
        let both = wills.memory();
        assert!((2000..2500).contains(&both), "{both}");
        wills.insert(lsns[1], will(b"short"));
        assert_eq!(wills.memory(), both - 995);
        assert_eq!([wills.refuse(lsns[0]), wills.refuse(lsns[0])], [true, false]);
        lsns.into_iter().chain(lsns).for_each(|lsn| wills.remove(lsn));
        assert!(wills.memory() == 0 && wills.get(lsns[0]).is_none() && !wills.refuse(lsns[0]));
    }
}
