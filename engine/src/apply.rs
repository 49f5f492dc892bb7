//! Apply: the only way that state changes, one rule for each kind of record.
//!
//! Total: a record, however senseless, changes nothing or does what is defined here, is counted
//! if it or a part of it was ignored, and never panics. A part of the state applies what concerns
//! it and passes over the rest, so that any number of parts together do what the whole does, for
//! logs that keep the lanes' promises: a session number names one session, and a QoS 2 identifier
//! that is open is not published again (only the publisher's part can tell).

mod history;
mod late_decision;
mod publish;
mod receipt;
mod run;
mod session;
mod subscribe;
#[cfg(test)]
mod tests;

use zzq_types::Lsn;

pub use run::QueuedRun;

use crate::counters::Ignored;
use crate::effect::{Effect, Effects};
use crate::facts::fact_of;
use crate::planted::{self, Bug};
use crate::record::Record;
use crate::state::State;

impl State {
    /// Applies a record of the log: `lsn` is its place, `time_ms` the time of its group. A place
    /// that is not behind the last is ignored.
    pub fn apply(
        &mut self,
        lsn: Lsn,
        time_ms: u64,
        record: &Record<'_>,
        effects: &mut impl Effects,
    ) {
        if lsn <= self.applied {
            self.counters.add(Ignored::Replayed, 1);
            return;
        }
        self.applied = lsn;
        self.apply_unlogged(lsn, time_ms, record, effects);
    }

    /// Applies a record that is not in the log: of a volatile session that leaves nothing there.
    /// `lsn` names the message that the record holds, if any.
    pub fn apply_unlogged(
        &mut self,
        lsn: Lsn,
        time_ms: u64,
        record: &Record<'_>,
        effects: &mut impl Effects,
    ) {
        match record {
            Record::Start(start) => self.start(time_ms, *start, effects),
            Record::Connect(connect) => self.connect(lsn, time_ms, connect, effects),
            Record::Publish(publish) => {
                self.publish(lsn, time_ms, publish, effects);
                if planted::is(Bug::ApplyTwice) {
                    self.publish(lsn, time_ms, publish, effects);
                }
            }
            Record::LateDecision(late) => self.late_decision(lsn, late, effects),
            Record::History(history) => self.history(lsn, history, effects),
            Record::Release(release) => self.release(*release),
            Record::SessionDown(down) => self.session_down(time_ms, down, effects),
            Record::SessionEnd(end) => self.session_end(time_ms, *end, effects),
            Record::Subscribe(subscribe) => self.subscribe(subscribe, effects),
            Record::Unsubscribe(unsubscribe) => self.unsubscribe(unsubscribe, effects),
            Record::WillSet(set) => self.will_set(lsn, set, effects),
            Record::Receipt(receipt) => self.receipt(receipt, effects),
            Record::Expire(expire) => self.expire(expire, effects),
            Record::Config(_)
            | Record::SnTopic(_)
            | Record::Identity(_)
            | Record::Membership(_)
            | Record::Feature(_) => self.fact(record),
        }
    }

    fn fact(&mut self, record: &Record<'_>) {
        let kind = record.kind();
        if let Some((key, value)) = fact_of(record)
            && self.owns_fact(kind, &key)
        {
            self.facts.set(kind, key, value);
        }
    }
}

/// A reference to the message of this record ends.
fn release(effects: &mut impl Effects, lsn: Lsn) {
    effects.emit(Effect::Released { lsn });
}
