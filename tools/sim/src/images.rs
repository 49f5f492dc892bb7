//! Images of the state, and the fold of the whole log to compare them with.
//!
//! Owns: a state that was folded from the first record on and never from an image, kept up to date
//! while the log still has what it needs. Does not know: how a broker makes an image.

use zzq_engine::image::{Loader, Section, Sections, Select, references};
use zzq_engine::{NoEffects, Record, Shard, State};
use zzq_snapshot::{ColdShelf, NeededKind, Shelf, at_full_speed};
use zzq_types::Lsn;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Log, ReadError};

/// The fold of the log from its first record on.
pub struct Folded(State);

impl Default for Folded {
    fn default() -> Self {
        Self(State::new(Shard::WHOLE))
    }
}

impl Folded {
    /// How far it is.
    pub const fn applied(&self) -> Lsn {
        self.0.applied()
    }

    /// Goes on to all that is committed and durable; `false` if the disk did not let it.
    pub fn follow(&mut self, log: &Log<SimDisk>) -> Result<bool, String> {
        match self.read(log) {
            Err(ReadError::Disk { .. }) => Ok(false),
            Err(error) => Err(error.to_string()),
            Ok(outcome) => outcome.map(|()| true),
        }
    }

    fn read(&mut self, log: &Log<SimDisk>) -> Result<Result<(), String>, ReadError> {
        let from = zzq_wal::Lsn::new(self.applied().next().get());
        let mut reader = log.reader(from)?;
        while let Some(found) = reader.next_record()? {
            let record = match Record::decode(found.kind, found.body) {
                Ok(record) => record,
                Err(error) => return Ok(Err(error.to_string())),
            };
            self.0.apply(Lsn::new(found.lsn.get()), found.time_ms, &record, &mut NoEffects);
        }
        Ok(Ok(()))
    }

    /// The part of it that a lane owns.
    pub fn part(&self, shard: Shard) -> Result<State, String> {
        Sections::of(&self.0, Select::All).load(shard).map_err(|error| error.to_string())
    }

    /// Whether the newest image on this disk is what the log says, and what it refers to is kept:
    /// in a cold file, or in the log behind all that may be trimmed.
    pub fn compare(&self, disk: &SimDisk, log: &Log<SimDisk>) -> Result<(), String> {
        let identity = log.facts().identity;
        let opened = Shelf::open(disk, &identity, None, at_full_speed());
        let (images, verdicts) = opened.map_err(|error| error.to_string())?;
        if let Some(verdict) = verdicts.first() {
            return Err(verdict.to_string());
        }
        let image = images.newest().ok_or("there is no image")?;
        if image.heading().lsn.get() != self.applied().get() {
            return Err(format!("{} covers {}", image.name(), image.heading().lsn));
        }
        let needed = images.needs().filter(|need| need.kind == NeededKind::Cold);
        let cold = ColdShelf::open(disk, needed.map(|need| need.number).collect());
        let cold = cold.map_err(|error| error.to_string())?;
        let kept = |lsn: Lsn| {
            let lsn = zzq_wal::Lsn::new(lsn.get());
            lsn >= images.first_needed() || cold.find(lsn).is_some()
        };
        let mut lost = None;
        let mut loader = Loader::new(Shard::WHOLE);
        let mut entries = image.entries(|_| true, at_full_speed());
        while let Some(entry) = entries.next_entry().map_err(|error| error.to_string())? {
            let section = u8::try_from(entry.section).ok().and_then(Section::from_code);
            let section = section.ok_or("a section that is not known")?;
            loader.entry(section, entry.key, entry.value).map_err(|error| error.to_string())?;
            let note = |lsn, _| lost = lost.or((!kept(lsn)).then_some(lsn));
            references(section, entry.key, entry.value, note).map_err(|error| error.to_string())?;
        }
        if let Some(lsn) = lost {
            return Err(format!("{} refers to {lsn}, which may go", image.name()));
        }
        let state = loader.finish().map_err(|error| error.to_string())?;
        let (image, log) = (Sections::of(&state, Select::All), Sections::of(&self.0, Select::All));
        if image == log { Ok(()) } else { Err(crate::node::differences(&image, &log)) }
    }
}
