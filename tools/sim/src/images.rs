//! Images of the state, and the fold of the whole log to compare them with.
//!
//! Owns: a state that was folded from the first record on and never from an image, kept up to date
//! while the log still has what it needs. Does not know: how a broker makes an image.

use zzq_engine::image::{Loader, Section, Sections, Select, UntouchedReader, references};
use zzq_engine::session::Untouched;
use zzq_engine::{NoEffects, Record, SessionNumber, Shard, State};
use zzq_snapshot::{ColdShelf, Listing, NeededKind, Shelf, Verdict, Volume, at_full_speed};
use zzq_types::Lsn;
use zzq_wal::disk::Disk;
use zzq_wal::format::meta::Facts;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Log, ReadError};

type File = <SimDisk as Disk>::File;

/// The good images on a disk that its `meta` has stated, what is wrong with others that it has, and
/// the files there. A start goes by no other one: nothing says that its name is durable.
pub fn stated_images(
    disk: &SimDisk,
    facts: &Facts,
) -> Result<(Shelf<File>, Vec<Verdict>, Listing), String> {
    let cold = facts.cold_files().map_or(0, |range| range.last);
    let there = Listing::read(disk).map_err(|error| error.to_string())?;
    let there = there.as_stated(facts.snapshot_number, cold);
    let opened = Shelf::open(disk, &there, &facts.identity, None, at_full_speed());
    let (images, verdicts) = opened.map_err(|error| error.to_string())?;
    Ok((images, verdicts, there))
}

/// The good images on a disk, the newest last.
#[derive(Default)]
pub struct Images(Vec<Volume<File>>);

impl Images {
    /// Those of this log.
    pub fn new(disk: &SimDisk, log: &Log<SimDisk>) -> Self {
        let opened = stated_images(disk, &log.facts());
        Self(opened.map(|(shelf, ..)| shelf.images().cloned().collect()).unwrap_or_default())
    }

    /// All of a state of whose queues parts may be in an image only.
    pub fn whole(&self, state: &State, select: Select) -> Result<Sections, String> {
        let lacking = state.sessions().find_map(|session| {
            let front = session.queue().untouched()?;
            let read = self.read(session.number(), front);
            read.is_none().then(|| format!("no image has the queue of {}", session.number()))
        });
        if let Some(lacking) = lacking {
            return Err(lacking);
        }
        Ok(Sections::of_whole(state, select, |session, front| {
            let read = self.read(session, front);
            read.unwrap_or_else(|| UntouchedReader::new(session, front))
        }))
    }

    fn read(&self, session: SessionNumber, front: Untouched) -> Option<UntouchedReader> {
        self.0.iter().rev().find_map(|image| {
            let mut reader = UntouchedReader::new(session, front);
            let queues = u16::from(Section::Queues.code());
            let mut cursor = image.seek(queues, &reader.key()).ok()?;
            while let Some(entry) = cursor.next_entry().ok()? {
                if !reader.entry(entry.key, entry.value).ok()? {
                    break;
                }
            }
            reader.is_whole().then_some(reader)
        })
    }
}

/// The newest image on a disk, and the last record that it covers.
pub fn newest(disk: &SimDisk, facts: &Facts) -> Result<(State, Lsn), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let (images, ..) = stated_images(disk, facts)?;
    let Some(image) = images.newest() else { return Ok((State::new(Shard::WHOLE), Lsn::ZERO)) };
    let mut loader = Loader::new(Shard::WHOLE);
    let mut entries = image.entries(|_| true, at_full_speed());
    while let Some(entry) = entries.next_entry().map_err(|error| told(&error))? {
        let section = u8::try_from(entry.section).ok().and_then(Section::from_code);
        let section = section.ok_or("a section that is not known")?;
        loader.entry(section, entry.key, entry.value).map_err(|error| told(&error))?;
    }
    let state = loader.finish().map_err(|error| told(&error))?;
    Ok((state, Lsn::new(image.heading().lsn.get())))
}

/// Applies to a state, which is that at one record, all up to another one; `false` if the log does
/// not have that any more.
pub fn follow_to(
    state: &mut State,
    log: &Log<SimDisk>,
    at: Lsn,
    last: Lsn,
) -> Result<bool, String> {
    if at == last {
        return Ok(true);
    }
    let mut follow = || -> Result<Result<bool, String>, ReadError> {
        let mut reader = log.reader(zzq_wal::Lsn::new(at.next().get()))?;
        while let Some(found) = reader.next_record()? {
            let lsn = Lsn::new(found.lsn.get());
            let record = match Record::decode(found.kind, found.body) {
                Ok(record) => record,
                Err(error) => return Ok(Err(error.to_string())),
            };
            state.apply(lsn, found.time_ms, &record, &mut NoEffects);
            if lsn == last {
                return Ok(Ok(true));
            }
        }
        Ok(Ok(false))
    };
    match follow() {
        Err(ReadError::Disk { .. } | ReadError::Trimmed { .. }) => Ok(false),
        Err(error) => Err(error.to_string()),
        Ok(followed) => followed,
    }
}

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

    /// Whether each image on this disk has by itself what it refers to, and the newest is what the
    /// log says, if it covers as much as this.
    pub fn compare(&self, disk: &SimDisk, log: &Log<SimDisk>) -> Result<(), String> {
        let (covered, state) = look_at_all(disk, log)?;
        if covered != self.applied() {
            return Err(format!("the newest image covers {covered}"));
        }
        let (image, log) = (Sections::of(&state, Select::All), Sections::of(&self.0, Select::All));
        if image == log { Ok(()) } else { Err(crate::node::differences(&image, &log)) }
    }
}

/// Whether each image on this disk has by itself what it refers to: in a cold file that it needs,
/// or in the log behind all that it says may be trimmed. Returns what the newest covers and is.
pub fn look_at_all(disk: &SimDisk, log: &Log<SimDisk>) -> Result<(Lsn, State), String> {
    let identity = log.facts().identity;
    let (images, verdicts, there) = stated_images(disk, &log.facts())?;
    if let Some(verdict) = verdicts.first() {
        return Err(verdict.to_string());
    }
    let cold = ColdShelf::open(disk, &there, &identity, &images.needed_cold(), 0);
    let (cold, _) = cold.map_err(|error| error.to_string())?;
    let mut newest = Err("there is no image".into());
    for image in images.images() {
        newest = Ok((Lsn::new(image.heading().lsn.get()), look_at(image, &cold, log)?));
    }
    newest
}

fn look_at(
    image: &Volume<File>,
    cold: &ColdShelf<File>,
    log: &Log<SimDisk>,
) -> Result<State, String> {
    let needs = image.needs().map_err(|error| error.to_string())?;
    let of = |kind| needs.iter().filter(move |need| need.kind == kind);
    let behind = image.heading().lsn.next();
    let from = of(NeededKind::Segment).map(|need| need.first).fold(behind, zzq_wal::Lsn::min);
    if from < log.first_whole() {
        let begins = log.first_whole();
        return Err(format!("{} needs {from}, and the log begins with {begins}", image.name()));
    }
    let is_own = |number| of(NeededKind::Cold).any(|need| need.number == number);
    let kept = |lsn: Lsn| {
        let lsn = zzq_wal::Lsn::new(lsn.get());
        let mut files = cold.files().iter().filter(|file| is_own(file.number()));
        lsn >= from || files.any(|file| file.contains(lsn))
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
    match lost {
        Some(lsn) => Err(format!("{} refers to {lsn}, which may go", image.name())),
        None => loader.finish().map_err(|error| error.to_string()),
    }
}

/// What stays on a disk that nothing there needs: segments of the log in front of all that images
/// need and of so many bytes that are kept for readers, and cold files.
pub fn needless(disk: &SimDisk, log: &Log<SimDisk>, kept: u64) -> Result<(u64, u64), String> {
    let (images, _, there) = stated_images(disk, &log.facts())?;
    let (needed, cold) = (images.first_needed(), images.needed_cold());
    let mut behind = 0_u64;
    let segments = log.whole_segments().into_iter().rev().filter(|segment| {
        let is_needless = segment.last < needed && behind >= kept;
        behind = behind.saturating_add(segment.bytes);
        is_needless
    });
    let segments = segments.count() as u64;
    let files = there.cold().iter().filter(|number| !cold.contains(number)).count() as u64;
    Ok((segments, files))
}

#[cfg(test)]
mod tests {
    use zzq_snapshot::{Heading, Kind};

    use super::*;

    /// A start had gone by the image before, and was told that it lacks what this one covers.
    #[test]
    fn an_image_that_meta_has_not_stated_counts_for_none() {
        let disk = SimDisk::new();
        let options = zzq_wal::Options::from_os().unwrap();
        let (log, _) = Log::open(disk.clone(), options, 1, &mut |_| Ok(())).unwrap();
        let (mut images, ..) = stated_images(&disk, &log.facts()).unwrap();
        let heading = Heading::new(Kind::Image, log.facts().identity);
        images.begin(&disk, heading, at_full_speed()).unwrap().finish().unwrap();
        let mut facts = (*log.facts()).clone();
        let count = |facts: &Facts| stated_images(&disk, facts).unwrap().0.images().count();
        assert_eq!(count(&facts), 0);
        facts.snapshot_number = heading.number;
        assert_eq!(count(&facts), 1);
    }
}
