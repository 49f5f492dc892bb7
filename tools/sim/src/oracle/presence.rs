//! A broker that says it has a session has it whole, and one that has it says so.
//!
//! That subscriptions and messages are there is what [`super::delivered`] and
//! [`super::subscriptions`] hold it to; here are the word itself and the identifiers of QoS 2.
//! Allowed: either word after a CONNECT that was not answered, and after a session with an expiry
//! of its own was left. MQTT 3.1 does not tell (its CONNACK has no such bit).

use std::collections::BTreeMap;

use zzq_codec::AckKind;
use zzq_types::ReasonCode;

use super::{Broken, Promise, Subject};
use crate::history::{ClientId, Event, Hello, MessageId};
use crate::ledger::Ledger;

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
}

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    let mut clients = BTreeMap::<ClientId, (Has, Option<Hello>)>::new();
    let mut released = BTreeMap::<MessageId, u32>::new();
    for entry in &ledger.history.entries {
        match &entry.event {
            Event::Dialed { client, hello, .. } => {
                let (has, unanswered) = clients.entry(*client).or_default();
                if let Some(before) = unanswered.replace(*hello) {
                    *has = perhaps_after(*has, before);
                }
            }
            Event::Accepted { conn, present } => {
                let Some(facts) = ledger.conns.get(conn) else { continue };
                let (has, unanswered) = clients.entry(facts.client).or_default();
                *unanswered = None;
                let hello = facts.hello;
                let wanted = if hello.clean { Has::No } else { *has };
                let fits = match (wanted, present) {
                    (Has::Perhaps, _) | (_, None) => true,
                    (has, Some(present)) => (has == Has::Yes) == *present,
                };
                if !fits {
                    let name = ledger.name(facts.client);
                    let what = format!("{name} was told {present:?}, its session: {wanted:?}");
                    broken.push(Broken::new(PROMISE, what, &[Subject::Client(facts.client)]));
                }
                *has = after(hello);
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
fn after(hello: Hello) -> Has {
    match hello.expiry_s {
        0 => Has::No,
        u32::MAX => Has::Yes,
        _ => Has::Perhaps,
    }
}

/// What it has when nobody knows whether this CONNECT was carried out.
fn perhaps_after(has: Has, hello: Hello) -> Has {
    if after(hello) == has { has } else { Has::Perhaps }
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::ExactlyOnce;

    use super::*;
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
