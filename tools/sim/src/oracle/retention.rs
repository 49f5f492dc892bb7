//! What is to be kept of the log is kept: as many bytes of it as were asked for, or all that is not
//! older than was asked for.
//!
//! How many bytes are left is what the log says of itself when some of it has gone: clients cannot
//! tell. Of an age it is what a reader gets who begins when all has healed, since the log is let go
//! behind images alone, which are made before that. And whoever begins then gets all that is left:
//! what was shown to anybody at the oldest offset or behind it, and what was published behind that.

use super::cursors::shown;
use super::past::{is_history, reads_history};
use super::{Broken, Promise, has, miss};
use crate::history::{Event, MessageId};
use crate::ledger::Ledger;

pub(super) const PROMISE: Promise = Promise {
    name: "retention",
    says: "as much of the log is kept for readers as was asked for, or all that is young enough",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    check_what_is_left(ledger, broken);
    let retain = ledger.history.retain;
    if let Some(bytes) = retain.bytes {
        for entry in &ledger.history.entries {
            let Event::LetGo { first, left } = entry.event else { continue };
            if left < bytes {
                let what = format!("the log begins with {first}: {left} bytes of {bytes} are left");
                broken.push(Broken::new(PROMISE, what, &[]));
            }
        }
    }
    let age_ms = retain.age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
    let all = !ledger.cut_short && !ledger.history.drops();
    let (Some(age_ms), Some(healed)) = (age_ms, ledger.healed.filter(|_| all)) else { return };
    let readers = ledger.lasting().map(|(_, session)| session).filter(|session| {
        let is_there = session.subs.iter().any(|sub| sub.acked.is_some());
        session.began > healed && is_there && reads_history(session)
    });
    for session in readers {
        let is_young = |id: &_| {
            let sent = ledger.facts(*id).sent.map(|sent| ledger.ms(sent));
            let healed_ms = ledger.ms(healed);
            let age = |sent: u64| ledger.time.between(sent, healed_ms.max(sent)).1;
            sent.is_some_and(|sent| age(sent) < age_ms)
        };
        let owed = ledger.ids().filter(|id| is_history(ledger, *id)).filter(is_young);
        let missed = owed.filter(|id| !has(session, *id));
        broken.extend(missed.map(|id| miss(PROMISE, ledger, id, session)));
    }
}

/// Asked is the first who begins to read when the oldest record is known, and the log stays.
fn check_what_is_left(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    let mut entries = ledger.history.entries.iter().enumerate();
    let oldest = entries.find_map(|(at, entry)| match entry.event {
        Event::Oldest { first } => Some((at, first)),
        _ => None,
    });
    let all = !ledger.cut_short && !ledger.history.drops();
    let Some((asked, first)) = oldest.filter(|_| all) else { return };
    let mut readers = ledger.lasting().map(|(_, session)| session);
    let Some(reader) = readers.find(|one| one.began > asked && reads_history(one)) else {
        return;
    };
    if !reader.subs.iter().any(|sub| sub.acked.is_some()) {
        return;
    }
    let shown = shown(ledger);
    let is_left = |id: &MessageId| shown.get(id).is_some_and(|offset| *offset >= first);
    // Of one that was sent again there may be a record in front of what is left.
    let once = |id: &MessageId| ledger.facts(*id).sent == ledger.facts(*id).sent_last;
    let left = ledger.ids().filter(|id| is_left(id) && once(id));
    let behind = left.filter_map(|id| ledger.facts(id).acked).min();
    let owed = ledger.ids().filter(|id| is_history(ledger, *id)).filter(|id| {
        let sent = ledger.facts(*id).sent;
        is_left(id) || behind.is_some_and(|acked| sent.is_some_and(|sent| acked < sent))
    });
    let missed = owed.filter(|id| !has(reader, *id));
    broken.extend(missed.map(|id| miss(PROMISE, ledger, id, reader)));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zzq_broker::Retention;
    use zzq_types::QoS::AtLeastOnce;

    use super::*;
    use crate::history::Received;
    use crate::ledger::script::{Script, breaks};

    #[test]
    fn a_log_that_keeps_less_than_it_should() {
        for (left, fits) in [(999, false), (1000, true)] {
            let mut script = Script::new();
            script.history.retain = Retention { bytes: Some(1000), age: None };
            script.note(Event::LetGo { first: 7, left });
            assert_eq!(breaks(&script).is_empty(), fits, "{left}");
        }
    }

    /// Of two messages the second is in what is left, and a third one was published behind it.
    #[test]
    fn history_that_is_left_and_does_not_come() {
        for (gets, fits) in [(&[1, 2][..], true), (&[0, 1, 2], true), (&[2], false), (&[1], false)]
        {
            let mut script = Script::new();
            script.history.retain = Retention { bytes: Some(1), age: None };
            let (other, writer) = (script.member(), script.member());
            script.subscribe(other, "$replay/all/#", AtLeastOnce);
            let sent = [3, 7, 9].map(|offset| {
                let message = script.publish(writer, "a/1", AtLeastOnce);
                script.acked(writer, message);
                if offset < 9 {
                    let received = script.received(message, AtLeastOnce);
                    script.take(other, Received { offset: Some(offset), ..received });
                }
                message
            });
            script.note(Event::Oldest { first: 5 });
            let reader = script.member();
            script.subscribe(reader, "$replay/all/#", AtLeastOnce);
            for at in gets {
                script.receive(reader, sent[*at], AtLeastOnce);
            }
            script.receive(other, sent[2], AtLeastOnce);
            assert_eq!(breaks(&script).is_empty(), fits, "{gets:?}");
        }
    }

    #[test]
    fn history_that_is_gone_before_its_time() {
        for (age_s, fits) in [(5, true), (60, false)] {
            let mut script = Script::new();
            let age = Some(Duration::from_secs(age_s));
            script.history.retain = Retention { bytes: None, age };
            let writer = script.member();
            let message = script.publish(writer, "a/1", AtLeastOnce);
            script.acked(writer, message);
            script.pass(20_000);
            script.note(Event::Healed);
            let reader = script.member();
            script.subscribe(reader, "$replay/all/#", AtLeastOnce);
            let broken = breaks(&script);
            assert_eq!(broken.is_empty(), fits, "{age_s} {broken:?}");
        }
    }
}
