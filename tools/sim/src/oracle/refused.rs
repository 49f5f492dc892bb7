//! Nothing that was refused is delivered: a refusal is honest, and comes before hand-over.

use super::{Broken, Promise, Subject, has};
use crate::ledger::Ledger;

pub(super) const PROMISE: Promise =
    Promise { name: "refused", says: "a message that was refused reaches nobody", check };

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for id in ledger.ids() {
        let facts = ledger.facts(id);
        // Sent again, it may have been taken the first time.
        if facts.refused.is_none() || facts.sent != facts.sent_last {
            continue;
        }
        for session in ledger.sessions.iter().filter(|session| has(session, id)) {
            let what = format!("{} got {id:?}", ledger.name(session.client));
            let about = [Subject::Message(id), Subject::Client(session.client)];
            broken.push(Broken::new(PROMISE, what, &about));
        }
    }
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::AtLeastOnce;

    use crate::history::Event;
    use crate::ledger::script::{Script, breaks};

    #[test]
    fn a_refused_message_that_comes() {
        let mut script = Script::new();
        let (reader, writer) = (script.member(), script.member());
        script.subscribe(reader, "a/1", AtLeastOnce);
        script.note(Event::Space { full: true });
        let message = script.publish(writer, "a/1", AtLeastOnce);
        script.refused(writer, message);
        assert_eq!(breaks(&script), [""; 0]);
        script.receive(reader, message, AtLeastOnce);
        assert_eq!(breaks(&script), ["refused"]);
    }
}
