//! Names of volumes that were begun and not taken.
//!
//! Owns: that they are gone for certain before the next volume is begun. Whoever gave such a name
//! may have been told that making it durable had failed, or have ended before it was told: then the
//! volume is there, whole, until the power goes. What relied on it would be lost.
//! Does not know: which volumes are taken.

use std::io;

use zzq_wal::disk::Disk;

use crate::error::WriteError;
use crate::format::Kind;

/// See the file.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    names: Vec<String>,
    /// Failed syncs of names before these were removed last; none: they have not been.
    removed_at: Option<u64>,
    /// A sync has failed since they were removed first: it may have been theirs.
    in_doubt: bool,
}

impl Attempts {
    /// Those of a process that has ended, by their numbers.
    pub(crate) fn of_before(kind: Kind, numbers: &[u64]) -> Self {
        let names = numbers.iter().map(|number| kind.name(*number)).collect();
        Self { names, ..Self::default() }
    }

    /// A volume will have this name, if it is ever finished.
    pub(crate) fn begin(&mut self, name: String) {
        self.names.push(name);
    }

    /// It is finished, and its name durable.
    pub(crate) fn take(&mut self, name: &str) {
        self.names.retain(|begun| begun != name);
    }

    /// Removes all that were begun and not taken, durably. Where a sync has failed meanwhile, a
    /// removal may be lost whatever a later sync says: then a file made anew under the name takes
    /// it from the one that could come back, and its own removal is another one.
    pub(crate) fn clear<D: Disk>(&mut self, disk: &D) -> Result<(), WriteError> {
        let Some(last) = self.names.last() else { return Ok(()) };
        let failed_syncs = disk.failed_syncs();
        self.in_doubt |= self.removed_at.is_some_and(|at| at < failed_syncs);
        self.removed_at = Some(failed_syncs);
        for name in &self.names {
            let mut removed = remove(disk, name);
            if self.in_doubt {
                removed =
                    removed.and_then(|()| disk.create(name, 0)).and_then(|_| remove(disk, name));
            }
            removed.map_err(WriteError::disk("removing what was left of", name))?;
        }
        let failed = WriteError::disk("syncing the removal of what was left of", last);
        disk.sync_names(failed_syncs).map_err(failed)?;
        *self = Self::default();
        Ok(())
    }
}

/// Removes a file that may be there.
fn remove<D: Disk>(disk: &D, name: &str) -> io::Result<()> {
    match disk.remove(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use zzq_wal::sim_disk::{Fault, Op, SimDisk, Survival};

    use super::*;

    fn is_there(disk: &SimDisk, name: &str) -> bool {
        disk.list().unwrap().iter().any(|(there, _)| there == name)
    }

    #[test]
    fn what_was_not_taken_goes_and_what_was_stays() {
        let (disk, mut attempts) = (SimDisk::new(), Attempts::default());
        for name in ["taken", "left"] {
            attempts.begin(name.to_owned());
            disk.create(name, 0).unwrap();
        }
        attempts.begin("never made".to_owned());
        disk.sync_dir().unwrap();
        attempts.take("taken");
        attempts.clear(&disk).unwrap();
        let left = disk.crash_with(Survival::Everything);
        assert!(is_there(&left, "taken") && !is_there(&left, "left"));
        let before = disk.count(Op::SyncDir);
        attempts.clear(&disk).unwrap();
        assert_eq!(disk.count(Op::SyncDir), before, "there is nothing more to do");
    }

    /// Whether the error was ours to hear or not: the removal may be taken back, so the name is
    /// taken from the file as well.
    #[test]
    fn a_removal_whose_sync_has_failed_is_not_believed() {
        for fault in [Fault::Fail(io::ErrorKind::Other), Fault::ToldOthers] {
            let (disk, mut attempts) = (SimDisk::new(), Attempts::default());
            attempts.begin("left".to_owned());
            disk.create("left", 0).unwrap();
            disk.sync_dir().unwrap();
            disk.fail(Op::SyncDir, 1, fault);
            assert!(attempts.clear(&disk).is_err());
            assert!(is_there(&disk.crash_with(Survival::Nothing), "left"));
            // One more that fails in the middle of it changes nothing.
            disk.fail(Op::Create, 1, Fault::Fail(io::ErrorKind::Other));
            assert!(attempts.clear(&disk).is_err());
            attempts.clear(&disk).unwrap();
            let survivals = (0..8).map(Survival::Seeded);
            for survival in [Survival::Nothing, Survival::Everything].into_iter().chain(survivals) {
                assert!(!is_there(&disk.crash_with(survival), "left"), "{survival:?}");
            }
        }
    }

    /// A removal that is not synced yet is not made certain by a sync behind a failed one.
    #[test]
    fn what_could_not_all_be_removed_is_not_forgotten() {
        let (disk, mut attempts) = (SimDisk::new(), Attempts::default());
        for name in ["one", "two"] {
            attempts.begin(name.to_owned());
            disk.create(name, 0).unwrap();
        }
        disk.sync_dir().unwrap();
        disk.fail(Op::Remove, 2, Fault::Fail(io::ErrorKind::Other));
        assert!(attempts.clear(&disk).is_err());
        attempts.clear(&disk).unwrap();
        let left = disk.crash_with(Survival::Nothing);
        assert!(!is_there(&left, "one") && !is_there(&left, "two"));
    }
}
