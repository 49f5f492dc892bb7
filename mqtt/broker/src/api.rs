//! `Broker`: starts lanes over a log, binds endpoints, stops.
//!
//! Owns: the wiring of lanes, engine and wal; it runs in any async runtime.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use zzq_engine::HashSeed;
#[cfg(feature = "tls")]
use zzq_lanes::TlsServer;
use zzq_lanes::{BindError, BindOptions, Bound, Context, Lanes, ListenerId};
use zzq_wal::io::{DirectoryLock, FileDisk};
use zzq_wal::{DriverThread, HelperThread, Log};

use crate::clock::SystemClock;
use crate::fetch;
use crate::hooks::{Hooks, thread_runtime};
use crate::images::Keeper;
use crate::metrics::Counts;
use crate::options::BrokerOptions;
use crate::replay;
use crate::seeds::{Seeds, Way};
use crate::shared::Shared;
use crate::shell::Shell;
use crate::start::{self, Course, Ground, Opened, StartError};

/// Descriptors that connections leave free: the log's next segments, images, cold files and the
/// threads that read must be able to open theirs, or clients at the limit of open files would end
/// the log for those that are served.
const SPARE_FILES: u32 = 64;

/// Connections beyond the limits that are told so when they send their CONNECT.
const MAX_EXCESS: usize = 64;

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
    keeper: Option<Keeper>,
    driver: Option<DriverThread>,
    _helper: HelperThread,
    log: Log<FileDisk>,
    _lock: Option<DirectoryLock>,
}

impl Broker {
    /// Starts a broker on the lanes of `context`. With a data directory its log is recovered first;
    /// what it holds is served from the first bound endpoint on.
    ///
    /// # Errors
    /// [`StartError`]; nothing runs then, and what is in the data directory is as it was.
    pub async fn new(context: &Context, options: BrokerOptions) -> Result<Self, StartError> {
        Self::with_hooks(context, options, Hooks::default()).await
    }

    /// [`Broker::new`] with what the application decides, and wants to be told.
    ///
    /// # Errors
    /// As [`Broker::new`].
    pub async fn with_hooks(
        context: &Context,
        options: BrokerOptions,
        mut hooks: Hooks,
    ) -> Result<Self, StartError> {
        run_futures_here(&mut hooks);
        // Starting reads files and waits for the disk: not on a thread of a runtime.
        let (context, (done, outcome)) = (context.clone(), oneshot::channel());
        let start = move || {
            // Who asked may have given up; the broker is dropped then, and stops.
            let _ = done.send(Self::start_with_hooks(&context, options, hooks));
        };
        thread::Builder::new().name("zzq-start".into()).spawn(start).map_err(StartError::Lanes)?;
        outcome.await.map_err(|_| StartError::Lanes(io::Error::other("starting panicked")))?
    }

    /// [`Broker::new`] for callers without a runtime.
    ///
    /// # Errors
    /// As [`Broker::new`].
    pub fn start(context: &Context, options: BrokerOptions) -> Result<Self, StartError> {
        Self::start_with_hooks(context, options, Hooks::default())
    }

    /// [`Broker::with_hooks`] for callers without a runtime.
    ///
    /// # Errors
    /// As [`Broker::new`].
    pub fn start_with_hooks(
        context: &Context,
        options: BrokerOptions,
        mut hooks: Hooks,
    ) -> Result<Self, StartError> {
        run_futures_here(&mut hooks);
        if hooks.spawn.is_none() && hooks.asks() {
            hooks.spawn = Some(thread_runtime().map_err(StartError::Lanes)?);
        }
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
            Some(path) => {
                let course = Course::new(lanes, seed);
                start::open_directory(path, &options, &course, &mut clock)?
            }
            None => start::empty(lanes, seed),
        };
        let shared = Arc::new(Shared::new(options, hooks, lanes));
        Self::run(context, shared, ground, clock, random.0 ^ random.1)
    }

    fn run(
        context: &Context,
        shared: Arc<Shared>,
        mut ground: Ground<FileDisk>,
        clock: SystemClock,
        random: u64,
    ) -> Result<Self, StartError> {
        let mut opened = ground.log.take();
        let (mut driver, mut helper, mut way) = (None, None, None);
        if let Some(Opened { log, images, .. }) = &mut opened {
            images.look_after_space(shared.options.disk_limits);
            helper = Some(log.spawn_helper().map_err(StartError::Lanes)?);
            if shared.options.log_thread {
                let spawned = start::spawn_driver(log, ground.last_ms, clock);
                driver = Some(spawned.map_err(StartError::Lanes)?);
            }
            let (fetcher, library) = fetch::library(images.past());
            library.spawn().map_err(StartError::Lanes)?;
            let (replayer, archive) = replay::archive(log.clone(), images.holds());
            let archive = archive.looking_ahead(shared.options.retain_log.is_on());
            archive.spawn().map_err(StartError::Lanes)?;
            way = Some(Way { log: Arc::new(log.clone()), fetcher, replayer });
        }
        let mut seeds = Seeds::new(Arc::clone(&shared), ground, way, clock, random);
        let mut wait = || {
            thread::sleep(Duration::from_micros(100));
            true
        };
        let lanes = context
            .spawn(|seat| {
                if opened.is_some() {
                    seat.waits_for_disk();
                }
                seeds.next(seat.waker(), &mut wait).map(Shell::new)
            })
            .map_err(StartError::Lanes)?;
        let mut store = None;
        if let Some((Opened { log, mut images, lock, .. }, helper)) = opened.zip(helper) {
            images.retain(shared.options.retain_log);
            let keeper = Keeper::spawn(images, Arc::clone(&shared)).map_err(StartError::Lanes)?;
            store = Some(Store { keeper: Some(keeper), driver, _helper: helper, log, _lock: lock });
        }
        let log = Mutex::new(store);
        Ok(Self(Arc::new(Inner { lanes, shared, log, _context: context.clone() })))
    }

    /// Binds an endpoint, `tcp://host:port`; port 0 lets the system choose. Returns when clients
    /// can connect.
    ///
    /// # Errors
    /// [`BindError`]: the text is no endpoint, or the system refuses it.
    //= MQTT5-4.2.0-1
    //= MQTT311-7.1.1-1
    pub async fn bind(&self, endpoint: &str) -> Result<Bound, BindError> {
        let options = self.bind_options(endpoint);
        let bound = self.0.lanes.bind(endpoint, options).await?;
        self.0.shared.name_listener(options.tag, &bound);
        Ok(bound)
    }

    /// The same over TLS, `tls://host:port` or `wss://host:port/path`. `server` may serve several
    /// endpoints, and reads its files again when it is told to.
    ///
    /// # Errors
    /// As [`Broker::bind`].
    #[cfg(feature = "tls")]
    pub async fn bind_tls(
        &self,
        endpoint: &str,
        server: Arc<TlsServer>,
    ) -> Result<Bound, BindError> {
        let options = self.bind_options(endpoint);
        let bound = self.0.lanes.bind_tls(endpoint, options, Arc::clone(&server)).await?;
        self.0.shared.secure(&server);
        self.0.shared.name_listener(options.tag, &bound);
        Ok(bound)
    }

    fn bind_options(&self, endpoint: &str) -> BindOptions {
        let shared = &self.0.shared;
        let (limits, tag) = (&shared.options.limits, shared.add_listener(endpoint));
        BindOptions {
            max_connections: limits.max_connections,
            max_connections_each: limits.max_connections_each,
            max_excess: MAX_EXCESS,
            spare_files: SPARE_FILES,
            keep_alive: Some(limits.tcp_keep_alive).filter(|silence| !silence.is_zero()),
            tag,
            ..BindOptions::default()
        }
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
        let Some(store) = store else { return };
        // It waits for threads and for the disk, which a runtime's own threads must not.
        let ended = tokio::task::spawn_blocking(|| store.end()).await;
        if let Err(error) = ended {
            tracing::error!(%error, "the end of the log was not reached");
        }
    }

    /// Asks for an image of the state now, which a thread makes; false without a data directory.
    pub fn snapshot(&self) -> bool {
        let store = self.0.log.lock().unwrap_or_else(PoisonError::into_inner);
        let keeper = store.as_ref().and_then(|store| store.keeper.as_ref());
        keeper.map(Keeper::ask).is_some()
    }

    /// What the broker counts, summed over its lanes and endpoints, a moment ago.
    pub fn counts(&self) -> Counts {
        self.0.shared.counts()
    }
}

impl Store {
    fn end(mut self) {
        self.keeper = None;
        // It writes what is left before it ends.
        self.driver = None;
        if let Err(error) = self.log.mark_durable() {
            tracing::error!(%error, "the end of the log could not be marked");
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Nobody waits: clients are told as far as that takes no time.
        drop(self.lanes.stop(Duration::ZERO));
    }
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Broker").field("options", &self.0.shared.options).finish_non_exhaustive()
    }
}

/// Futures of hooks run in the runtime that the caller is in, if there is one: what they use may
/// belong to it.
fn run_futures_here(hooks: &mut Hooks) {
    if hooks.spawn.is_none()
        && let Ok(runtime) = tokio::runtime::Handle::try_current()
    {
        hooks.spawn = Some(Arc::new(move |task| drop(runtime.spawn(task))));
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
