//! A start on a disk that was damaged behind everybody's back refuses and names the file, or has
//! all the same; where nothing proves that something was durable the log may end there. It never
//! panics, and has no record that nobody wrote.

use super::{Broken, Promise};
use crate::history::Event;
use crate::ledger::Ledger;

pub(super) const PROMISE: Promise = Promise {
    name: "damaged",
    says: "what is damaged is refused by its name, or counts for nothing",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for entry in &ledger.history.entries {
        if let Event::Damaged { what, outcome: Err(why) } = &entry.event {
            let what = format!("{what} at {} ms: {why}", entry.at_ms);
            broken.push(Broken::new(PROMISE, what, &[]));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::history::Event;
    use crate::ledger::script::{Script, breaks};

    #[test]
    fn a_start_that_passes_over_what_counts() {
        let mut script = Script::new();
        let what = || "meta gone".to_owned();
        script.note(Event::Damaged { what: what(), outcome: Ok(()) });
        assert_eq!(breaks(&script), [""; 0]);
        script.note(Event::Damaged { what: what(), outcome: Err("it starts".into()) });
        assert_eq!(breaks(&script), ["damaged"]);
    }
}
