//! A broker that says it has a session has it whole, and one that has it says so: until the session
//! expires, and not for much longer.
//!
//! That subscriptions and messages are there is what [`super::delivered`] and
//! [`super::subscriptions`] hold it to; here are the word itself and the identifiers of QoS 2.
//! An expiry begins when the broker takes the connection for lost, and passes in its log time: of
//! both there are bounds, and between them either word is right. So it is after a CONNECT that was
//! not answered, and for a session that the broker says it ends for its full queue, which a crash
//! may take back. MQTT 3.1 does not tell (its CONNACK has no such bit).

use std::collections::BTreeMap;

use zzq_codec::AckKind;
use zzq_types::ReasonCode;

use super::{Broken, Promise, Subject};
use crate::history::{ClientId, Conn, Event, Hello, MessageId};
use crate::ledger::{At, ConnFacts, Ledger, SLACK_MS};

pub(super) const PROMISE: Promise = Promise {
    name: "presence",
    says: "a session is said to be present when it is, and then it is whole",
    check,
};

/// Whether a client has a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Has {
    #[default]
    No,
    Perhaps,
    Yes,
    /// As long as it outlives this connection.
    Behind(Conn),
}

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    let mut clients = BTreeMap::<ClientId, (Has, Option<Hello>)>::new();
    let mut ended = BTreeMap::<ClientId, At>::new();
    let mut released = BTreeMap::<MessageId, u32>::new();
    for (at, entry) in ledger.history.entries.iter().enumerate() {
        match &entry.event {
            Event::Dialed { client, hello, .. } => {
                let (has, unanswered) = clients.entry(*client).or_default();
                if let Some(before) = unanswered.replace(*hello) {
                    *has = perhaps_after(*has, before);
                }
            }
            Event::Died { .. } if ledger.history.in_memory => {
                for client in clients.values_mut() {
                    *client = (Has::No, None);
                }
            }
            Event::Accepted { conn, present } => {
                let Some(facts) = ledger.conns.get(conn) else { continue };
                if ledger.is_forgotten(facts.dialed, at) {
                    // On its way when the broker ended.
                    continue;
                }
                let (has, unanswered) = clients.entry(facts.client).or_default();
                *unanswered = None;
                let hello = facts.hello;
                let wanted = match *has {
                    _ if hello.clean => Has::No,
                    Has::Behind(before) => outlived(ledger, before, facts, at),
                    has => has,
                };
                let fits = match (wanted, present) {
                    (Has::Perhaps, _) | (_, None) => true,
                    (has, Some(present)) => (has == Has::Yes) == *present,
                };
                if !fits {
                    let name = ledger.name(facts.client);
                    let what = format!("{name} was told {present:?}, its session: {wanted:?}");
                    broken.push(Broken::new(PROMISE, what, &[Subject::Client(facts.client)]));
                }
                // Its end may have come behind CONNACK, which was on its way.
                let is_ended = ended.get(&facts.client).is_some_and(|ended| *ended > facts.dialed);
                *has = if is_ended { Has::Perhaps } else { after(hello, *conn) };
            }
            // Nothing of it was done.
            Event::Refused { conn, .. } => {
                if let Some(facts) = ledger.conns.get(conn) {
                    clients.entry(facts.client).or_default().1 = None;
                }
            }
            Event::EndedFull { client, .. } => {
                clients.entry(*client).or_default().0 = Has::Perhaps;
                ended.insert(*client, at);
            }
            Event::Released { message, .. } => *released.entry(*message).or_default() += 1,
            Event::Answered { message, kind: AckKind::PubComp, reason, .. } => {
                // Said once, so nobody can have released it before.
                let once = released.get(message) == Some(&1);
                if once && *reason != ReasonCode::Success {
                    let client = ledger.message(*message).client;
                    let name = ledger.name(client);
                    let what = format!("{name} released {message:?} and was told {reason:?}");
                    let about = [Subject::Message(*message), Subject::Client(client)];
                    broken.push(Broken::new(PROMISE, what, &about));
                }
            }
            _ => {}
        }
    }
}

/// What the client has when it comes back after this CONNECT was accepted.
fn after(hello: Hello, conn: Conn) -> Has {
    match hello.expiry_s {
        0 => Has::No,
        u32::MAX => Has::Yes,
        _ => Has::Behind(conn),
    }
}

/// What it has when nobody knows whether this CONNECT was carried out.
fn perhaps_after(has: Has, hello: Hello) -> Has {
    match (has, hello.expiry_s) {
        (Has::No, 0) | (Has::Yes, u32::MAX) => has,
        _ => Has::Perhaps,
    }
}

/// Whether the session of a connection with an expiry is there for the next that was accepted.
//= MQTT5-3.1.2-23
//= MQTT5-4.1.0-2
fn outlived(ledger: &Ledger<'_>, before: Conn, next: &ConnFacts, accepted: At) -> Has {
    let Some(facts) = ledger.conns.get(&before) else { return Has::Perhaps };
    let expiry_ms = u64::from(facts.hello.expiry_s) * 1000;
    let accepted_ms = ledger.ms(accepted);
    let from_ms = ledger.lost_from_ms(facts).min(accepted_ms);
    let (_, most) = ledger.time.between(from_ms, accepted_ms);
    if most + SLACK_MS < expiry_ms {
        return Has::Yes;
    }
    if ledger.is_done_before(facts, next, expiry_ms) { Has::No } else { Has::Perhaps }
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::ExactlyOnce;

    use super::*;
    use crate::history::Ending;
    use crate::ledger::script::{HELLO, Script, breaks};

    const GUEST: Hello = Hello { expiry_s: 0, ..HELLO };

    #[test]
    fn a_session_that_is_not_there_and_one_that_should_not_be() {
        for (hello, present, fits) in
            [(HELLO, true, true), (HELLO, false, false), (GUEST, false, true), (GUEST, true, false)]
        {
            let mut script = Script::new();
            let client = script.client();
            script.connect(client, hello, false);
            script.crash();
            script.connect(client, HELLO, present);
            assert_eq!(breaks(&script).is_empty(), fits, "{hello:?} {present}");
        }
    }

    /// Its session expires after so many seconds; it goes in order, or its network breaks.
    fn lodger(expiry_s: u32, how: Ending) -> (Script, ClientId) {
        let mut script = Script::new();
        let client = script.client();
        script.connect(client, Hello { expiry_s, ..HELLO }, false);
        if how == Ending::Closed {
            let conn = script.conn(client);
            script.note(Event::Left { conn, keeps_will: false });
        }
        script.end(client, how);
        (script, client)
    }

    #[test]
    fn a_session_is_there_until_it_expires_and_gone_then() {
        for (how, away_ms, may_stay, may_go) in [
            (Ending::Closed, 2000, true, false),
            (Ending::Closed, 3100, true, true),
            (Ending::Closed, 5000, false, true),
            // The broker may not know that its client has gone.
            (Ending::Broken, 2000, true, false),
            (Ending::Broken, 20_000, true, true),
            (Ending::GivenUp, 5000, true, true),
            (Ending::GivenUp, 16_000, false, true),
        ] {
            for (present, fits) in [(true, may_stay), (false, may_go)] {
                let (mut script, client) = lodger(3, how);
                script.pass(away_ms);
                script.connect(client, HELLO, present);
                assert_eq!(breaks(&script).is_empty(), fits, "{how:?} {away_ms} {present}");
            }
        }
    }

    #[test]
    fn a_session_expires_behind_a_crash_once_the_broker_has_had_time_for_it() {
        for (runs_ms, may_stay) in [(500, true), (1500, false)] {
            let (mut script, client) = lodger(3, Ending::Closed);
            script.pass(10_000);
            script.crash();
            script.pass(runs_ms);
            script.connect(client, HELLO, true);
            assert_eq!(breaks(&script).is_empty(), may_stay, "{runs_ms}");
        }
    }

    #[test]
    fn a_session_does_not_expire_on_a_log_that_takes_nothing_more() {
        for has_failed in [false, true] {
            let (mut script, client) = lodger(3, Ending::Closed);
            script.pass(1000);
            if has_failed {
                script.note(Event::ReadOnly);
            }
            script.pass(5000);
            script.connect(client, HELLO, true);
            assert_eq!(breaks(&script).is_empty(), has_failed);
        }
    }

    /// That its client has gone is in the log when that has space.
    #[test]
    fn a_session_begins_to_expire_when_the_disk_has_space() {
        for (full_ms, may_stay) in [(12_000, true), (0, false)] {
            let (mut script, client) = lodger(3, Ending::GivenUp);
            script.note(Event::Space { full: full_ms > 0 });
            script.pass(full_ms);
            script.note(Event::Space { full: false });
            script.pass(14_000 - full_ms);
            script.connect(client, HELLO, true);
            assert_eq!(breaks(&script).is_empty(), may_stay, "{full_ms}");
        }
    }

    /// A client that waits for room is not read, and may be gone for long.
    #[test]
    fn a_session_of_who_may_have_waited_for_room_does_not_expire_for_certain() {
        for lacks_input in [true, false] {
            let (mut script, client) = lodger(3, Ending::GivenUp);
            script.history.lacks_input = lacks_input;
            script.pass(16_000);
            script.connect(client, HELLO, true);
            assert_eq!(breaks(&script).is_empty(), lacks_input);
        }
    }

    #[test]
    fn after_a_connect_that_was_not_answered_both_are_possible() {
        for present in [false, true] {
            let mut script = Script::new();
            let client = script.client();
            script.dial(client, HELLO);
            script.crash();
            script.connect(client, HELLO, present);
            assert_eq!(breaks(&script), [""; 0]);
        }
    }

    #[test]
    fn a_connect_that_is_refused_changes_nothing() {
        for (is_refused, present, fits) in
            [(true, true, true), (true, false, false), (false, false, true)]
        {
            let mut script = Script::new();
            script.history.may_not_answer = true;
            let client = script.member();
            let conn = script.dial(client, GUEST);
            if is_refused {
                script.note(Event::Refused { conn, reason: ReasonCode::ServerUnavailable });
            }
            script.connect(client, HELLO, present);
            assert_eq!(breaks(&script).is_empty(), fits, "{is_refused} {present}");
        }
    }

    #[test]
    fn one_that_is_ended_while_connack_is_on_its_way() {
        for present in [false, true] {
            let mut script = Script::new();
            let client = script.member();
            let conn = script.dial(client, HELLO);
            script.note(Event::EndedFull { client, certain: false });
            script.note(Event::Accepted { conn, present: Some(true) });
            script.connect(client, HELLO, present);
            script.connect(client, HELLO, true);
            assert_eq!(breaks(&script), [""; 0], "{present}");
        }
    }

    #[test]
    fn one_whose_end_had_begun_when_the_broker_was_killed() {
        for (has_begun, present, fits) in
            [(true, true, true), (true, false, true), (false, true, true), (false, false, false)]
        {
            let mut script = Script::new();
            let client = script.member();
            if has_begun {
                script.note(Event::EndedFull { client, certain: false });
            }
            script.crash();
            script.connect(client, HELLO, present);
            assert_eq!(breaks(&script).is_empty(), fits, "{has_begun} {present}");
        }
    }

    #[test]
    fn without_a_log_no_session_outlives_the_broker() {
        for present in [false, true] {
            let mut script = Script::new();
            script.history.in_memory = true;
            let client = script.member();
            script.crash();
            script.connect(client, HELLO, present);
            assert_eq!(breaks(&script).is_empty(), !present);
        }
    }

    #[test]
    fn an_identifier_that_the_broker_forgot() {
        let mut script = Script::new();
        let client = script.member();
        let message = script.publish(client, "a/1", ExactlyOnce);
        let conn = script.conn(client);
        script.note(Event::Released { conn, message, again: false });
        script.completed(client, message, ReasonCode::PacketIdentifierNotFound);
        assert_eq!(breaks(&script), ["presence"]);
    }
}
