//! Every interleaving of the protocols around the rings, tried by loom: `cargo xtask loom`.
//!
//! A model is the product's own pieces with as little around them as their promise needs: a ring
//! is two counters, a lane that sleeps is a count of its calls. Its promise holds in all
//! interleavings with at most [`PREEMPTIONS`] switches that no thread asked for, and with every
//! value that memory may show. Each model is run again with one fence less, or with the step left
//! out that it is about: then it must fail, or it would show nothing.
//!
//! Does not know: the rings themselves (rtrb's), the disk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use loom::sync::atomic::AtomicU64;
use loom::thread;

use crate::log::fault::Fault;
use crate::log::lead::Leadership;
use crate::log::nudge::Nudge;
use crate::log::presence::{Presence, Where};
use crate::log::wanted::{Mark, Published, Starved, Wanted};
use crate::sync::{Between, leave_out};

mod seat;
mod staged;

const PREEMPTIONS: usize = 3;

/// Tries all interleavings of `scene`.
fn explore(scene: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(scene);
}

/// The same scene holds, and does not without any one of these fences.
fn needs(fences: &[Between], scene: fn()) {
    explore(scene);
    for fence in fences {
        leave_out(Some(*fence));
        fails(&format!("without {fence:?}"), scene);
        leave_out(None);
    }
}

/// Some interleaving of this scene breaks its promise.
fn fails(what: &str, scene: impl Fn() + Sync + Send + 'static) {
    let outcome = catch_unwind(AssertUnwindSafe(|| explore(scene)));
    assert!(outcome.is_err(), "{what} the model holds all the same");
}

/// A ring of rtrb as its two ends see it.
struct Ring {
    size: u64,
    put: AtomicU64,
    taken: AtomicU64,
}

impl Ring {
    fn new(size: u64, filled: u64) -> Self {
        Self { size, put: AtomicU64::new(filled), taken: AtomicU64::new(0) }
    }

    fn has_room(&self) -> bool {
        self.put.load(Relaxed) - self.taken.load(Acquire) < self.size
    }

    /// By its only producer. False: it is full.
    fn push(&self) -> bool {
        let room = self.has_room();
        if room {
            let put = self.put.load(Relaxed);
            self.put.store(put + 1, Release);
        }
        room
    }

    /// By its only consumer. False: it is empty.
    fn pop(&self) -> bool {
        let taken = self.taken.load(Relaxed);
        let some = taken < self.put.load(Acquire);
        if some {
            self.taken.store(taken + 1, Release);
        }
        some
    }
}

/// A lane that sleeps until it is called.
struct Calls(AtomicU64);

impl Calls {
    fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    fn wake(&self) {
        self.0.fetch_add(1, AcqRel);
    }

    /// How often it was called since it heard the last time.
    fn hear(&self) -> u64 {
        self.0.swap(0, AcqRel)
    }
}

/// One lane of a small log.
struct Lane {
    ring: Ring,
    tail: Ring,
    durable: Mark,
    wanted: Wanted,
    wanted_lsn: Wanted,
    calls: Calls,
}

/// A log whose groups are durable as soon as they are packed.
struct Log {
    leadership: Leadership<Core>,
    lanes: Vec<Lane>,
    durable: Mark,
}

struct Core {
    appended: u64,
    /// What each lane has got an LSN for.
    marks: Vec<u64>,
    /// Lanes whose tail is read.
    tails: Vec<bool>,
}

impl Log {
    fn new(lanes: usize) -> Arc<Self> {
        let lane = |_| Lane {
            ring: Ring::new(2, 0),
            tail: Ring::new(1, 0),
            durable: Mark::new(0),
            wanted: Wanted::new(),
            wanted_lsn: Wanted::new(),
            calls: Calls::new(),
        };
        let core = Core { appended: 0, marks: vec![0; lanes], tails: vec![false; lanes] };
        Arc::new(Self {
            leadership: Leadership::new(core),
            lanes: (0..lanes).map(lane).collect(),
            durable: Mark::new(0),
        })
    }

    /// One end of it for each lane, on a thread of its own.
    fn spawn(self: &Arc<Self>, lane: usize, what: fn(&Self, usize)) -> thread::JoinHandle<()> {
        let log = Arc::clone(self);
        thread::spawn(move || what(&log, lane))
    }

    fn stage(&self, lane: usize) {
        assert!(self.lanes[lane].ring.push(), "there is room for one");
    }

    /// What `Producer::drive` does. False: somebody else leads.
    fn drive(&self, lane: usize) -> bool {
        let led = self.leadership.lead(true, |core, packs| self.step(core, packs, lane));
        assert!(!led.broken && !led.again);
        led.last.is_some()
    }

    fn step(&self, core: &mut Core, packs: bool, leader: usize) {
        self.look();
        let stalled = |(lane, reads): (&Lane, &bool)| *reads && !lane.tail.has_room();
        if !packs || self.lanes.iter().zip(&core.tails).any(stalled) {
            return;
        }
        let before = core.appended;
        for (lane, mark) in self.lanes.iter().zip(&mut core.marks) {
            while lane.ring.pop() {
                *mark += 1;
                core.appended += 1;
            }
        }
        if core.appended == before {
            return;
        }
        for (lane, _) in self.lanes.iter().zip(&core.tails).filter(|(_, reads)| **reads) {
            assert!(lane.tail.push(), "the tail was found to have room");
        }
        self.durable.publish(core.appended);
        for (lane, mark) in self.lanes.iter().zip(&core.marks) {
            lane.durable.publish(*mark);
        }
        let published = Published::so_far();
        for (number, lane) in self.lanes.iter().enumerate() {
            let counted = lane.wanted.is_met(core.marks[number], &published);
            let placed = lane.wanted_lsn.is_met(core.appended, &published);
            if (counted || placed) && number != leader {
                lane.calls.wake();
            }
        }
    }

    /// Looks into the rings: whoever stages meanwhile finds leadership taken.
    fn look(&self) {
        self.lanes.iter().for_each(|lane| _ = lane.ring.put.load(Relaxed));
    }

    fn wake_all(&self) {
        self.lanes.iter().for_each(|lane| lane.calls.wake());
    }

    /// A lane comes once more if it was called.
    fn answer(&self, lane: usize) {
        if self.lanes[lane].calls.hear() > 0 {
            self.drive(lane);
        }
    }

    /// After the threads have ended.
    fn answer_all(&self) {
        (0..self.lanes.len()).for_each(|lane| self.answer(lane));
    }

    /// After the threads have ended.
    fn appended(&self) -> u64 {
        self.leadership.wait(|core| core.appended).0
    }
}

#[test]
fn nothing_that_is_staged_is_forgotten_whoever_leads() {
    needs(&[Between::CallAndTry, Between::ReleaseAndLook], || {
        let log = Log::new(3);
        let stage = |log: &Log, lane| {
            log.stage(lane);
            log.drive(lane);
        };
        let others = [log.spawn(1, stage), log.spawn(2, stage)];
        stage(&log, 0);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(log.appended(), 3, "no call is left");
    });
}

#[test]
fn who_takes_completions_alone_takes_the_work_of_those_who_called_meanwhile() {
    needs(&[Between::CallAndTry, Between::ReleaseAndLook], || {
        let log = Log::new(2);
        let other = log.spawn(1, |log, lane| {
            log.stage(lane);
            log.drive(lane);
        });
        log.leadership.lead(false, |core, packs| log.step(core, packs, 0));
        other.join().unwrap();
        assert_eq!(log.appended(), 1);
    });
}

#[test]
fn who_finds_the_lock_taken_by_a_question_is_called_back() {
    needs(&[Between::CallAndTry, Between::ReleaseAndLook], || {
        let log = Log::new(2);
        let other = log.spawn(1, |log, lane| {
            log.stage(lane);
            log.drive(lane);
        });
        let ((), called) = log.leadership.wait(|_| log.look());
        if called {
            log.wake_all();
        }
        other.join().unwrap();
        log.answer_all();
        assert_eq!(log.appended(), 1);
    });
}

/// A lane waits for what it staged, by count and by LSN.
fn stage_and_wait(log: &Log, lane: usize) {
    log.stage(lane);
    log.drive(lane);
    let (own, others) = (&log.lanes[lane], &log.durable);
    let has_come = if lane == 0 {
        own.wanted.ask(1, &own.durable)
    } else {
        // Whoever comes first: both are durable in the end.
        own.wanted_lsn.ask(2, others)
    };
    if has_come {
        // A call may be under way, which is heard now.
        own.calls.wake();
    }
}

#[test]
fn everybody_who_waits_is_called() {
    needs(&[Between::AskAndLook, Between::PublishAndLook], || {
        let log = Log::new(2);
        let other = log.spawn(1, stage_and_wait);
        stage_and_wait(&log, 0);
        other.join().unwrap();
        assert_eq!(log.appended(), 2);
        assert!(log.lanes.iter().all(|lane| lane.calls.hear() > 0));
    });
}

/// A leader publishes 1 and then 2, for who waits.
fn publishes_twice(mark: &Arc<(Mark, Wanted, Calls)>) -> thread::JoinHandle<()> {
    let mark = Arc::clone(mark);
    thread::spawn(move || {
        let (mark, wanted, calls) = &*mark;
        for at in 1..=2 {
            mark.publish(at);
            if wanted.is_met(at, &Published::so_far()) {
                calls.wake();
            }
        }
    })
}

#[test]
fn each_wait_ends_by_one_call() {
    needs(&[Between::AskAndLook, Between::PublishAndLook], || {
        let mark = Arc::new((Mark::new(0), Wanted::new(), Calls::new()));
        let leader = publishes_twice(&mark);
        let has_come = mark.1.ask(1, &mark.0);
        leader.join().unwrap();
        let calls = mark.2.hear();
        assert!(calls == 1 || has_come && calls == 0, "{calls} calls, has come: {has_come}");
    });
}

#[test]
fn a_later_wish_takes_the_place_of_an_earlier_one() {
    needs(&[Between::AskAndLook, Between::PublishAndLook], || {
        let mark = Arc::new((Mark::new(0), Wanted::new(), Calls::new()));
        let leader = publishes_twice(&mark);
        mark.1.ask(1, &mark.0);
        let before = mark.2.hear();
        let second = mark.1.ask(2, &mark.0);
        leader.join().unwrap();
        let calls = mark.2.hear();
        assert!(second || calls > 0, "the later one is called for");
        assert!(before + calls <= 2, "each once");
    });
}

#[test]
fn who_starves_is_called_when_there_is_room() {
    needs(&[Between::AskAndLook, Between::PublishAndLook], || {
        let ring = Arc::new((Ring::new(1, 1), Starved::new(), Calls::new()));
        let leader = Arc::clone(&ring);
        let leader = thread::spawn(move || {
            let (ring, starved, calls) = &*leader;
            assert!(ring.pop());
            if starved.is_met(&Published::so_far()) {
                calls.wake();
            }
        });
        // What `Producer::has_room` does.
        let (chunks, starved, calls) = &*ring;
        let mut room = chunks.has_room();
        if !room {
            starved.ask();
            room = chunks.has_room();
            if room {
                starved.take_back();
            }
        }
        leader.join().unwrap();
        let calls = calls.hear();
        assert!(room || calls == 1, "{calls} calls");
        assert!(calls <= 1, "{calls} calls");
    });
}

#[test]
fn parts_that_the_ring_has_no_room_for_are_called_for_until_the_last() {
    needs(&[Between::AskAndLook, Between::PublishAndLook], || {
        fn take(ring: &Ring, starved: &Starved, calls: &Calls) {
            assert!(ring.pop(), "parts are left that nobody calls for");
            if starved.is_met(&Published::so_far()) {
                calls.wake();
            }
        }
        let shared = Arc::new((Ring::new(1, 1), Starved::new(), Calls::new()));
        let leader = Arc::clone(&shared);
        let leader = thread::spawn(move || take(&leader.0, &leader.1, &leader.2));
        let (ring, starved, calls) = &*shared;
        // What `Producer::flush_backlog` does.
        let flush = |backlog: &mut u32| {
            starved.put_or_ask(|| {
                while *backlog > 0 && ring.push() {
                    *backlog -= 1;
                }
                *backlog > 0
            });
        };
        let mut backlog = 2;
        flush(&mut backlog);
        leader.join().unwrap();
        while backlog > 0 {
            if calls.hear() == 0 {
                take(ring, starved, calls);
            } else {
                flush(&mut backlog);
            }
        }
    });
}

/// Two writers hold back what they have for one another, as `Writer` and `Core` do it: whoever
/// finds the other one about to bring more leaves its own records, looks for a while whether they
/// were taken along, and goes on without if not.
fn share(comes: bool, goes_on: bool) {
    struct Shared {
        rings: [Ring; 2],
        at: [Presence; 2],
        appended: [Mark; 2],
        leadership: Leadership<[u64; 2]>,
    }
    impl Shared {
        fn lead(&self, is_patient: bool) {
            let led = self.leadership.lead(true, |taken, _| {
                let comes = |(ring, at): (&Ring, &Presence)| {
                    at.get() == Where::Stages && ring.put.load(Acquire) == 0
                };
                if is_patient && self.rings.iter().zip(&self.at).any(comes) {
                    return;
                }
                if !is_patient {
                    self.at.iter().for_each(Presence::give_up);
                }
                for (lane, count) in taken.iter_mut().enumerate() {
                    while self.rings[lane].pop() {
                        *count += 1;
                        self.appended[lane].publish(*count);
                    }
                }
            });
            assert!(!led.broken && !led.again);
        }

        fn write(&self, lane: usize, goes_on: bool) {
            assert!(self.rings[lane].push());
            self.at[lane].set(Where::Watches);
            self.lead(true);
            if goes_on && self.appended[lane].get() == 0 {
                self.lead(false);
            }
        }
    }
    let at = [Presence::new(), Presence::new()];
    at.iter().for_each(|at| at.set(Where::Stages));
    let shared = Arc::new(Shared {
        rings: [Ring::new(1, 0), Ring::new(1, 0)],
        at,
        appended: [Mark::new(0), Mark::new(0)],
        leadership: Leadership::new([0; 2]),
    });
    let other = comes.then(|| {
        let other = Arc::clone(&shared);
        thread::spawn(move || other.write(1, goes_on))
    });
    shared.write(0, goes_on);
    other.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(shared.leadership.wait(|taken| *taken).0, [1, u64::from(comes)]);
}

#[test]
fn who_holds_its_records_back_for_another_forgets_none() {
    needs(&[Between::CallAndTry, Between::ReleaseAndLook], || share(true, true));
    explore(|| share(false, true));
    fails("with nobody who comes, and without going on,", || share(false, false));
}

/// A lane reads its tail, which the log has stopped for.
fn read(log: &Log, lane: usize) {
    assert!(log.lanes[lane].tail.pop());
}

/// A lane stages one record behind a group that the other one has not read.
fn stalled(then: fn(&Log, usize)) {
    let log = Log::new(2);
    log.leadership.wait(|core| core.tails[1] = true);
    log.stage(0);
    log.drive(0);
    let reader = log.spawn(1, then);
    log.stage(0);
    log.drive(0);
    log.answer(0);
    reader.join().unwrap();
    log.answer(0);
    assert_eq!(log.appended(), 2, "nothing stops it any more");
}

#[test]
fn who_reads_the_tail_and_drives_brings_the_log_back() {
    needs(&[Between::CallAndTry, Between::ReleaseAndLook], || {
        stalled(|log, lane| {
            read(log, lane);
            log.drive(lane);
        });
    });
    fails("without the drive", || stalled(read));
}

#[test]
fn a_producer_that_goes_leaves_what_it_staged_and_stops_nobody() {
    fn let_go(log: &Log, lane: usize) {
        log.leadership.wait(|core| core.tails[lane] = false);
    }
    explore(|| {
        stalled(|log, lane| {
            let_go(log, lane);
            log.wake_all();
        });
    });
    fails("with the call in front", || {
        stalled(|log, lane| {
            log.wake_all();
            let_go(log, lane);
        });
    });
    explore(|| {
        let log = Log::new(2);
        let other = log.spawn(1, |log, lane| {
            log.stage(lane);
            log.leadership.wait(|_| log.look());
            log.wake_all();
        });
        log.drive(0);
        log.answer(0);
        other.join().unwrap();
        log.answer(0);
        assert_eq!(log.appended(), 1);
    });
}

#[test]
fn a_mark_that_only_leaders_publish_never_goes_back() {
    struct Disk {
        done: AtomicU64,
        mark: Mark,
        leadership: Leadership<()>,
    }
    fn complete(disk: &Disk) {
        disk.done.fetch_add(1, AcqRel);
        let publish = |(): &mut (), _: bool| disk.mark.publish(disk.done.load(Acquire));
        disk.leadership.lead(true, publish);
    }
    /// As if there was no lock.
    fn complete_alone(disk: &Disk) {
        let done = disk.done.fetch_add(1, AcqRel) + 1;
        disk.mark.publish(done);
    }
    fn twice(complete: fn(&Disk)) {
        let disk =
            Disk { done: AtomicU64::new(0), mark: Mark::new(0), leadership: Leadership::new(()) };
        let disk = Arc::new(disk);
        let other = Arc::clone(&disk);
        let other = thread::spawn(move || complete(&other));
        let before = disk.mark.get();
        complete(&disk);
        assert!(before <= disk.mark.get(), "nor does it for who only looks");
        other.join().unwrap();
        assert_eq!(disk.mark.get(), 2);
    }
    explore(|| twice(complete));
    fails("without leadership", || twice(complete_alone));
}

#[test]
fn the_helper_does_what_it_is_called_for_whenever_it_comes() {
    needs(&[Between::AskAndLook, Between::PublishAndLook], || {
        let shared = Arc::new((Ring::new(2, 0), Nudge::default()));
        let helped = Arc::clone(&shared);
        let helper = thread::spawn(move || {
            // Without a task it sleeps, and loom tells who sleeps for ever.
            while !helped.0.pop() {
                thread::park();
            }
        });
        let leads = Arc::clone(&shared);
        let leader = thread::spawn(move || {
            assert!(leads.0.push());
            leads.1.call();
        });
        let called = helper.thread().clone();
        shared.1.serve(Box::new(move || called.unpark()));
        leader.join().unwrap();
        helper.join().unwrap();
    });
}

#[test]
fn who_waits_for_a_log_that_fails_is_called_to_see_it() {
    /// What was durable before may still be told, by a leader that has seen no failure.
    fn failing(fail: fn(&Fault, &Calls)) {
        let log = Arc::new((Mark::new(0), Wanted::new(), Fault::default(), Calls::new()));
        let leader = Arc::clone(&log);
        let leader = thread::spawn(move || {
            let (mark, wanted, fault, calls) = &*leader;
            if !fault.is_set() {
                mark.publish(1);
                if wanted.is_met(1, &Published::so_far()) {
                    calls.wake();
                }
            }
        });
        let helper = Arc::clone(&log);
        let helper = thread::spawn(move || fail(&helper.2, &helper.3));
        let (mark, wanted, fault, calls) = &*log;
        let knows = || wanted.ask(1, mark) || fault.is_set();
        let mut awake = !knows();
        // It sleeps when it knows nothing, and looks again when it is called.
        while awake && calls.hear() > 0 {
            awake = !knows();
        }
        leader.join().unwrap();
        helper.join().unwrap();
        assert!(!awake || calls.hear() > 0, "it sleeps for ever");
    }
    explore(|| failing(|fault, calls| fault.set(String::new(), || calls.wake())));
    fails("with the call in front", || {
        failing(|fault, calls| {
            calls.wake();
            fault.set(String::new(), || ());
        });
    });
}
