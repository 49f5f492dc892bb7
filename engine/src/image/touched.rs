//! What a stretch of the log touches: the parts of the state that its records read or change.
//!
//! Owns: for each kind of record, which entries of an image apply may look at or change. An image
//! is made of the one before by a merge: entries that are not touched are copied as they are, those
//! that are make a state in which nothing else is, the stretch is applied to it, and what it holds
//! then takes their place. So the next image needs memory for what was touched only.
//!
//! The parts are sessions (with all that stands under their number), topics and facts. A session is
//! also touched by its client's name; which number that is, the entries of sessions tell, which
//! stand in front of all others under a session's number.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;
use zzq_types::QoS;

use super::read::glance;
use super::{ImageError, Section};
use crate::decision::Destination;
use crate::facts::{FactKey, fact_of};
use crate::number::SessionNumber;
use crate::record::{Publish, RangeSets, Record};

/// See the file.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    sessions: FxHashSet<SessionNumber>,
    clients: FxHashSet<Box<str>>,
    topics: FxHashSet<Box<str>>,
    facts: BTreeSet<FactKey>,
    /// A start: it touches each session that is up or ends with its connection, and all that
    /// sessions have left.
    start: bool,
}

impl Touched {
    /// Notes what a record of the stretch touches.
    pub fn record(&mut self, record: &Record<'_>) {
        match record {
            Record::Start(_) => self.start = true,
            Record::Connect(connect) => {
                self.sessions.insert(connect.session);
                if !self.clients.contains(connect.client) {
                    self.clients.insert(connect.client.into());
                }
            }
            Record::Publish(publish) => self.publish(publish),
            Record::LateDecision(late) => {
                self.sessions.insert(late.session);
                let orphans = late.items.into_iter().filter_map(|item| item.orphan);
                self.sessions.extend(orphans.map(|orphan| orphan.session));
            }
            Record::History(history) => self.session(history.session),
            Record::Release(release) => self.session(release.session),
            Record::SessionDown(down) => self.session(down.session),
            Record::SessionEnd(end) => self.session(end.session),
            Record::Subscribe(subscribe) => self.session(subscribe.session),
            Record::Unsubscribe(unsubscribe) => self.session(unsubscribe.session),
            Record::WillSet(set) => self.session(set.session),
            Record::Receipt(receipt) => self.sets(receipt.sets),
            Record::Expire(expire) => {
                self.sets(expire.sets);
                for item in expire.topics {
                    self.topic(item.topic.as_str());
                }
            }
            Record::Config(_)
            | Record::SnTopic(_)
            | Record::Identity(_)
            | Record::Membership(_)
            | Record::Feature(_) => {
                let key = fact_of(record).map(|(key, _)| (record.kind(), key.into_boxed_slice()));
                self.facts.extend(key);
            }
        }
    }

    /// Looks at an entry of the image before, in the order of the image, once all records of the
    /// stretch were noted: whether the stretch touches it.
    pub fn entry(
        &mut self,
        section: Section,
        key: &[u8],
        value: &[u8],
    ) -> Result<bool, ImageError> {
        if section == Section::Sessions {
            let failed = |error| ImageError::Entry(section, error);
            let (number, session) = glance(key, value).map_err(failed)?;
            let by_start = self.start && (session.is_up || session.expiry_s == 0);
            if by_start || self.clients.contains(session.client) {
                self.sessions.insert(number);
            }
        }
        Ok(self.covers(section, key))
    }

    /// Whether the stretch touches this entry, which [`entry`](Self::entry) has seen.
    pub fn covers(&self, section: Section, key: &[u8]) -> bool {
        match section {
            Section::Marks => true,
            Section::Ended | Section::Orphans if self.start => true,
            Section::Sessions
            | Section::Subscriptions
            | Section::Inbound
            | Section::Queues
            | Section::Wills
            | Section::Ended
            | Section::Orphans
            | Section::Replays => {
                let number = key.first_chunk().map(|number| u64::from_be_bytes(*number));
                let number = number.and_then(SessionNumber::new);
                number.is_some_and(|number| self.sessions.contains(&number))
            }
            Section::Retained => {
                core::str::from_utf8(key).is_ok_and(|topic| self.topics.contains(topic))
            }
            Section::Facts => key.split_first().is_some_and(|(&kind, key)| {
                self.facts.contains(&(kind, key.into())) // Facts are few.
            }),
        }
    }

    /// A delivery at QoS 0 leaves nothing behind, unless a subscription is named that may start in
    /// the past: that remembers which record has passed it by.
    fn publish(&mut self, publish: &Publish<'_>) {
        self.sessions.extend(publish.publisher.filter(|_| publish.inbound.is_some()));
        self.sessions.extend(publish.will_of);
        let leaves = |to: &Destination<'_>| to.qos != QoS::AtMostOnce || to.pick.is_some();
        let kept = publish.decision.into_iter().filter(leaves);
        self.sessions.extend(kept.map(|to| to.session));
        if publish.retain {
            self.topic(publish.topic.as_str());
        }
    }

    fn sets(&mut self, sets: RangeSets<'_>) {
        self.sessions.extend(sets.into_iter().map(|set| set.session));
    }

    fn session(&mut self, session: SessionNumber) {
        self.sessions.insert(session);
    }

    fn topic(&mut self, topic: &str) {
        if !self.topics.contains(topic) {
            self.topics.insert(topic.into());
        }
    }
}
