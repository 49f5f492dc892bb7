//! At QoS 2 a message comes exactly once to each destination, whatever crashes; at QoS 0 at most
//! once, and so does what was published at QoS 2 to who takes it at QoS 0.
//!
//! Allowed: one more for each shared group that the session may have been in meanwhile
//! (MQTT5-3.3.4-3 to -5: each matching subscription may be served by itself), one for each
//! SUBSCRIBE that may have asked for the retained message (MQTT5-3.3.1-9), and one for each time
//! that a subscription to the past was given up and made again. What is published at QoS 1 may be
//! published twice. What the client refuses comes again until that is heard, and is not looked at.

use std::collections::{BTreeMap, BTreeSet};

use zzq_types::{QoS, RetainHandling};

use super::{Broken, Promise, Subject};
use crate::history::MessageId;
use crate::ledger::{At, Ledger, SessionFacts, SubFacts};

pub(super) const PROMISE: Promise = Promise {
    name: "exactly_once",
    says: "a message published at QoS 2 is new to a session that takes it at QoS 2 once",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for session in &ledger.sessions {
        let mut counts = BTreeMap::<MessageId, (usize, At)>::new();
        let refused = session.received.iter().filter(|(.., one)| one.refused);
        let refused: BTreeSet<_> = refused.filter_map(|(.., one)| one.message).collect();
        for (at, _, received) in &session.received {
            let Some(id) = received.message else { continue };
            let once = [ledger.message(id).qos, received.qos];
            if received.fresh && !once.contains(&QoS::AtLeastOnce) {
                let (count, last) = counts.entry(id).or_default();
                (*count, *last) = (*count + 1, *at);
            }
        }
        for (id, (count, last)) in counts {
            if refused.contains(&id) {
                continue;
            }
            let most = allowed(ledger, session, id, last);
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

fn allowed(ledger: &Ledger<'_>, session: &SessionFacts, id: MessageId, last: At) -> usize {
    let message = ledger.message(id);
    let sent = ledger.facts(id).sent.unwrap_or(0);
    // One that was acknowledged before had its fence before, too.
    let asks = |sub: &&SubFacts| {
        sub.group().is_none()
            && sub.matches(&message.topic)
            && sub.may_hold(sent, last)
            && sub.acked.is_none_or(|acked| acked > sent)
            && sub.options.retain_handling != RetainHandling::Never
    };
    let asked = if message.retain { session.subs.iter().filter(asks).count() } else { 0 };
    1 + ledger.further_ways(session, id, last) + asked
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};

    use crate::history::Message;
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

    #[test]
    fn a_group_that_was_left_gives_none() {
        let mut script = Script::new();
        let (reader, writer) = (script.member(), script.member());
        script.subscribe(reader, "a/#", ExactlyOnce);
        script.subscribe(reader, "$share/g/a/1", ExactlyOnce);
        script.unsubscribe(reader, "$share/g/a/1");
        let message = script.publish(writer, "a/1", ExactlyOnce);
        script.receive(reader, message, ExactlyOnce);
        assert_eq!(breaks(&script), [""; 0]);
        script.receive(reader, message, ExactlyOnce);
        assert_eq!(breaks(&script), ["exactly_once"]);
    }

    #[test]
    fn who_begins_with_the_past_again_gets_it_again() {
        for anew in [false, true] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.subscribe(reader, "$replay/all/#", ExactlyOnce);
            let message = script.publish(writer, "a/1", ExactlyOnce);
            script.receive(reader, message, ExactlyOnce);
            script.receive(reader, message, ExactlyOnce);
            if anew {
                script.unsubscribe(reader, "$replay/all/#");
            }
            script.subscribe(reader, "$replay/all/#", ExactlyOnce);
            script.receive(reader, message, ExactlyOnce);
            assert_eq!(breaks(&script).is_empty(), anew, "{anew}");
        }
    }

    #[test]
    fn a_subscribe_may_ask_for_what_was_retained_before_it_and_not_for_later() {
        for (early, fits) in [(true, false), (false, true)] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.subscribe(reader, "a/#", ExactlyOnce);
            if early {
                script.subscribe(reader, "a/1", ExactlyOnce);
            }
            let message = Script::message(writer, "a/1", ExactlyOnce);
            let message = script.send(Message { retain: true, ..message });
            if !early {
                script.subscribe(reader, "a/1", ExactlyOnce);
            }
            script.receive(reader, message, ExactlyOnce);
            script.receive(reader, message, ExactlyOnce);
            assert_eq!(breaks(&script).is_empty(), fits, "{early}");
        }
    }

    #[test]
    fn what_is_published_at_qos_2_comes_once_at_qos_0_too() {
        for (published, fits) in [(ExactlyOnce, false), (AtLeastOnce, true)] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.subscribe(reader, "a/1", AtMostOnce);
            let message = script.publish(writer, "a/1", published);
            script.receive(reader, message, AtMostOnce);
            assert_eq!(breaks(&script), [""; 0]);
            script.receive(reader, message, AtMostOnce);
            assert_eq!(breaks(&script).is_empty(), fits, "{published:?}");
        }
    }
}
