//! Who subscribes to all that was ever published gets it: in the order of the log, and each
//! acknowledged message. An offset that was shown names one message for ever: whoever reads
//! history at the end finds it there.
//!
//! Looked at is who has no other subscription; that nothing is missing where nothing of the log is
//! let go ([`retention`](super::retention) asks for the rest). What was shown to one at its place
//! is owed to all, also where its publisher was not told that it was taken.
//! Allowed: what may have expired, or was dropped by policy; at QoS 0 anything, which is not kept.
//! One that has expired is passed over, and those behind it are sent; if the broker dies before
//! that is in the log, nothing tells whether it was sent, and it comes behind them: at QoS 2
//! (MQTT5-4.3.3-7), and at QoS 1 if the next start has an earlier time, for the clock was set back.
//! Between UNSUBSCRIBE and UNSUBACK one lane may have taken it, and pass a message
//! by, while another has not: whoever subscribes again gets the one behind those of the other. Both
//! were on their way then: acknowledged behind UNSUBSCRIBE, and sent before its answer.

use std::collections::{BTreeMap, BTreeSet};

use zzq_types::QoS;

use super::cursors::shown;
use super::{Broken, Promise, Subject, has, miss};
use crate::history::MessageId;
use crate::ledger::{At, Ledger, SessionFacts, SubFacts};

pub(super) const PROMISE: Promise = Promise {
    name: "past",
    says: "a subscription to the past brings all of it in its order, and then what is published",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    check_offsets(ledger, broken);
    let readers = ledger.sessions.iter().filter(|session| reads_history(session));
    for session in readers {
        check_order(PROMISE, ledger, session, broken);
    }
    let all = !ledger.cut_short && !ledger.history.drops() && ledger.history.keeps_all();
    let lasting = ledger.lasting().map(|(_, session)| session);
    // What was shown at a place is there, whether or not its publisher was told so.
    let shown = if all { shown(ledger) } else { BTreeMap::new() };
    let is_owed =
        |id: &MessageId| is_history(ledger, *id) || shown.contains_key(id) && is_kept(ledger, *id);
    for session in lasting.filter(|session| all && reads_history(session)) {
        if !session.subs.iter().any(|sub| sub.acked.is_some()) {
            continue;
        }
        let missed = ledger.ids().filter(|id| is_owed(id) && !has(session, *id));
        broken.extend(missed.map(|id| miss(PROMISE, ledger, id, session)));
    }
}

/// Whatever a crash takes, its offset was shown to nobody.
fn check_offsets(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    let mut shown = BTreeMap::new();
    for session in &ledger.sessions {
        for (_, _, received) in &session.received {
            let (Some(id), Some(offset)) = (received.message, received.offset) else { continue };
            let first = *shown.entry(offset).or_insert(id);
            if first != id {
                let name = ledger.name(session.client);
                let what = format!("{name} got {id:?} at offset {offset}, where {first:?} was");
                let about = [Subject::Message(id), Subject::Message(first)];
                broken.push(Broken::new(PROMISE, what, &about));
            }
        }
    }
    let last = ledger.lasting().map(|(_, session)| session).filter(|session| {
        let all = !ledger.cut_short && !ledger.history.drops() && ledger.history.keeps_all();
        let since = ledger.healed.filter(|_| all);
        reads_history(session) && since.is_some_and(|healed| session.began > healed)
    });
    for session in last {
        let found: BTreeSet<_> =
            session.received.iter().filter_map(|(.., one)| one.offset).collect();
        let stays = |id| {
            let is_kept = ledger.message(id).qos.is_acknowledged();
            is_kept && !ledger.may_have_expired(id, ledger.end_ms())
        };
        for (offset, id) in &shown {
            if stays(*id) && !found.contains(offset) {
                let what = format!("{id:?} was shown at offset {offset}, and is not there");
                broken.push(Broken::new(PROMISE, what, &[Subject::Message(*id)]));
            }
        }
    }
}

pub(super) fn reads_history(session: &SessionFacts) -> bool {
    let from_the_first = |sub: &SubFacts| sub.filter.starts_with("$replay/all/");
    !session.subs.is_empty() && session.subs.iter().all(from_the_first)
}

/// What is new has its place behind all that came before. What a full queue has dropped is new when
/// history is read again.
pub(super) fn check_order(
    promise: Promise,
    ledger: &Ledger<'_>,
    session: &SessionFacts,
    broken: &mut Vec<Broken>,
) {
    if ledger.history.drops() && session.subs.iter().any(|sub| sub.given_up.is_some()) {
        return;
    }
    let mut seen = BTreeSet::new();
    // Each that came behind all others so far, in the order of both time and offset.
    let mut behind: Vec<(u64, MessageId)> = Vec::new();
    for (at, _, received) in &session.received {
        let (Some(id), Some(offset)) = (received.message, received.offset) else { continue };
        if received.qos == QoS::AtMostOnce || !seen.insert(offset) {
            continue;
        }
        let was_passed_over = received.dup && ledger.may_have_expired(id, ledger.ms(*at));
        // The first that passed it by tells when that was.
        let passed = behind.partition_point(|(other, _)| *other < offset);
        if let Some((other_offset, other)) = behind.get(passed).copied() {
            if !was_passed_over && !was_passed_by(ledger, session, [id, other], *at) {
                let name = ledger.name(session.client);
                let what =
                    format!("{name} got {id:?} at offset {offset} behind offset {other_offset}");
                let about = [Subject::Message(id), Subject::Client(session.client)];
                broken.push(Broken::new(promise, what, &about));
            }
        } else {
            behind.push((offset, id));
        }
    }
}

/// Whether both messages may have been on their way while a subscription was given up, by which the
/// second came, and which has passed by the first: that came by a later one.
fn was_passed_by(
    ledger: &Ledger<'_>,
    session: &SessionFacts,
    both: [MessageId; 2],
    at: At,
) -> bool {
    session.subs.iter().any(|sub| {
        let Some(given_up) = sub.given_up else { return false };
        let is_later = |other: &SubFacts| given_up < other.sent && other.sent < at;
        let under_way = |id: MessageId| {
            let facts = ledger.facts(id);
            let was_sent = facts.sent.is_some_and(|sent| sub.left.is_none_or(|left| sent < left));
            // A broker that has died takes nothing more of what it was sent.
            let death = ledger.deaths.iter().find(|death| facts.sent_last < Some(**death));
            was_sent && facts.acked.or(death.copied()).is_none_or(|over| given_up < over)
        };
        session.subs.iter().any(is_later) && both.into_iter().all(under_way)
    })
}

pub(super) fn is_history(ledger: &Ledger<'_>, id: MessageId) -> bool {
    ledger.facts(id).acked.is_some() && is_kept(ledger, id)
}

/// Whether a message is there for whoever reads history, if the log has it.
fn is_kept(ledger: &Ledger<'_>, id: MessageId) -> bool {
    let message = ledger.message(id);
    let is_kept = message.qos.is_acknowledged() && !message.is_will && !message.clears;
    is_kept && !ledger.may_have_expired(id, ledger.end_ms())
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::{AtLeastOnce, ExactlyOnce};

    use crate::history::{Event, Message, Received};
    use crate::ledger::script::{Script, breaks};

    #[test]
    fn history_that_is_missing_or_out_of_order() {
        for (offsets, lacks, is_broken) in
            [([1, 2], false, false), ([2, 1], false, true), ([1, 2], true, true)]
        {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            let sent = [(); 2].map(|()| {
                let message = script.publish(writer, "a/1", AtLeastOnce);
                script.acked(writer, message);
                message
            });
            script.subscribe(reader, "$replay/all/#", AtLeastOnce);
            for (message, offset) in sent.into_iter().zip(offsets).take(if lacks { 1 } else { 2 }) {
                let received = script.received(message, AtLeastOnce);
                script.take(reader, Received { offset: Some(offset), ..received });
            }
            assert_eq!(breaks(&script) == ["past"], is_broken, "{offsets:?} {lacks}");
        }
    }

    /// Its publisher does not know whether it was taken, but somebody else has it.
    #[test]
    fn history_that_another_has_and_that_is_missing() {
        for (shown, gets, fits) in [(true, false, false), (true, true, true), (false, false, true)]
        {
            let mut script = Script::new();
            let [reader, other, writer] = [(); 3].map(|()| script.member());
            for one in [reader, other] {
                script.subscribe(one, "$replay/all/#", AtLeastOnce);
            }
            let message = script.publish(writer, "a/1", AtLeastOnce);
            for one in [(other, shown), (reader, gets)].into_iter().filter(|(_, gets)| *gets) {
                let received = script.received(message, AtLeastOnce);
                script.take(one.0, Received { offset: Some(3), ..received });
            }
            assert_eq!(breaks(&script).is_empty(), fits, "{shown} {gets}");
        }
    }

    #[test]
    fn one_that_was_passed_by_when_history_was_given_up_comes_behind_others() {
        // What a broker was sent that has died it does not take any more.
        for (acked_before, died, fits) in
            [(false, false, true), (true, false, false), (false, true, false)]
        {
            let mut script = Script::new();
            let [reader, one, other] = [(); 3].map(|()| script.member());
            script.subscribe(reader, "$replay/all/#", AtLeastOnce);
            let [first, second] =
                [one, other].map(|writer| script.publish(writer, "a/1", AtLeastOnce));
            if acked_before {
                script.acked(one, first);
            }
            if died {
                script.crash();
                for client in [reader, one, other] {
                    script.reconnect(client);
                }
            }
            script.unsubscribe(reader, "$replay/all/#");
            let received = script.received(second, AtLeastOnce);
            script.take(reader, Received { offset: Some(2), ..received });
            script.subscribe(reader, "$replay/all/#", AtLeastOnce);
            for (message, offset) in [(first, 1), (second, 2)] {
                let received = script.received(message, AtLeastOnce);
                script.take(reader, Received { offset: Some(offset), ..received });
            }
            if !died {
                script.acked(one, first);
            }
            assert_eq!(breaks(&script).is_empty(), fits, "{acked_before} {died}");
        }
    }

    /// A reader that has given history up and asked for it again gets one message behind another.
    #[test]
    fn what_was_not_on_its_way_when_history_was_given_up_keeps_its_order() {
        const SENT: [&str; 3] = ["before it is given up", "meanwhile", "behind that"];
        for (first, second, is_again, fits) in [
            (1, 1, true, true),
            (1, 1, false, false),
            // It was taken with the subscription, so it came by that.
            (0, 1, true, false),
            (1, 0, true, false),
            // Every lane knew that it was given up.
            (2, 1, true, false),
            (1, 2, true, false),
            (2, 2, true, false),
        ] {
            let mut script = Script::new();
            let [reader, one, other] = [(); 3].map(|()| script.member());
            script.subscribe(reader, "$replay/all/#", AtLeastOnce);
            let mut sent = [None; 2];
            let mut publish = |script: &mut Script, when| {
                for (at, (writer, sent_when)) in [(one, first), (other, second)].iter().enumerate()
                {
                    if *sent_when == when {
                        let message = script.publish(*writer, "a/1", AtLeastOnce);
                        script.acked(*writer, message);
                        sent[at] = Some(message);
                    }
                }
            };
            publish(&mut script, 0);
            script.unsubscribe_with(reader, "$replay/all/#", |script| publish(script, 1));
            publish(&mut script, 2);
            if is_again {
                script.subscribe(reader, "$replay/all/#", AtLeastOnce);
            }
            for (message, offset) in [(sent[1], 2), (sent[0], 1)] {
                let received = script.received(message.unwrap(), AtLeastOnce);
                script.take(reader, Received { offset: Some(offset), ..received });
            }
            let broken = breaks(&script);
            let why = (SENT[first], SENT[second], is_again);
            assert_eq!(!broken.contains(&"past"), fits, "{why:?} {broken:?}");
        }
    }

    /// Three lie in the log; the second has passed the first by when history was given up, and the
    /// third came by what was asked for next, to which the first is new.
    #[test]
    fn who_passed_it_by_first_tells_when_that_was() {
        for (on_its_way, fits) in [(true, true), (false, false)] {
            let mut script = Script::new();
            let [reader, one, other] = [(); 3].map(|()| script.member());
            script.subscribe(reader, "$replay/all/#", AtLeastOnce);
            let first = script.publish(one, "a/1", AtLeastOnce);
            if !on_its_way {
                script.acked(one, first);
            }
            let second = script.publish(other, "a/1", AtLeastOnce);
            let take = |script: &mut Script, message, offset| {
                let received = script.received(message, AtLeastOnce);
                script.take(reader, Received { offset: Some(offset), ..received });
            };
            script.unsubscribe_with(reader, "$replay/all/#", |script| {
                take(script, second, 2);
            });
            if on_its_way {
                script.acked(one, first);
            }
            script.acked(other, second);
            let third = script.publish(one, "a/1", AtLeastOnce);
            script.acked(one, third);
            script.subscribe(reader, "$replay/all/#", AtLeastOnce);
            take(&mut script, third, 3);
            script.subscribe(reader, "$replay/all/#", AtLeastOnce);
            take(&mut script, first, 1);
            let broken = breaks(&script);
            assert_eq!(!broken.contains(&"past"), fits, "{on_its_way} {broken:?}");
        }
    }

    #[test]
    fn one_that_was_passed_over_comes_behind_others_if_nothing_tells_of_it() {
        for (wait_ms, dup, qos, is_broken) in [
            (20_000, true, ExactlyOnce, false),
            (1000, true, ExactlyOnce, true),
            (20_000, false, ExactlyOnce, true),
            (20_000, true, AtLeastOnce, false),
        ] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            let expires = Script::message(writer, "a/1", ExactlyOnce);
            let expires = script.send(Message { expiry_s: Some(5), ..expires });
            let stays = script.publish(writer, "a/1", AtLeastOnce);
            script.subscribe(reader, "$replay/all/#", ExactlyOnce);
            script.pass(wait_ms);
            let received = script.received(stays, AtLeastOnce);
            script.take(reader, Received { offset: Some(2), ..received });
            script.crash();
            script.reconnect(reader);
            let received = script.received(expires, qos);
            script.take(reader, Received { offset: Some(1), dup, ..received });
            assert_eq!(breaks(&script).contains(&"past"), is_broken, "{wait_ms} {dup} {qos:?}");
        }
    }

    #[test]
    fn an_offset_that_was_shown_and_is_not_there_at_the_end() {
        for (at, is_broken) in [(7, false), (9, true)] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.subscribe(reader, "$replay/all/#", AtLeastOnce);
            let message = script.publish(writer, "a/1", AtLeastOnce);
            let received = script.received(message, AtLeastOnce);
            script.take(reader, Received { offset: Some(7), ..received.clone() });
            script.note(Event::Healed);
            let late = script.member();
            script.subscribe(late, "$replay/all/#", AtLeastOnce);
            script.take(late, Received { offset: Some(at), ..received });
            assert_eq!(breaks(&script) == ["past"], is_broken, "{at}");
        }
    }

    #[test]
    fn an_offset_that_names_another_message_later() {
        for (offset, is_broken) in [(7, true), (8, false)] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.subscribe(reader, "$replay/all/#", AtLeastOnce);
            for at in [7, offset] {
                let message = script.publish(writer, "a/1", AtLeastOnce);
                let received = script.received(message, AtLeastOnce);
                script.take(reader, Received { offset: Some(at), ..received });
                script.crash();
                script.reconnect(reader);
                script.reconnect(writer);
            }
            assert_eq!(breaks(&script) == ["past"], is_broken, "{offset}");
        }
    }
}
