//! What is to be kept of the log is kept: as many bytes of it as were asked for, or all that is not
//! older than was asked for.
//!
//! How many bytes are left is what the log says of itself when some of it has gone: clients cannot
//! tell. Of an age it is what a reader gets who begins when all has healed, since the log is let go
//! behind images alone, which are made before that.

use super::past::{is_history, reads_history};
use super::{Broken, Promise, has, miss};
use crate::history::Event;
use crate::ledger::Ledger;

pub(super) const PROMISE: Promise = Promise {
    name: "retention",
    says: "as much of the log is kept for readers as was asked for, or all that is young enough",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zzq_broker::Retention;
    use zzq_types::QoS::AtLeastOnce;

    use super::*;
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
