//! A subscription survives its SUBACK, an unsubscription its UNSUBACK, and nothing comes that was
//! not asked for.
//!
//! No more is granted than was asked for, and nothing comes at a higher QoS than that
//! (MQTT5-3.8.4-8, MQTT311-3.8.4-6).
//! Allowed: what was published before UNSUBACK may still come (MQTT5-3.10.4-4, MQTT311-3.10.4-3),
//! and so may what a subscription gave that was not acknowledged.

use super::{Broken, Promise, Subject, miss, missed};
use crate::history::Received;
use crate::ledger::{At, Ledger, SessionFacts};

pub(super) const PROMISE: Promise = Promise {
    name: "subscriptions",
    says: "what was subscribed is served to the end, and what was not, or not any more, is not",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for id in ledger.ids().filter(|id| ledger.message(*id).is_probe) {
        broken.extend(missed(ledger, id).map(|session| miss(PROMISE, ledger, id, session)));
    }
    for session in &ledger.sessions {
        for sub in &session.subs {
            if sub.granted.is_some_and(|granted| granted > sub.options.qos) {
                let name = ledger.name(session.client);
                let (asked, granted) = (sub.options.qos, sub.granted);
                let what =
                    format!("{name} was granted {granted:?} for {}, asked {asked:?}", sub.filter);
                broken.push(Broken::new(PROMISE, what, &[Subject::Client(session.client)]));
            }
        }
        for (at, _, received) in &session.received {
            if let Err(why) = is_asked_for(ledger, session, *at, received) {
                let name = ledger.name(session.client);
                let what = format!("{name} got {:?}, {why}", received.message);
                let message = received.message.map(Subject::Message);
                let about: Vec<_> =
                    message.into_iter().chain([Subject::Client(session.client)]).collect();
                broken.push(Broken::new(PROMISE, what, &about));
            }
        }
    }
}

fn is_asked_for(
    ledger: &Ledger<'_>,
    session: &SessionFacts,
    at: At,
    received: &Received,
) -> Result<(), &'static str> {
    let Some(id) = received.message else { return Ok(()) };
    let message = ledger.message(id);
    if message.topic != received.topic {
        return Err("under another topic");
    }
    if received.qos > message.qos {
        return Err("at a higher QoS than it was published at");
    }
    let Some(sent) = ledger.facts(id).sent else { return Err("which was not sent yet") };
    let mut held =
        session.subs.iter().filter(|sub| sub.matches(&message.topic) && sub.may_hold(sent, at));
    if held.clone().next().is_none() {
        return Err("to which no subscription was there when it was sent, or later");
    }
    //= MQTT5-3.8.4-8
    if held.clone().all(|sub| sub.options.qos < received.qos) {
        return Err("at a higher QoS than it was subscribed to");
    }
    let own = message.client == session.client && !message.is_will && !received.retain;
    if own && held.all(|sub| sub.options.no_local) {
        return Err("which is its own, and it wants none of those");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::{AtLeastOnce, ExactlyOnce};
    use zzq_types::{ReasonCode, SubscribeOptions};

    use crate::history::Message;
    use crate::ledger::script::{Script, breaks};

    #[test]
    fn a_subscription_that_is_lost() {
        let mut script = Script::new();
        let (reader, writer) = (script.member(), script.member());
        script.subscribe(reader, "a/1", AtLeastOnce);
        script.crash();
        script.reconnect(reader);
        script.reconnect(writer);
        let message = Script::message(writer, "a/1", AtLeastOnce);
        let probe = script.send(Message { is_probe: true, ..message });
        script.acked(writer, probe);
        assert_eq!(breaks(&script), ["subscriptions"]);
    }

    #[test]
    fn a_subscription_that_comes_back() {
        let mut script = Script::new();
        let (reader, writer) = (script.member(), script.member());
        script.subscribe(reader, "a/1", AtLeastOnce);
        let before = script.publish(writer, "a/1", AtLeastOnce);
        script.unsubscribe(reader, "a/1");
        let after = script.publish(writer, "a/1", AtLeastOnce);
        script.receive(reader, before, AtLeastOnce);
        assert_eq!(breaks(&script), [""; 0]);
        script.receive(reader, after, AtLeastOnce);
        assert_eq!(breaks(&script), ["subscriptions"]);
    }

    #[test]
    fn a_grant_above_what_was_asked_for() {
        for (reason, fits) in [
            (ReasonCode::Success, true),
            (ReasonCode::GrantedQoS1, true),
            (ReasonCode::GrantedQoS2, false),
        ] {
            let mut script = Script::new();
            let reader = script.member();
            let asked = script.ask(reader, "a/1", SubscribeOptions::with_qos(AtLeastOnce));
            script.sub_acked(reader, asked, "a/1", reason);
            assert_eq!(breaks(&script).is_empty(), fits, "{reason:?}");
        }
    }

    #[test]
    fn grants_of_one_filter_may_come_in_any_order() {
        let mut script = Script::new();
        let reader = script.member();
        let asked = [AtLeastOnce, ExactlyOnce]
            .map(|qos| script.ask(reader, "a/1", SubscribeOptions::with_qos(qos)));
        script.sub_acked(reader, asked[1], "a/1", ReasonCode::GrantedQoS2);
        script.sub_acked(reader, asked[0], "a/1", ReasonCode::GrantedQoS1);
        assert_eq!(breaks(&script), [""; 0]);
    }

    #[test]
    fn a_delivery_above_what_was_asked_for() {
        for (qos, fits) in [(AtLeastOnce, true), (ExactlyOnce, false)] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.subscribe(reader, "a/1", AtLeastOnce);
            let message = script.publish(writer, "a/1", ExactlyOnce);
            script.receive(reader, message, qos);
            assert_eq!(breaks(&script).is_empty(), fits, "{qos:?}");
        }
    }

    #[test]
    fn own_messages_that_were_not_wanted() {
        let mut script = Script::new();
        let client = script.member();
        let options =
            SubscribeOptions { no_local: true, ..SubscribeOptions::with_qos(AtLeastOnce) };
        script.ask(client, "a/1", options);
        script.granted(client, "a/1");
        let message = script.publish(client, "a/1", AtLeastOnce);
        script.receive(client, message, AtLeastOnce);
        assert_eq!(breaks(&script), ["subscriptions"]);
    }
}
