//! Receipt and Expire: messages are taken, answered for good, or given up.

use crate::counters::Ignored;
use crate::effect::Effects;
use crate::number::SessionNumber;
use crate::record::{Closing, Expire, NumberRange, Receipt};
use crate::state::State;

use super::release;

impl State {
    //= MQTT5-4.3.2-3
    //= MQTT5-4.3.3-3
    //= MQTT5-4.3.3-5
    //= MQTT5-4.8.2-6
    pub(super) fn receipt(&mut self, receipt: &Receipt<'_>, effects: &mut impl Effects) {
        for set in receipt.sets {
            let known = self.change_queue(set.session, |queue, counters| {
                for range in set.ranges {
                    let released = |lsn| release(effects, lsn);
                    let ignored = match set.closing {
                        Closing::Taken => queue.take(range, released),
                        _ => queue.close(range, released),
                    };
                    counters.add(Ignored::UnknownNumber, ignored);
                }
            });
            self.count_unknown(known.is_some());
        }
    }

    //= MQTT5-3.3.2-5
    pub(super) fn expire(&mut self, expire: &Expire<'_>, effects: &mut impl Effects) {
        for set in expire.sets {
            let known = self.change_queue(set.session, |queue, counters| {
                for range in set.ranges {
                    let kept = queue.give_up(range, |lsn| release(effects, lsn));
                    counters.add(Ignored::MayHaveBeenSent, kept);
                }
            });
            if known.is_none() {
                for range in set.ranges {
                    self.expire_orphans(set.session, range, effects);
                }
            }
        }
        for item in expire.topics {
            if !self.owns_topic(item.topic.as_str()) {
                continue;
            }
            let retained = self.retained.get(item.topic);
            let meant = retained.is_some_and(|retained| retained.lsn == item.lsn);
            if !meant || !self.unretain(item.topic, effects) {
                self.counters.add(Ignored::UnknownRetained, 1);
            }
        }
    }

    fn expire_orphans(
        &mut self,
        session: SessionNumber,
        range: NumberRange,
        effects: &mut impl Effects,
    ) {
        let Some(ended) = self.ended.get_mut(&session) else {
            return self.count_unknown(false);
        };
        let (first, last) = (range.first.get(), range.last.get());
        let numbers: Vec<u64> = ended.orphans.range(first..=last).map(|(&n, _)| n).collect();
        for number in numbers {
            if let Some(orphan) = ended.orphans.remove(&number) {
                release(effects, orphan.lsn);
            }
        }
    }
}
