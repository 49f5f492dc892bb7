//! When nothing goes wrong any more, everything heals and everybody is served.

use super::{Broken, Promise, Subject};
use crate::history::Event;
use crate::ledger::Ledger;

pub(super) const PROMISE: Promise = Promise {
    name: "healed",
    says: "without faults the broker starts, every client connects, and nobody waits for ever",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for entry in &ledger.history.entries {
        match &entry.event {
            Event::NotStarted { why } => {
                broken.push(Broken::new(PROMISE, format!("the broker does not start: {why}"), &[]));
            }
            Event::Endless => {
                broken.push(Broken::new(PROMISE, "the run never ends".into(), &[]));
            }
            Event::Waits { client, what } => {
                let what = format!("{} waits for {what}", ledger.name(*client));
                broken.push(Broken::new(PROMISE, what, &[Subject::Client(*client)]));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::history::Event;
    use crate::ledger::script::{Script, breaks};

    #[test]
    fn somebody_who_still_waits_and_a_broker_that_does_not_start() {
        let mut script = Script::new();
        let client = script.member();
        script.note(Event::Waits { client, what: "PUBCOMP".into() });
        assert_eq!(breaks(&script), ["healed"]);
        for event in [Event::Endless, Event::NotStarted { why: "damaged".into() }] {
            let mut script = Script::new();
            script.note(event);
            assert_eq!(breaks(&script), ["healed"]);
        }
    }
}
