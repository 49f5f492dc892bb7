//! At QoS 2 a message comes exactly once to each destination, whatever crashes; at QoS 0 at most
//! once.
//!
//! Allowed: one more for each shared group that the session may be in (MQTT5-3.3.4-3 to -5: each
//! matching subscription may be served by itself), and one for each SUBSCRIBE that may have asked
//! for the retained message (MQTT5-3.3.1-9).

use std::collections::{BTreeMap, BTreeSet};

use zzq_types::QoS;

use super::{Broken, Promise, Subject};
use crate::history::MessageId;
use crate::ledger::{Ledger, SessionFacts};

pub(super) const PROMISE: Promise = Promise {
    name: "exactly_once",
    says: "a message published at QoS 2 is new to a session that takes it at QoS 2 once",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for session in &ledger.sessions {
        let mut counts = BTreeMap::<MessageId, usize>::new();
        for (_, _, received) in &session.received {
            let Some(id) = received.message else { continue };
            let counted = received.qos == ledger.message(id).qos && received.fresh;
            if counted && received.qos != QoS::AtLeastOnce {
                *counts.entry(id).or_default() += 1;
            }
        }
        for (id, count) in counts {
            let most = allowed(ledger, session, id);
            if count > most {
                let what = format!(
                    "{id:?} at {:?} came {count} times to {}, {most} are allowed",
                    ledger.message(id).qos,
                    ledger.name(session.client)
                );
                let about = [Subject::Message(id), Subject::Client(session.client)];
                broken.push(Broken::new(PROMISE, what, &about));
            }
        }
    }
}

fn allowed(ledger: &Ledger<'_>, session: &SessionFacts, id: MessageId) -> usize {
    let message = ledger.message(id);
    let matching = || session.subs.iter().filter(|sub| sub.matches(&message.topic));
    let shared: BTreeSet<&str> =
        matching().filter(|sub| sub.group().is_some()).map(|sub| sub.filter.as_str()).collect();
    let asked = matching().filter(|sub| sub.group().is_none() && message.retain).count();
    1 + shared.len() + asked
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};

    use crate::ledger::script::{Script, breaks};

    #[test]
    fn a_message_that_comes_twice_as_new() {
        for (qos, breaks_it) in [(ExactlyOnce, true), (AtMostOnce, true), (AtLeastOnce, false)] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.subscribe(reader, "a/#", qos);
            let message = script.publish(writer, "a/1", qos);
            script.receive(reader, message, qos);
            script.crash();
            script.reconnect(reader);
            assert_eq!(breaks(&script), [""; 0]);
            script.receive(reader, message, qos);
            assert_eq!(breaks(&script) == ["exactly_once"], breaks_it, "{qos:?}");
        }
    }

    #[test]
    fn a_group_may_give_another() {
        let mut script = Script::new();
        let (reader, writer) = (script.member(), script.member());
        script.subscribe(reader, "a/#", ExactlyOnce);
        script.subscribe(reader, "$share/g/a/1", ExactlyOnce);
        let message = script.publish(writer, "a/1", ExactlyOnce);
        script.receive(reader, message, ExactlyOnce);
        script.receive(reader, message, ExactlyOnce);
        assert_eq!(breaks(&script), [""; 0]);
        script.receive(reader, message, ExactlyOnce);
        assert_eq!(breaks(&script), ["exactly_once"]);
    }
}
