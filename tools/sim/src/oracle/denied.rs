//! What an authoriser denies is not done, and nobody is told that it was: MQTT 5 has words for it.
//! MQTT 3 has none for a publish, which may be acknowledged all the same (MQTT311-3.3.5-2).

use zzq_codec::AckKind;

use super::{Broken, Promise, Subject};
use crate::guard::{DENIED_FILTER, denies_all, denies_publish};
use crate::history::Event;
use crate::ledger::Ledger;

pub(super) const PROMISE: Promise = Promise {
    name: "denied",
    says: "what is denied reaches nobody, and nobody is told that it was done",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for entry in &ledger.history.entries {
        match &entry.event {
            Event::Received { conn, received } if denies_all(&received.topic) => {
                let client = ledger.conns.get(conn).map(|facts| facts.client);
                let what = format!("a client got {:?} in {}", received.message, received.topic);
                let about: Vec<_> = client.map(Subject::Client).into_iter().collect();
                broken.push(Broken::new(PROMISE, what, &about));
            }
            Event::Answered { conn, message, kind: AckKind::PubAck | AckKind::PubRec, reason }
                if denies_publish(&ledger.message(*message).topic) && !reason.is_failure() =>
            {
                let v5 = ledger.conns.get(conn).is_some_and(|facts| facts.hello.version.is_v5());
                if v5 {
                    let what = format!("{message:?}, which is denied, was acknowledged");
                    broken.push(Broken::new(PROMISE, what, &[Subject::Message(*message)]));
                }
            }
            Event::SubAcked { conn, filter, reason, .. }
                if filter == DENIED_FILTER && !reason.is_failure() =>
            {
                let client = ledger.conns.get(conn).map(|facts| facts.client);
                let what = format!("{filter}, which is denied, was granted");
                let about: Vec<_> = client.map(Subject::Client).into_iter().collect();
                broken.push(Broken::new(PROMISE, what, &about));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::AtLeastOnce;

    use crate::guard::{DENIED_FILTER, FORBIDDEN, HIDDEN};
    use crate::ledger::script::{Script, breaks};

    #[test]
    fn denied_messages_that_come() {
        for topic in [FORBIDDEN, HIDDEN] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.subscribe(reader, "#", AtLeastOnce);
            let message = script.publish(writer, topic, AtLeastOnce);
            assert_eq!(breaks(&script), [""; 0]);
            script.receive(reader, message, AtLeastOnce);
            assert_eq!(breaks(&script), ["denied"]);
        }
    }

    #[test]
    fn denied_messages_that_are_acknowledged() {
        for (topic, is) in [(FORBIDDEN, true), (HIDDEN, false)] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.subscribe(reader, "#", AtLeastOnce);
            let message = script.publish(writer, topic, AtLeastOnce);
            script.acked(writer, message);
            assert_eq!(breaks(&script) == ["denied"], is, "{topic}");
        }
    }

    #[test]
    fn a_denied_filter_that_is_granted() {
        let mut script = Script::new();
        let reader = script.member();
        script.subscribe(reader, DENIED_FILTER, AtLeastOnce);
        assert_eq!(breaks(&script), ["denied"]);
    }
}
