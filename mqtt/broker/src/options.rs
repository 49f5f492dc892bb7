//! What a broker can be told: where it keeps its log, what it logs, and how much it takes on.

use std::path::PathBuf;
use std::time::Duration;

/// All settings of a [`crate::Broker`]. The default is a broker in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerOptions {
    /// Where the log lives; without one, everything is in memory and nothing is logged.
    pub data_dir: Option<PathBuf>,
    /// Which publishes are logged. Has no effect without a data directory.
    pub log: LogPolicy,
    /// When a logged QoS 1 message goes to its connected receivers.
    pub deliver: DeliverPolicy,
    /// How the log writes.
    pub disk: DiskBackend,
    /// A thread of its own leads the log, instead of whichever lane has something for it.
    pub log_thread: bool,
    /// The size that segments of the log grow to, in bytes.
    pub segment_size: u64,
    /// Bytes by which the log grows, at least, before another image of the state is made; it also
    /// grows by twice the size of the last one.
    pub snapshot_every: u64,
    /// How often `$SYS` topics are renewed; zero turns them off.
    pub sys_interval: Duration,
    /// What one client, and all of them, may take.
    pub limits: Limits,
}

/// Which publishes become records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogPolicy {
    /// Every QoS 1 and 2 publish and every retained one.
    #[default]
    All,
    /// Every publish, QoS 0 too.
    Everything,
    /// Only what a persistent session or the retained store needs.
    Needed,
}

/// When logged messages go to connected receivers. What was published at QoS 2, wills and
/// retained messages always wait for the commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliverPolicy {
    /// As soon as the message has its place in the log.
    #[default]
    Early,
    /// Only when the message is committed.
    Committed,
}

/// How the log writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskBackend {
    /// Linux AIO, unless a probe by real writes finds that another is clearly quicker.
    #[default]
    Auto,
    /// Linux AIO.
    Aio,
    /// `io_uring`.
    Uring,
    /// A thread that calls `pwritev2`.
    Pwrite,
}

/// Bounds on what clients may take. Each refusal is answered with its reason code and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest packet accepted, in bytes with its header.
    pub max_packet_size: u32,
    /// Connections at once, through each endpoint.
    pub max_connections: usize,
    /// Of these from one address, or one /64 of IPv6; as many as all unless it is less.
    pub max_connections_each: usize,
    /// QoS 1 and 2 publishes that a client may have unacknowledged (announced to MQTT 5 clients).
    pub receive_maximum: u16,
    /// QoS 1 and 2 messages on their way to one client, also bounded by its Receive Maximum.
    pub max_inflight: u16,
    /// Topic aliases of one connection: those that a client may define, and at most so many that it
    /// is given if it takes some.
    pub topic_alias_maximum: u16,
    /// Longest keep alive; a client that asks for more, or for none, is told this. Zero: no bound.
    pub max_keep_alive: u16,
    /// Longest session expiry in seconds; `u32::MAX` lets sessions live for ever.
    pub max_session_expiry: u32,
    /// Time from the connection to its CONNECT.
    pub connect_timeout: Duration,
    /// Output waiting for one connection, in bytes, above which nothing more is queued for it.
    pub max_output_bytes: usize,
    /// Subscriptions of one session.
    pub max_subscriptions: usize,
    /// Messages waiting for one session; further ones are refused to their publishers, or held
    /// where MQTT 3 knows no refusal.
    pub max_queued_messages: usize,
    /// Bytes of messages waiting for one session.
    pub max_queued_bytes: u64,
    /// How long a publisher is held for a receiver whose output is full, before what goes to that
    /// receiver at QoS 0 is dropped.
    pub max_hold: Duration,
    /// Bytes of publishes of one MQTT 3 client that are held for a full queue, above which it is
    /// not read any more.
    pub max_held_bytes: usize,
    /// Levels of a topic or filter.
    pub max_topic_levels: usize,
}

impl Default for BrokerOptions {
    fn default() -> Self {
        Self {
            data_dir: None,
            log: LogPolicy::default(),
            deliver: DeliverPolicy::default(),
            disk: DiskBackend::default(),
            log_thread: false,
            segment_size: 64 << 20,
            snapshot_every: 64 << 20,
            sys_interval: Duration::from_secs(10),
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_packet_size: 2 << 20,
            max_connections: 16_384,
            max_connections_each: usize::MAX,
            receive_maximum: 4096,
            max_inflight: 1024,
            topic_alias_maximum: 64,
            max_keep_alive: 0,
            max_session_expiry: u32::MAX,
            connect_timeout: Duration::from_secs(10),
            max_output_bytes: 1 << 20,
            max_subscriptions: 16_384,
            max_queued_messages: 10_000_000,
            max_queued_bytes: 1 << 30,
            max_hold: Duration::from_secs(5),
            max_held_bytes: 1 << 20,
            max_topic_levels: 128,
        }
    }
}
