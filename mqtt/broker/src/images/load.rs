//! A start: the newest good image becomes the states of lanes.

use std::io::ErrorKind;

use rustc_hash::FxHashMap;
use thiserror::Error;
use zzq_engine::image::{ImageError, Loader};
use zzq_engine::{Session, State};
use zzq_snapshot::{
    ColdShelf, Mark, NeededKind, ReadError, Shelf, ShelfError, Volume, at_full_speed,
};
use zzq_types::Lsn;
use zzq_wal::disk::{Disk, DiskFile};
use zzq_wal::format::meta::Facts;
use zzq_wal::{OpenError, read_facts};

use super::{CONTENTS, Past, section_of};
use crate::shell::HeldWill;

/// Why no state comes of an image.
#[derive(Debug, Error)]
pub(crate) enum LoadError {
    /// `meta` could not be read: not even whose images these are is known.
    #[error(transparent)]
    Facts(OpenError),
    /// The images could not be looked at.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// The one that was chosen could not be read after all, or a cold file that it needs.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A newer program made it.
    #[error("{file} has entries of version {found}, this program knows version {CONTENTS}")]
    Contents {
        /// Its file.
        file: String,
        /// The version.
        found: u32,
    },
    /// Its bytes are what was written, and are no state.
    #[error("{file} holds no state: {reason}")]
    State {
        /// Its file.
        file: String,
        /// What is wrong.
        reason: ImageError,
    },
}

/// What a start has before it reads the log.
pub(crate) struct Loaded<F> {
    pub(crate) shelf: Shelf<F>,
    pub(crate) cold: ColdShelf<F>,
    pub(crate) states: Vec<State>,
    /// The last record in these states.
    pub(crate) covered: Lsn,
    /// A record that is known to have been durable.
    pub(crate) known: Lsn,
}

/// Reads the newest good image of the log on `disk` into these empty states. What is wrong with
/// others is told.
pub(crate) fn load<D: Disk>(
    disk: &D,
    mut states: Vec<State>,
) -> Result<Loaded<D::File>, LoadError> {
    let facts = facts(disk)?;
    let mark = facts.as_ref().filter(|facts| facts.snapshot_number > 0);
    let mark = mark.map(|facts| Mark { number: facts.snapshot_number, lsn: facts.snapshot });
    let identity = facts.map(|facts| facts.identity).unwrap_or_default();
    let (mut shelf, mut verdicts) = Shelf::open(disk, &identity, mark, at_full_speed())?;
    verdicts.extend(shelf.set_aside(disk)?);
    for verdict in &verdicts {
        tracing::error!(image = verdict.file, "not a good image: {verdict}");
    }
    let cold = shelf.needs().filter(|need| need.kind == NeededKind::Cold);
    let cold = ColdShelf::open(disk, cold.map(|need| need.number).collect())?;
    let mut covered = Lsn::ZERO;
    if let Some(image) = shelf.newest() {
        if !verdicts.is_empty() {
            tracing::warn!(image = image.name(), "starting from the image before");
        }
        covered = Lsn::new(image.heading().lsn.get());
        states = read(image, &states)?;
    }
    let known = mark.map_or(covered, |mark| covered.max(Lsn::new(mark.lsn.get())));
    Ok(Loaded { shelf, cold, states, covered, known })
}

/// What `meta` says. Where it is not there, or no good one, opening the log says what that means.
fn facts<D: Disk>(disk: &D) -> Result<Option<Facts>, LoadError> {
    match read_facts(disk) {
        Ok(facts) => Ok(Some(facts)),
        Err(OpenError::Disk { error, .. }) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error @ OpenError::Disk { .. }) => Err(LoadError::Facts(error)),
        Err(_) => Ok(None),
    }
}

fn read<F: DiskFile>(image: &Volume<F>, states: &[State]) -> Result<Vec<State>, LoadError> {
    let file = || image.name().to_owned();
    let found = image.heading().contents;
    if found != CONTENTS {
        return Err(LoadError::Contents { file: file(), found });
    }
    let failed = |reason| LoadError::State { file: file(), reason };
    let mut loaders: Vec<_> = states.iter().map(|state| Loader::new(state.shard())).collect();
    let mut entries = image.entries(|_| true, at_full_speed());
    while let Some(entry) = entries.next_entry()? {
        let Some(section) = section_of(entry.section) else {
            return Err(LoadError::Contents { file: file(), found });
        };
        for loader in &mut loaders {
            loader.entry(section, entry.key, entry.value).map_err(failed)?;
        }
    }
    loaders.into_iter().map(|loader| loader.finish().map_err(failed)).collect()
}

/// Reads back the messages of wills that were set before what was folded.
pub(crate) fn read_wills<D: Disk>(
    past: &Past<D>,
    states: &[State],
    wills: &mut FxHashMap<Lsn, HeldWill>,
) -> Result<(), String> {
    let held = states.iter().flat_map(|state| {
        let of_sessions = state.sessions().filter_map(Session::will).map(|will| will.lsn);
        of_sessions.chain(state.detached_wills().map(|(_, lsn, _)| lsn))
    });
    for lsn in held {
        if wills.contains_key(&lsn) {
            continue;
        }
        let mut will = None;
        past.read(&[lsn], |_, _, record| {
            will = HeldWill::of(record);
            Ok(())
        })?;
        let will = will.ok_or_else(|| format!("record {lsn} holds no will"))?;
        wills.insert(lsn, will);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use zzq_engine::Shard;
    use zzq_wal::sim_disk::{Fault, Op, SimDisk};
    use zzq_wal::{Log, Options};

    use super::*;

    fn load_from(disk: &SimDisk) -> Result<Loaded<<SimDisk as Disk>::File>, LoadError> {
        load(disk, vec![State::new(Shard::WHOLE)])
    }

    /// Found by the simulator: images were taken for those of another log, and the store for
    /// damaged.
    #[test]
    fn a_meta_that_cannot_be_read_is_the_disks_fault_and_says_nothing_of_images() {
        let disk = SimDisk::new();
        assert!(load_from(&disk).is_ok(), "there is no log yet");
        let options = Options::from_os().unwrap();
        drop(Log::open(disk.clone(), options, 1, &mut |_| Ok(())).unwrap());
        disk.fail(Op::Read, 1, Fault::Fail(ErrorKind::Other));
        assert!(matches!(load_from(&disk), Err(LoadError::Facts(OpenError::Disk { .. }))));
        assert!(load_from(&disk).is_ok());
    }
}
