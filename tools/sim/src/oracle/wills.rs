//! A will is published once: when its client is lost, not before, and not if the client left in
//! order.
//!
//! A client that was sent DISCONNECT by the broker has not left in order, whatever it said: who
//! ends a connection reads no more of it. So an authentication that takes too long takes a
//! DISCONNECT behind it along, and the will is owed. Clients of MQTT 3 are not told, and others may
//! not hear it where the broker's last words had no room: what they said last may not have been
//! read either, if the broker may have had a reason to end the connection by itself.
//!
//! Allowed: a will of a connection with a short keep alive may come at any time, since the network
//! may have been slow; one that was taken back on a log that has failed, for who reads that log at
//! the next start finds the will alone; and one of a connection that the broker may have ended by
//! itself comes before its client hears of that. No will is asked for where full queues may lose
//! messages.

mod delayed;

use super::{Broken, Promise, Subject, has, is_subscribed};
use crate::history::{Ending, MessageId};
use crate::ledger::{At, ConnFacts, Ledger, STOP_MS, SessionFacts};

pub(super) const PROMISE: Promise = Promise {
    name: "wills",
    says: "a will is published once, if its client is lost and not before",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for facts in ledger.conns.values() {
        let (Some((will, delay_s)), Some((accepted, _))) = (facts.hello.will, facts.accepted)
        else {
            continue;
        };
        let mut tell = |what: &str, session: &SessionFacts| {
            let what = format!("{what} to {}: {will:?}", ledger.name(session.client));
            let about = [
                Subject::Message(will),
                Subject::Client(facts.client),
                Subject::Client(session.client),
            ];
            broken.push(Broken::new(PROMISE, what, &about));
        };
        let was_taken_back = was_taken_back(ledger, facts);
        let lost_from_ms = ledger.lost_from_ms(facts);
        for session in &ledger.sessions {
            let count = copies(ledger, session, will);
            if count > 1 {
                tell(&format!("a will came {count} times"), session);
            }
            let Some(at) = first(session, will) else { continue };
            if was_taken_back {
                tell("a will came of a client that had left in order", session);
            }
            if accepted < at && ledger.ms(at) < lost_from_ms {
                tell("a will came of a client that is connected", session);
            }
        }
        // Whichever comes first: the session ends with its connection, or so much later.
        let delay_s = delay_s.min(facts.hello.expiry_s);
        if delay_s > 0 {
            delayed::check(ledger, facts, will, delay_s, &mut tell);
        } else if is_lost(facts) {
            miss(ledger, facts, will, &mut tell);
        }
    }
}

/// Tells of those who are owed a will that was published, and do not have it.
fn miss(
    ledger: &Ledger<'_>,
    facts: &ConnFacts,
    will: MessageId,
    tell: &mut impl FnMut(&str, &SessionFacts),
) {
    if ledger.cut_short || ledger.history.drops() {
        return;
    }
    let (message, span) = (ledger.message(will), (facts.dialed, ledger.end()));
    for (_, session) in ledger.lasting() {
        if is_subscribed(session, message, span) && !has(session, will) {
            tell("a will never came", session);
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

/// When it left so that there is no will, if that was read or may have been.
fn left_in_order(facts: &ConnFacts) -> Option<At> {
    let (left, keeps_will) = facts.left?;
    (!keeps_will && facts.dismissed.is_none()).then_some(left)
}

/// It is over, and its client has not left so that there is no will.
fn is_lost(facts: &ConnFacts) -> bool {
    let is_over = facts.ended.is_some() || facts.died.is_some();
    is_over && left_in_order(facts).is_none()
}

fn was_taken_back(ledger: &Ledger<'_>, facts: &ConnFacts) -> bool {
    let (Some(left), Some((ended, Ending::Closed))) = (left_in_order(facts), facts.ended) else {
        return false;
    };
    // Another end of it that nobody was told of comes before DISCONNECT is read.
    let is_told = facts.hello.version.is_v5() && !facts.stalled;
    let in_doubt = facts.cut.is_some_and(|cut| cut < ended)
        || facts.died.is_some_and(|died| died < ended)
        || facts.unlogged.is_some()
        || facts.is_hasty()
        || !is_told && ledger.may_be_dismissed(facts);
    let stops = ledger.deaths.iter().any(|death| {
        let at = ledger.ms(*death);
        *death > left && at < ledger.ms(ended) + STOP_MS
    });
    !in_doubt && !stops
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::AtLeastOnce;
    use zzq_types::{ProtocolVersion, ReasonCode};

    use super::*;
    use crate::history::{ClientId, Event, Hello};
    use crate::ledger::script::{HELLO, Script, breaks};

    fn with_will() -> (Script, ClientId, ClientId, MessageId) {
        Script::with_will(0, HELLO)
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
            let (client, will) = script.client_with_will(0, HELLO);
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

    /// DISCONNECT of a client waits, and the broker ends the connection for another reason: MQTT 3
    /// has no word for that, and a word that has no room is lost with the connection.
    #[test]
    fn a_will_that_was_taken_back_by_a_disconnect_that_may_not_have_been_read() {
        const V311: Hello = Hello { version: ProtocolVersion::V311, ..HELLO };
        for (hello, is_stalled, may_be_unread) in
            [(V311, false, true), (HELLO, true, true), (HELLO, false, false)]
        {
            for has_ended in [false, true] {
                let (mut script, reader, client, will) = Script::with_will(0, hello);
                let conn = script.conn(client);
                script.note(Event::Left { conn, keeps_will: false });
                if has_ended {
                    script.note(Event::EndedFull { client, certain: true });
                }
                if is_stalled {
                    script.note(Event::Stalled { conn });
                }
                script.end(client, Ending::Closed);
                script.receive(reader, will, AtLeastOnce);
                let fits = has_ended && may_be_unread;
                assert_eq!(breaks(&script).is_empty(), fits, "{hello:?} {is_stalled} {has_ended}");
            }
        }
    }

    /// A connection that waits for itself in a circle is held twice before it is ended.
    #[test]
    fn a_will_that_was_taken_back_by_a_disconnect_behind_publishes_that_were_held() {
        for (may_refuse, lived_ms, fits) in
            [(true, 10_000, true), (true, 9000, false), (false, 10_000, false)]
        {
            let hello = Hello { version: ProtocolVersion::V311, ..HELLO };
            let (mut script, reader, client, will) = Script::with_will(0, hello);
            (script.history.may_refuse, script.history.max_hold_ms) = (may_refuse, 5000);
            script.pass(lived_ms);
            let conn = script.conn(client);
            script.note(Event::Left { conn, keeps_will: false });
            script.end(client, Ending::Closed);
            script.receive(reader, will, AtLeastOnce);
            assert_eq!(breaks(&script).is_empty(), fits, "{may_refuse} {lived_ms}");
        }
    }

    /// The broker has ended the connection, and its client hears of that later than others have the
    /// will; or it was said otherwise that the client is gone, and it never hears of it.
    #[test]
    fn a_will_that_comes_before_its_client_hears_why() {
        let unreadable = ReasonCode::UnspecifiedError;
        for (reason, disk_may_fail, heard_ms, fits) in [
            (Some(unreadable), true, 3000, true),
            (None, true, 3000, true),
            (None, true, 13_000, false),
            (None, false, 3000, false),
        ] {
            let (mut script, reader, client, will) = with_will();
            script.history.disk_may_fail = disk_may_fail;
            script.receive(reader, will, AtLeastOnce);
            script.pass(heard_ms);
            let conn = script.conn(client);
            let how = match reason {
                Some(reason) => {
                    script.note(Event::Dismissed { conn, reason });
                    Ending::Closed
                }
                None => Ending::GivenUp,
            };
            script.end(client, how);
            assert_eq!(breaks(&script).is_empty(), fits, "{reason:?} {disk_may_fail} {heard_ms}");
        }
    }
}
