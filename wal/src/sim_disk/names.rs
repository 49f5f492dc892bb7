//! Names of a directory, and which of them a power cut may take back.
//!
//! Owns: the live names and the changes that are not certainly durable. Does not know: bytes.

use std::collections::BTreeMap;

/// A file's place in the table of files.
pub(super) type FileId = usize;

pub(super) type NameMap = BTreeMap<String, FileId>;

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    live: NameMap,
    /// What is certain to be there after a crash, but for `changes`.
    base: NameMap,
    /// Later changes in their order. The first one is never certain.
    changes: Vec<Change>,
}

/// From here on a file has this name, and no other, or none at all.
#[derive(Clone, Debug)]
struct Change {
    file: FileId,
    name: Option<String>,
    state: Certainty,
}

/// How sure it is that a change outlives a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    /// The next sync makes it certain.
    Pending,
    /// A sync of it failed: no later one brings certainty.
    Doubtful,
    /// It does.
    Certain,
}

impl Names {
    /// Names that are all durable.
    pub(super) fn durable(names: NameMap) -> Self {
        Self { live: names.clone(), base: names, changes: Vec::new() }
    }

    pub(super) fn live(&self) -> &NameMap {
        &self.live
    }

    pub(super) fn find(&self, name: &str) -> Option<FileId> {
        self.live.get(name).copied()
    }

    /// Gives `file` a name, taking it from whoever had it, or takes its name away.
    pub(super) fn change(&mut self, file: FileId, name: Option<&str>) {
        let change = Change { file, name: name.map(ToOwned::to_owned), state: Certainty::Pending };
        change.apply(&mut self.live);
        self.changes.push(change);
    }

    /// Makes what was pending certain.
    pub(super) fn sync(&mut self) {
        self.settle(Certainty::Certain);
        let certain = |change: &Change| change.state == Certainty::Certain;
        let settled = self.changes.iter().take_while(|change| certain(change)).count();
        for change in self.changes.drain(..settled) {
            change.apply(&mut self.base);
        }
    }

    /// What was pending may be lost for good.
    pub(super) fn fail_sync(&mut self) {
        self.settle(Certainty::Doubtful);
    }

    fn settle(&mut self, state: Certainty) {
        for change in &mut self.changes {
            if change.state == Certainty::Pending {
                change.state = state;
            }
        }
    }

    /// Whether there are changes that a sync of the directory would make durable.
    pub(super) fn is_pending(&self) -> bool {
        self.changes.iter().any(|change| change.state == Certainty::Pending)
    }

    /// Names after a crash; `survives(n)` decides about the n-th change that is not certain.
    pub(super) fn after_crash(&self, survives: impl Fn(u64) -> bool) -> NameMap {
        let mut names = self.base.clone();
        for (at, change) in (0..).zip(&self.changes) {
            if change.state == Certainty::Certain || survives(at) {
                change.apply(&mut names);
            }
        }
        names
    }
}

impl Change {
    fn apply(&self, names: &mut NameMap) {
        names.retain(|_, file| *file != self.file);
        if let Some(name) = &self.name {
            names.insert(name.clone(), self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &NameMap) -> Vec<(&str, FileId)> {
        names.iter().map(|(name, file)| (name.as_str(), *file)).collect()
    }

    #[test]
    fn any_subset_of_unsynced_changes_may_survive() {
        let mut names = Names::default();
        names.change(0, Some("a"));
        names.sync();
        names.change(1, Some("b"));
        names.change(0, Some("c"));
        names.change(1, None);
        assert_eq!(list(names.live()), [("c", 0)]);
        assert_eq!(list(&names.after_crash(|_| false)), [("a", 0)]);
        assert_eq!(list(&names.after_crash(|_| true)), [("c", 0)]);
        assert_eq!(list(&names.after_crash(|at| at == 0)), [("a", 0), ("b", 1)]);
        assert_eq!(list(&names.after_crash(|at| at == 1)), [("c", 0)]);
        assert_eq!(list(&names.after_crash(|at| at < 2)), [("b", 1), ("c", 0)]);
    }

    #[test]
    fn a_replaced_file_is_back_when_the_rename_is_lost() {
        let mut names = Names::default();
        names.change(0, Some("a"));
        names.change(1, Some("b"));
        names.sync();
        assert!(!names.is_pending());
        names.change(1, Some("a"));
        assert!(names.is_pending());
        assert_eq!(list(names.live()), [("a", 1)]);
        assert_eq!(list(&names.after_crash(|_| false)), [("a", 0), ("b", 1)]);
    }

    #[test]
    fn a_sync_after_a_failed_one_does_not_bring_back_certainty() {
        let mut names = Names::default();
        names.change(0, Some("a"));
        names.fail_sync();
        names.change(1, Some("b"));
        names.sync();
        assert!(!names.is_pending());
        assert_eq!(list(&names.after_crash(|_| false)), [("b", 1)]);
        assert_eq!(list(&names.after_crash(|_| true)), [("a", 0), ("b", 1)]);
    }
}
