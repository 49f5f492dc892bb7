//! When nothing goes wrong any more, everything heals and everybody is served.

use super::{Broken, Promise, Subject};
use crate::history::Event;
use crate::ledger::Ledger;

pub(super) const PROMISE: Promise = Promise {
    name: "healed",
    says: "without faults the broker starts, every client connects, nobody waits for ever, and \
           everything comes to rest",
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
            Event::Unsettled { what } => {
                let what = format!("it does not come to rest: {what}");
                broken.push(Broken::new(PROMISE, what, &[]));
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
    use zzq_types::QoS::AtLeastOnce;

    use crate::history::Event;
    use crate::ledger::script::{Script, breaks};

    #[test]
    fn a_run_that_was_cut_short_owes_nothing_else() {
        let mut script = Script::new();
        let (reader, writer) = (script.member(), script.member());
        script.subscribe(reader, "a/#", AtLeastOnce);
        script.subscribe(reader, "$share/g/a/1", AtLeastOnce);
        let message = script.publish(writer, "a/1", AtLeastOnce);
        script.acked(writer, message);
        assert_eq!(breaks(&script), ["delivered", "groups"]);
        script.note(Event::NotStarted { why: "damaged".into() });
        assert_eq!(breaks(&script), ["healed"]);
    }

    #[test]
    fn somebody_who_still_waits_and_a_broker_that_does_not_start() {
        let mut script = Script::new();
        let client = script.member();
        script.note(Event::Waits { client, what: "PUBCOMP".into() });
        assert_eq!(breaks(&script), ["healed"]);
        for event in [
            Event::Endless,
            Event::NotStarted { why: "damaged".into() },
            Event::Unsettled { what: "lane 0".into() },
        ] {
            let mut script = Script::new();
            script.note(Event::Healed);
            assert_eq!(breaks(&script), [""; 0]);
            script.note(event);
            assert_eq!(breaks(&script), ["healed"]);
        }
    }
}
