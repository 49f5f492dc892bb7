//! Every acknowledged QoS 1 or 2 message reaches every persistent session that matched.

use super::{Broken, Promise, miss, missed};
use crate::ledger::Ledger;

pub(super) const PROMISE: Promise = Promise {
    name: "delivered",
    says: "an acknowledged message reaches every session that lasts and had subscribed before",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for id in ledger.ids() {
        let message = ledger.message(id);
        if !message.is_probe && message.expiry_s.is_none() {
            let missed = missed(ledger, id);
            broken.extend(missed.map(|session| miss(PROMISE, ledger, id, session)));
        }
    }
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::{AtLeastOnce, AtMostOnce};
    use zzq_types::SubscribeOptions;

    use crate::ledger::script::{Script, breaks};

    #[test]
    fn a_message_that_was_acknowledged_and_never_came() {
        let mut script = Script::new();
        let (reader, writer) = (script.member(), script.member());
        script.subscribe(reader, "a/#", AtLeastOnce);
        let message = script.publish(writer, "a/1", AtLeastOnce);
        assert_eq!(breaks(&script), [""; 0], "it is unknown");
        script.acked(writer, message);
        assert_eq!(breaks(&script), ["delivered"]);
        script.receive(reader, message, AtLeastOnce);
        assert_eq!(breaks(&script), [""; 0]);
    }

    /// Its options are the old ones or the new ones: to both it is owed.
    #[test]
    fn a_filter_that_is_subscribed_to_anew_stays_subscribed_to() {
        for (anew, is_owed) in [(AtLeastOnce, true), (AtMostOnce, false)] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            script.subscribe(reader, "a/1", AtLeastOnce);
            script.ask(reader, "a/1", SubscribeOptions::with_qos(anew));
            let message = script.publish(writer, "a/1", AtLeastOnce);
            script.acked(writer, message);
            assert_eq!(breaks(&script) == ["delivered"], is_owed);
            script.unsubscribe_with(reader, "a/1", |_| {});
            let message = script.publish(writer, "a/1", AtLeastOnce);
            script.acked(writer, message);
            assert_eq!(breaks(&script) == ["delivered"], is_owed, "the first alone");
        }
    }

    #[test]
    fn nothing_is_owed_to_who_left_or_asked_for_less() {
        for case in 0..3 {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            let qos = if case == 0 { AtMostOnce } else { AtLeastOnce };
            script.subscribe(reader, "a/1", qos);
            if case == 1 {
                script.unsubscribe(reader, "a/1");
            }
            let message = script.publish(writer, "a/1", AtLeastOnce);
            script.acked(writer, message);
            if case == 2 {
                script.guest_of(reader);
            }
            assert_eq!(breaks(&script), [""; 0], "case {case}");
        }
    }
}
