//! The loop of one thread: its connections, edge-triggered, a timer for what is due.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::event::{Timespec, epoll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use zzq_codec::{Decoder, Limits, Packet};

use super::clock::{Clock, nanos};
use super::figures::Recorder;
use super::link::Link;
use super::plan::Plan;
use super::publisher::Publisher;
use super::run::RunError;
use super::subscriber::Subscriber;

/// The longest sleep: how soon the end of a run is noticed.
const NAP: u64 = 20_000_000;
/// The event of the timer.
const TIMER: u64 = u64::MAX;

/// Which end of the load a connection is.
#[derive(Debug)]
pub(super) enum Role {
    Publisher(Publisher),
    Subscriber(Subscriber),
}

/// What the threads of a run tell each other.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Publishes of all publishers; final once `published` is set.
    sent: AtomicU64,
    published: AtomicBool,
    delivered: AtomicU64,
    failed: AtomicBool,
}

impl Shared {
    /// Messages sent and delivered so far.
    pub(super) fn so_far(&self) -> (u64, u64) {
        (self.sent.load(Ordering::Acquire), self.delivered.load(Ordering::Acquire))
    }
}

/// One thread's share of a run.
#[derive(Debug)]
pub(super) struct Engine<'a> {
    plan: &'a Plan,
    shared: &'a Shared,
    clock: Clock,
    ends: Vec<(Link, Role)>,
    epoll: OwnedFd,
    timer: OwnedFd,
    /// Connections with something to do, each once.
    ready: Vec<usize>,
    is_ready: Vec<bool>,
    /// Here are publishers, so this thread says when all is published.
    publishes: bool,
    stopped: bool,
    /// Subscribers do not read yet.
    stalled: bool,
    pub(super) acks: Recorder,
    pub(super) deliveries: Recorder,
    pub(super) last_ack: u64,
    pub(super) last_delivery: u64,
}

impl<'a> Engine<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        shared: &'a Shared,
        clock: Clock,
        ends: Vec<(Link, Role)>,
    ) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        let edge = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&epoll, &timer, epoll::EventData::new_u64(TIMER), edge)?;
        for (number, (link, _)) in (0..).zip(&ends) {
            epoll::add(&epoll, &link.stream, epoll::EventData::new_u64(number), edge)?;
        }
        let publishes = ends.iter().any(|(_, role)| matches!(role, Role::Publisher(_)));
        Ok(Self {
            plan,
            shared,
            clock,
            epoll,
            timer,
            ready: (0..ends.len()).collect(),
            is_ready: vec![true; ends.len()],
            ends,
            publishes,
            stopped: false,
            stalled: !plan.stall.is_zero(),
            acks: Recorder::new(),
            deliveries: Recorder::new(),
            last_ack: 0,
            last_delivery: 0,
        })
    }

    /// Runs to the end of the load.
    pub(super) fn run(&mut self) -> Result<(), RunError> {
        let outcome = self.turns();
        if outcome.is_err() {
            self.shared.failed.store(true, Ordering::Release);
        }
        outcome
    }

    fn turns(&mut self) -> Result<(), RunError> {
        let (mut bytes, mut turn) = (Vec::new(), Vec::new());
        let mut last_change = (0, 0);
        loop {
            let now = self.clock.now();
            self.stop_when_over(now);
            self.read_when_stalled_for_long_enough(now);
            let mut wake = self.wake_paced(now);
            std::mem::swap(&mut turn, &mut self.ready);
            for index in turn.drain(..) {
                self.is_ready[index] = false;
                self.turn(index, &mut bytes)?;
            }
            if self.is_over(&mut last_change) {
                return Ok(());
            }
            if !self.ready.is_empty() {
                wake = Some(0);
            }
            self.wait(wake)?;
        }
    }

    fn make_ready(&mut self, index: usize) {
        if !std::mem::replace(&mut self.is_ready[index], true) {
            self.ready.push(index);
        }
    }

    fn stop_when_over(&mut self, now: u64) {
        if self.stopped || now < nanos(self.plan.duration) {
            return;
        }
        self.stopped = true;
        for (_, role) in &mut self.ends {
            if let Role::Publisher(publisher) = role {
                publisher.stop();
            }
        }
    }

    fn read_when_stalled_for_long_enough(&mut self, now: u64) {
        if !self.stalled || now < nanos(self.plan.stall) {
            return;
        }
        self.stalled = false;
        for index in 0..self.ends.len() {
            self.make_ready(index);
        }
    }

    /// Readies publishers with a message due; returns when the next will be.
    fn wake_paced(&mut self, now: u64) -> Option<u64> {
        let mut next: Option<u64> = None;
        if !self.publishes {
            return None;
        }
        for index in 0..self.ends.len() {
            let Role::Publisher(publisher) = &self.ends[index].1 else { continue };
            let Some(due) = publisher.next_due(self.plan) else { continue };
            if due <= now {
                self.make_ready(index);
            } else {
                next = Some(next.map_or(due, |next| next.min(due)));
            }
        }
        next
    }

    fn turn(&mut self, index: usize, bytes: &mut Vec<u8>) -> Result<(), RunError> {
        let (link, role) = &mut self.ends[index];
        if self.stalled && matches!(role, Role::Subscriber(_)) {
            return Ok(());
        }
        if link.readable {
            if !link.read(bytes)? {
                return Err(RunError::Closed);
            }
            let now = self.clock.now();
            let taken = match role {
                Role::Publisher(publisher) => {
                    let before = publisher.acknowledged;
                    let taken = answers(self.plan, publisher, bytes, now, &mut self.acks, link)?;
                    if publisher.acknowledged > before {
                        self.last_ack = now;
                    }
                    taken
                }
                Role::Subscriber(subscriber) => {
                    let before = subscriber.delivered;
                    let recorder = &mut self.deliveries;
                    let taken = messages(self.plan, subscriber, bytes, now, recorder, link)?;
                    if subscriber.delivered > before {
                        self.last_delivery = now;
                        let came = subscriber.delivered - before;
                        self.shared.delivered.fetch_add(came, Ordering::Release);
                    }
                    taken
                }
            };
            link.keep(bytes, taken);
        }
        if let Role::Publisher(publisher) = role {
            let before = publisher.sent;
            publisher.fill(self.plan, || self.clock.now(), link);
            self.shared.sent.fetch_add(publisher.sent - before, Ordering::Release);
            if publisher.sent > before && self.plan.last_ack().is_none() {
                self.last_ack = self.clock.now();
            }
        }
        link.flush()?;
        let more = link.readable || (link.writable && self.fills(index));
        if more {
            self.make_ready(index);
        }
        Ok(())
    }

    /// A publisher without acknowledgements goes on as long as its socket takes more.
    fn fills(&self, index: usize) -> bool {
        let unpaced = self.plan.due(0, 1).is_none() && self.plan.last_ack().is_none();
        match &self.ends[index].1 {
            Role::Publisher(publisher) => unpaced && !publisher.is_done(),
            Role::Subscriber(_) => false,
        }
    }

    /// All is published, answered and delivered, or nothing has happened for too long.
    fn is_over(&mut self, last_change: &mut (u64, u64)) -> bool {
        if self.shared.failed.load(Ordering::Acquire) {
            return true;
        }
        let delivered = self.shared.delivered.load(Ordering::Acquire);
        let now = self.clock.now();
        let progress = delivered + self.acks_so_far();
        let all_sent = self.shared.published.load(Ordering::Acquire);
        if progress != last_change.0 || !all_sent && now < nanos(self.plan.duration) {
            *last_change = (progress, now);
        }
        let given_up = now.saturating_sub(last_change.1) > nanos(self.plan.patience);
        if self.publishes && !all_sent {
            let done = self.ends.iter().all(|(link, role)| match role {
                Role::Publisher(publisher) => publisher.is_done() && link.waiting() == 0,
                Role::Subscriber(_) => true,
            });
            if !done && !given_up {
                return false;
            }
            self.shared.published.store(true, Ordering::Release);
        }
        let sent = self.shared.sent.load(Ordering::Acquire);
        let expected = sent * u64::from(self.plan.receivers());
        self.shared.published.load(Ordering::Acquire) && (delivered >= expected || given_up)
    }

    fn acks_so_far(&self) -> u64 {
        self.publishers().map(|publisher| publisher.acknowledged).sum()
    }

    fn wait(&mut self, wake: Option<u64>) -> io::Result<()> {
        let timeout = match wake {
            Some(0) => 0,
            Some(due) => {
                let left = due.saturating_sub(self.clock.now()).max(1);
                self.arm(left)?;
                NAP
            }
            None => NAP,
        };
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::try_from(timeout).unwrap_or(0) };
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 128];
        let count = match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        for event in &events[..count] {
            let Ok(index) = usize::try_from({ event.data }.u64()) else { continue };
            let Some((link, _)) = self.ends.get_mut(index) else { continue };
            let flags = event.flags;
            link.writable |= flags.contains(epoll::EventFlags::OUT);
            link.readable |= flags.intersects(
                epoll::EventFlags::IN | epoll::EventFlags::HUP | epoll::EventFlags::ERR,
            );
            self.make_ready(index);
        }
        Ok(())
    }

    /// The timer wakes to the microsecond, where a timeout of epoll sleeps whole milliseconds.
    fn arm(&self, after: u64) -> io::Result<()> {
        let seconds = i64::try_from(after / 1_000_000_000).unwrap_or(i64::MAX);
        let rest = i64::try_from(after % 1_000_000_000).unwrap_or(0);
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec { tv_sec: seconds, tv_nsec: rest },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    /// Publishes of this run have identifiers.
    pub(super) fn is_numbered(&self) -> bool {
        self.plan.last_ack().is_some()
    }

    pub(super) fn publishers(&self) -> impl Iterator<Item = &Publisher> {
        self.ends.iter().filter_map(|(_, role)| match role {
            Role::Publisher(publisher) => Some(publisher),
            Role::Subscriber(_) => None,
        })
    }

    pub(super) fn subscribers(&mut self) -> impl Iterator<Item = &mut Subscriber> {
        self.ends.iter_mut().filter_map(|(_, role)| match role {
            Role::Subscriber(subscriber) => Some(subscriber),
            Role::Publisher(_) => None,
        })
    }
}

fn answers(
    plan: &Plan,
    publisher: &mut Publisher,
    bytes: &[u8],
    now: u64,
    acks: &mut Recorder,
    link: &mut Link,
) -> Result<usize, RunError> {
    let decoder = Decoder::of_servers(plan.version, Limits::default());
    let last = plan.last_ack();
    let mut taken = 0;
    while let Some((packet, size)) = next(decoder, &bytes[taken..])? {
        if !publisher.answered(&packet, last, now, acks, &mut link.out) {
            return Err(RunError::Answer(format!("{packet:?}")));
        }
        taken += size;
    }
    Ok(taken)
}

fn messages(
    plan: &Plan,
    subscriber: &mut Subscriber,
    bytes: &[u8],
    now: u64,
    deliveries: &mut Recorder,
    link: &mut Link,
) -> Result<usize, RunError> {
    let decoder = Decoder::of_servers(plan.version, Limits::default());
    let mut taken = 0;
    while let Some((packet, size)) = next(decoder, &bytes[taken..])? {
        taken += size;
        let Packet::Publish(mut publish) = packet else {
            if !Subscriber::other(&packet, &mut link.out) {
                return Err(RunError::Answer(format!("{packet:?}")));
            }
            continue;
        };
        subscriber.message(&publish, now, deliveries, &mut link.out);
        while let Some((following, size)) = decoder.decode_run(&publish, &bytes[taken..])? {
            publish = following;
            taken += size;
            subscriber.message(&publish, now, deliveries, &mut link.out);
        }
    }
    Ok(taken)
}

fn next(decoder: Decoder, bytes: &[u8]) -> Result<Option<(Packet<'_>, usize)>, RunError> {
    // Nothing left is no packet either.
    if bytes.is_empty() { Ok(None) } else { Ok(decoder.decode(bytes)?) }
}
