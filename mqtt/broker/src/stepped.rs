//! A broker without threads: its owner says whose turn it is and what time it is.
//!
//! Owns: the same wiring as [`crate::Broker`], lanes over memory instead of sockets, over any disk
//! and any clock. Everything that a machine does by itself is a call here: a turn of a lane, a step
//! of the log's helper, a request to the reader. So whoever calls decides about every order of
//! events, and the same calls give the same broker.
//! Does not know: which order is a good one, what time is.
//!
//! ```
//! use zzq_broker::clock::{Clock, Reading};
//! use zzq_broker::stepped::{Stepped, SteppedOptions};
//! use zzq_lanes::driver::Rest;
//! use zzq_wal::{Options, sim_disk::SimDisk};
//!
//! #[derive(Clone)]
//! struct Still;
//! impl Clock for Still {
//!     fn read(&mut self) -> Reading {
//!         Reading { boot_ms: 0, wall_ms: 1_700_000_000_000 }
//!     }
//! }
//!
//! let log = Options::from_os()?;
//! let options = SteppedOptions { lanes: 1, random: 7, ..SteppedOptions::new(log) };
//! let mut broker = Stepped::start(SimDisk::new(), options, Still, &mut |log| {
//!     log.helper_step(0);
//!     true
//! })?;
//! let peer = broker.connect(0);
//! peer.send(&[0x10, 12, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 0, 0, 0]);
//! while broker.rest(0) == Rest::Now || broker.helper_step() {
//!     broker.turn(0);
//! }
//! assert_eq!(peer.receive(), [0x20, 2, 0, 0], "CONNACK");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#[cfg(test)]
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zzq_engine::{HashSeed, SessionNumber, State};
use zzq_lanes::driver::Rest;
use zzq_lanes::driver::mem::{MemDriver, MemPeer};
use zzq_lanes::{Lane, LaneWaker, Limits as LaneLimits, Millis, group};
use zzq_types::Lsn;
use zzq_wal::disk::Disk;
use zzq_wal::{DriverSteps, Log, LogClock, Options as LogOptions, Recovery, Space};

use crate::clock::{Clock, Reading};
use crate::fetch::{self, Library};
use crate::hooks::Hooks;
use crate::images::Images;
use crate::metrics::{Counts, total};
use crate::options::BrokerOptions;
use crate::replay::{self, Archive};
use crate::seeds::{Seeds, Way};
use crate::shared::Shared;
use crate::shell::Shell;
use crate::standing::Settled;
use crate::start::{self, StartError};

/// What a [`Stepped`] broker is made with.
#[derive(Debug)]
pub struct SteppedOptions {
    /// 1 to 64.
    pub lanes: u16,
    /// The broker's options; what concerns files is not used.
    pub broker: BrokerOptions,
    /// What its owner decides. Where their futures run is the owner's to say as well: without
    /// [`Hooks::spawn`] they have no answer.
    pub hooks: Hooks,
    /// The log's; without them there is no log, and the disk is not used.
    pub log: Option<LogOptions>,
    /// Seeds hashes and client identifiers that the broker makes.
    pub random: u64,
    /// What lanes take on.
    pub limits: LaneLimits,
    /// At a start, queues of clients that are away stay in the image if their first entry there
    /// has so many bytes.
    pub leaves_from: usize,
}

impl SteppedOptions {
    /// One lane with the default options over such a log.
    pub fn new(log: LogOptions) -> Self {
        let limits = LaneLimits::default();
        let (broker, hooks) = (BrokerOptions::default(), Hooks::default());
        let leaves_from = start::LEAVES_FROM;
        Self { lanes: 1, broker, hooks, log: Some(log), random: 0, limits, leaves_from }
    }
}

/// A broker that does nothing by itself. It is killed by dropping it.
pub struct Stepped<D: Disk, C> {
    store: Option<Store<D>>,
    shared: Arc<Shared>,
    lanes: Vec<Lane<Shell<D>, MemDriver>>,
    /// Lanes that have stopped and finished.
    ended: Vec<bool>,
    wakers: Vec<LaneWaker>,
    clock: C,
}

/// What is there with a log.
struct Store<D: Disk> {
    log: Log<D>,
    /// Who leads it in place of the lanes, with its log time.
    driver: Option<(DriverSteps<D>, LogClock)>,
    /// `None` only while one is being made and its maker lets the broker go on.
    images: Option<Images<D>>,
    library: Library<D>,
    archive: Archive<D>,
    recovery: Recovery,
    covered: Lsn,
}

/// An image that is being made beside the broker. When the broker is killed it is dropped, as a
/// process that ends takes its threads along.
pub struct Making<D: Disk> {
    images: Images<D>,
    settled: Settled,
    for_space: bool,
}

impl<D: Disk> Making<D> {
    /// Makes it; whenever a piece was read or written `meanwhile` may let the broker go on, or give
    /// it up. The last record that it covers, `None` if it would bring nothing.
    ///
    /// # Errors
    /// Why there is none; the ones before are as they were.
    pub fn make(&mut self, meanwhile: &dyn Fn() -> ControlFlow<()>) -> Result<Option<Lsn>, String> {
        let pace: zzq_snapshot::Pace<'_> = &|_| meanwhile();
        let made = if self.for_space {
            self.images.make_room(&self.settled, pace)
        } else {
            self.images.make(&self.settled, pace)
        };
        made.map(|made| made.map(|made| made.lsn)).map_err(|error| error.to_string())
    }
}

impl<D: Disk> Store<D> {
    fn drive(&mut self, now: Reading) -> bool {
        self.driver.as_mut().is_some_and(|(steps, clock)| {
            let log_ms = clock.now(now.boot_ms, now.wall_ms);
            steps.step(log_ms)
        })
    }
}

impl<D: Disk, C: Clock + Clone + 'static> Stepped<D, C> {
    /// Recovers the log on `disk` and starts over it. The first record of the start is written
    /// before this returns: `wait` is called while that is under way, to let the disk and the log's
    /// helper go on, and gives up with `false`.
    ///
    /// # Errors
    /// As [`crate::Broker::new`].
    pub fn start(
        disk: D,
        options: SteppedOptions,
        mut clock: C,
        wait: &mut dyn FnMut(&Log<D>) -> bool,
    ) -> Result<Self, StartError> {
        let SteppedOptions { lanes, broker, mut hooks, log, random, limits, leaves_from } = options;
        // Nobody runs them: their questions are without an answer.
        hooks.spawn.get_or_insert_with(|| Arc::new(drop));
        let path = Path::new("simulated");
        let seed = HashSeed(random, random.rotate_left(32));
        let course = start::Course { leaves_from, ..start::Course::new(lanes, seed) };
        let mut ground = match log {
            Some(log) => start::open_log(disk, log, path, &course, &mut clock)?,
            None => start::empty(lanes, seed),
        };
        let (mut store, mut way) = (None, None);
        if let Some(opened) = ground.log.take() {
            let start::Opened { log, mut images, recovery, covered, .. } = opened;
            images.retain(broker.retain_log);
            images.look_after_space(broker.disk_limits);
            let (fetcher, library) = fetch::library(images.past());
            let (replayer, archive) = replay::archive(log.clone(), images.holds());
            way = Some(Way { log: Arc::new(log.clone()), fetcher, replayer });
            // Logs are short here: what was read once is found by its place wherever it can be.
            let archive = archive.by_places().looking_ahead(broker.retain_log.is_on());
            let driver = if broker.log_thread {
                let steps = log.drive_by_steps().map_err(StartError::Lanes)?;
                Some((steps, start::log_clock(ground.last_ms, &mut clock)))
            } else {
                None
            };
            let images = Some(images);
            store = Some(Store { log, driver, images, library, archive, recovery, covered });
        }
        let shared = Arc::new(Shared::new(broker, hooks, lanes));
        let mut seeds = Seeds::new(Arc::clone(&shared), ground, way, clock.clone(), random);
        let wakers: Vec<_> = (0..lanes).map(|_| LaneWaker::flag_only()).collect();
        let mut time = clock.clone();
        let mut wait = || {
            let Some(store) = &mut store else { return true };
            store.drive(time.read());
            wait(&store.log)
        };
        let mut made = Vec::new();
        for parts in group(&wakers, limits) {
            let waker = wakers[parts.lane().index()].clone();
            let seed = seeds.next(waker, &mut wait).map_err(StartError::Lanes)?;
            made.push(Lane::new(parts, Shell::new(seed), MemDriver::default()));
        }
        let ended = vec![false; made.len()];
        Ok(Self { store, shared, lanes: made, ended, wakers, clock })
    }

    /// How many lanes there are.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// One turn of a lane, at the time that the clock shows. False: the lane has stopped.
    pub fn turn(&mut self, lane: usize) -> bool {
        if self.ended[lane] {
            return false;
        }
        let now = self.now();
        let one = &mut self.lanes[lane];
        one.driver_mut().set_now(now);
        if !one.turn() {
            one.finish();
            self.ended[lane] = true;
        }
        !self.ended[lane]
    }

    /// How long a lane may rest before its next turn, seen from the time that the clock shows.
    pub fn rest(&mut self, lane: usize) -> Rest {
        let now = self.now();
        let one = &self.lanes[lane];
        match one.rest() {
            _ if self.ended[lane] => Rest::Forever,
            _ if one.driver().has_events() => Rest::Now,
            Rest::Until(due) if due <= now => Rest::Now,
            rest => rest,
        }
    }

    /// A step of the thread that leads the log, if there is one; true if it has more to do at once.
    pub fn log_step(&mut self) -> bool {
        let now = self.clock.read();
        self.store.as_mut().is_some_and(|store| store.drive(now))
    }

    /// A step of the log's helper; true if there was something to do.
    pub fn helper_step(&mut self) -> bool {
        let Millis(now) = self.now();
        self.store.as_ref().is_some_and(|store| store.log.helper_step(now))
    }

    /// Reads back what one lane has asked for; false if none has.
    pub fn reader_step(&mut self) -> bool {
        self.store.as_mut().is_some_and(|store| store.library.step() || store.archive.step())
    }

    /// What those who read the log do when nobody has asked them for a while: they let go the
    /// places in it that they keep, and with them files that wait to be used again.
    pub fn readers_rest(&mut self) {
        if let Some(store) = &mut self.store {
            store.library.rest();
            store.archive.let_go();
        }
    }

    /// How many messages of history were read by their places, and not with all around them.
    pub fn history_by_places(&self) -> u64 {
        self.store.as_ref().map_or(0, |store| store.archive.picked())
    }

    /// Makes an image of what is committed and durable, as the thread of a broker does from time to
    /// time; the last record that it covers, `None` if the newest covers all.
    ///
    /// # Errors
    /// Why there is none; the ones before are as they were.
    pub fn image_step(&mut self) -> Result<Option<Lsn>, String> {
        self.at_once(Self::begin_image)
    }

    /// Begins one: its maker is handed out, and the broker goes on as beside its thread. `None`:
    /// there is no log, or one is being made.
    pub fn begin_image(&mut self) -> Option<Making<D>> {
        let images = self.take_images()?;
        let settled = self.settled();
        Some(Making { images, settled, for_space: false })
    }

    /// The same, of an image for space; `None` also where space is not low.
    pub fn begin_room(&mut self) -> Option<Making<D>> {
        let limits = self.shared.options.disk_limits;
        if self.images()?.look_after_space(limits) < Space::Low {
            return None;
        }
        Some(Making { for_space: true, ..self.begin_image()? })
    }

    /// The end of what was begun, in the same life of the broker.
    pub fn end_image(&mut self, making: Making<D>) {
        if let Some(store) = &mut self.store {
            store.images = Some(making.images);
        }
    }

    fn at_once(
        &mut self,
        begin: impl FnOnce(&mut Self) -> Option<Making<D>>,
    ) -> Result<Option<Lsn>, String> {
        let Some(mut making) = begin(self) else { return Ok(None) };
        let made = making.make(&|| ControlFlow::Continue(()));
        self.end_image(making);
        made
    }

    /// As [`Stepped::image_step`], and whenever its maker has read or written a piece of it the
    /// broker may go on.
    #[cfg(test)]
    pub(crate) fn image_amid(
        &mut self,
        meanwhile: &mut dyn FnMut(&mut Self),
    ) -> Result<Option<Lsn>, String> {
        let Some(mut making) = self.begin_image() else { return Ok(None) };
        let (broker, meanwhile) = (RefCell::new(&mut *self), RefCell::new(meanwhile));
        let made = making.make(&|| {
            (meanwhile.borrow_mut())(&mut broker.borrow_mut());
            ControlFlow::Continue(())
        });
        self.end_image(making);
        made
    }

    /// What the lanes say, as at the end of a turn without anything to do.
    fn settled(&mut self) -> Settled {
        let question = self.shared.standing.ask();
        self.lanes.iter_mut().for_each(|lane| lane.handler_mut().settle());
        self.shared.standing.take(question).unwrap_or_default()
    }

    fn take_images(&mut self) -> Option<Images<D>> {
        self.store.as_mut().and_then(|store| store.images.take())
    }

    fn images(&mut self) -> Option<&mut Images<D>> {
        self.store.as_mut().and_then(|store| store.images.as_mut())
    }

    /// Images are made of so many records at most from now on, in steps where there are more.
    pub fn make_images_in_steps_of(&mut self, records: u64) {
        if let Some(images) = self.images() {
            images.in_steps_of(records);
        }
    }

    /// Has as much kept free as images will need, as that thread does all the time, and makes an
    /// image for the space that it brings where space is low; the last record that it covers,
    /// `None` if it would bring nothing.
    ///
    /// # Errors
    /// As [`Stepped::image_step`].
    pub fn room_step(&mut self) -> Result<Option<Lsn>, String> {
        self.at_once(Self::begin_room)
    }

    /// A connection that a lane accepts in its next turn.
    pub fn connect(&mut self, lane: usize) -> MemPeer {
        self.lanes[lane].driver_mut().connect()
    }

    /// What wakes each lane: for the hook of a disk that tells of completions, which descriptors do
    /// elsewhere.
    pub fn wakers(&self) -> Vec<LaneWaker> {
        self.wakers.clone()
    }

    /// Tells all lanes to stop in good order, within `within` of their time. They need turns for
    /// that, until [`Stepped::is_stopped`].
    pub fn stop(&mut self, within: Duration) {
        for (lane, ended) in self.lanes.iter_mut().zip(&self.ended) {
            if !ended {
                lane.stop(within);
            }
        }
    }

    /// Whether all lanes have stopped.
    pub fn is_stopped(&self) -> bool {
        self.ended.iter().all(|ended| *ended)
    }

    /// The log, if there is one.
    pub fn log(&self) -> Option<&Log<D>> {
        self.store.as_ref().map(|store| &store.log)
    }

    /// What the start found in the log, and the last record that an image spared it; with a log.
    pub fn recovery(&self) -> Option<(&Recovery, Lsn)> {
        self.store.as_ref().map(|store| (&store.recovery, store.covered))
    }

    /// Whether its log takes nothing more.
    pub fn is_read_only(&self) -> bool {
        self.log().is_some_and(Log::is_read_only)
    }

    /// The part of the state that a lane owns.
    pub fn state(&self, lane: usize) -> &State {
        &self.shell(lane).state
    }

    /// How far a lane has applied the log.
    pub fn applied(&self, lane: usize) -> Lsn {
        self.shell(lane).followed
    }

    /// Sessions of a lane that it has begun to end for their full queues. If the broker is killed
    /// now, the log says whether they are there.
    pub fn ending_full(&self, lane: usize) -> Vec<SessionNumber> {
        self.shell(lane).ending_full()
    }

    /// What the broker counts, each lane as of its last turn.
    pub fn counts(&self) -> Counts {
        total(&self.shared.metrics)
    }

    /// The shell of a lane, to look into.
    pub(crate) fn shell(&self, lane: usize) -> &Shell<D> {
        self.lanes[lane].handler()
    }

    fn now(&mut self) -> Millis {
        Millis(self.clock.read().boot_ms)
    }
}
