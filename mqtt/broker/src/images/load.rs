//! A start: the newest good image of those that were taken becomes the states of lanes.

use std::io::ErrorKind;

use rustc_hash::FxHashMap;
use thiserror::Error;
use zzq_engine::State;
use zzq_engine::image::ImageError;
use zzq_snapshot::{ColdShelf, Listing, Mark, Pace, ReadError, Shelf, ShelfError, Volume};
use zzq_types::Lsn;
use zzq_wal::disk::{Disk, DiskFile};
use zzq_wal::format::meta::Facts;
use zzq_wal::{OpenError, read_facts};

use super::fill::{Target, fill};
use super::{CONTENTS, Past, TouchError};
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
    /// A queue that was left in it could not be read.
    #[error(transparent)]
    Touch(#[from] TouchError),
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

/// Reads the newest good image of the log on `disk` into the states of lanes. What is wrong with
/// others is told. `pace` hears of the bytes that are read.
pub(crate) fn load<D: Disk>(
    disk: &D,
    target: Target,
    pace: Pace<'_>,
) -> Result<Loaded<D::File>, LoadError> {
    let facts = facts(disk)?;
    let mark = facts.as_ref().filter(|facts| facts.snapshot_number > 0);
    let mark = mark.map(|facts| Mark { number: facts.snapshot_number, lsn: facts.snapshot });
    let identity = facts.as_ref().map(|facts| facts.identity).unwrap_or_default();
    let failed = |error| ShelfError::Disk { step: "listing the directory", error };
    let mut there = Listing::read(disk).map_err(failed)?;
    let used = facts.as_ref().and_then(Facts::cold_files);
    let last = used.map_or(0, |range| range.last);
    if let Some(facts) = &facts {
        there = there.as_stated(facts.snapshot_number, last);
        tell_unstated(&there);
    }
    let (shelf, verdicts) = Shelf::open(disk, &there, &identity, mark, pace)?;
    for verdict in &verdicts {
        tracing::error!(image = verdict.file, "not a good image: {verdict}");
    }
    let (cold, passed) = ColdShelf::open(disk, &there, &identity, &shelf.needed_cold(), last)?;
    for error in &passed {
        tracing::error!("a cold file that no image needs: {error}");
    }
    let (mut covered, mut states) = (Lsn::ZERO, None);
    if let Some(image) = shelf.newest() {
        if !verdicts.is_empty() {
            tracing::warn!(image = image.name(), "starting from the image before");
        }
        covered = Lsn::new(image.heading().lsn.get());
        states = Some(read(image, target, pace)?);
    }
    let empty = || crate::start::shards(target.lanes).map(State::new).collect();
    let states = states.unwrap_or_else(empty);
    let known = mark.map_or(covered, |mark| covered.max(Lsn::new(mark.lsn.get())));
    Ok(Loaded { shelf, cold, states, covered, known })
}

fn tell_unstated(there: &Listing) {
    let (images, cold) = (there.unstated_images(), there.unstated_cold());
    if !images.is_empty() || !cold.is_empty() {
        tracing::info!(?images, ?cold, "left by a process that ended before it took them");
    }
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

fn read<F: DiskFile>(
    image: &Volume<F>,
    target: Target,
    pace: Pace<'_>,
) -> Result<Vec<State>, LoadError> {
    let found = image.heading().contents;
    if found != CONTENTS {
        return Err(LoadError::Contents { file: image.name().to_owned(), found });
    }
    fill(image, target, pace)
}

/// Reads back the messages of wills that were set before what was folded.
pub(crate) fn read_wills<D: Disk>(
    past: &Past<D>,
    states: &[State],
    wills: &mut FxHashMap<Lsn, HeldWill>,
) -> Result<(), String> {
    let held = states.iter().flat_map(State::will_records);
    let mut lsns: Vec<Lsn> = held.filter(|lsn| !wills.contains_key(lsn)).collect();
    lsns.sort_unstable();
    past.read(&lsns, |lsn, _, record| {
        let will = HeldWill::of(record).ok_or_else(|| format!("record {lsn} holds no will"))?;
        wills.insert(lsn, will);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use zzq_snapshot::{ColdWriter, Heading, Kind, at_full_speed};
    use zzq_wal::sim_disk::{Fault, Op, SimDisk};
    use zzq_wal::{Log, Options};

    use super::*;

    fn load_from(disk: &SimDisk) -> Result<Loaded<<SimDisk as Disk>::File>, LoadError> {
        load(disk, Target { lanes: 1, leaves_from: 0 }, at_full_speed())
    }

    #[test]
    fn entries_of_a_newer_program_are_refused_with_both_versions() {
        let disk = SimDisk::new();
        let options = Options::from_os().unwrap();
        let (log, _) = Log::open(disk.clone(), options, 1, &mut |_| Ok(())).unwrap();
        let (there, identity) = (Listing::default(), log.facts().identity);
        let (mut shelf, _) = Shelf::open(&disk, &there, &identity, None, at_full_speed()).unwrap();
        let heading = Heading { contents: 2, ..Heading::new(Kind::Image, identity) };
        shelf.begin(&disk, heading, at_full_speed()).unwrap().finish().unwrap();
        log.update_facts(|facts| facts.snapshot_number = heading.number).unwrap();
        let Err(error) = load_from(&disk) else { panic!("it was taken") };
        let said = "has entries of version 2, this program knows version 1";
        assert!(error.to_string().ends_with(said), "{error}");
    }

    /// Found by the simulator: a file whose name had not become durable was read by the next
    /// process, which relied on it.
    #[test]
    fn what_was_not_stated_is_not_believed_and_goes_before_the_next() {
        let disk = SimDisk::new();
        let options = Options::from_os().unwrap();
        let (log, _) = Log::open(disk.clone(), options, 1, &mut |_| Ok(())).unwrap();
        let identity = log.facts().identity;
        let image = Heading { contents: CONTENTS, ..Heading::new(Kind::Image, identity) };
        let cold = Heading::new(Kind::Cold, identity);
        let mut loaded = load_from(&disk).unwrap();
        loaded.shelf.begin(&disk, image, at_full_speed()).unwrap().finish().unwrap();
        assert_eq!(loaded.cold.take_number(), cold.number);
        ColdWriter::begin(&disk, cold, at_full_speed()).unwrap().finish().unwrap();
        let names = || Listing::read(&disk).map(|there| (there.images().len(), there.cold().len()));
        assert_eq!(names().unwrap(), (1, 1));

        let mut loaded = load_from(&disk).unwrap();
        assert!(loaded.shelf.newest().is_none() && loaded.cold.files().is_empty());
        let next = Heading { number: loaded.shelf.next_number(), ..image };
        assert_eq!((next.number, loaded.cold.take_number()), (2, 2), "no number is used again");
        drop(loaded.shelf.begin(&disk, next, at_full_speed()).unwrap());
        loaded.cold.clear(&disk).unwrap();
        assert_eq!(names().unwrap(), (0, 0));
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
