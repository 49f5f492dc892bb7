//! Files in the broker's directory that are not its own are left alone.

use super::{Broken, Promise};
use crate::history::Event;
use crate::ledger::Ledger;

pub(super) const PROMISE: Promise =
    Promise { name: "strangers", says: "files of others are left as they were", check };

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for entry in &ledger.history.entries {
        if let Event::Touched { file } = &entry.event {
            let what = format!("{file} is not as it was");
            broken.push(Broken::new(PROMISE, what, &[]));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::history::Event;
    use crate::ledger::script::{Script, breaks};

    #[test]
    fn a_file_of_somebody_else_that_is_touched() {
        let mut script = Script::new();
        assert_eq!(breaks(&script), [""; 0]);
        script.note(Event::Touched { file: "notes.txt".into() });
        assert_eq!(breaks(&script), ["strangers"]);
    }
}
