//! Runs: records that differ in little and are in no log, applied in one go.
//!
//! Owns: nothing of its own. What comes out is what the records applied one by one give, but that
//! effects come session by session and not message by message.

use zzq_types::{Lsn, PacketId};

use crate::counters::Ignored;
use crate::decision::Destination;
use crate::number::{QueueNumber, SessionNumber};
use crate::state::State;

use super::publish::{Message, incoming};

/// What a session's queue took of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedRun {
    /// The number that the first message got; the others follow.
    pub first: QueueNumber,
    /// How many it took: all unless it is out of numbers.
    pub count: usize,
}

impl State {
    /// The identifiers of a run of publishes at QoS 2 are under way. The publishes of a run are
    /// like Publish records that differ in payload and identifier alone, are not to be retained and
    /// do not expire; [`State::queue_run`] follows for each destination above QoS 0.
    ///
    /// # Panics
    /// If one of them is already: a repeated publish is no part of a run.
    //= MQTT5-4.3.3-10
    //= MQTT311-4.3.3-2
    pub fn open_run(&mut self, publisher: SessionNumber, ids: impl Iterator<Item = PacketId>) {
        let Some(session) = self.sessions.get_mut(&publisher) else { return };
        for id in ids {
            let is_new = session.inbound.open(id);
            assert!(is_new, "a repeated publish is no part of a run");
        }
    }

    /// The messages of a run, each by what names it and its size, go to one destination of their
    /// decision. `None` if its session is no more.
    ///
    /// # Panics
    /// If it was picked, for a pick is made for each message anew, or is at QoS 0.
    pub fn queue_run(
        &mut self,
        to: Destination<'_>,
        messages: impl ExactSizeIterator<Item = (Lsn, u32)>,
    ) -> Option<QueuedRun> {
        assert!(to.pick.is_none() && to.qos.is_acknowledged(), "{to:?} is no part of a run");
        let all = messages.len();
        let queued = self.change(to.session, |found, _| {
            let first = found.queue.last().next();
            let message = |(lsn, size)| Message { lsn, size, expires_ms: None, late: None };
            let pushed = messages.map(|one| found.queue.push(incoming(message(one), to, false)));
            QueuedRun { first, count: pushed.flatten().count() }
        });
        match queued {
            Some(queued) => {
                self.counters.add(Ignored::OutOfNumbers, (all - queued.count) as u64);
            }
            None => (0..all).for_each(|_| self.count_unknown(false)),
        }
        queued
    }

    /// As releases of these identifiers, one after the other, as long as the result is drawn from;
    /// with each whether it was open. Where it was not, no Release is made.
    //= MQTT311-4.3.3-2
    //= MQTT5-4.3.3-12
    pub fn release_run(
        &mut self,
        session: SessionNumber,
        ids: impl Iterator<Item = PacketId>,
    ) -> impl Iterator<Item = (PacketId, bool)> {
        let mut session = self.sessions.get_mut(&session);
        ids.map(move |id| {
            let was_open = session.as_mut().is_some_and(|known| known.inbound.release(id));
            (id, was_open)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zzq_types::{Properties, QoS, TopicName};

    use super::*;
    use crate::decision::DecisionBuf;
    use crate::effect::{Effect, NoEffects};
    use crate::record::{Connect, Publish, Record, Release};
    use crate::shard::Shard;

    fn session(n: u64) -> SessionNumber {
        SessionNumber::new(n).unwrap()
    }

    fn id(n: u16) -> PacketId {
        PacketId::new(n).unwrap()
    }

    /// A state with three sessions that are up: the publisher is the first.
    fn state() -> State {
        let mut state = State::new(Shard::WHOLE);
        for (lsn, client) in (1..).zip(["a", "b", "c"]) {
            let (session, joins, will) = (session(lsn), None, None);
            let connect = Connect { session, client, expiry_s: 0, window: 100, joins, will };
            let record = Record::Connect(connect);
            state.apply(Lsn::new(lsn), 0, &record, &mut NoEffects);
        }
        state
    }

    fn seen(state: &State) -> String {
        let sessions: Vec<_> = state.sessions().collect();
        format!("{sessions:?} {} {:?}", state.queued(), state.counters())
    }

    proptest! {
        /// Whatever is open and queued already, a run gives the state and the numbers that its
        /// records give one by one.
        #[test]
        fn a_run_is_what_its_records_are_one_by_one(
            qos in 1..3_u8,
            runs in prop::collection::vec((1..6_u16, 0..500_u32), 1..5),
            unknown in any::<bool>(),
        ) {
            //= MQTT311-4.3.3-2, MQTT5-4.3.3-10, MQTT5-4.3.3-12
            let (mut whole, mut single) = (state(), state());
            let mut decision = DecisionBuf::new();
            decision.push_plain(session(1), QoS::AtMostOnce, false);
            decision.push_plain(session(2), QoS::from_bits(qos).unwrap(), false);
            decision.push_plain(session(if unknown { 9 } else { 3 }), QoS::AtLeastOnce, false);
            let (mut next_id, mut next_lsn) = (1, 1 << 62);
            for (count, size) in runs {
                let payload = vec![0; size as usize];
                let topic = TopicName::new("t").unwrap();
                let record = |inbound| Publish {
                    publisher: Some(session(1)),
                    inbound,
                    will_of: None,
                    qos: QoS::from_bits(qos).unwrap(),
                    retain: false,
                    decision: decision.as_decision(),
                    topic,
                    properties: Properties::EMPTY,
                    payload: &payload,
                };
                let ids = next_id..next_id + count;
                let inbound = |n| (qos == 2).then(|| id(n));
                let sizes = (0..).map(|n| Lsn::new(next_lsn + 2 * n)).zip(ids.clone());
                let sizes: Vec<_> = sizes.map(|(lsn, _)| (lsn, record(None).size())).collect();
                whole.open_run(session(1), ids.clone().filter_map(inbound));
                let mut by_run = Vec::new();
                for to in decision.as_decision().iter().filter(|to| to.qos.is_acknowledged()) {
                    let queued = whole.queue_run(to, sizes.iter().copied());
                    let numbers = queued.map(|run| (run.first.get()..).take(run.count));
                    by_run.extend(numbers.into_iter().flatten().map(|n| (to.session, n)));
                }
                let mut by_record = Vec::new();
                for n in ids {
                    let (lsn, made) = (Lsn::new(next_lsn), Record::Publish(record(inbound(n))));
                    single.apply_unlogged(lsn, 0, &made, &mut |effect: Effect<'_>| {
                        if let Effect::Queued { session, number, .. } = effect {
                            by_record.push((session, number.get()));
                        }
                    });
                    next_lsn += 2;
                }
                next_id += count;
                by_record.sort_unstable();
                prop_assert_eq!(by_run, by_record);
                prop_assert_eq!(seen(&whole), seen(&single));
            }
            // Every second one is free again, and some that never were taken.
            let freed = (1..next_id + 5).step_by(2).map(id);
            let told: Vec<_> = whole.release_run(session(1), freed).collect();
            for (id, open) in told {
                let known = single.session(session(1)).unwrap().inbound().contains(id);
                prop_assert_eq!(open, known);
                if known {
                    let record = Record::Release(Release { session: session(1), id });
                    single.apply_unlogged(Lsn::new(next_lsn), 0, &record, &mut NoEffects);
                }
            }
            prop_assert_eq!(seen(&whole), seen(&single));
        }
    }
}
