//! Threads for lanes: starts them, binds endpoints on them, stops them.
//!
//! Assumes: the calls here come from other threads than the lanes.
mod completion;
mod lanes;

use std::{
    io,
    num::NonZero,
    os::fd::{BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

pub(crate) use self::completion::Promise;
pub use self::{
    completion::Completion,
    lanes::{Bound, Lanes},
};
use crate::{
    app::Handler,
    core::Limits,
    driver::{BusyPoll, ChosenDriver, DriverKind, LaneDriver, wrap},
    id::{LaneIndex, WatchId},
    lane::{Lane, group},
    waker::LaneWaker,
};

/// Owns lane threads. Clones are the same context; when the last is dropped, its lanes stop.
#[derive(Clone, Debug)]
pub struct Context(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: Options,
    groups: Mutex<Vec<Lanes>>,
}

#[derive(Clone, Copy, Debug)]
struct Options {
    lanes: usize,
    busy_poll: BusyPoll,
    driver: DriverKind,
    pin: bool,
    limits: Limits,
}

/// Settings of a [`Context`].
#[derive(Clone, Copy, Debug)]
pub struct ContextBuilder(Options);

impl ContextBuilder {
    /// How many lanes each application gets, at least one. Default: half the cores.
    #[must_use]
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.0.lanes = lanes.clamp(1, usize::from(u16::MAX));
        self
    }

    /// Whether lanes poll before they block. Default: adaptive.
    #[must_use]
    pub fn busy_poll(mut self, busy_poll: BusyPoll) -> Self {
        self.0.busy_poll = busy_poll;
        self
    }

    /// What lanes wait and send by. Default: epoll, which they also fall back to, with one line in
    /// the log, where the system refuses another.
    #[must_use]
    pub fn driver(mut self, driver: DriverKind) -> Self {
        self.0.driver = driver;
        self
    }

    /// Ties lane n to core n. Default: no.
    #[must_use]
    pub fn pin(mut self, pin: bool) -> Self {
        self.0.pin = pin;
        self
    }

    /// Bounds of each lane.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.0.limits = limits;
        self
    }

    /// A context of these settings. No thread runs before [`Context::spawn`].
    pub fn build(self) -> Context {
        Context(Arc::new(Inner { options: self.0, groups: Mutex::default() }))
    }
}

/// A lane that is about to start, as its application's factory sees it.
#[derive(Debug)]
pub struct Seat {
    lane: LaneIndex,
    wakers: Vec<LaneWaker>,
    watches: Vec<(WatchId, OwnedFd)>,
    busy_poll: BusyPoll,
}

impl Seat {
    /// Which lane it is.
    pub fn lane(&self) -> LaneIndex {
        self.lane
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.wakers.len()
    }

    /// Wakes this lane.
    pub fn waker(&self) -> LaneWaker {
        self.wakers[self.lane.index()].clone()
    }

    /// Wakes each of the lanes.
    pub fn wakers(&self) -> &[LaneWaker] {
        &self.wakers
    }

    /// The lane watches a duplicate of `fd`: each time it becomes readable (for an eventfd: each
    /// write), [`Handler::watched`] is called once with the id returned here. It need not be read.
    pub fn watch(&mut self, fd: BorrowedFd<'_>) -> io::Result<WatchId> {
        let id = u32::try_from(self.watches.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.watches.push((WatchId(id), fd.try_clone_to_owned()?));
        Ok(WatchId(id))
    }

    /// The lane answers when a disk has: [`BusyPoll::Adaptive`] becomes [`BusyPoll::Prompt`].
    pub fn waits_for_disk(&mut self) {
        self.busy_poll = self.busy_poll.for_disk();
    }
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

impl Context {
    /// A context with default settings.
    pub fn new() -> io::Result<Self> {
        Ok(Self::builder().build())
    }

    /// A context with settings.
    pub fn builder() -> ContextBuilder {
        ContextBuilder(Options {
            lanes: (cores() / 2).max(1),
            busy_poll: BusyPoll::default(),
            driver: DriverKind::default(),
            pin: false,
            limits: Limits::default(),
        })
    }

    /// How many lanes an application gets.
    pub fn lanes(&self) -> usize {
        self.0.options.lanes
    }

    /// Starts lanes for an application; `factory` makes its handler for each.
    pub fn spawn<H, F>(&self, mut factory: F) -> io::Result<Lanes>
    where
        H: Handler + Send + 'static,
        F: FnMut(&mut Seat) -> io::Result<H>,
    {
        let options = self.0.options;
        let busy_poll = options.busy_poll.among(options.lanes, cores());
        let wakers = (0..options.lanes).map(|_| LaneWaker::with_eventfd());
        let wakers = wakers.collect::<io::Result<Vec<_>>>()?;
        let kind = options.driver.allowed();
        let mut seated = Vec::new();
        for parts in group::<H, LaneDriver>(&wakers, options.limits) {
            let lane = parts.lane();
            let watches = Vec::new();
            let mut seat = Seat { lane, wakers: wakers.clone(), watches, busy_poll };
            let handler = factory(&mut seat)?;
            let waker = &wakers[lane.index()];
            let driver = ChosenDriver::new(kind, waker, seat.watches, seat.busy_poll)?;
            seated.push((parts.sender.clone(), Lane::new(parts, handler, wrap(driver))));
        }
        let lanes = Lanes::start(seated, wakers, options.pin, kind)?;
        self.0.groups.lock().unwrap_or_else(PoisonError::into_inner).push(lanes.clone());
        Ok(lanes)
    }

    /// Stops all lanes of this context, as [`Lanes::stop`] does, and joins their threads.
    pub fn shutdown(&self, within: Duration) {
        self.0.shutdown(within);
    }
}

impl Inner {
    fn shutdown(&self, within: Duration) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let groups = std::mem::take(&mut *groups);
        let stops: Vec<_> = groups.iter().map(|lanes| lanes.stop(within)).collect();
        drop(stops);
        groups.iter().for_each(Lanes::join);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shutdown(Duration::ZERO);
    }
}
