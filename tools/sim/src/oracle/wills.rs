//! A will is published once: when its client is lost, not before, and not if the client left in
//! order.
//!
//! A client that was sent DISCONNECT by the broker has not left in order, whatever it said: who
//! ends a connection reads no more of it. So an authentication that takes too long takes a
//! DISCONNECT behind it along, and the will is owed.
//!
//! Allowed: a will of a connection with a short keep alive may come at any time, since the network
//! may have been slow; one that was taken back on a log that has failed, for who reads that log at
//! the next start finds the will alone; and one of a session that is ended for its full queue comes
//! before its client hears of that. A delayed will is not asked for: the session may have gone on.
//! Nor is any where full queues may lose messages.

use zzq_types::QoS;

use super::{Broken, Promise, Subject, has};
use crate::history::{Ending, Entry, Event, MessageId};
use crate::ledger::{At, ConnFacts, Ledger, SessionFacts};

pub(super) const PROMISE: Promise = Promise {
    name: "wills",
    says: "a will is published once, if its client is lost and not before",
    check,
};

/// A stop may close a connection before DISCONNECT is read.
const STOP_MS: u64 = 6000;

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for facts in ledger.conns.values() {
        let (Some((will, delay)), Some((accepted, _))) = (facts.hello.will, facts.accepted) else {
            continue;
        };
        let mut tell = |what: String, session: &SessionFacts| {
            let what = format!("{what} to {}: {will:?}", ledger.name(session.client));
            let about = [
                Subject::Message(will),
                Subject::Client(facts.client),
                Subject::Client(session.client),
            ];
            broken.push(Broken::new(PROMISE, what, &about));
        };
        let is_over = facts.ended.is_some() || facts.died.is_some();
        let is_lost = is_over && left_in_order(facts).is_none();
        for session in &ledger.sessions {
            let count = copies(ledger, session, will);
            if count > 1 {
                tell(format!("a will came {count} times"), session);
            }
            if has(session, will) && was_taken_back(ledger, facts) {
                tell("a will came of a client that had left in order".into(), session);
            }
            if let Some(at) = first(session, will)
                && is_alive(ledger, facts, accepted, at)
            {
                tell("a will came of a client that is connected".into(), session);
            }
        }
        if is_lost && delay == 0 && !ledger.cut_short && !ledger.history.drops() {
            for (_, session) in ledger.lasting() {
                if is_owed(ledger, facts.dialed, session, will) && !has(session, will) {
                    tell("a will never came".into(), session);
                }
            }
        }
    }
}

/// Deliveries that are no repeats, and that no group has brought.
fn copies(ledger: &Ledger<'_>, session: &SessionFacts, will: MessageId) -> usize {
    let copies = session.received.iter().filter(|(.., received)| {
        received.message == Some(will) && received.fresh && !received.dup && !received.retain
    });
    let Some(last) = copies.clone().map(|(at, ..)| *at).next_back() else { return 0 };
    copies.count().saturating_sub(ledger.further_ways(session, will, last))
}

fn first(session: &SessionFacts, will: MessageId) -> Option<At> {
    let mut received = session.received.iter();
    received.find(|(.., received)| received.message == Some(will)).map(|(at, ..)| *at)
}

/// The network may be slower than this client promised to be.
fn is_hasty(facts: &ConnFacts) -> bool {
    (1..10).contains(&facts.hello.keep_alive)
}

/// When it left so that there is no will, if that was read or may have been.
fn left_in_order(facts: &ConnFacts) -> Option<At> {
    let (left, keeps_will) = facts.left?;
    (!keeps_will && facts.dismissed.is_none()).then_some(left)
}

fn was_taken_back(ledger: &Ledger<'_>, facts: &ConnFacts) -> bool {
    let (Some(left), Some((ended, Ending::Closed))) = (left_in_order(facts), facts.ended) else {
        return false;
    };
    let in_doubt = facts.cut.is_some_and(|cut| cut < ended)
        || facts.died.is_some_and(|died| died < ended)
        || facts.unlogged.is_some()
        || is_hasty(facts);
    let stops = ledger.deaths.iter().any(|death| {
        let at = ledger.ms(*death);
        *death > left && at < ledger.ms(ended) + STOP_MS
    });
    !in_doubt && !stops
}

fn is_alive(ledger: &Ledger<'_>, facts: &ConnFacts, accepted: At, at: At) -> bool {
    let ends = [facts.cut, facts.ended.map(|(at, _)| at), facts.died, facts.left.map(|(at, _)| at)];
    let again = ledger.conns.values().filter(|other| other.client == facts.client);
    let mut again = again.map(|other| other.dialed).filter(|dialed| *dialed > facts.dialed);
    let stops = ledger
        .deaths
        .iter()
        .any(|death| *death > at && ledger.ms(*death) < ledger.ms(at) + STOP_MS);
    let is_ended = |(place, entry): (At, &Entry)| {
        let of = matches!(entry.event, Event::EndedFull { client, .. } if client == facts.client);
        of && facts.dialed < place && place < at
    };
    accepted < at
        && !ledger.history.entries.iter().enumerate().any(is_ended)
        && !is_hasty(facts)
        && !stops
        && ends.iter().flatten().all(|end| *end > at)
        && again.all(|dialed| dialed > at)
}

/// The session had subscribed before, and is subscribed to the end.
fn is_owed(ledger: &Ledger<'_>, dialed: At, session: &SessionFacts, will: MessageId) -> bool {
    let message = ledger.message(will);
    let end = ledger.end();
    let plain = || {
        let subs = session.subs.iter().filter(|sub| sub.group().is_none());
        subs.filter(|sub| sub.matches(&message.topic))
    };
    plain().filter(|sub| sub.holds(dialed, end)).any(|certain| {
        let same = plain().filter(|sub| sub.filter == certain.filter);
        let mut same = same.filter(|sub| sub.may_hold(dialed, end));
        same.all(|sub| sub.qos_of(message.qos) != QoS::AtMostOnce && !sub.options.no_local)
    })
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::AtLeastOnce;
    use zzq_types::ReasonCode;

    use super::*;
    use crate::history::{ClientId, Hello, Message};
    use crate::ledger::script::{HELLO, Script, breaks};

    fn with_will() -> (Script, ClientId, ClientId, MessageId) {
        let mut script = Script::new();
        let reader = script.member();
        script.subscribe(reader, "a/1", AtLeastOnce);
        let client = script.client();
        let message = Script::message(client, "a/1", AtLeastOnce);
        let will = script.history.add_message(Message { is_will: true, ..message });
        script.connect(client, Hello { will: Some((will, 0)), ..HELLO }, false);
        (script, reader, client, will)
    }

    #[test]
    fn a_will_that_never_comes_and_one_that_comes_twice() {
        let (mut script, reader, client, will) = with_will();
        assert_eq!(breaks(&script), [""; 0]);
        script.end(client, Ending::Broken);
        assert_eq!(breaks(&script), ["wills"]);
        script.receive(reader, will, AtLeastOnce);
        assert_eq!(breaks(&script), [""; 0]);
        script.receive(reader, will, AtLeastOnce);
        assert_eq!(breaks(&script), ["wills"]);
    }

    #[test]
    fn a_group_brings_a_will_of_its_own_while_its_member_is_in_it() {
        for (stays, fits) in [(true, true), (false, false)] {
            let mut script = Script::new();
            let reader = script.member();
            script.subscribe(reader, "a/1", AtLeastOnce);
            script.subscribe(reader, "$share/g/a/1", AtLeastOnce);
            if !stays {
                script.unsubscribe(reader, "$share/g/a/1");
            }
            let client = script.client();
            let message = Script::message(client, "a/1", AtLeastOnce);
            let will = script.history.add_message(Message { is_will: true, ..message });
            script.connect(client, Hello { will: Some((will, 0)), ..HELLO }, false);
            script.end(client, Ending::Broken);
            script.receive(reader, will, AtLeastOnce);
            script.receive(reader, will, AtLeastOnce);
            assert_eq!(breaks(&script).is_empty(), fits, "{stays}");
        }
    }

    #[test]
    fn a_will_that_comes_early() {
        let (mut script, reader, _, will) = with_will();
        script.receive(reader, will, AtLeastOnce);
        assert_eq!(breaks(&script), ["wills"]);
    }

    #[test]
    fn the_will_of_a_session_that_is_ended_for_its_full_queue() {
        let (mut script, reader, client, will) = with_will();
        script.note(Event::EndedFull { client, certain: true });
        script.receive(reader, will, AtLeastOnce);
        assert_eq!(breaks(&script), [""; 0]);
    }

    #[test]
    fn a_will_that_was_taken_back() {
        let (mut script, reader, client, will) = with_will();
        let conn = script.conn(client);
        script.note(Event::Left { conn, keeps_will: false });
        script.end(client, Ending::Closed);
        assert_eq!(breaks(&script), [""; 0]);
        script.receive(reader, will, AtLeastOnce);
        assert_eq!(breaks(&script), ["wills"]);
    }

    /// An authentication may end before DISCONNECT behind it is read, or be given up with it.
    #[test]
    fn a_will_that_was_taken_back_behind_an_authentication() {
        for is_given_up in [false, true] {
            let (mut script, reader, client, will) = with_will();
            let conn = script.conn(client);
            script.note(Event::Left { conn, keeps_will: false });
            if is_given_up {
                script.history.may_refuse = true;
                script.note(Event::Dismissed { conn, reason: ReasonCode::ServerBusy });
            }
            script.end(client, Ending::Closed);
            assert_eq!(breaks(&script) == ["wills"], is_given_up);
            script.receive(reader, will, AtLeastOnce);
            assert_eq!(breaks(&script) == ["wills"], !is_given_up);
        }
    }

    #[test]
    fn a_will_that_was_taken_back_on_a_log_that_has_failed() {
        let (mut script, reader, client, will) = with_will();
        let conn = script.conn(client);
        script.note(Event::Left { conn, keeps_will: false });
        script.note(Event::ReadOnly);
        script.end(client, Ending::Closed);
        script.receive(reader, will, AtLeastOnce);
        assert_eq!(breaks(&script), [""; 0]);
    }
}
