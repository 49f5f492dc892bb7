//! Starting: the directory is locked, the log opened, the state folded from it, and the first
//! record of this start is durable before anybody is served.

mod folding;

use std::io;
use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use thiserror::Error;
use zzq_engine::record::Start;
use zzq_engine::{
    HashSeed, Index, Record, RecordError, SessionFlags, SessionNumber, Shard, State, Subscriber,
};
use zzq_types::{Filter, Lsn};
use zzq_wal::disk::Disk;
use zzq_wal::io::{Backend, DirectoryLock, FileDisk, Issuers, LockError};
use zzq_wal::{
    DriverThread, End, Log, LogClock, Options, Recovery, SegmentReport, Staging, Status, Wake,
};

use self::folding::{Base, FoldError, Folded, fold};
use crate::clock::Clock;
use crate::images::{self, Images, LoadError, Loaded, Replay, Target, TouchError};
use crate::options::{BrokerOptions, DiskBackend};
use crate::progress::{Progress, Step, Teller};
use crate::replay::standing;
use crate::shell::HeldWill;

/// Why a broker does not start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The data directory is another process's.
    #[error("--data-dir: {source}")]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Names the process.
        source: LockError,
    },
    /// The operating system does not permit it.
    #[error("--data-dir {path}: {source}")]
    NotPermitted {
        /// The directory.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// Durable bytes are missing or changed. Nothing was changed.
    #[error(
        "--data-dir {path}: the store is damaged: {reason}. Nothing was changed. Look at it with \
         zzq_journal, or restore a copy"
    )]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// File, offset and reason.
        reason: String,
    },
    /// The store cannot be read or written.
    #[error("--data-dir {path}: {reason}")]
    Store {
        /// The directory.
        path: PathBuf,
        /// The step and what went wrong.
        reason: String,
    },
    /// Options contradict one another, or this machine.
    #[error("{0}")]
    Config(String),
    /// Lanes could not be started.
    #[error("starting lanes: {0}")]
    Lanes(io::Error),
}

/// What a broker starts from.
pub(crate) struct Ground<D: Disk> {
    pub(crate) states: Vec<State>,
    /// One full copy for each lane.
    pub(crate) indexes: Vec<Index>,
    pub(crate) wills: FxHashMap<Lsn, HeldWill>,
    pub(crate) first_number: u64,
    pub(crate) last_ms: u64,
    pub(crate) log: Option<Opened<D>>,
}

/// An open log, and what keeps it.
pub(crate) struct Opened<D: Disk> {
    pub(crate) log: Log<D>,
    pub(crate) images: Images<D>,
    /// What was found, behind the last record that an image covers.
    pub(crate) recovery: Recovery,
    pub(crate) covered: Lsn,
    pub(crate) lock: Option<DirectoryLock>,
}

/// How a start goes.
#[derive(Clone, Debug)]
pub(crate) struct Course {
    pub(crate) lanes: u16,
    pub(crate) seed: HashSeed,
    /// Queues of clients that are away stay in the image if their first entry has so many bytes:
    /// about as many messages as bring one read of the disk again in memory.
    pub(crate) leaves_from: usize,
    pub(crate) progress: Progress,
}

impl Course {
    /// The usual one.
    pub(crate) fn new(lanes: u16, seed: HashSeed) -> Self {
        Self { lanes, seed, leaves_from: LEAVES_FROM, progress: Progress::default() }
    }
}

/// See [`Course`].
pub(crate) const LEAVES_FROM: usize = 256;

/// A broker without a log starts from nothing.
pub(crate) fn empty<D: Disk>(lanes: u16, seed: HashSeed) -> Ground<D> {
    let states: Vec<State> = shards(lanes).map(State::new).collect();
    let indexes = states.iter().map(|_| Index::new(seed, CACHE_BYTES)).collect();
    Ground { states, indexes, wills: FxHashMap::default(), first_number: 1, last_ms: 0, log: None }
}

/// Bytes of each lane's match cache.
const CACHE_BYTES: usize = 4 << 20;

/// The parts of the state that lanes own.
pub(crate) fn shards(lanes: u16) -> impl Iterator<Item = Shard> {
    let count = u32::from(lanes);
    (0..count).map(move |index| Shard::new(index, count))
}

/// Opens the log of a data directory and folds it, from the newest good image on.
pub(crate) fn open_directory(
    path: &Path,
    options: &BrokerOptions,
    course: &Course,
    clock: &mut dyn Clock,
) -> Result<Ground<FileDisk>, StartError> {
    let _told = Teller::spawn(course.progress.clone()).map_err(StartError::Lanes)?;
    let denied = |source: io::Error| match source.kind() {
        io::ErrorKind::PermissionDenied => StartError::NotPermitted { path: path.into(), source },
        _ => StartError::Store { path: path.into(), reason: source.to_string() },
    };
    std::fs::create_dir_all(path).map_err(denied)?;
    let lock = lock(path).map_err(|source| match source {
        LockError::Held { .. } => StartError::InUse { path: path.into(), source },
        LockError::Io { source, .. } => denied(source),
    })?;
    let backend = match options.disk {
        DiskBackend::Auto => Backend::Auto,
        DiskBackend::Aio => Backend::Aio,
        DiskBackend::Uring => Backend::Uring,
        DiskBackend::Pwrite => Backend::Pwrite,
    };
    let issuers = if options.log_thread { Issuers::One } else { Issuers::Any };
    let disk = FileDisk::open_for(path, backend, issuers)
        .map_err(|error| StartError::Store { path: path.into(), reason: error.to_string() })?;
    tracing::info!(path = %path.display(), disk = disk.choice(), "data directory");
    let mut log_options = Options::from_os().map_err(denied)?;
    log_options.segment_size = options.segment_size;
    let mut ground = open_log(disk, log_options, path, course, clock)?;
    if let Some(opened) = &mut ground.log {
        opened.lock = Some(lock);
    }
    Ok(ground)
}

/// Locks the directory. A broker that was just killed holds it until the kernel has taken the
/// process apart, so a holder is given a moment to end.
fn lock(path: &Path) -> Result<DirectoryLock, LockError> {
    const WAITS: u32 = 20;
    for _ in 0..WAITS {
        match DirectoryLock::acquire(path) {
            Err(LockError::Held { .. }) => thread::sleep(Duration::from_millis(100)),
            other => return other,
        }
    }
    DirectoryLock::acquire(path)
}

/// Opens a log on any disk and folds it, from the newest good image on.
pub(crate) fn open_log<D: Disk>(
    disk: D,
    mut options: Options,
    path: &Path,
    course: &Course,
    clock: &mut dyn Clock,
) -> Result<Ground<D>, StartError> {
    let progress = &course.progress;
    let pace = |bytes| {
        progress.add(bytes);
        ControlFlow::Continue(())
    };
    let target = Target { lanes: course.lanes, leaves_from: course.leaves_from };
    progress.step(Step::Image);
    let began = Instant::now();
    let loaded = images::load(&disk, target, &pace).map_err(|error| load_error(path, &error))?;
    let Loaded { shelf, cold, states, covered, known } = loaded;
    let image_took = began.elapsed();
    options.visit_from = zzq_wal::Lsn::new(covered.next().get());
    options.durable = zzq_wal::Lsn::new(known.get());
    progress.step(Step::Log);
    let log_progress = progress.clone();
    options.progress =
        Some(Box::new(move |found| log_progress.set(found.bytes_done, found.bytes_all)));
    let began = Instant::now();
    let base = Base { states, covered, image: shelf.newest().cloned() };
    let folded = fold(disk, options, base).map_err(|error| match error {
        FoldError::Open(error) => start_error(path, &error),
        FoldError::Touch(error) => load_error(path, &error.into()),
    })?;
    let Folded { found, states, mut wills, records, bytes } = folded;
    let opened = found.open(clock.read().wall_ms);
    let (log, recovery) = opened.map_err(|error| start_error(path, &error))?;
    let log_took = began.elapsed();
    let replay = Replay::measured(records, bytes, log_took);
    let images = Images::new(log.clone(), shelf, cold, replay);
    let read = images::read_wills(images.past(), &states, &mut wills);
    read.map_err(|reason| StartError::Damaged { path: path.into(), reason })?;
    progress.step(Step::Routing);
    let last_ms = recovery.last_time_ms;
    let first_number = states.iter().map(State::next_session).max().unwrap_or(1);
    let indexes = rebuild_indexes(&states, course.seed);
    tell(path, covered, &recovery, &states, [image_took, log_took]);
    progress.step(Step::Begin);
    let log = Some(Opened { images, log, recovery, covered, lock: None });
    Ok(Ground { states, indexes, wills, first_number, last_ms, log })
}

fn start_error(path: &Path, error: &zzq_wal::OpenError) -> StartError {
    use zzq_wal::OpenError as E;
    let path = path.to_path_buf();
    match error {
        E::Refused { reason, .. } if is_of_a_newer(&**reason) => StartError::Config(format!(
            "--data-dir {}: {error}: use the program that wrote it, or a newer one",
            path.display()
        )),
        E::Damage(_) | E::Refused { .. } => StartError::Damaged { path, reason: error.to_string() },
        E::Options(_) | E::Version { .. } => {
            StartError::Config(format!("--data-dir {}: {error}", path.display()))
        }
        E::Disk { .. } => StartError::Store { path, reason: error.to_string() },
    }
}

/// Whether a record was refused because a newer program wrote it: then nothing is damaged.
fn is_of_a_newer(reason: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let reason = reason.downcast_ref();
    matches!(reason, Some(RecordError::Kind(_) | RecordError::Version { .. }))
}

fn load_error(path: &Path, error: &LoadError) -> StartError {
    use std::io::ErrorKind;

    use zzq_snapshot::{ReadError, ShelfError as S};

    let (path, reason) = (path.to_path_buf(), error.to_string());
    match error {
        LoadError::Facts(error) => start_error(&path, error),
        LoadError::Shelf(S::Version(_)) | LoadError::Contents { .. } => {
            StartError::Config(format!("--data-dir {}: {error}", path.display()))
        }
        LoadError::Shelf(S::Disk { .. } | S::Stopped) => StartError::Store { path, reason },
        LoadError::Read(ReadError::Disk { error, .. })
        | LoadError::Touch(TouchError::Read(ReadError::Disk { error, .. }))
            if error.kind() != ErrorKind::NotFound =>
        {
            StartError::Store { path, reason }
        }
        LoadError::Read(_) | LoadError::Touch(_) | LoadError::State { .. } => {
            StartError::Damaged { path, reason }
        }
    }
}

/// One line about what recovery found.
fn tell(
    path: &Path,
    covered: Lsn,
    recovery: &Recovery,
    states: &[State],
    [image_took, log_took]: [Duration; 2],
) {
    let queued: usize = states.iter().map(State::queued).sum();
    let ms = |took: Duration| u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let sessions: usize = states.iter().map(State::session_count).sum();
    let retained: usize = states.iter().map(|state| state.retained().len()).sum();
    let is_torn = |segment: &&SegmentReport| !matches!(segment.end, End::Clean { .. });
    tracing::info!(
        path = %path.display(),
        image = covered.get(),
        segments = recovery.segments.len(),
        records = recovery.segments.iter().map(|segment| segment.records).sum::<u64>(),
        last = recovery.last_lsn.get(),
        torn = recovery.segments.iter().filter(is_torn).count(),
        foreign = recovery.foreign.len(),
        renewed = recovery.renewed.as_ref().map_or(0, |renewed| renewed.groups),
        sessions,
        queued,
        retained,
        image_ms = ms(image_took),
        log_ms = ms(log_took),
        "recovered"
    );
}

/// One full copy for each lane: routing is complete before the first listener is open.
fn rebuild_indexes(states: &[State], seed: HashSeed) -> Vec<Index> {
    thread::scope(|scope| {
        let rebuild = || scope.spawn(|| rebuild_index(states, seed));
        let threads: Vec<_> = states.iter().map(|_| rebuild()).collect();
        let ended = threads.into_iter().map(thread::ScopedJoinHandle::join);
        ended.map(|index| index.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

fn rebuild_index(states: &[State], seed: HashSeed) -> Index {
    let mut index = Index::new(seed, CACHE_BYTES);
    for (lane, state) in (0_u16..).zip(states) {
        for session in state.sessions().filter(|session| !session.is_volatile()) {
            for (text, sub) in session.subscriptions().iter() {
                let subscriber = Subscriber {
                    session: session.number(),
                    lane,
                    flags: SessionFlags::PERSISTENT,
                    since: 0,
                    sub: sub.number,
                    options: sub.options,
                    id: sub.id,
                };
                if session.replay(sub.number).is_some() {
                    standing::stand(&mut index, text, subscriber, true);
                } else if let Ok(filter) = Filter::new(text) {
                    index.insert(filter, subscriber);
                }
            }
        }
    }
    index
}

/// Leads the log on a thread of its own. It keeps log time as a lane does.
pub(crate) fn spawn_driver<D: Disk>(
    log: &Log<D>,
    last_ms: u64,
    mut clock: impl Clock + 'static,
) -> io::Result<DriverThread> {
    let mut log_clock = log_clock(last_ms, &mut clock);
    log.spawn_driver(move || {
        let reading = clock.read();
        log_clock.now(reading.boot_ms, reading.wall_ms)
    })
}

/// Log time of who drives a log, from the last record on.
pub(crate) fn log_clock(last_ms: u64, clock: &mut impl Clock) -> LogClock {
    let reading = clock.read();
    LogClock::new(last_ms, reading.boot_ms, reading.wall_ms)
}

/// The first record of a start: durable before the first listener is open. It is applied by the
/// lanes, whose tails were made before. `wait` passes the time, or gives up with `false`.
pub(crate) fn begin<D: Disk>(
    log: &Log<D>,
    producer: &mut zzq_wal::Producer<D>,
    lanes: u16,
    log_clock: &mut LogClock,
    clock: &mut dyn Clock,
    wait: &mut dyn FnMut() -> bool,
) -> Result<(), String> {
    let record = Record::Start(Start { jump: true });
    let lanes = u64::MAX >> (64 - u32::from(lanes));
    let staging = Staging { kind: record.kind(), waits: true, lanes, reserved: true };
    let handed = producer
        .stage(&staging, |out| record.encode_body(out))
        .map_err(|error| error.to_string())?;
    loop {
        let reading = clock.read();
        producer.drive(log_clock.now(reading.boot_ms, reading.wall_ms));
        if producer.durable() >= handed {
            return Ok(());
        }
        if let Status::ReadOnly(fault) = log.status() {
            return Err(fault);
        }
        if !producer.wants(handed) && !wait() {
            return Err("the start was given up".into());
        }
    }
}

/// Session numbers are dealt out to lanes in turn.
pub(crate) fn first_number_of(lane: u16, first: u64) -> SessionNumber {
    SessionNumber::new(first + u64::from(lane)).unwrap_or(SessionNumber::FIRST)
}

/// Wakes a lane for the log.
pub(crate) struct LaneWake(pub(crate) zzq_lanes::LaneWaker);

impl Wake for LaneWake {
    fn wake(&self) {
        self.0.wake();
    }
}
