//! Folding the log gives the live state: nothing enters persistent state but by a record. And it
//! gives each image, so that an image and the rest of the log are as good.

use super::{Broken, Promise};
use crate::history::Event;
use crate::ledger::Ledger;

pub(super) const PROMISE: Promise = Promise {
    name: "folds",
    says: "at every death the fold of the log is the live state, and each image is its own",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for entry in &ledger.history.entries {
        if let Event::Folded { lane, outcome: Err(why) } = &entry.event {
            let what = format!("lane {lane} at {} ms: {why}", entry.at_ms);
            broken.push(Broken::new(PROMISE, what, &[]));
        }
        if let Event::Imaged { outcome: Err(why) } = &entry.event {
            let what = format!("the image at {} ms: {why}", entry.at_ms);
            broken.push(Broken::new(PROMISE, what, &[]));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::history::Event;
    use crate::ledger::script::{Script, breaks};

    #[test]
    fn a_state_that_is_not_in_the_log() {
        let mut script = Script::new();
        script.note(Event::Folded { lane: 0, outcome: Ok(()) });
        assert_eq!(breaks(&script), [""; 0]);
        script.note(Event::Folded { lane: 0, outcome: Err("retained".into()) });
        assert_eq!(breaks(&script), ["folds"]);
    }

    #[test]
    fn an_image_that_is_not_of_the_log() {
        let mut script = Script::new();
        script.note(Event::Imaged { outcome: Ok(()) });
        assert_eq!(breaks(&script), [""; 0]);
        script.note(Event::Imaged { outcome: Err("retained".into()) });
        assert_eq!(breaks(&script), ["folds"]);
    }
}
