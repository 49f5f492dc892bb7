//! Each image that these tests make is what folding the log gives.
//!
//! Owns: a state that was folded from the first record on and never from an image, kept up to date
//! while the log still has what it needs.

use zzq_engine::image::{Loader, Sections, Select};
use zzq_engine::{NoEffects, Record, Shard, State};
use zzq_snapshot::{Listing, Shelf, at_full_speed};
use zzq_types::Lsn;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Log, ReadError};

/// See the file.
pub(super) struct Folded(State);

impl Default for Folded {
    fn default() -> Self {
        Self(State::new(Shard::WHOLE))
    }
}

impl Clone for Folded {
    fn clone(&self) -> Self {
        Self(Sections::of(&self.0, Select::All).load(Shard::WHOLE).unwrap())
    }
}

impl Folded {
    /// Goes on to all that is committed and durable, as far as the disk lets it.
    pub(super) fn follow(&mut self, log: &Log<SimDisk>) {
        let from = zzq_wal::Lsn::new(self.0.applied().next().get());
        let mut follow = || -> Result<(), ReadError> {
            let mut reader = log.reader(from)?;
            while let Some(found) = reader.next_record()? {
                let record = Record::decode(found.kind, found.body).unwrap();
                self.0.apply(Lsn::new(found.lsn.get()), found.time_ms, &record, &mut NoEffects);
            }
            Ok(())
        };
        match follow() {
            Ok(()) | Err(ReadError::Disk { .. }) => {}
            Err(error) => panic!("the log does not go on: {error}"),
        }
    }

    /// The newest image on `disk` is the fold up to the record that it covers. False: it does not
    /// cover what was followed, and is of another moment, of which nothing is said.
    #[track_caller]
    #[must_use]
    pub(super) fn compare(&self, disk: &SimDisk, log: &Log<SimDisk>) -> bool {
        // A copy, which has no faults to come.
        let copy = disk.restart();
        let identity = log.facts().identity;
        let there = Listing::read(&copy).unwrap();
        let (images, verdicts) =
            Shelf::open(&copy, &there, &identity, None, at_full_speed()).unwrap();
        assert!(verdicts.is_empty(), "{verdicts:?}");
        let image = images.newest().expect("an image");
        if image.heading().lsn.get() != self.0.applied().get() {
            return false;
        }
        let mut loader = Loader::new(Shard::WHOLE);
        let mut entries = image.entries(|_| true, at_full_speed());
        while let Some(entry) = entries.next_entry().unwrap() {
            let section = crate::images::section_of(entry.section).unwrap();
            loader.entry(section, entry.key, entry.value).unwrap();
        }
        let state = loader.finish().unwrap();
        let sections = |state: &State| Sections::of(state, Select::All);
        assert!(sections(&state) == sections(&self.0), "{} is not of the log", image.name());
        true
    }
}
