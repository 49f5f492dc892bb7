//! `Broker`: starts lanes over a log, binds endpoints, stops.
//!
//! Owns: the wiring of lanes, engine and wal; it runs in any async runtime.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::sync::oneshot;
use zzq_engine::{HashSeed, Index, State};
use zzq_lanes::{BindError, BindOptions, Bound, Context, Lanes, ListenerId, Seat as LaneSeat};
use zzq_types::Lsn;
use zzq_wal::io::FileDisk;
use zzq_wal::{HelperThread, Log, LogClock, Producer, TailCursor};

use crate::clock::{Clock, SystemClock};
use crate::fetch::Fetcher;
use crate::metrics::{Counts, total};
use crate::options::BrokerOptions;
use crate::shared::Shared;
use crate::shell::{HeldWill, Journal, Seat, Seed, Shell};
use crate::start::{self, Ground, LaneWake, Opened, StartError};

/// A running broker. Clones are the same broker; it stops by [`Broker::shutdown`], or when the last
/// clone is dropped.
#[derive(Clone)]
pub struct Broker(Arc<Inner>);

struct Inner {
    lanes: Lanes,
    shared: Arc<Shared>,
    /// Taken apart in this order at the end.
    log: Mutex<Option<Store>>,
    /// Keeps the lanes.
    _context: Context,
}

struct Store {
    log: Arc<Log<FileDisk>>,
    _helper: HelperThread,
    _opened: Opened<FileDisk>,
}

impl Broker {
    /// Starts a broker on the lanes of `context`. With a data directory its log is recovered first;
    /// what it holds is served from the first bound endpoint on.
    ///
    /// # Errors
    /// [`StartError`]; nothing runs then, and what is in the data directory is as it was.
    pub async fn new(context: &Context, options: BrokerOptions) -> Result<Self, StartError> {
        // Starting reads files and waits for the disk: not on a thread of a runtime.
        let (context, (done, outcome)) = (context.clone(), oneshot::channel());
        let start = move || {
            // Who asked may have given up; the broker is dropped then, and stops.
            let _ = done.send(Self::start(&context, options));
        };
        thread::Builder::new().name("zzq-start".into()).spawn(start).map_err(StartError::Lanes)?;
        outcome.await.map_err(|_| StartError::Lanes(io::Error::other("starting panicked")))?
    }

    /// [`Broker::new`] for callers without a runtime.
    ///
    /// # Errors
    /// As [`Broker::new`].
    pub fn start(context: &Context, options: BrokerOptions) -> Result<Self, StartError> {
        let lanes = u16::try_from(context.lanes())
            .ok()
            .filter(|lanes| (1..=64).contains(lanes))
            .ok_or_else(|| {
                StartError::Config(format!("{} lanes: 1 to 64 are possible", context.lanes()))
            })?;
        let random = random_bytes().map_err(StartError::Lanes)?;
        let seed = HashSeed(random.0, random.1);
        let mut clock = SystemClock::new();
        let ground = match &options.data_dir {
            Some(path) => start::open_directory(path, &options, lanes, seed, &mut clock)?,
            None => start::empty(lanes, seed),
        };
        let shared = Arc::new(Shared::new(options, lanes));
        Self::run(context, shared, ground, clock, random.0 ^ random.1)
    }

    fn run(
        context: &Context,
        shared: Arc<Shared>,
        ground: Ground<FileDisk>,
        clock: SystemClock,
        random: u64,
    ) -> Result<Self, StartError> {
        let Ground { states, indexes, wills, first_number, last_ms, log: opened } = ground;
        let mut maker = Maker {
            shared: Arc::clone(&shared),
            clock,
            last_ms,
            first_number,
            random,
            opened: None,
            shards: states.into_iter().zip(indexes).collect(),
        };
        let store = match opened {
            Some(opened) => {
                let log = Arc::new(opened.log.clone());
                let helper = log.spawn_helper().map_err(StartError::Lanes)?;
                let fetcher = Fetcher::spawn(Arc::clone(&log)).map_err(StartError::Lanes)?;
                maker.opened = Some((Arc::clone(&log), fetcher));
                Some(Store { log, _helper: helper, _opened: opened })
            }
            None => None,
        };
        let lanes = context
            .spawn(|seat| {
                // Wills are few: every lane gets all of them and uses its own.
                maker.seed(seat, wills.clone()).map(Shell::new)
            })
            .map_err(StartError::Lanes)?;
        let log = Mutex::new(store);
        Ok(Self(Arc::new(Inner { lanes, shared, log, _context: context.clone() })))
    }

    /// Binds an endpoint, `tcp://host:port`; port 0 lets the system choose. Returns when clients
    /// can connect.
    ///
    /// # Errors
    /// [`BindError`]: the text is no endpoint, or the system refuses it.
    pub async fn bind(&self, endpoint: &str) -> Result<Bound, BindError> {
        let options = BindOptions {
            max_connections: self.0.shared.options.limits.max_connections,
            ..BindOptions::default()
        };
        self.0.lanes.bind(endpoint, options).await
    }

    /// Closes a listener; clients that came through it stay connected.
    pub async fn unbind(&self, listener: ListenerId) {
        self.0.lanes.unbind(listener).await;
    }

    /// Stops: clients are told and disconnected, sessions go down in good order, everything that
    /// was handed to the log is durable. What takes longer than `within` is cut.
    pub async fn shutdown(&self, within: Duration) {
        self.0.lanes.stop(within).await;
        let store = self.0.log.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(store) = store
            && let Err(error) = store.log.mark_durable()
        {
            tracing::error!(%error, "the end of the log could not be marked");
        }
    }

    /// What the broker counts, summed over its lanes, a moment ago.
    pub fn counts(&self) -> Counts {
        total(&self.0.shared.metrics)
    }
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").field("options", &self.0.shared.options).finish_non_exhaustive()
    }
}

/// Makes the seeds of lanes, one after the other.
struct Maker {
    shared: Arc<Shared>,
    clock: SystemClock,
    last_ms: u64,
    first_number: u64,
    random: u64,
    opened: Option<(Arc<Log<FileDisk>>, Fetcher)>,
    /// What is left for the lanes to come, the next one first.
    shards: VecDeque<(State, Index)>,
}

impl Maker {
    fn seed(
        &mut self,
        seat: &mut LaneSeat,
        wills: FxHashMap<Lsn, HeldWill>,
    ) -> io::Result<Seed<FileDisk>> {
        let lane = seat.lane();
        let reading = self.clock.read();
        let mut log_clock = LogClock::new(self.last_ms, reading.boot_ms, reading.wall_ms);
        let (journal, fetch) = match &self.opened {
            None => (Journal::memory(), None),
            Some((log, fetcher)) => {
                let (producer, tail) = self.join(log, seat, &mut log_clock)?;
                let fetch = Some(fetcher.seat(seat.waker()));
                (Journal::at(Seat { log: Arc::clone(log), producer, tail }), fetch)
            }
        };
        let shard = self.shards.pop_front();
        let (state, index) = shard.ok_or_else(|| io::Error::other("more lanes than shards"))?;
        Ok(Seed {
            lane,
            shared: Arc::clone(&self.shared),
            clock: Box::new(self.clock),
            log_clock,
            journal,
            fetch,
            state,
            wills,
            index,
            first_number: start::first_number_of(lane.0, self.first_number),
            random: self.random.wrapping_add(u64::from(lane.0) << 56),
        })
    }

    /// A lane's place at the log. The last lane to come writes the start.
    fn join(
        &self,
        log: &Arc<Log<FileDisk>>,
        seat: &LaneSeat,
        log_clock: &mut LogClock,
    ) -> io::Result<(Producer<FileDisk>, TailCursor)> {
        let waker = seat.waker();
        let notify = match waker.eventfd() {
            Some(fd) => Some(Arc::new(fd.try_clone_to_owned()?)),
            None => None,
        };
        let wake = Arc::new(LaneWake(waker));
        let mut producer = log.producer(wake, notify).map_err(io::Error::other)?;
        let tail = producer.tail();
        if seat.lane().index() + 1 == seat.lanes() {
            let mut clock = self.clock;
            let mut wait = || thread::sleep(Duration::from_micros(100));
            let lanes = self.shared.lanes();
            start::begin(log, &mut producer, lanes, log_clock, &mut clock, &mut wait)
                .map_err(io::Error::other)?;
        }
        Ok((producer, tail))
    }
}

/// Unpredictable numbers: peers choose topics, so hashes are seeded by what they do not know.
fn random_bytes() -> io::Result<(u64, u64)> {
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let (low, high) = bytes.split_at(8);
    let number = |half: &[u8]| half.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    Ok((number(low), number(high)))
}
