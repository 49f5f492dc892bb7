//! A copy of the log that is made while the broker serves holds what the log held at the record at
//! which it ends, and no less than was committed when it was begun.

use super::{Broken, Promise};
use crate::history::Event;
use crate::ledger::Ledger;

pub(super) const PROMISE: Promise = Promise {
    name: "copies",
    says: "a copy that is made while the broker serves is the log as it was at one record",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for entry in &ledger.history.entries {
        if let Event::Copied { outcome: Err(why) } = &entry.event {
            let what = format!("the copy at {} ms: {why}", entry.at_ms);
            broken.push(Broken::new(PROMISE, what, &[]));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::history::Event;
    use crate::ledger::script::{Script, breaks};

    #[test]
    fn a_copy_that_is_not_of_the_log() {
        let mut script = Script::new();
        script.note(Event::Copied { outcome: Ok(()) });
        assert_eq!(breaks(&script), [""; 0]);
        script.note(Event::Copied { outcome: Err("retained".into()) });
        assert_eq!(breaks(&script), ["copies"]);
    }
}
