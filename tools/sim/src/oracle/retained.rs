//! What a new subscription is sent as retained is the last committed write.
//!
//! A write is certain from its acknowledgement on; one that was not acknowledged may come at any
//! time. What a subscription is sent was the last write at some moment behind its SUBSCRIBE.
//! Allowed: none, when the last may be one that takes it away or has expired, or when the session
//! was ended since its queue was full.

use zzq_types::{QoS, RetainHandling};

use super::{Broken, Promise, Subject};
use crate::history::{Event, MessageId};
use crate::ledger::{At, Ledger, SessionFacts, SubFacts};

pub(super) const PROMISE: Promise = Promise {
    name: "retained",
    says: "a new subscription is sent the retained message that was written last",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    let writes: Vec<MessageId> = ledger
        .ids()
        .filter(|id| ledger.message(*id).retain && ledger.facts(*id).sent.is_some())
        .collect();
    for session in &ledger.sessions {
        for (at, _, received) in session.received.iter().filter(|(.., one)| one.retain) {
            let Some(id) = received.message else { continue };
            // With this option RETAIN says nothing about where it came from.
            let topic = &ledger.message(id).topic;
            let sent = ledger.facts(id).sent.unwrap_or(0);
            let forwards = |sub: &SubFacts| {
                sub.options.retain_as_published && sub.matches(topic) && sub.may_hold(sent, *at)
            };
            if !session.subs.iter().any(forwards)
                && let Some(by) = is_stale(ledger, &writes, session, id, *at)
            {
                let what = format!(
                    "{} was sent {id:?} as retained, which {by:?} had replaced",
                    ledger.name(session.client)
                );
                let about =
                    [Subject::Message(id), Subject::Message(by), Subject::Client(session.client)];
                broken.push(Broken::new(PROMISE, what, &about));
            }
        }
        check_absent(ledger, &writes, session, broken);
        check_passed_by(ledger, &writes, session, broken);
    }
}

/// A write that had replaced `id` before any SUBSCRIBE that it may have been sent for.
fn is_stale(
    ledger: &Ledger<'_>,
    writes: &[MessageId],
    session: &SessionFacts,
    id: MessageId,
    received: At,
) -> Option<MessageId> {
    let topic = &ledger.message(id).topic;
    let sent = ledger.facts(id).sent?;
    let asked = session.subs.iter().filter(|sub| {
        sub.may_hold(sent, received)
            && sub.matches(topic)
            && sub.group().is_none()
            && sub.options.retain_handling != RetainHandling::Never
    });
    // It may have been sent for any of them, and the earliest excuses the most.
    let first = asked.map(|sub| sub.sent).min()?;
    let over = ledger.facts(id).acked?;
    writes.iter().copied().find(|by| {
        let facts = ledger.facts(*by);
        ledger.message(*by).topic == *topic
            && facts.sent.is_some_and(|sent| sent > over)
            && facts.acked.is_some_and(|acked| acked < first)
    })
}

/// When nothing goes wrong any more, whoever subscribes is sent what must be there.
fn check_absent(
    ledger: &Ledger<'_>,
    writes: &[MessageId],
    session: &SessionFacts,
    broken: &mut Vec<Broken>,
) {
    // Retained messages wait in queues, too.
    let all = !ledger.cut_short && !ledger.history.drops();
    let Some(healed) = ledger.healed.filter(|_| all) else { return };
    let asked = session.subs.iter().filter(|sub| sub.sent > healed && sub.acked.is_some());
    let asked = asked.filter(|sub| !was_ended(ledger, session, sub.sent));
    for sub in asked.filter(|sub| sub.group().is_none()) {
        let got = |topic: &str| {
            let mut received = session.received.iter().filter(|(at, ..)| *at > sub.sent);
            received.any(|(.., one)| one.retain && one.topic == topic)
        };
        for id in writes.iter().copied().filter(|id| must_be_there(ledger, writes, *id, sub.sent)) {
            let topic = &ledger.message(id).topic;
            if sub.matches(topic) && !got(topic) {
                let what = format!(
                    "{} was sent nothing retained for {topic}, where {id:?} or a later one is",
                    ledger.name(session.client)
                );
                let about = [Subject::Message(id), Subject::Client(session.client)];
                broken.push(Broken::new(PROMISE, what, &about));
            }
        }
    }
}

/// Whether its queue was full with what it was sent, so that the broker has ended it.
fn was_ended(ledger: &Ledger<'_>, session: &SessionFacts, since: At) -> bool {
    let mut later = ledger.history.entries[since..].iter();
    later.any(|entry| match entry.event {
        Event::EndedFull { client, .. } => client == session.client,
        _ => false,
    })
}

/// A write that comes while a subscription is made is found as retained or comes as it is
/// published: it does not pass between the two.
fn check_passed_by(
    ledger: &Ledger<'_>,
    writes: &[MessageId],
    session: &SessionFacts,
    broken: &mut Vec<Broken>,
) {
    let none = ledger.cut_short || ledger.history.drops();
    if none || !ledger.lasting().any(|(_, one)| std::ptr::eq(one, session)) {
        return;
    }
    for sub in session.subs.iter().filter(|sub| is_made_and_lasts(session, sub)) {
        let owed = |id: &MessageId| {
            is_meanwhile(ledger, writes, sub, *id) && is_handed_over(ledger, sub, *id)
        };
        for id in writes.iter().copied().filter(owed) {
            let topic = &ledger.message(id).topic;
            // One that was sent behind SUBACK was not there when it was looked for.
            let is_before = |sent: At| sub.acked.is_some_and(|acked| sent < acked);
            let or_later = |other: MessageId| {
                let over = ledger.facts(other).acked;
                let message = ledger.message(other);
                message.retain
                    && message.topic == *topic
                    && ledger.facts(other).sent.is_some_and(is_before)
                    && over.zip(ledger.facts(id).sent).is_none_or(|(over, sent)| over >= sent)
            };
            let mut received = session.received.iter().filter(|(at, ..)| *at > sub.sent);
            if !received.any(|(.., one)| one.message.is_some_and(or_later)) {
                let what = format!(
                    "{} got neither {id:?}, which was retained while it subscribed to {}, nor a \
                     later one",
                    ledger.name(session.client),
                    sub.filter
                );
                let about = [Subject::Message(id), Subject::Client(session.client)];
                broken.push(Broken::new(PROMISE, what, &about));
            }
        }
    }
}

/// One of the same filter that was there when it was asked for would leave nothing new to it.
fn is_made_and_lasts(session: &SessionFacts, sub: &SubFacts) -> bool {
    let mut same = session.subs.iter().filter(|one| one.filter == sub.filter);
    let alone = same.all(|one| {
        one.sent == sub.sent || one.sent < sub.sent && one.left.is_some_and(|at| at < sub.sent)
    });
    alone
        && sub.leaves.is_none()
        && sub.group().is_none()
        && sub.options.qos != QoS::AtMostOnce
        && !sub.options.no_local
        && sub.options.retain_handling != RetainHandling::Never
        && sub.acked.is_some()
}

/// What a connection owes to its subscription is in the session's queue when all is at rest, so
/// that nothing loses it any more. If the connection ends before, nobody can tell.
fn is_handed_over(ledger: &Ledger<'_>, sub: &SubFacts, id: MessageId) -> bool {
    let known = sub.acked.max(ledger.facts(id).acked);
    known.is_some_and(|known| ledger.outlives_a_rest(sub.conn, known))
}

/// Written before SUBACK and not acknowledged before SUBSCRIBE, and nothing takes it or a later one
/// away: one at QoS 0 may have replaced it, and be dropped on its way to who does not read.
fn is_meanwhile(ledger: &Ledger<'_>, writes: &[MessageId], sub: &SubFacts, id: MessageId) -> bool {
    let (message, facts) = (ledger.message(id), ledger.facts(id));
    let (Some(sent), Some(over)) = (facts.sent, facts.acked) else { return false };
    let is_before = |sent: At| sub.acked.is_some_and(|acked| sent < acked);
    let mut same = writes.iter().filter(|by| ledger.message(**by).topic == message.topic);
    sub.matches(&message.topic)
        && message.qos != QoS::AtMostOnce
        && !message.is_will
        && over > sub.sent
        && is_before(sent)
        && same.all(|id| {
            let by = ledger.message(*id);
            let is_kept =
                by.qos != QoS::AtMostOnce || !ledger.facts(*id).sent.is_some_and(is_before);
            !by.clears && by.expiry_s.is_none() && is_kept
        })
}

/// Whether it, or a later one, is there for certain.
fn must_be_there(ledger: &Ledger<'_>, writes: &[MessageId], id: MessageId, asked: At) -> bool {
    let (message, facts) = (ledger.message(id), ledger.facts(id));
    let (Some(sent), Some(answered)) = (facts.sent, facts.acked) else { return false };
    let takes_away =
        |id: &MessageId| ledger.message(*id).clears || ledger.message(*id).expiry_s.is_some();
    let is_before = |by: &MessageId| ledger.facts(*by).acked.is_some_and(|acked| acked < sent);
    let mut others = writes.iter().filter(|by| ledger.message(**by).topic == message.topic);
    answered < asked
        && !ledger.is_forgotten(sent, asked)
        && !takes_away(&id)
        && others.all(|by| *by == id || !takes_away(by) || is_before(by))
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::{AtLeastOnce, AtMostOnce};
    use zzq_types::SubscribeOptions;

    use super::*;
    use crate::history::{ClientId, Message, Received};
    use crate::ledger::script::{HELLO, Script, breaks};

    fn sent(script: &mut Script, reader: ClientId, message: MessageId) {
        let received = Received { retain: true, ..script.received(message, AtLeastOnce) };
        script.take(reader, received);
    }

    #[test]
    fn a_message_that_was_replaced_before() {
        let mut script = Script::new();
        let (reader, writer) = (script.member(), script.member());
        let old = script.retain(writer, "a/1", false);
        script.acked(writer, old);
        let new = script.retain(writer, "a/1", false);
        script.ask(reader, "a/1", SubscribeOptions::with_qos(AtLeastOnce));
        script.acked(writer, new);
        script.granted(reader, "a/1");
        sent(&mut script, reader, old);
        script.receive(reader, new, AtLeastOnce);
        assert_eq!(breaks(&script), [""; 0], "it was written meanwhile");
        let late = script.member();
        script.subscribe(late, "a/1", AtLeastOnce);
        sent(&mut script, late, old);
        assert_eq!(breaks(&script), ["retained"]);
    }

    #[test]
    fn a_subscription_that_forwards_retain_excuses_what_was_sent_while_it_was_there() {
        for stays in [false, true] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            let options = SubscribeOptions::with_qos(AtLeastOnce);
            script.ask(reader, "a/+", SubscribeOptions { retain_as_published: true, ..options });
            script.granted(reader, "a/+");
            if !stays {
                script.unsubscribe(reader, "a/+");
            }
            let kept = [(); 2].map(|()| {
                let message = script.retain(writer, "a/1", false);
                script.acked(writer, message);
                message
            });
            script.subscribe(reader, "a/1", AtLeastOnce);
            sent(&mut script, reader, kept[1]);
            sent(&mut script, reader, kept[0]);
            let broken = if stays { vec![] } else { vec!["retained"] };
            assert_eq!(breaks(&script), broken);
        }
    }

    #[test]
    fn a_message_that_passes_between_the_retained_ones_and_the_live_ones() {
        let cases = [
            (false, false, false),
            (true, false, false),
            (false, true, false),
            (false, true, true),
        ];
        for (ends_soon, is_replaced, in_time) in cases {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.ask(reader, "a/1", SubscribeOptions::with_qos(AtLeastOnce));
            let message = script.retain(writer, "a/1", false);
            script.acked(writer, message);
            let later = (is_replaced && in_time).then(|| script.retain(writer, "a/1", false));
            script.granted(reader, "a/1");
            if ends_soon {
                script.crash();
                script.reconnect(reader);
            }
            script.pass(10_000);
            if is_replaced {
                let later = later.unwrap_or_else(|| script.retain(writer, "a/1", false));
                script.receive(reader, later, AtLeastOnce);
            }
            let fits = ends_soon || is_replaced && in_time;
            let broken = if fits { vec![] } else { vec!["retained"] };
            assert_eq!(breaks(&script), broken);
            sent(&mut script, reader, message);
            assert_eq!(breaks(&script), [""; 0]);
        }
    }

    type Step<'a> = &'a dyn Fn(&mut Script, ClientId);

    /// Before that it may have gone with its connection.
    #[test]
    fn what_a_connection_owes_is_asked_for_when_it_has_lived_until_all_was_at_rest() {
        let probe = |script: &mut Script, writer| {
            script.note(Event::Healed);
            script.send(Message { is_probe: true, ..Script::message(writer, "b", AtLeastOnce) });
        };
        let rest = |script: &mut Script, _| script.note(Event::AtRest);
        let never = |_: &mut Script, _| {};
        let cases: [(Step<'_>, Step<'_>, bool); 4] = [
            (&never, &never, false),
            (&rest, &never, false),
            (&never, &rest, true),
            (&never, &probe, true),
        ];
        for (before, behind, is_asked_for) in cases {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.ask(reader, "a/1", SubscribeOptions::with_qos(AtLeastOnce));
            let message = script.retain(writer, "a/1", false);
            script.granted(reader, "a/1");
            before(&mut script, writer);
            script.acked(writer, message);
            behind(&mut script, writer);
            script.pass(10_000);
            script.crash();
            script.note(Event::AtRest);
            assert_eq!(breaks(&script) == ["retained"], is_asked_for);
        }
    }

    #[test]
    fn a_subscription_is_new_where_one_of_its_filter_was_gone_for_certain() {
        for was_gone in [false, true] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.subscribe(reader, "a/1", AtLeastOnce);
            if was_gone {
                script.unsubscribe(reader, "a/1");
            }
            script.ask(reader, "a/1", SubscribeOptions::with_qos(AtLeastOnce));
            let message = script.retain(writer, "a/1", false);
            script.granted(reader, "a/1");
            script.acked(writer, message);
            assert_eq!(breaks(&script).contains(&"retained"), was_gone);
        }
    }

    #[test]
    fn a_message_that_is_under_way_when_somebody_subscribes() {
        for is_over in [false, true] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            let message = script.retain(writer, "a/1", false);
            if is_over {
                script.acked(writer, message);
            }
            script.ask(reader, "a/1", SubscribeOptions::with_qos(AtLeastOnce));
            if !is_over {
                script.acked(writer, message);
            }
            script.granted(reader, "a/1");
            assert_eq!(breaks(&script) == ["retained"], !is_over);
            sent(&mut script, reader, message);
            assert_eq!(breaks(&script), [""; 0]);
        }
    }

    /// It came as it was published, and the receiver did not read.
    #[test]
    fn one_at_qos_0_that_replaced_it_may_be_lost() {
        let is_owed = |qos, in_time: bool| {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.ask(reader, "a/1", SubscribeOptions::with_qos(AtLeastOnce));
            let message = script.retain(writer, "a/1", false);
            let replace = |script: &mut Script| {
                script.send(Message { retain: true, ..Script::message(writer, "a/1", qos) })
            };
            let by = in_time.then(|| replace(&mut script));
            script.acked(writer, message);
            script.granted(reader, "a/1");
            let by = by.unwrap_or_else(|| replace(&mut script));
            if qos == AtLeastOnce {
                script.acked(writer, by);
            }
            breaks(&script).contains(&"retained")
        };
        assert!(is_owed(AtLeastOnce, true) && !is_owed(AtMostOnce, true));
        assert!(is_owed(AtMostOnce, false), "when it came the subscription had its retained one");
    }

    #[test]
    fn a_session_that_its_full_queue_has_ended_is_not_asked() {
        for is_ended in [false, true] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            let message = script.retain(writer, "a/1", false);
            script.acked(writer, message);
            script.note(Event::Healed);
            script.subscribe(reader, "#", AtLeastOnce);
            if is_ended {
                script.note(Event::EndedFull { client: reader, certain: false });
            }
            assert_eq!(breaks(&script) == ["retained"], !is_ended);
        }
    }

    #[test]
    fn without_a_log_nothing_is_there_any_more() {
        for in_memory in [false, true] {
            let mut script = Script::new();
            script.history.in_memory = in_memory;
            let (reader, writer) = (script.member(), script.member());
            let message = script.retain(writer, "a/1", false);
            script.acked(writer, message);
            script.crash();
            script.note(Event::Healed);
            script.connect(reader, HELLO, !in_memory);
            script.subscribe(reader, "#", AtLeastOnce);
            assert_eq!(breaks(&script) == ["retained"], !in_memory);
        }
    }

    #[test]
    fn a_message_that_is_not_there_at_the_end() {
        for clears in [false, true] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            let message = script.retain(writer, "a/1", false);
            script.acked(writer, message);
            if clears {
                script.retain(writer, "a/1", true);
            }
            script.note(Event::Healed);
            script.subscribe(reader, "#", AtLeastOnce);
            assert_eq!(breaks(&script) == ["retained"], !clears);
            sent(&mut script, reader, message);
            assert_eq!(breaks(&script), [""; 0]);
        }
    }
}
