//! The entries of an image become the states of lanes: read and checked by one thread, decoded by
//! one for each lane.
//!
//! Owns: the way from one to the others, in batches, of which few are under way.

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
    /// Section, length of the key, of both.
    entries: Vec<(Section, usize, usize)>,
    bytes: Vec<u8>,
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
        drop(ways);
        // What a lane's thread says comes first: it may be why dealing has ended.
        let states = threads.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome.map_err(failed),
            Err(panic) => std::panic::resume_unwind(panic),
        });
        let states = states.collect::<Result<Vec<_>, _>>()?;
        dealt.map(|()| states)
    })
}

fn deal<F: DiskFile>(
    image: &Volume<F>,
    ways: &mut [(SyncSender<Batch>, Batch)],
    pace: Pace<'_>,
) -> Result<(), LoadError> {
    let count = u32::try_from(ways.len()).unwrap_or(u32::MAX);
    let mut owners = Owners::new(count);
    let mut entries = image.entries(|_| true, pace);
    while let Some(entry) = entries.next_entry()? {
        let file = || image.name().to_owned();
        let Some(section) = section_of(entry.section) else {
            return Err(LoadError::Contents { file: file(), found: CONTENTS });
        };
        let owner = owners.of(section, entry.key, entry.value);
        let owner = owner.map_err(|reason| LoadError::State { file: file(), reason })?;
        for (index, (way, batch)) in (0..).zip(&mut *ways) {
            if owner == Owner::All || owner == Owner::One(index) {
                batch.push(section, entry.key, entry.value);
                // A lane's thread that has ended says why itself.
                if batch.bytes.len() >= BATCH && way.send(std::mem::take(batch)).is_err() {
                    return Ok(());
                }
            }
        }
    }
    for (way, batch) in ways {
        let _ = way.send(std::mem::take(batch));
    }
    Ok(())
}

fn decode(mut loader: Loader, batches: &Receiver<Batch>) -> Result<State, ImageError> {
    while let Ok(batch) = batches.recv() {
        let mut rest = &batch.bytes[..];
        for &(section, key_len, len) in &batch.entries {
            let (entry, behind) = rest.split_at(len);
            let (key, value) = entry.split_at(key_len);
            loader.entry(section, key, value)?;
            rest = behind;
        }
    }
    loader.finish()
}

impl Batch {
    fn push(&mut self, section: Section, key: &[u8], value: &[u8]) {
        self.entries.push((section, key.len(), key.len() + value.len()));
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }
}
