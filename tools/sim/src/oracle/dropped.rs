//! Where a full queue drops the newest, nobody is told that a message was taken which nobody has: a
//! client of MQTT 5 is refused instead.
//!
//! Looked at is what was owed, for certain, to a session that is there to the end, and came to
//! nobody. Allowed: MQTT 3, which has no word for it; what is retained, and so kept; what a session
//! may have taken that may have ended, or that takes it at QoS 0, by a group or from the past.

use zzq_broker::QueueFull;
use zzq_types::QoS;

use super::{Broken, Promise, Subject, can_be_refused, has, without};
use crate::history::MessageId;
use crate::ledger::{At, Ledger, SubFacts};

pub(super) const PROMISE: Promise = Promise {
    name: "dropped",
    says: "what every queue has dropped is not acknowledged to who can be refused",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    if ledger.history.queue_full != QueueFull::DropNewest {
        return;
    }
    for id in ledger.ids() {
        let facts = ledger.facts(id);
        let (Some(sent), Some(acked)) = (facts.sent, facts.acked) else { continue };
        if ledger.message(id).retain || !can_be_refused(ledger, id) {
            continue;
        }
        let Some(session) = without(ledger, id).next() else { continue };
        let came = ledger.sessions.iter().any(|session| has(session, id));
        if !came && !may_be_elsewhere(ledger, id, sent, acked) {
            let publisher = ledger.name(ledger.message(id).client);
            let what = format!(
                "{publisher} was told that {id:?} was taken, and it came to nobody: not to {}",
                ledger.name(session.client)
            );
            let about = [Subject::Message(id), Subject::Client(session.client)];
            broken.push(Broken::new(PROMISE, what, &about));
        }
    }
}

/// Whether somebody may have taken it of whom nobody can say that he would have got it.
fn may_be_elsewhere(ledger: &Ledger<'_>, id: MessageId, sent: At, acked: At) -> bool {
    let message = ledger.message(id);
    let is_certain =
        |sub: &SubFacts| sub.group().is_none() && sub.qos_of(message.qos) != QoS::AtMostOnce;
    let lasting: Vec<usize> = ledger.lasting().map(|(at, _)| at).collect();
    ledger.sessions.iter().enumerate().any(|(at, session)| {
        let taken = session.subs.iter().filter(|sub| sub.matches(&message.topic));
        let mut taken = taken.filter(|sub| sub.may_hold(sent, acked));
        taken.any(|sub| !is_certain(sub) || !lasting.contains(&at))
    })
}

#[cfg(test)]
mod tests {
    use zzq_types::ProtocolVersion;
    use zzq_types::QoS::{AtLeastOnce, AtMostOnce};

    use super::*;
    use crate::history::{Event, Hello, Message};
    use crate::ledger::script::{HELLO, Script, breaks};

    /// A message that two readers are owed, of which the second is `other`, is dropped for the
    /// first, counted and acknowledged.
    fn drops(
        version: ProtocolVersion,
        policy: QueueFull,
        retain: bool,
        other: impl FnOnce(&mut Script),
    ) -> bool {
        let mut script = Script::new();
        script.history.queue_full = policy;
        let (reader, writer) = (script.member(), script.client());
        script.connect(writer, Hello { version, ..HELLO }, false);
        script.subscribe(reader, "a/#", AtLeastOnce);
        other(&mut script);
        let message = Message { retain, ..Script::message(writer, "a/1", AtLeastOnce) };
        let message = script.send(message);
        script.acked(writer, message);
        script.note(Event::Dropped { messages: 9 });
        breaks(&script).contains(&"dropped")
    }

    #[test]
    fn a_message_that_is_acknowledged_and_comes_to_nobody() {
        use ProtocolVersion::{V5, V311};
        use QueueFull::{DropNewest, DropOldest};
        assert!(drops(V5, DropNewest, false, |_| {}));
        assert!(!drops(V311, DropNewest, false, |_| {}), "it cannot be refused");
        assert!(!drops(V5, DropOldest, false, |_| {}), "it was taken first");
        assert!(!drops(V5, DropNewest, true, |_| {}), "it is retained");
    }

    #[test]
    fn one_that_somebody_may_have_is_acknowledged() {
        let drops = |other: fn(&mut Script)| {
            drops(ProtocolVersion::V5, QueueFull::DropNewest, false, other)
        };
        assert!(!drops(|script| {
            let other = script.member();
            script.subscribe(other, "a/1", AtMostOnce);
        }));
        assert!(!drops(|script| {
            let other = script.member();
            script.subscribe(other, "$share/g/a/1", AtLeastOnce);
        }));
        assert!(!drops(|script| {
            let other = script.client();
            script.guest_of(other);
            script.subscribe(other, "a/1", AtLeastOnce);
        }));
        assert!(drops(|script| {
            let other = script.member();
            script.subscribe(other, "a/1", AtLeastOnce);
        }));
    }

    #[test]
    fn one_that_somebody_has_is_acknowledged() {
        let mut script = Script::new();
        script.history.queue_full = QueueFull::DropNewest;
        let [full, reader, writer] = [(); 3].map(|()| script.member());
        script.subscribe(full, "a/#", AtLeastOnce);
        script.subscribe(reader, "a/1", AtLeastOnce);
        let message = script.publish(writer, "a/1", AtLeastOnce);
        script.acked(writer, message);
        script.note(Event::Dropped { messages: 1 });
        script.receive(reader, message, AtLeastOnce);
        assert_eq!(breaks(&script), [""; 0]);
    }
}
