//! What each lane starts with, taken from the ground that a start has laid.
//!
//! Owns: the order in which lanes join the log. Does not know: threads, which disk it is.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use zzq_engine::{Index, State};
use zzq_lanes::{LaneIndex, LaneWaker};
use zzq_types::Lsn;
use zzq_wal::disk::Disk;
use zzq_wal::{Log, LogClock, Producer, TailCursor};

use crate::clock::Clock;
use crate::fetch::Fetcher;
use crate::hooks::AskSeat;
use crate::replay::Replayer;
use crate::shared::Shared;
use crate::shell::{HeldWill, Journal, Seat, Seed, Wills};
use crate::start::{self, Ground, LaneWake};

/// The log, and the ways to what is only there.
pub(crate) struct Way<D: Disk> {
    pub(crate) log: Arc<Log<D>>,
    pub(crate) fetcher: Fetcher,
    pub(crate) replayer: Replayer,
}

/// Makes the seeds of lanes, one after the other.
pub(crate) struct Seeds<D: Disk, C> {
    shared: Arc<Shared>,
    clock: C,
    last_ms: u64,
    first_number: u64,
    random: u64,
    way: Option<Way<D>>,
    /// Of all lanes that are to come.
    wills: FxHashMap<Lsn, HeldWill>,
    /// What is left for the lanes to come, the next one first.
    shards: VecDeque<(State, Index)>,
    next: u16,
}

impl<D: Disk, C: Clock + Clone + 'static> Seeds<D, C> {
    /// For the lanes of `shared`, from what was folded; without a `way` in memory.
    pub(crate) fn new(
        shared: Arc<Shared>,
        ground: Ground<D>,
        way: Option<Way<D>>,
        clock: C,
        random: u64,
    ) -> Self {
        let Ground { states, indexes, wills, first_number, last_ms, .. } = ground;
        let shards = states.into_iter().zip(indexes).collect();
        Self { shared, clock, last_ms, first_number, random, way, wills, shards, next: 0 }
    }

    /// The seed of the next lane, which `waker` wakes. The last one writes the start into the log:
    /// `wait` passes the time until it is durable, or gives up with `false`.
    ///
    /// # Errors
    /// The log takes no more lanes, or cannot write.
    pub(crate) fn next(
        &mut self,
        waker: LaneWaker,
        wait: &mut dyn FnMut() -> bool,
    ) -> io::Result<Seed<D>> {
        let shard = self.shards.pop_front();
        let (state, index) = shard.ok_or_else(|| io::Error::other("more lanes than shards"))?;
        let lane = LaneIndex(self.next);
        self.next += 1;
        let reading = self.clock.read();
        let mut log_clock = LogClock::new(self.last_ms, reading.boot_ms, reading.wall_ms);
        self.shared.standing.join(lane, waker.clone());
        let spawn = self.shared.hooks.spawn.as_ref();
        let asks = spawn.map(|spawn| AskSeat::new(Arc::clone(spawn), waker.clone()));
        let (at_log, fetch, replay) = match &self.way {
            None => (None, None, None),
            Some(Way { log, fetcher, replayer }) => {
                let fetch = Some(fetcher.seat(waker.clone()));
                let replay = Some(replayer.seat(waker.clone()));
                let (producer, tail) = self.join(log, waker, &mut log_clock, wait)?;
                (Some(Seat { log: Arc::clone(log), producer, tail }), fetch, replay)
            }
        };
        let journal = Journal::new(lane, self.shared.lanes(), at_log);
        Ok(Seed {
            lane,
            shared: Arc::clone(&self.shared),
            clock: Box::new(self.clock.clone()),
            log_clock,
            journal,
            fetch,
            replay,
            asks,
            wills: self.wills_of(&state),
            state,
            index,
            first_number: start::first_number_of(lane.0, self.first_number),
            random: self.random.wrapping_add(u64::from(lane.0) << 56),
        })
    }

    /// The messages of the wills of a lane's part.
    fn wills_of(&mut self, state: &State) -> Wills {
        state.will_records().filter_map(|lsn| self.wills.remove_entry(&lsn)).collect()
    }

    /// A lane's place at the log. The last lane to come writes the start.
    fn join(
        &self,
        log: &Arc<Log<D>>,
        waker: LaneWaker,
        log_clock: &mut LogClock,
        wait: &mut dyn FnMut() -> bool,
    ) -> io::Result<(Producer<D>, TailCursor)> {
        let notify = match waker.eventfd() {
            Some(fd) => Some(Arc::new(fd.try_clone_to_owned()?)),
            None => None,
        };
        let wake = Arc::new(LaneWake(waker));
        let mut producer = log.producer(wake, notify).map_err(io::Error::other)?;
        let tail = producer.tail();
        if self.shards.is_empty() {
            let mut clock = self.clock.clone();
            let lanes = self.shared.lanes();
            start::begin(log, &mut producer, lanes, log_clock, &mut clock, wait)
                .map_err(io::Error::other)?;
        }
        Ok((producer, tail))
    }
}
