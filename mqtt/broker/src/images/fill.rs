//! The entries of an image become the states of lanes: read and checked by one thread, decoded by
//! one for each lane.
//!
//! Owns: the way from one to the others, in batches, of which few are under way; which error is
//! told: that of the first entry, whichever lane it is for.

use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use zzq_engine::State;
use zzq_engine::image::{ImageError, Loader, Owner, Owners, Section};
use zzq_snapshot::{Pace, Volume};
use zzq_wal::disk::DiskFile;

use super::load::LoadError;
use super::{CONTENTS, section_of};

/// Bytes of a batch, about.
const BATCH: usize = 256 * 1024;

/// Batches that wait for a lane's thread.
const AHEAD: usize = 4;

/// What becomes of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// How many parts the state has.
    pub(crate) lanes: u16,
    /// Queues stay in the image if their first entry has so many bytes.
    pub(crate) leaves_from: usize,
}

/// Entries of one lane.
#[derive(Debug, Default)]
struct Batch {
    entries: Vec<Dealt>,
    bytes: Vec<u8>,
}

/// One of them.
#[derive(Debug)]
struct Dealt {
    /// Which one of the image.
    at: u64,
    section: Section,
    key_len: usize,
    /// Of key and value.
    len: usize,
}

/// What a lane could not take.
#[derive(Debug)]
struct Failure {
    /// Which entry; `None`: all were, and they make no state together.
    at: Option<u64>,
    reason: ImageError,
}

/// The states of all lanes.
pub(super) fn fill<F: DiskFile>(
    image: &Volume<F>,
    target: Target,
    pace: Pace<'_>,
) -> Result<Vec<State>, LoadError> {
    let failed = |reason| LoadError::State { file: image.name().to_owned(), reason };
    let shards = crate::start::shards(target.lanes);
    let loaders = shards.map(|shard| Loader::leaving_queues(shard, target.leaves_from));
    thread::scope(|scope| {
        let mut ways = Vec::new();
        let mut threads = Vec::new();
        for loader in loaders {
            let (way, batches) = sync_channel(AHEAD);
            ways.push((way, Batch::default()));
            threads.push(scope.spawn(move || decode(loader, &batches)));
        }
        let dealt = deal(image, &mut ways, pace);
        // What is left lies before the entry that may have ended the dealing.
        for (way, batch) in ways {
            let _ = way.send(batch);
        }
        let (mut states, mut failures) = (Vec::new(), Vec::new());
        for thread in threads {
            match thread.join().unwrap_or_else(|panic| resume_unwind(panic)) {
                Ok(state) => states.push(state),
                Err(failure) => failures.push(failure),
            }
        }
        // What a lane says of an entry comes first: all behind it, and the end, come of less.
        let of_entry = failures.extract_if(.., |failure| failure.at.is_some());
        if let Some(first) = of_entry.min_by_key(|failure| failure.at) {
            return Err(failed(first.reason));
        }
        dealt?;
        match failures.into_iter().next() {
            Some(failure) => Err(failed(failure.reason)),
            None => Ok(states),
        }
    })
}

/// Deals entries out until the last one, or until a lane takes no more.
fn deal<F: DiskFile>(
    image: &Volume<F>,
    ways: &mut [(SyncSender<Batch>, Batch)],
    pace: Pace<'_>,
) -> Result<(), LoadError> {
    let count = u32::try_from(ways.len()).unwrap_or(u32::MAX);
    let mut owners = Owners::new(count);
    let mut entries = image.entries(|_| true, pace);
    let mut at = 0;
    while let Some(entry) = entries.next_entry()? {
        let file = || image.name().to_owned();
        let Some(section) = section_of(entry.section) else {
            return Err(LoadError::Contents { file: file(), found: CONTENTS });
        };
        let owner = owners.of(section, entry.key, entry.value);
        let owner = owner.map_err(|reason| LoadError::State { file: file(), reason })?;
        at += 1;
        let mut all_take = true;
        for (index, (way, batch)) in (0..).zip(&mut *ways) {
            if owner == Owner::All || owner == Owner::One(index) {
                batch.push(at, section, entry.key, entry.value);
                if batch.bytes.len() >= BATCH {
                    all_take &= way.send(std::mem::take(batch)).is_ok();
                }
            }
        }
        // A lane's thread that has ended says why itself.
        if !all_take {
            return Ok(());
        }
    }
    Ok(())
}

fn decode(mut loader: Loader, batches: &Receiver<Batch>) -> Result<State, Failure> {
    while let Ok(batch) = batches.recv() {
        let mut rest = &batch.bytes[..];
        for &Dealt { at, section, key_len, len } in &batch.entries {
            let (entry, behind) = rest.split_at(len);
            let (key, value) = entry.split_at(key_len);
            let taken = loader.entry(section, key, value);
            taken.map_err(|reason| Failure { at: Some(at), reason })?;
            rest = behind;
        }
    }
    loader.finish().map_err(|reason| Failure { at: None, reason })
}

impl Batch {
    fn push(&mut self, at: u64, section: Section, key: &[u8], value: &[u8]) {
        let (key_len, len) = (key.len(), key.len() + value.len());
        self.entries.push(Dealt { at, section, key_len, len });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use zzq_engine::image::{Sections, Select};
    use zzq_engine::record::Connect;
    use zzq_engine::{NoEffects, Record, SessionNumber, Shard};
    use zzq_snapshot::{Heading, Kind, Listing, Shelf, at_full_speed};
    use zzq_types::Lsn;
    use zzq_wal::format::segment::Identity;
    use zzq_wal::sim_disk::SimDisk;

    use super::*;

    const LANES: u16 = 3;

    /// A session on each lane, by number from 1 on.
    fn sessions() -> Sections {
        let mut state = State::new(Shard::WHOLE);
        for lane in 0..u32::from(LANES) {
            let owned = Shard::new(lane, u32::from(LANES));
            let names = (0..).map(|n| format!("client {n}"));
            let client = names.into_iter().find(|name| owned.owns(name.as_bytes())).unwrap();
            let connect = Record::Connect(Connect {
                session: SessionNumber::new(u64::from(lane) + 1).unwrap(),
                client: &client,
                expiry_s: u32::MAX,
                window: 1,
                joins: None,
                will: None,
            });
            state.apply(Lsn::new(u64::from(lane) + 1), 0, &connect, &mut NoEffects);
        }
        Sections::of(&state, Select::All)
    }

    /// An image of these sessions with entries behind them that are none.
    fn fill_with(bad: &[(Section, u64)]) -> Result<Vec<State>, LoadError> {
        let (disk, identity) = (SimDisk::new(), Identity::default());
        let there = Listing::default();
        let (mut shelf, _) = Shelf::open(&disk, &there, &identity, None, at_full_speed()).unwrap();
        let heading = Heading { contents: CONTENTS, ..Heading::new(Kind::Image, identity) };
        let mut writer = shelf.begin(&disk, heading, at_full_speed()).unwrap();
        let good = sessions();
        for section in Section::ALL {
            let code = u16::from(section.code());
            for entry in good.entries(section) {
                let (key, value) = entry.unwrap();
                writer.entry(code, key, value).unwrap();
            }
            for (_, session) in bad.iter().filter(|(of, _)| *of == section) {
                // The session's number, and nothing of what else a key has.
                writer.entry(code, &session.to_be_bytes(), &[0xFF; 3]).unwrap();
            }
        }
        let image = writer.finish().unwrap();
        fill(&image, Target { lanes: LANES, leaves_from: 0 }, at_full_speed())
    }

    #[test]
    fn what_is_wrong_first_in_an_image_is_told_whichever_lane_finds_it() {
        assert!(fill_with(&[]).is_ok());
        let (subscriptions, inbound) = (Section::Subscriptions, Section::Inbound);
        for (bad, first) in [
            ([(subscriptions, 3), (inbound, 1)], subscriptions),
            ([(subscriptions, 1), (inbound, 3)], subscriptions),
            ([(inbound, 2), (Section::Queues, 1)], inbound),
        ] {
            let Err(LoadError::State { reason, .. }) = fill_with(&bad) else {
                panic!("it was taken")
            };
            let ImageError::Entry(section, _) = reason else { panic!("{reason}") };
            assert_eq!(section, first, "{bad:?}");
        }
    }
}
