//! A shared group with a member that lasts loses nothing that was acknowledged.
//!
//! Allowed: at QoS 2 a message that a member may have been sent ends with that member's session
//! (MQTT5-4.8.2-5), and with `--log needed` so does what is picked for a session that ends with its
//! connection (a known gap of `doc/architecture.md`). A member at QoS 0 takes messages at QoS 0
//! (MQTT5-4.8.2-3), which may be lost. Where full queues may lose messages nobody is asked. Of the
//! past a reader that has not come as far gets nothing that the log let go behind its publisher.

use zzq_types::QoS;

use super::{Broken, Promise, Subject, has};
use crate::history::{Event, MessageId};
use crate::ledger::{At, Ledger, SessionFacts};

pub(super) const PROMISE: Promise = Promise {
    name: "groups",
    says: "an acknowledged message reaches some member of each group that has one which lasts",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    let groups: std::collections::BTreeSet<&str> = ledger
        .sessions
        .iter()
        .flat_map(|session| &session.subs)
        .filter(|sub| sub.group().is_some())
        .map(|sub| sub.filter.as_str())
        .collect();
    let all = !ledger.cut_short && !ledger.history.drops();
    for group in groups.into_iter().filter(|_| all) {
        for id in ledger.ids().filter(|id| is_owed(ledger, *id, group)) {
            let members = ledger.sessions.iter().filter(|session| is_member(session, group));
            if !members.clone().any(|member| has(member, id)) {
                let about = members.map(|member| Subject::Client(member.client));
                let about: Vec<_> = std::iter::once(Subject::Message(id)).chain(about).collect();
                let what = format!("nobody of {group} ever got {id:?}, which was acknowledged");
                broken.push(Broken::new(PROMISE, what, &about));
            }
        }
    }
}

fn is_member(session: &SessionFacts, group: &str) -> bool {
    session.subs.iter().any(|sub| sub.filter == group)
}

fn is_owed(ledger: &Ledger<'_>, id: MessageId, group: &str) -> bool {
    let (message, facts) = (ledger.message(id), ledger.facts(id));
    let (Some(sent), Some(_)) = (facts.sent, facts.acked) else { return false };
    let is_of_the_past = |session: &SessionFacts| {
        session.subs.iter().any(|sub| sub.filter == group && sub.replays())
    };
    if ledger.sessions.iter().any(is_of_the_past) && lets_go_behind(ledger, sent) {
        return false;
    }
    if message.is_will || message.clears || ledger.may_have_expired(id, ledger.end_ms()) {
        return false;
    }
    let end = ledger.end();
    let subs = |session: &SessionFacts| {
        let subs = session.subs.iter().filter(|sub| sub.filter == group);
        subs.filter(|sub| sub.matches(&message.topic)).cloned().collect::<Vec<_>>()
    };
    let lasts =
        ledger.lasting().any(|(_, session)| subs(session).iter().any(|sub| sub.holds(sent, end)));
    let members = || {
        let sessions = ledger.sessions.iter().enumerate();
        sessions.filter(|(_, one)| subs(one).iter().any(|sub| sub.may_hold(sent, end)))
    };
    let all_take = members().all(|(_, one)| {
        let may_hold = |sub: &crate::ledger::SubFacts| sub.may_hold(sent, end);
        let zero = |sub: &crate::ledger::SubFacts| sub.options.qos == QoS::AtMostOnce;
        !subs(one).iter().any(|sub| may_hold(sub) && zero(sub))
    });
    let lasting: Vec<usize> = ledger.lasting().map(|(at, _)| at).collect();
    let nobody_ends = members().all(|(at, _)| lasting.contains(&at));
    lasts
        && all_take
        && (nobody_ends || message.qos != QoS::ExactlyOnce && !ledger.history.logs_needed)
        && message.qos != QoS::AtMostOnce
}

/// Whether the log has let go of anything since then: [`retention`](super::retention) asks whether
/// it may.
fn lets_go_behind(ledger: &Ledger<'_>, sent: At) -> bool {
    let mut later = ledger.history.entries.iter().skip(sent);
    later.any(|entry| matches!(entry.event, Event::LetGo { .. }))
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::AtLeastOnce;

    use crate::history::Event;

    use crate::ledger::script::{Script, breaks};

    #[test]
    fn history_that_is_let_go_behind_it() {
        for (let_go, fits) in [(None, false), (Some(false), false), (Some(true), true)] {
            let mut script = Script::new();
            let (reader, writer) = (script.member(), script.member());
            // Two, so that this promise alone is asked.
            script.subscribe(reader, "a/2", AtLeastOnce);
            script.subscribe(reader, "$replay/all/#", AtLeastOnce);
            let note = Event::LetGo { first: 7, left: u64::MAX };
            if let_go == Some(false) {
                script.note(note.clone());
            }
            let message = script.publish(writer, "a/1", AtLeastOnce);
            script.acked(writer, message);
            if let_go == Some(true) {
                script.note(note);
            }
            let broken = breaks(&script);
            assert_eq!(!broken.contains(&"groups"), fits, "{let_go:?} {broken:?}");
        }
    }

    #[test]
    fn a_message_that_died_with_a_member() {
        let mut script = Script::new();
        let (stays, goes, writer) = (script.member(), script.member(), script.member());
        script.subscribe(stays, "$share/g/a/1", AtLeastOnce);
        script.subscribe(goes, "$share/g/a/1", AtLeastOnce);
        let message = script.publish(writer, "a/1", AtLeastOnce);
        script.guest_of(goes);
        assert_eq!(breaks(&script), [""; 0], "it is unknown");
        script.acked(writer, message);
        assert_eq!(breaks(&script), ["groups"]);
        script.receive(stays, message, AtLeastOnce);
        assert_eq!(breaks(&script), [""; 0]);
    }
}
