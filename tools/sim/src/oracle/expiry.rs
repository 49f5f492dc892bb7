//! Nothing that has expired is delivered, nothing expires early, and what is left is told.
//!
//! Time is the broker's log time, of which only bounds are known. Allowed: a delivery that had
//! begun before goes on (MQTT5-3.3.2-5 speaks of its start): repeats, and connections whose output
//! has waited for its receiver.

use super::{Broken, Promise, Subject, miss, missed};
use crate::history::{MessageId, Received};
use crate::ledger::{Ledger, SessionFacts};

pub(super) const PROMISE: Promise = Promise {
    name: "expiry",
    says: "no delivery begins after a message has expired, and none is missing before",
    check,
};

/// From the decision to deliver to the bytes that leave.
const SLACK_MS: u64 = 1500;

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for id in ledger.ids().filter(|id| ledger.message(*id).expiry_s.is_some()) {
        broken.extend(missed(ledger, id).map(|session| miss(PROMISE, ledger, id, session)));
    }
    for session in &ledger.sessions {
        for (_, conn, received) in &session.received {
            let Some(id) = received.message else { continue };
            let v5 = ledger.conns.get(conn).is_some_and(|facts| facts.hello.version.is_v5());
            let why = is_late(ledger, id, received)
                .or_else(|| tells_wrong(ledger, id, received).filter(|_| v5));
            if let Some(why) = why {
                broken.push(tell(ledger, session, id, &why));
            }
        }
    }
}

fn tell(ledger: &Ledger<'_>, session: &SessionFacts, id: MessageId, why: &str) -> Broken {
    let what = format!("{} got {id:?}, {why}", ledger.name(session.client));
    Broken::new(PROMISE, what, &[Subject::Message(id), Subject::Client(session.client)])
}

fn is_late(ledger: &Ledger<'_>, id: MessageId, received: &Received) -> Option<String> {
    let expiry_ms = u64::from(ledger.message(id).expiry_s?) * 1000;
    let taken = ledger.ms(ledger.facts(id).acked?);
    if received.dup || received.stalled || received.written_ms < taken {
        return None;
    }
    let (least, _) = ledger.time.between(taken, received.written_ms);
    let late = least > expiry_ms + SLACK_MS;
    late.then(|| format!("{least} ms old, which expires after {expiry_ms}"))
}

//= MQTT5-3.3.2-6
fn tells_wrong(ledger: &Ledger<'_>, id: MessageId, received: &Received) -> Option<String> {
    let expiry_s = ledger.message(id).expiry_s?;
    let Some(told) = received.expiry_s else { return Some("which does not say that".into()) };
    let sent = ledger.ms(ledger.facts(id).sent?);
    let (_, most) = ledger.time.between(sent, received.written_ms.max(sent));
    let least = ledger.facts(id).acked.map(|acked| ledger.ms(acked));
    let least = least.filter(|acked| *acked <= received.written_ms && !received.stalled);
    let least = least.map_or(0, |acked| ledger.time.between(acked, received.written_ms).0);
    let lowest = u64::from(expiry_s).saturating_sub(most.div_ceil(1000) + 1);
    let highest = u64::from(expiry_s).saturating_sub(least.saturating_sub(SLACK_MS) / 1000);
    let fits = (lowest..=highest).contains(&u64::from(told));
    (!fits).then(|| format!("told {told} s of {expiry_s}, {lowest} to {highest} are possible"))
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::AtLeastOnce;

    use super::*;
    use crate::history::Message;
    use crate::ledger::script::{Script, breaks};

    fn expires(expiry_s: u32) -> (Script, crate::history::ClientId, MessageId) {
        let mut script = Script::new();
        let (reader, writer) = (script.member(), script.member());
        script.subscribe(reader, "a/1", AtLeastOnce);
        let message = Script::message(writer, "a/1", AtLeastOnce);
        let message = script.send(Message { expiry_s: Some(expiry_s), ..message });
        script.acked(writer, message);
        (script, reader, message)
    }

    #[test]
    fn a_message_that_comes_too_late() {
        for (wait_ms, left, fits) in [(3000, 2, true), (20_000, 0, false)] {
            let (mut script, reader, message) = expires(5);
            script.pass(wait_ms);
            let received = script.received(message, AtLeastOnce);
            script.take(reader, Received { expiry_s: Some(left), ..received });
            assert_eq!(breaks(&script).is_empty(), fits, "{wait_ms}");
        }
    }

    #[test]
    fn a_message_that_expires_early() {
        for (wait_ms, fits) in [(1000, false), (6000, true)] {
            let (mut script, reader, _) = expires(5);
            script.pass(wait_ms);
            script.reconnect(reader);
            assert_eq!(breaks(&script).is_empty(), fits, "{wait_ms}");
        }
    }

    #[test]
    fn a_message_that_tells_another_time() {
        for (told, fits) in [(58, true), (60, false), (30, false)] {
            let (mut script, reader, message) = expires(60);
            script.pass(4000);
            let received = script.received(message, AtLeastOnce);
            script.take(reader, Received { expiry_s: Some(told), ..received });
            assert_eq!(breaks(&script).is_empty(), fits, "{told}");
        }
    }
}
