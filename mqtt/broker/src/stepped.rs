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

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use zzq_engine::{HashSeed, State};
use zzq_lanes::driver::Rest;
use zzq_lanes::driver::mem::{MemDriver, MemPeer};
use zzq_lanes::{Lane, LaneWaker, Limits as LaneLimits, Millis, group};
use zzq_types::Lsn;
use zzq_wal::disk::Disk;
use zzq_wal::{Log, Options as LogOptions};

use crate::clock::Clock;
use crate::fetch::{self, Library};
use crate::images::Images;
use crate::metrics::{Counts, total};
use crate::options::BrokerOptions;
use crate::seeds::Seeds;
use crate::shared::Shared;
use crate::shell::Shell;
use crate::start::{self, StartError};

/// What a [`Stepped`] broker is made with.
#[derive(Debug)]
pub struct SteppedOptions {
    /// 1 to 64.
    pub lanes: u16,
    /// The broker's options; what concerns files is not used.
    pub broker: BrokerOptions,
    /// The log's.
    pub log: LogOptions,
    /// Seeds hashes and client identifiers that the broker makes.
    pub random: u64,
    /// What lanes take on.
    pub limits: LaneLimits,
}

impl SteppedOptions {
    /// One lane with the default options over such a log.
    pub fn new(log: LogOptions) -> Self {
        let limits = LaneLimits::default();
        Self { lanes: 1, broker: BrokerOptions::default(), log, random: 0, limits }
    }
}

/// A broker that does nothing by itself. It is killed by dropping it.
pub struct Stepped<D: Disk, C> {
    log: Log<D>,
    images: Images<D>,
    library: Library<D>,
    shared: Arc<Shared>,
    lanes: Vec<Lane<Shell<D>, MemDriver>>,
    /// Lanes that have stopped and finished.
    ended: Vec<bool>,
    wakers: Vec<LaneWaker>,
    clock: C,
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
        let SteppedOptions { lanes, broker, log, random, limits } = options;
        let path = Path::new("simulated");
        let seed = HashSeed(random, random.rotate_left(32));
        let mut ground = start::open_log(disk, log, path, lanes, seed, &mut clock)?;
        let opened = ground.log.take();
        let Some(start::Opened { log, images, .. }) = opened else {
            return Err(StartError::Config("there is no log".into()));
        };
        let (fetcher, library) = fetch::library(images.past());
        let shared = Arc::new(Shared::new(broker, lanes));
        let way = Some((Arc::new(log.clone()), fetcher));
        let mut seeds = Seeds::new(Arc::clone(&shared), ground, way, clock.clone(), random);
        let wakers: Vec<_> = (0..lanes).map(|_| LaneWaker::flag_only()).collect();
        let mut wait = || wait(&log);
        let mut made = Vec::new();
        for parts in group(&wakers, limits) {
            let waker = wakers[parts.lane().index()].clone();
            let seed = seeds.next(waker, &mut wait).map_err(StartError::Lanes)?;
            made.push(Lane::new(parts, Shell::new(seed), MemDriver::default()));
        }
        let ended = vec![false; made.len()];
        Ok(Self { log, images, library, shared, lanes: made, ended, wakers, clock })
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

    /// A step of the log's helper; true if there was something to do.
    pub fn helper_step(&mut self) -> bool {
        let Millis(now) = self.now();
        self.log.helper_step(now)
    }

    /// Reads back what one lane has asked for; false if none has.
    pub fn reader_step(&mut self) -> bool {
        self.library.step()
    }

    /// Makes an image of what is committed and durable, as the thread of a broker does from time to
    /// time; the last record that it covers, `None` if the newest covers all.
    ///
    /// # Errors
    /// Why there is none; the ones before are as they were.
    pub fn image_step(&mut self) -> Result<Option<Lsn>, String> {
        let made = self.images.make(self.shared.settled(), zzq_snapshot::at_full_speed());
        made.map(|made| made.map(|made| made.lsn)).map_err(|error| error.to_string())
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

    /// The log.
    pub fn log(&self) -> &Log<D> {
        &self.log
    }

    /// The part of the state that a lane owns.
    pub fn state(&self, lane: usize) -> &State {
        &self.shell(lane).state
    }

    /// How far a lane has applied the log.
    pub fn applied(&self, lane: usize) -> Lsn {
        self.shell(lane).followed
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
