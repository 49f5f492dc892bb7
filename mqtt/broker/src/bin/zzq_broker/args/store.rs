//! Flags of the store: where the log is, what is in it, how it is written, how much of it stays.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use zzq_broker::units::{parse_duration, parse_retention, parse_size};
use zzq_broker::{DeliverPolicy, DiskBackend, LogPolicy, Retention};

/// See the file.
#[derive(Debug, Args)]
pub(crate) struct StoreFlags {
    /// Where the log is kept. Without it everything is in memory and lost at the end.
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Which publishes are logged, with a data directory.
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = Log::All)]
    pub(crate) log: Log,

    /// When a QoS 1 message goes to connected receivers.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Deliver::Early)]
    pub(crate) deliver: Deliver,

    /// How the log writes.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Disk::Auto)]
    pub(crate) disk: Disk,

    /// Leads the log on a thread of its own, instead of on the lanes: a lane never runs into a slow
    /// submission, but each commit takes a wake-up more.
    #[arg(long)]
    pub(crate) log_thread: bool,

    /// The size that segments of the log grow to, at least 1MiB.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    pub(crate) segment_size: u64,

    /// The state is written down whenever the log has grown by so much, and by twice the size of
    /// what was written down last; the log before that is let go, as far as nothing needs it.
    /// SIGUSR1 does it at once.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    pub(crate) snapshot_every: u64,

    /// How much of the log is kept for subscriptions that start in the past ($replay/...), beyond
    /// what is needed: the newest SIZE, what is younger than SPAN, or SIZE,SPAN for what is within
    /// both. Without it they find what is still there, which may be little.
    #[arg(long, value_name = "SIZE|SPAN", value_parser = parse_retention)]
    pub(crate) retain_log: Option<Retention>,

    /// So much of the disk stays free at least, for what must go on when it is full: receipts, ends
    /// of sessions, images of the state. Publishes and new sessions that would take of it are
    /// refused with reason code 0x97; publishes of MQTT 3 are held [default: what two images and
    /// a few short segments take, 6MiB and more].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) disk_reserve: Option<u64>,

    /// With less left beside the reserve, the oldest history (--retain-log) goes, and the state is
    /// written down so that the log can be let go [default: as much as the reserve].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) disk_low: Option<u64>,

    /// The state is written down as well when replaying the log behind it would take a start longer
    /// than this; not before the log has grown by the size of what was written down last.
    #[arg(long, value_name = "SPAN", default_value = "3s", value_parser = parse_duration)]
    pub(crate) recovery_budget: Duration,
}

/// `--log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Log {
    /// Every QoS 1 and 2 publish and every retained one.
    All,
    /// Every publish, QoS 0 too.
    Everything,
    /// Only what a persistent session or the retained store needs.
    Needed,
}

impl From<Log> for LogPolicy {
    fn from(flag: Log) -> Self {
        match flag {
            Log::All => Self::All,
            Log::Everything => Self::Everything,
            Log::Needed => Self::Needed,
        }
    }
}

/// `--deliver`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Deliver {
    /// As soon as it has its place in the log; QoS 2 waits for the commit all the same.
    Early,
    /// Only when it is committed.
    Committed,
}

impl From<Deliver> for DeliverPolicy {
    fn from(flag: Deliver) -> Self {
        match flag {
            Deliver::Early => Self::Early,
            Deliver::Committed => Self::Committed,
        }
    }
}

/// `--disk`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Disk {
    /// AIO, unless a probe by real writes finds that another is clearly quicker.
    Auto,
    /// Linux AIO.
    Aio,
    /// `io_uring`.
    Uring,
    /// A thread that calls pwritev2.
    Pwrite,
}

impl From<Disk> for DiskBackend {
    fn from(flag: Disk) -> Self {
        match flag {
            Disk::Auto => Self::Auto,
            Disk::Aio => Self::Aio,
            Disk::Uring => Self::Uring,
            Disk::Pwrite => Self::Pwrite,
        }
    }
}
