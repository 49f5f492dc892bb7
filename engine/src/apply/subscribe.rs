//! Subscribe and Unsubscribe.

use crate::counters::Ignored;
use crate::effect::{Effect, Effects};
use crate::number::SubNumber;
use crate::record::{Subscribe, SubscribeItem, Unsubscribe};
use crate::session::{Replay, Session, Subscription};
use crate::state::State;
use crate::weight;

impl State {
    //= MQTT5-3.8.4-3
    //= MQTT5-3.8.4-5
    //= MQTT311-3.8.4-3
    //= MQTT311-3.8.4-4
    pub(super) fn subscribe(&mut self, subscribe: &Subscribe<'_>, effects: &mut impl Effects) {
        let Some(session) = self.sessions.get_mut(&subscribe.session) else {
            return self.count_unknown(false);
        };
        for item in subscribe.items {
            let before = session.subscriptions.len();
            let is_taken = subscribe_one(session, &item, effects);
            if session.subscriptions.len() > before {
                self.session_memory += weight::of_subscription(item.filter);
            }
            if !is_taken {
                self.counters.add(Ignored::StaleSubscription, 1);
            }
        }
    }

    //= MQTT5-3.10.4-1
    //= MQTT5-3.10.4-6
    //= MQTT311-3.10.4-1
    //= MQTT311-3.10.4-6
    pub(super) fn unsubscribe(
        &mut self,
        unsubscribe: &Unsubscribe<'_>,
        effects: &mut impl Effects,
    ) {
        let number = unsubscribe.session;
        let Some(session) = self.sessions.get_mut(&number) else {
            return self.count_unknown(false);
        };
        for filter in unsubscribe.filters {
            let Some((text, sub)) = session.subscriptions.remove(filter) else {
                self.counters.add(Ignored::UnknownFilter, 1);
                continue;
            };
            session.set_replay(sub.number, None);
            let left = weight::of_left(session);
            session.leave(sub.number, text);
            self.session_memory += weight::of_left(session);
            self.session_memory -= left + weight::of_subscription(filter);
            effects.emit(Effect::Unsubscribed { session: number, number: sub.number, filter });
        }
    }
}

/// One that is replaced keeps its number; `false` if a new one's is not above all before it.
fn subscribe_one(
    session: &mut Session,
    item: &SubscribeItem<'_>,
    effects: &mut impl Effects,
) -> bool {
    let known = session.subscriptions.get(item.filter);
    let (new, number) = known.map_or((true, item.number), |known| (false, known.number));
    if new {
        let Some(next) = number.get().checked_add(1).filter(|_| number >= session.next_sub) else {
            return false;
        };
        session.next_sub = SubNumber::new(next);
    }
    let SubscribeItem { filter, options, id, .. } = *item;
    session.subscriptions.set(filter, Subscription { number, options, id });
    let goes_on = item.replay.is_some_and(Replay::goes_on) && session.replay(number).is_some();
    if !goes_on {
        session.set_replay(number, item.replay);
    }
    let session = session.number;
    effects.emit(Effect::Subscribed { session, number, filter, options, id, new });
    true
}
