//! The log behind the image becomes part of the states of lanes: read and put in order by one
//! thread, decoded and applied by one for each lane.
//!
//! Owns: the way from one to the others, in batches, of which few bytes are under way; which error
//! is told. Assumes: what a lane's state becomes depends on the records and on nothing of others.
//!
//! Every lane decodes every record: whose it is stands in it, and what is decoded borrows from its
//! bytes. That is little beside applying it.

mod window;

use std::mem::{size_of, take};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, Scope, ScopedJoinHandle};

use rustc_hash::FxHashMap;
use zzq_engine::{Effect, Record, State};
use zzq_snapshot::Volume;
use zzq_types::Lsn;
use zzq_wal::disk::{Disk, DiskFile};
use zzq_wal::{Found, Log, OpenError, Options, RecoveredRecord};

use self::window::{Share, Window};
use crate::images::{self, TouchError};
use crate::shell::HeldWill;

/// Bytes of a batch, unless one record alone is longer.
const BATCH: usize = 256 * 1024;

/// Bytes of all batches under way, unless one record alone is longer: one that is being filled, one
/// that is being applied, and some for lanes to be behind each other. It is bytes that are bounded
/// and not batches: `--max-packet-size` lets a record be a thousand times as long as a batch.
const UNDER_WAY: usize = 6 * BATCH;

/// What the log is folded into.
pub(super) struct Base<F> {
    pub(super) states: Vec<State>,
    /// The last record in these states.
    pub(super) covered: Lsn,
    /// The image, for queues that stayed in it.
    pub(super) image: Option<Volume<F>>,
}

/// The states with all of the log. It is not open yet: had a record been refused, nothing must
/// have been changed.
pub(super) struct Folded<D: Disk> {
    pub(super) found: Found<D>,
    pub(super) states: Vec<State>,
    pub(super) wills: FxHashMap<Lsn, HeldWill>,
    /// How many records were folded, and bytes of their bodies.
    pub(super) records: u64,
    pub(super) bytes: u64,
}

/// Why a log is not folded.
#[derive(Debug)]
pub(super) enum FoldError {
    /// It cannot be read, or a record of it not be decoded.
    Open(OpenError),
    /// A queue could not be read from the image.
    Touch(TouchError),
}

/// Folds the log on `disk`. For one lane a thread beside this one brings nothing, as measured.
/// Without threads for recovery whatever is asked of the disk is in an order that never varies.
pub(super) fn fold<D: Disk>(
    disk: D,
    options: Options,
    base: Base<D::File>,
) -> Result<Folded<D>, FoldError> {
    let Base { states, covered, image } = base;
    let is_apart = options.recovery_threads > 0 && states.len() > 1;
    thread::scope(|scope| {
        let image = image.as_ref();
        let parts =
            states.into_iter().map(|state| Part { state, image, wills: FxHashMap::default() });
        let way = |part| if is_apart { Way::apart(scope, part) } else { Way::here(part) };
        let mut folding = Folding {
            next: covered.next(),
            bytes: 0,
            batch: Batch::default(),
            window: Arc::new(Window::new(UNDER_WAY)),
            ways: parts.map(way).collect(),
        };
        let found = Log::find(disk, options, &mut |record| folding.record(&record));
        folding.send();
        // What a lane says comes first: it concerns records before those that others know of.
        let ended = folding.ways.into_iter().map(Way::end).collect::<Vec<_>>();
        let (mut failures, mut parts) = (Vec::new(), Vec::new());
        for end in ended {
            match end {
                Ok(part) => parts.push(part),
                Err(failure) => failures.push(failure),
            }
        }
        if let Some(first) = failures.into_iter().min_by_key(|failure| failure.lsn) {
            return Err(first.error);
        }
        let found = found.map_err(FoldError::Open)?;
        let (mut states, mut wills) = (Vec::new(), FxHashMap::default());
        for part in parts {
            states.push(part.state);
            wills.extend(part.wills);
        }
        let records = folding.next.get() - covered.next().get();
        Ok(Folded { found, states, wills, records, bytes: folding.bytes })
    })
}

/// Where the log is read.
struct Folding<'s, F> {
    /// The record that comes next.
    next: Lsn,
    /// Of all bodies.
    bytes: u64,
    batch: Batch,
    window: Arc<Window>,
    ways: Vec<Way<'s, F>>,
}

impl<F: DiskFile> Folding<'_, F> {
    fn record(
        &mut self,
        found: &RecoveredRecord<'_>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let lsn = Lsn::new(found.lsn.get());
        if lsn != self.next {
            let next = self.next;
            return Err(format!("record {next} is gone, and no good image covers it").into());
        }
        self.next = lsn.next();
        self.bytes += found.body.len() as u64;
        if !self.batch.has_room_for(found) {
            if !self.send() {
                return Err("a record before it was refused".into());
            }
            let share = Window::take(&self.window, BATCH.max(Batch::size_of(found)));
            self.batch = Batch::with(share);
        }
        self.batch.push(lsn, found);
        Ok(())
    }

    /// Gives the batch to all lanes, for another one may fail at an earlier record of it. False:
    /// one of them takes no more.
    fn send(&mut self) -> bool {
        let batch = Arc::new(take(&mut self.batch));
        let mut all_take = true;
        for way in &mut self.ways {
            all_take &= way.send(&batch);
        }
        all_take
    }
}

/// Records on their way to lanes.
#[derive(Default)]
struct Batch {
    records: Vec<Entry>,
    bodies: Vec<u8>,
    /// What it may take; given back when the last lane has done with it.
    share: Option<Share>,
}

struct Entry {
    lsn: Lsn,
    time_ms: u64,
    kind: u8,
    len: usize,
}

impl Batch {
    fn with(share: Share) -> Self {
        let bodies = Vec::with_capacity(share.bytes());
        Self { records: Vec::new(), bodies, share: Some(share) }
    }

    fn has_room_for(&self, found: &RecoveredRecord<'_>) -> bool {
        let room = self.share.as_ref().map_or(0, Share::bytes);
        self.size() + Self::size_of(found) <= room
    }

    fn push(&mut self, lsn: Lsn, found: &RecoveredRecord<'_>) {
        let RecoveredRecord { time_ms, kind, body, .. } = *found;
        self.records.push(Entry { lsn, time_ms, kind, len: body.len() });
        self.bodies.extend_from_slice(body);
    }

    fn size(&self) -> usize {
        self.bodies.len() + self.records.len() * size_of::<Entry>()
    }

    fn size_of(found: &RecoveredRecord<'_>) -> usize {
        found.body.len() + size_of::<Entry>()
    }
}

/// How batches come to a lane's state.
enum Way<'s, F> {
    Here(Box<Result<Part<'s, F>, Failure>>),
    Apart(Sender<Arc<Batch>>, ScopedJoinHandle<'s, Result<Part<'s, F>, Failure>>),
}

impl<'s, F: DiskFile> Way<'s, F> {
    fn here(part: Part<'s, F>) -> Self {
        Self::Here(Box::new(Ok(part)))
    }

    fn apart(scope: &'s Scope<'s, '_>, part: Part<'s, F>) -> Self {
        let (way, batches) = channel();
        Self::Apart(way, scope.spawn(move || part.follow(&batches)))
    }

    fn send(&mut self, batch: &Arc<Batch>) -> bool {
        match self {
            Self::Apart(way, _) => way.send(Arc::clone(batch)).is_ok(),
            Self::Here(part) => {
                if let Ok(taken) = &mut **part
                    && let Err(failure) = taken.batch(batch)
                {
                    **part = Err(failure);
                }
                part.is_ok()
            }
        }
    }

    fn end(self) -> Result<Part<'s, F>, Failure> {
        match self {
            Self::Here(part) => *part,
            Self::Apart(way, thread) => {
                drop(way);
                thread.join().unwrap_or_else(|panic| resume_unwind(panic))
            }
        }
    }
}

/// A record that a lane could not take.
#[derive(Debug)]
struct Failure {
    lsn: Lsn,
    error: FoldError,
}

/// The state of one lane.
struct Part<'s, F> {
    state: State,
    image: Option<&'s Volume<F>>,
    wills: FxHashMap<Lsn, HeldWill>,
}

impl<F: DiskFile> Part<'_, F> {
    fn follow(mut self, batches: &Receiver<Arc<Batch>>) -> Result<Self, Failure> {
        while let Ok(batch) = batches.recv() {
            self.batch(&batch)?;
        }
        Ok(self)
    }

    fn batch(&mut self, batch: &Batch) -> Result<(), Failure> {
        let mut rest = &batch.bodies[..];
        for &Entry { lsn, time_ms, kind, len } in &batch.records {
            let (body, behind) = rest.split_at(len);
            rest = behind;
            let record = Record::decode(kind, body).map_err(|reason| {
                let lsn = zzq_wal::Lsn::new(lsn.get());
                FoldError::Open(OpenError::Refused { lsn, kind, reason: Box::new(reason) })
            });
            let taken = record.and_then(|record| self.record(lsn, time_ms, &record));
            taken.map_err(|error| Failure { lsn, error })?;
        }
        Ok(())
    }

    fn record(&mut self, lsn: Lsn, time_ms: u64, record: &Record<'_>) -> Result<(), FoldError> {
        images::give_back(self.image, &mut self.state, record).map_err(FoldError::Touch)?;
        let wills = &mut self.wills;
        self.state.apply(lsn, time_ms, record, &mut |effect: Effect<'_>| match effect {
            Effect::WillHeld { lsn, .. } => {
                if let Some(will) = HeldWill::of(record) {
                    wills.insert(lsn, will);
                }
            }
            Effect::Released { lsn } => {
                wills.remove(&lsn);
            }
            _ => {}
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
