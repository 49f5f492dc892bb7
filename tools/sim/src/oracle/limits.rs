//! What a full queue costs is what its policy says, and it is counted.
//!
//! Messages that were acknowledged are missing only where the policy drops some, and no more of
//! them than the broker has counted. A session is ended for its full queue only where the policy
//! says so; where publishers are refused for it, only one that was away for its grace.
//! Allowed: more that is counted than is missing, for much of it nobody can be sure to be owed.

use zzq_broker::QueueFull;

use super::{Broken, Promise, Subject, without};
use crate::history::{ClientId, Event};
use crate::ledger::{At, Ledger};

pub(super) const PROMISE: Promise = Promise {
    name: "limits",
    says: "a full queue loses, or ends its session, as its policy says, and that is counted",
    check,
};

/// From what a client hears of its connection to what the broker thinks of it.
const SLACK_MS: u64 = 50;

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    if ledger.history.drops() {
        let missing: Vec<_> = ledger
            .ids()
            .flat_map(|id| without(ledger, id).map(move |session| (id, session.client)))
            .collect();
        if missing.len() as u64 > ledger.dropped {
            let (count, counted) = (missing.len(), ledger.dropped);
            let what = format!("{count} messages are missing, {counted} were counted as dropped");
            let about = missing.iter().take(3);
            let about =
                about.flat_map(|(id, client)| [Subject::Message(*id), Subject::Client(*client)]);
            broken.push(Broken::new(PROMISE, what, &about.collect::<Vec<_>>()));
        }
    } else if ledger.dropped > 0 {
        let what = format!("{} messages were dropped, against the policy", ledger.dropped);
        broken.push(Broken::new(PROMISE, what, &[]));
    }
    for (at, entry) in ledger.history.entries.iter().enumerate() {
        let Event::EndedFull { client, certain: true } = entry.event else { continue };
        let why = match ledger.history.queue_full {
            QueueFull::EndSession => None,
            QueueFull::DropOldest | QueueFull::DropNewest => Some("against the policy".into()),
            QueueFull::Refuse => too_early(ledger, client, at),
        };
        if let Some(why) = why {
            let what = format!("the session of {} was ended, {why}", ledger.name(client));
            broken.push(Broken::new(PROMISE, what, &[Subject::Client(client)]));
        }
    }
}

/// Whether a client was there, for certain, less than the grace ago.
fn too_early(ledger: &Ledger<'_>, client: ClientId, at: At) -> Option<String> {
    let accepted = ledger.conns.values().filter(|conn| {
        conn.client == client && conn.accepted.is_some_and(|(accepted, _)| accepted < at)
    });
    // The broker took its CONNECT behind that.
    let accepted = accepted.map(|conn| ledger.ms(conn.dialed));
    let sessions = ledger.sessions.iter().filter(|session| session.client == client);
    let received = sessions.flat_map(|session| &session.received);
    let received = received.filter(|(place, ..)| *place < at).map(|(.., one)| one.written_ms);
    let seen_ms = accepted.chain(received).max()?;
    let (_, most) = ledger.time.between(seen_ms, ledger.ms(at));
    let early = most + SLACK_MS < ledger.history.queue_grace_ms;
    early.then(|| format!("{most} ms at most after it was there"))
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::AtLeastOnce;

    use super::*;
    use crate::ledger::script::{Script, breaks};

    #[test]
    fn a_message_that_is_missing_and_was_not_counted() {
        for (counted, broken) in [(0, vec!["limits"]), (1, vec![]), (9, vec![])] {
            let mut script = Script::new();
            script.history.queue_full = QueueFull::DropOldest;
            let (reader, writer) = (script.member(), script.member());
            script.subscribe(reader, "a/#", AtLeastOnce);
            let message = script.publish(writer, "a/1", AtLeastOnce);
            script.acked(writer, message);
            script.note(Event::Dropped { messages: counted });
            assert_eq!(breaks(&script), broken, "{counted}");
        }
    }

    #[test]
    fn a_message_that_was_dropped_against_the_policy() {
        for policy in [QueueFull::Refuse, QueueFull::EndSession] {
            let mut script = Script::new();
            script.history.queue_full = policy;
            script.note(Event::Dropped { messages: 1 });
            assert_eq!(breaks(&script), ["limits"]);
        }
    }

    #[test]
    fn a_session_that_was_ended_too_early() {
        for (policy, waits_ms, fits) in [
            (QueueFull::Refuse, 1000, false),
            (QueueFull::Refuse, 6000, true),
            (QueueFull::EndSession, 0, true),
            (QueueFull::DropNewest, 6000, false),
        ] {
            let mut script = Script::new();
            (script.history.queue_full, script.history.queue_grace_ms) = (policy, 5000);
            let client = script.member();
            script.pass(waits_ms);
            script.note(Event::EndedFull { client, certain: true });
            assert_eq!(breaks(&script).is_empty(), fits, "{policy:?} {waits_ms}");
        }
    }

    #[test]
    fn nothing_is_owed_to_a_session_that_was_ended() {
        let mut script = Script::new();
        script.history.queue_full = QueueFull::EndSession;
        let (reader, writer) = (script.member(), script.member());
        script.subscribe(reader, "a/#", AtLeastOnce);
        let message = script.publish(writer, "a/1", AtLeastOnce);
        script.acked(writer, message);
        assert_eq!(breaks(&script), ["delivered"]);
        script.note(Event::EndedFull { client: reader, certain: true });
        assert_eq!(breaks(&script), [""; 0]);
    }
}
