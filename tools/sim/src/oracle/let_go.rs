//! What nothing needs is let go: segments of the log that neither images nor readers are to have,
//! and cold files that no image needs.
//!
//! Looked at is the end, when all is at rest and images were made of that: the log is let go behind
//! two, and not before all lanes have come as far as the older one. What is kept by age is not
//! asked for. Allowed: a segment in which a record begins that goes on in the next one.

use super::{Broken, Promise};
use crate::history::Event;
use crate::ledger::Ledger;

pub(super) const PROMISE: Promise = Promise {
    name: "let_go",
    says: "segments and cold files that nothing needs are let go behind two images",
    check,
};

const SEGMENTS_MOST: u64 = 1;

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    if ledger.cut_short {
        return;
    }
    for entry in &ledger.history.entries {
        let Event::Needless { segments, cold } = entry.event else { continue };
        if segments > SEGMENTS_MOST || cold > 0 {
            let what = format!("{segments} segments and {cold} cold files stay for nobody");
            broken.push(Broken::new(PROMISE, what, &[]));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::history::Event;
    use crate::ledger::script::{Script, breaks};

    #[test]
    fn files_that_stay_for_nobody() {
        for (segments, cold, fits) in [(0, 0, true), (1, 0, true), (2, 0, false), (0, 1, false)] {
            let mut script = Script::new();
            script.note(Event::Needless { segments, cold });
            assert_eq!(breaks(&script).is_empty(), fits, "{segments} {cold}");
        }
    }
}
