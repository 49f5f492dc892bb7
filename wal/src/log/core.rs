//! What leading the log means: the state behind the lock that only a try ever takes on a lane.
//!
//! Owns: `Core` and the order of one step. Time, completions and the helper's replies come in;
//! writes, tasks for the helper and wake-ups go out.
//! Does not know: threads.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use crate::chunk::Chunk;
use crate::disk::{Completion, Disk};
use crate::format::group::Place;
use crate::format::index::Entry;
use crate::format::segment::{GROUPS_AT, LastGood};
use crate::io::IoBuffer;
use crate::log::flight::{AwaitedBy, Flight};
use crate::log::helper::{Reply, Task};
use crate::log::maker::MakeError;
use crate::log::presence::Presence;
use crate::log::share::{Pack, Patience};
use crate::log::shared::Shared;
use crate::log::spares::Giver;
use crate::log::truncate::Cut;
use crate::log::wanted::{Mark, Starved, Wanted};
use crate::lsn::Lsn;
use crate::segment::Segment;
use crate::tail::Group;

/// Writes in flight at most. Recovery's proofs rest on it: a group is sealed only when the group
/// two before it is durable.
pub(crate) const FLIGHTS_MAX: usize = 2;

/// Calls a producer's lane back. It may come from any thread, is short, and never calls the log.
pub trait Wake: Send + Sync {
    /// Makes the lane look at its producer soon.
    fn wake(&self);
}

/// What a producer shares with whoever leads.
pub(crate) struct ProducerShared {
    /// The producer's counts of what has an LSN and of what is durable.
    pub(crate) appended: AtomicU64,
    pub(crate) durable: Mark,
    /// Of `durable`.
    pub(crate) wanted: Wanted,
    /// Of the log's durable LSN.
    pub(crate) wanted_lsn: Wanted,
    /// Of room in the ring.
    pub(crate) starved: Starved,
    /// Of what is in the ring.
    pub(crate) staged_bytes: AtomicUsize,
    pub(crate) wake: Arc<dyn Wake>,
    /// The term it was made under is over.
    pub(crate) ended: AtomicBool,
    pub(crate) presence: Presence,
}

/// A producer as the leader sees it.
pub(crate) struct Lane {
    pub(crate) ring: rtrb::Consumer<Chunk>,
    pub(crate) back: Giver,
    pub(crate) tail: Option<rtrb::Producer<Arc<Group>>>,
    pub(crate) shared: Arc<ProducerShared>,
    /// The group with the first part of a big record whose last part is still to come.
    pub(crate) open: Option<Place>,
    /// Its producer has been dropped: it reaps nothing any more.
    pub(crate) gone: bool,
}

/// The segment that is written.
pub(crate) struct Active<F> {
    pub(crate) segment: Arc<Segment<F>>,
    pub(crate) end: u64,
    pub(crate) index: Vec<Entry>,
}

impl<F> Active<F> {
    pub(crate) fn new(segment: Arc<Segment<F>>) -> Self {
        Self { segment, end: GROUPS_AT, index: Vec::new() }
    }
}

/// A full segment; it is closed once its last group is durable.
pub(crate) struct Full<F> {
    pub(crate) segment: Arc<Segment<F>>,
    pub(crate) index: Vec<Entry>,
    pub(crate) last: LastGood,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Running,
    /// A write failed: nothing new is written until those in flight have come back.
    Draining,
    /// The helper makes the segment that the unacknowledged groups move to.
    Moving,
}

/// Why the log packs nothing although something waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stall {
    /// A cursor of the tail is too far behind.
    Tail,
    /// The next segment is being made.
    Segment,
    /// There is no space for the next segment; it is tried again.
    Space,
}

/// What the helper had no space for when it was asked last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// A segment beside what is reserved: there may be one once it is needed.
    Ordinary,
    /// One that was needed.
    Needed,
}

/// Sizes that leading needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) term: u64,
    pub(crate) segment_size: u64,
    /// No segment that begins empty is shorter: any chunk finds room in it.
    pub(crate) first_segment: u64,
    pub(crate) group_size: usize,
    pub(crate) chunk_size: usize,
    pub(crate) part_size: usize,
    pub(crate) ring_chunks: usize,
    pub(crate) tail_groups: usize,
    pub(crate) tail_bytes: usize,
    pub(crate) lazy_ms: u64,
    pub(crate) lazy_bytes: usize,
    pub(crate) watch_us: u64,
}

impl Limits {
    /// Bytes that one lane may have staged: what is packed next while two groups are in flight.
    /// More of it would not be written any sooner.
    pub(crate) fn staged(&self) -> usize {
        FLIGHTS_MAX * self.group_size
    }

    /// Bytes of memory for chunks that each of so many lanes keeps that are there. All of them
    /// together keep what the groups in flight take; each has at least enough for its own turns.
    fn kept(&self, lanes: usize) -> usize {
        let all = FLIGHTS_MAX * self.group_size;
        (all / lanes.max(1)).max(4 * self.chunk_size)
    }
}

/// Who leads.
#[derive(Clone, Copy)]
pub(crate) struct Leader<'a> {
    /// Its place among the producers: it is not woken.
    pub(crate) producer: Option<usize>,
    pub(crate) notify: Option<&'a Arc<OwnedFd>>,
    /// It is the thread that drives the log, and nobody else leads.
    pub(crate) drives: bool,
    /// That of its producer.
    pub(crate) generation: u64,
    pub(crate) patience: Patience,
}

impl<'a> Leader<'a> {
    /// One that is no producer.
    pub(crate) fn nobody(notify: Option<&'a Arc<OwnedFd>>) -> Self {
        Self { producer: None, notify, drives: false, generation: 0, patience: Patience::None }
    }
}

pub(crate) struct Core<D: Disk> {
    /// A truncation that is under way: nothing is packed.
    pub(crate) cut: Option<Cut>,
    /// How often all producers have been ended: who comes from before leads for nobody.
    pub(crate) generation: u64,
    pub(crate) limits: Limits,
    pub(crate) lanes: Vec<Lane>,
    /// The lane whose chunks come first in the next group.
    pub(crate) turn: usize,
    pub(crate) now_ms: u64,
    pub(crate) mode: Mode,
    pub(crate) active: Active<D::File>,
    /// The groups of the segment before were long.
    pub(crate) was_bulky: bool,
    pub(crate) next: Option<Arc<Segment<D::File>>>,
    /// The helper has been asked for `next`.
    pub(crate) next_asked: bool,
    /// It was asked for one that is needed.
    pub(crate) next_is_needed: bool,
    /// Not before this time is it asked again, after there was no space.
    pub(crate) ask_at_ms: u64,
    /// There was no space for it: beside what is reserved, or none at all.
    pub(crate) lacks_space: Option<Lack>,
    /// When a move, or a truncation, that found no space is tried again.
    pub(crate) move_at: Option<u64>,
    pub(crate) full: VecDeque<Full<D::File>>,
    pub(crate) flights: VecDeque<Flight<D::File>>,
    pub(crate) completions: Vec<Completion>,
    pub(crate) next_token: u64,
    /// The last group appended, and the last one durable.
    pub(crate) appended: LastGood,
    pub(crate) durable: LastGood,
    pub(crate) buffers: Vec<IoBuffer>,
    /// Groups that a cursor may still read, oldest first.
    pub(crate) recent: VecDeque<Arc<Group>>,
    pub(crate) recent_bytes: usize,
    pub(crate) free_groups: Vec<Arc<Group>>,
    pub(crate) free_marks: Vec<Vec<(usize, u64)>>,
    pub(crate) tasks: VecDeque<Task<D::File>>,
    pub(crate) task_ring: rtrb::Producer<Task<D::File>>,
    pub(crate) reply_ring: rtrb::Consumer<Reply<D::File>>,
}

/// What one step found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) again_at: Option<u64>,
    pub(crate) stall: Option<Stall>,
}

impl Lane {
    /// Whether this is so of a chunk that waits in the ring; the first come first.
    pub(crate) fn any_staged(&mut self, is_so: impl FnMut(&Chunk) -> bool) -> bool {
        let staged = self.ring.slots();
        let Ok(chunks) = self.ring.read_chunk(staged) else { unreachable!("they are there") };
        let (first, second) = chunks.as_slices();
        first.iter().chain(second).any(is_so)
    }
}

impl<D: Disk> Core<D> {
    /// One step: takes what has come back, then starts what may be started.
    pub(crate) fn step(
        &mut self,
        shared: &Shared<D>,
        leader: Leader<'_>,
        now_ms: u64,
        pack: Pack,
    ) -> Step {
        if leader.producer.is_some() && leader.generation != self.generation {
            // It has been ended since it looked. What it would have done others are called for.
            shared.wake_leaders();
            return Step::default();
        }
        self.now_ms = self.now_ms.max(now_ms);
        self.take_replies(shared);
        self.reap(shared, leader);
        if shared.is_read_only() {
            return Step::default();
        }
        self.recycle_groups();
        let mut step = Step::default();
        if self.mode == Mode::Running {
            if pack != Pack::Seal {
                self.submit_ready(shared, leader);
            }
            if pack != Pack::Nothing && self.cut.is_none() {
                step.stall = self.pack_all(shared, leader, pack);
            }
            if self.cut.is_none() {
                let is_needed = matches!(step.stall, Some(Stall::Segment | Stall::Space));
                self.ask_for_next(is_needed);
            }
        }
        // Also when it is a submission of this step that failed: no completion would call again.
        if self.mode == Mode::Draining {
            self.begin_move(shared);
        }
        self.move_again();
        self.go_on_cutting();
        // While the helper tries, its reply is what calls.
        if step.stall == Some(Stall::Space) && !self.next_asked {
            step.again_at = Some(self.ask_at_ms);
        }
        if self.move_at.is_some() {
            step.again_at = self.move_at;
        }
        let nobody_calls = |flight: &Flight<_>| flight.is_ready() || self.is_orphan(flight, leader);
        if self.flights.iter().any(|flight| self.cut.is_some() || nobody_calls(flight)) {
            step.again_at = Some(self.now_ms.saturating_add(1));
        }
        shared.note_company(self.company());
        self.close_full();
        self.send_tasks(shared);
        assert!(self.durable.lsn <= self.appended.lsn, "durable is a prefix of what was appended");
        assert!(self.flights.len() <= FLIGHTS_MAX, "two groups in flight at most");
        step
    }

    fn pack_all(&mut self, shared: &Shared<D>, leader: Leader<'_>, pack: Pack) -> Option<Stall> {
        if leader.patience == Patience::Over {
            self.give_up();
        }
        while self.mode == Mode::Running
            && self.flights.len() < FLIGHTS_MAX
            && self.something_is_due()
            && (pack != Pack::Long || self.has_long())
            && !(leader.patience == Patience::Some && self.more_comes_soon())
        {
            if let Some(stall) = self.pack(shared, leader) {
                return Some(stall);
            }
            if pack != Pack::Seal {
                self.submit_ready(shared, leader);
            }
        }
        None
    }

    /// Something waits, or what waits for nobody has waited long enough.
    fn something_is_due(&mut self) -> bool {
        let (limits, now_ms) = (self.limits, self.now_ms);
        let mut lazy_bytes = 0;
        let mut is_due = |chunk: &Chunk| {
            lazy_bytes += chunk.bytes.len();
            chunk.waits
                || lazy_bytes >= limits.lazy_bytes
                || chunk.since_ms.saturating_add(limits.lazy_ms) <= now_ms
        };
        self.lanes.iter_mut().any(|lane| lane.any_staged(&mut is_due))
    }

    /// Nobody is notified of its completion who would take it: who led it has gone, or does not
    /// lead any more.
    fn is_orphan(&self, flight: &Flight<D::File>, now: Leader<'_>) -> bool {
        let comes = match flight.awaited {
            AwaitedBy::Producer(number) => !now.drives && !self.lanes[number].gone,
            AwaitedBy::Driver => now.drives,
            AwaitedBy::Visitor => !now.drives,
            AwaitedBy::Nobody => false,
        };
        flight.is_in_flight() && !comes
    }

    /// The lane does not come for a while: neither for the writes that it led nor to read its tail,
    /// which ends. True if that leaves something for others to do.
    pub(crate) fn leave(&mut self, number: usize) -> bool {
        self.lanes[number].tail = None;
        let mut left = false;
        for flight in &mut self.flights {
            if flight.is_in_flight() && flight.awaited == AwaitedBy::Producer(number) {
                flight.awaited = AwaitedBy::Nobody;
                left = true;
            }
            left |= flight.is_ready();
        }
        let waits = self.lanes.iter().any(|lane| !lane.ring.is_empty());
        left || waits && self.flights.len() < FLIGHTS_MAX
    }

    /// `is_needed`: something waits for it. Then it may take what is reserved, at once.
    fn ask_for_next(&mut self, is_needed: bool) {
        let rests = self.now_ms < self.ask_at_ms;
        let may_be = is_needed && self.lacks_space == Some(Lack::Ordinary);
        if self.next.is_some() || self.next_asked || rests && !may_be {
            return;
        }
        self.next_asked = true;
        // What waits finds room in a segment beside the reserve, if there is one.
        let is_needed = is_needed && self.lacks_space.is_some();
        self.next_is_needed = is_needed;
        let length = self.active.segment.header.length;
        self.tasks.push_back(Task::Prepare {
            last_good: self.durable,
            // What a failed write has moved to may be shorter than any other.
            length: length
                .saturating_mul(2)
                .clamp(self.limits.first_segment, self.limits.segment_size),
            is_bulky: self.is_bulky(),
            is_needed,
        });
    }

    fn close_full(&mut self) {
        while self.full.front().is_some_and(|full| full.last.group <= self.durable.group) {
            let Some(full) = self.full.pop_front() else { return };
            self.tasks.push_back(Task::Close(full));
        }
    }

    fn send_tasks(&mut self, shared: &Shared<D>) {
        let waiting = self.tasks.len();
        while let Some(task) = self.tasks.pop_front() {
            if let Err(rtrb::PushError::Full(task)) = self.task_ring.push(task) {
                self.tasks.push_front(task);
                break;
            }
        }
        if self.tasks.len() < waiting {
            shared.nudge.call();
        }
    }

    fn take_replies(&mut self, shared: &Shared<D>) {
        while let Ok(reply) = self.reply_ring.pop() {
            match reply {
                Reply::Prepared(Ok(segment)) => {
                    self.next_asked = false;
                    self.next = Some(segment);
                    shared.set_waits_for_segment(false);
                    (self.lacks_space, self.ask_at_ms) = (None, 0);
                    shared.set_no_space(false);
                }
                Reply::Prepared(Err(MakeError::NoSpace(_))) => {
                    self.next_asked = false;
                    self.ask_at_ms = self.now_ms.saturating_add(SPACE_RETRY_MS);
                    let needed = self.next_is_needed;
                    self.lacks_space = Some(if needed { Lack::Needed } else { Lack::Ordinary });
                    if needed {
                        shared.set_no_space(true);
                    }
                }
                Reply::Prepared(Err(error)) => {
                    let error = io::Error::from(error);
                    shared.poison(format!("the next segment cannot be made: {error}"));
                }
                Reply::Truncated(Ok(segment)) => {
                    shared.set_waits_for_segment(false);
                    self.finish_cut(shared, segment);
                }
                Reply::Moved(Ok(segment)) => {
                    shared.set_waits_for_segment(false);
                    self.finish_move(shared, segment);
                }
                // What moves is in memory, and nobody was told that it is durable: it can wait. So
                // can what is to be void.
                Reply::Moved(Err(MakeError::NoSpace(_)))
                | Reply::Truncated(Err(MakeError::NoSpace(_))) => {
                    self.move_at = Some(self.now_ms.saturating_add(SPACE_RETRY_MS));
                    shared.set_no_space(true);
                }
                Reply::Truncated(Err(error)) => {
                    let error = io::Error::from(error);
                    shared.poison(format!("a truncation failed: {error}"));
                }
                Reply::Moved(Err(error)) => {
                    let (error, failed) = (io::Error::from(error), self.failed_write());
                    let failed = failed.unwrap_or_default();
                    shared.poison(format!("{failed}; no segment to move to: {error}"));
                }
            }
        }
    }

    /// Gives memory of groups that nobody reads any more back to its producers.
    pub(crate) fn recycle_groups(&mut self) {
        while let Some(front) = self.recent.front_mut() {
            let Some(group) = Arc::get_mut(front) else { return };
            self.recent_bytes -= group.bytes;
            let most = self.limits.kept(self.lanes.iter().filter(|lane| !lane.gone).count());
            for mut chunk in group.chunks.drain(..) {
                chunk.clear(2 * self.limits.chunk_size);
                let lane = &mut self.lanes[usize::from(chunk.producer)];
                if !lane.gone {
                    lane.back.give(chunk, most);
                }
            }
            if let Some(group) = self.recent.pop_front()
                && self.free_groups.len() < FREE_GROUPS_MAX
            {
                self.free_groups.push(group);
            }
        }
    }

    /// LSN of the next record.
    pub(crate) fn next_lsn(&self) -> Lsn {
        self.appended.lsn.next()
    }

    /// Nothing staged in rings and nothing in flight.
    pub(crate) fn is_settled(&self) -> bool {
        self.cut.is_none()
            && self.flights.is_empty()
            && self.lanes.iter().all(|lane| lane.ring.is_empty())
    }
}

const SPACE_RETRY_MS: u64 = 100;
const FREE_GROUPS_MAX: usize = 32;
