//! Messages of one publisher to one topic at one QoS come in the order in which they were sent.
//!
//! Allowed: repeats (MQTT-4.6.0-1: the first of each counts), any order through shared groups
//! (MQTT5-4.6.0-5 speaks of subscriptions that are not shared), retained messages and wills, which
//! nobody sent in between; a message that was sent again, if its first copy may have expired on its
//! way (MQTT5-3.3.2-5), may have been refused by an answer that was lost, or dropped from a full
//! queue, came before the subscription (one with No Local brings a client nothing of its own) or
//! with RETAIN, was lost on its way at QoS 0, or went by a subscription of another QoS. Any order
//! with `--log needed`, where some messages go by way of the log and some do not as sessions come
//! and go (a known gap of `doc/architecture.md`), unless a session that is there to the end was
//! subscribed to both.

use std::collections::{BTreeMap, BTreeSet};

use zzq_types::QoS;

use super::{Broken, Promise, Subject, can_be_refused};
use crate::history::MessageId;
use crate::ledger::{Ledger, SessionFacts};

pub(super) const PROMISE: Promise = Promise {
    name: "order",
    says: "what one client publishes to one topic at one QoS comes in its order",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for session in &ledger.sessions {
        let mut latest = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for (at, _, received) in &session.received {
            let Some(id) = received.message else { continue };
            let message = ledger.message(id);
            let by_group = ledger.groups_of(session, id, *at).next().is_some();
            if message.is_will || by_group {
                continue;
            }
            if received.retain {
                // Of one that was sent again it may be the first copy as it was published.
                if was_sent_again(ledger, id) {
                    seen.insert((id, received.qos));
                }
                continue;
            }
            if !seen.insert((id, received.qos)) {
                continue;
            }
            let key = (message.client, &message.topic, message.qos, received.qos);
            let before = latest.entry(key).or_insert(id);
            let is_lossy = received.qos == QoS::AtMostOnce && was_sent_again(ledger, id);
            if *before > id
                && !is_lossy
                && !may_lack_a_copy(ledger, session, id, received.qos)
                && go_one_way(ledger, *before, id)
            {
                let what = format!(
                    "{} got {id:?} of {} behind {before:?}",
                    ledger.name(session.client),
                    ledger.name(message.client)
                );
                let about = [
                    Subject::Message(id),
                    Subject::Message(*before),
                    Subject::Client(session.client),
                ];
                broken.push(Broken::new(PROMISE, what, &about));
            }
            *before = (*before).max(id);
        }
    }
}

/// Whether both go by way of the log, or neither.
fn go_one_way(ledger: &Ledger<'_>, one: MessageId, other: MessageId) -> bool {
    let message = ledger.message(one);
    if !ledger.history.logs_needed || message.qos == QoS::AtMostOnce {
        return true;
    }
    let facts = [one, other].map(|id| ledger.facts(id));
    let sent = facts.iter().filter_map(|facts| facts.sent).min();
    let over = facts.iter().filter_map(|facts| facts.sent_last).max();
    let (Some(sent), Some(over)) = (sent, over) else { return false };
    ledger.lasting().any(|(_, session)| {
        let mut subs = session.subs.iter().filter(|sub| {
            sub.group().is_none() && sub.matches(&message.topic) && sub.holds(sent, over)
        });
        // Another one of the same filter may have been in its place, with other options.
        subs.any(|sub| sub.options.qos != QoS::AtMostOnce && !sub.options.no_local)
    })
}

fn was_sent_again(ledger: &Ledger<'_>, id: MessageId) -> bool {
    let facts = ledger.facts(id);
    facts.sent != facts.sent_last
}

fn may_have_been_refused(ledger: &Ledger<'_>, id: MessageId) -> bool {
    ledger.history.may_refuse && can_be_refused(ledger, id)
}

/// The copy that came may be a later one than that which kept the order.
fn may_lack_a_copy(ledger: &Ledger<'_>, session: &SessionFacts, id: MessageId, qos: QoS) -> bool {
    let (message, facts) = (ledger.message(id), ledger.facts(id));
    let Some(sent) = facts.sent.filter(|_| was_sent_again(ledger, id)) else { return false };
    let is_own = message.client == session.client;
    let mut subs = session
        .subs
        .iter()
        .filter(|sub| sub.matches(&message.topic) && !(is_own && sub.options.no_local));
    message.expiry_s.is_some()
        || may_have_been_refused(ledger, id)
        || ledger.history.drops()
        || !subs.any(|sub| sub.options.qos >= qos && sub.holds(sent, sent))
}

#[cfg(test)]
mod tests {
    use zzq_broker::QueueFull;
    use zzq_types::QoS::{self, AtLeastOnce, AtMostOnce};
    use zzq_types::SubscribeOptions;

    use crate::history::{ClientId, Event, History, MessageId};
    use crate::ledger::script::{Script, breaks};

    #[test]
    fn messages_that_overtake_each_other() {
        for (order, is_broken) in
            [([0, 1, 0, 1], false), ([0, 1, 1, 0], false), ([1, 0, 1, 1], true)]
        {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.subscribe(reader, "a/1", AtLeastOnce);
            let sent = [(); 2].map(|()| script.publish(writer, "a/1", AtLeastOnce));
            for at in order {
                script.receive(reader, sent[at], AtLeastOnce);
            }
            assert_eq!(breaks(&script) == ["order"], is_broken, "{order:?}");
        }
    }

    #[test]
    fn where_not_all_is_logged_messages_that_go_one_way_keep_their_order() {
        for (keeps, qos, is_broken) in
            [(false, AtLeastOnce, false), (true, AtLeastOnce, true), (false, AtMostOnce, true)]
        {
            let mut script = Script::new();
            script.history.logs_needed = true;
            let (reader, writer, keeper) = (script.client(), script.member(), script.member());
            script.guest_of(reader);
            script.subscribe(reader, "a/1", AtLeastOnce);
            if keeps {
                script.subscribe(keeper, "a/+", AtLeastOnce);
            }
            let sent = [(); 2].map(|()| script.publish(writer, "a/1", qos));
            for at in [1, 0] {
                script.receive(reader, sent[at], qos);
            }
            assert_eq!(breaks(&script).contains(&"order"), is_broken, "{keeps} {qos:?}");
        }
    }

    fn again(script: &mut Script, writer: ClientId, message: MessageId) {
        let conn = script.conn(writer);
        script.note(Event::Published { conn, message, packet_id: Some(1), dup: true });
    }

    #[test]
    fn a_first_copy_that_came_with_retain_keeps_the_order() {
        for is_repeated in [true, false] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.subscribe(reader, "a/1", AtLeastOnce);
            let sent = [(); 2].map(|()| script.publish(writer, "a/1", AtLeastOnce));
            if is_repeated {
                again(&mut script, writer, sent[0]);
            }
            let mut retained = script.received(sent[0], AtLeastOnce);
            retained.retain = true;
            script.take(reader, retained);
            script.receive(reader, sent[1], AtLeastOnce);
            script.receive(reader, sent[0], AtLeastOnce);
            assert_eq!(breaks(&script) != ["order"], is_repeated);
        }
    }

    /// Whether it breaks the promise that the second copy of a message, to who subscribed at this
    /// QoS, comes behind the message that was sent after the first.
    fn is_broken_by_a_second_copy(qos: QoS, run: impl FnOnce(&mut History)) -> bool {
        let mut script = Script::new();
        run(&mut script.history);
        let (reader, writer) = (script.member(), script.member());
        script.subscribe(reader, "a/1", qos);
        let sent = [(); 2].map(|()| script.publish(writer, "a/1", AtLeastOnce));
        again(&mut script, writer, sent[0]);
        script.receive(reader, sent[1], qos);
        script.receive(reader, sent[0], qos);
        breaks(&script) == ["order"]
    }

    #[test]
    fn a_message_whose_first_copy_a_full_queue_dropped_comes_in_the_order_of_its_second() {
        for policy in [QueueFull::DropOldest, QueueFull::Refuse] {
            let is_broken =
                is_broken_by_a_second_copy(AtLeastOnce, |history| history.queue_full = policy);
            assert_eq!(is_broken, policy == QueueFull::Refuse);
        }
    }

    #[test]
    fn a_message_that_may_have_been_refused_comes_in_the_order_of_its_second_copy() {
        for may_refuse in [true, false] {
            let is_broken =
                is_broken_by_a_second_copy(AtLeastOnce, |history| history.may_refuse = may_refuse);
            assert_eq!(is_broken, !may_refuse);
        }
    }

    #[test]
    fn a_second_copy_at_qos_0_may_be_the_first_that_comes() {
        for (qos, fits) in [(AtMostOnce, true), (AtLeastOnce, false)] {
            assert_eq!(!is_broken_by_a_second_copy(qos, |_| ()), fits, "{qos:?}");
        }
    }

    #[test]
    fn a_first_copy_of_a_time_of_another_qos_keeps_no_order() {
        for (before, fits) in [(AtMostOnce, true), (AtLeastOnce, false)] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.subscribe(reader, "a/1", before);
            let first = script.publish(writer, "a/1", AtLeastOnce);
            script.subscribe(reader, "a/1", AtLeastOnce);
            let second = script.publish(writer, "a/1", AtLeastOnce);
            again(&mut script, writer, first);
            script.receive(reader, second, AtLeastOnce);
            script.receive(reader, first, AtLeastOnce);
            assert_eq!(breaks(&script) != ["order"], fits, "{before:?}");
        }
    }

    #[test]
    fn a_first_copy_that_no_local_kept_away_keeps_no_order() {
        for no_local in [true, false] {
            let mut script = Script::new();
            let client = script.member();
            let options = SubscribeOptions::with_qos(AtLeastOnce);
            script.ask(client, "a/+", SubscribeOptions { no_local, ..options });
            script.granted(client, "a/+");
            let first = script.publish(client, "a/1", AtLeastOnce);
            script.subscribe(client, "a/1", AtLeastOnce);
            let second = script.publish(client, "a/1", AtLeastOnce);
            again(&mut script, client, first);
            script.receive(client, second, AtLeastOnce);
            script.receive(client, first, AtLeastOnce);
            assert_eq!(breaks(&script) != ["order"], no_local);
        }
    }

    #[test]
    fn groups_have_no_order() {
        let mut script = Script::new();
        let (reader, writer) = (script.member(), script.member());
        script.subscribe(reader, "$share/g/a/1", AtLeastOnce);
        let sent = [(); 2].map(|()| script.publish(writer, "a/1", AtLeastOnce));
        script.receive(reader, sent[1], AtLeastOnce);
        script.receive(reader, sent[0], AtLeastOnce);
        assert_eq!(breaks(&script), [""; 0]);
    }

    #[test]
    fn a_group_that_was_left_excuses_nothing_that_is_sent_later() {
        for leaves in [false, true] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.subscribe(reader, "a/1", AtLeastOnce);
            script.subscribe(reader, "$share/g/a/1", AtLeastOnce);
            if leaves {
                script.unsubscribe(reader, "$share/g/a/1");
            }
            let sent = [(); 2].map(|()| script.publish(writer, "a/1", AtLeastOnce));
            script.receive(reader, sent[1], AtLeastOnce);
            script.receive(reader, sent[0], AtLeastOnce);
            assert_eq!(breaks(&script) == ["order"], leaves);
        }
    }
}
