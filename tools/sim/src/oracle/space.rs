//! A publish is refused for its quota only while there is a reason: a full disk, or a queue.
//!
//! So what was refused for a full disk is taken again once there is space, without a restart. Where
//! queues are limited nobody can tell from outside which of the two it was.

use std::collections::BTreeMap;

use zzq_types::ReasonCode;

use super::{Broken, Promise, Subject};
use crate::history::Event;
use crate::ledger::{At, Ledger};

pub(super) const PROMISE: Promise = Promise {
    name: "space",
    says: "a publish is refused only while the disk or a queue is full, or the log has failed",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    if ledger.history.limits_queues {
        return;
    }
    let (mut is_full, mut has_failed, mut was_full) = (false, false, None::<At>);
    let mut sent = BTreeMap::new();
    for (at, entry) in ledger.history.entries.iter().enumerate() {
        match &entry.event {
            Event::Space { full } => is_full = *full,
            // Until the next start, whatever space there is.
            Event::ReadOnly => has_failed = true,
            Event::Died { .. } => {
                was_full = if is_full || has_failed { Some(at) } else { was_full };
                (is_full, has_failed) = (false, false);
            }
            Event::Published { message, .. } => {
                sent.insert(*message, at);
            }
            Event::Answered { message, reason: ReasonCode::QuotaExceeded, .. } => {
                let sent = sent.get(message).copied().unwrap_or(0);
                if !(is_full || has_failed) && was_full.is_none_or(|full| full < sent) {
                    let what = format!("{message:?} was refused, and the disk was not full");
                    broken.push(Broken::new(PROMISE, what, &[Subject::Message(*message)]));
                }
            }
            _ => {}
        }
        if is_full || has_failed {
            was_full = Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::AtLeastOnce;

    use crate::history::{Death, Event};
    use crate::ledger::script::{Script, breaks};

    #[test]
    fn a_message_that_was_refused_for_nothing() {
        for (before, between, fits) in [
            (vec![], vec![], false),
            (vec![Event::Space { full: true }], vec![], true),
            (vec![Event::Space { full: true }, Event::Space { full: false }], vec![], false),
            (vec![Event::Space { full: true }], vec![Event::Space { full: false }], true),
            (vec![Event::Space { full: true }], vec![Event::Died { how: Death::Killed }], true),
            (vec![Event::ReadOnly], vec![], true),
            (vec![Event::ReadOnly, Event::Space { full: false }], vec![], true),
        ] {
            let mut script = Script::new();
            let writer = script.member();
            let told = format!("{before:?} {between:?}");
            for event in before {
                script.note(event);
            }
            let message = script.publish(writer, "a/1", AtLeastOnce);
            for event in between {
                script.note(event);
            }
            script.refused(writer, message);
            assert_eq!(breaks(&script).is_empty(), fits, "{told}");
        }
    }

    #[test]
    fn where_queues_are_limited_nobody_can_tell() {
        let mut script = Script::new();
        script.history.limits_queues = true;
        let writer = script.member();
        let message = script.publish(writer, "a/1", AtLeastOnce);
        script.refused(writer, message);
        assert_eq!(breaks(&script), [""; 0]);
    }
}
