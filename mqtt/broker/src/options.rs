//! What a broker can be told: where it keeps its log, what it logs, and how much it takes on.

use std::path::PathBuf;
use std::time::Duration;

use zzq_engine::GroupStrategies;
use zzq_types::QoS;

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
    /// How much of the log stays although nothing needs it, for subscriptions that start in the
    /// past. Without it they find what is still there.
    pub retain_log: Retention,
    /// An image is made as well when replaying the log behind the last one would take a start
    /// longer than this, by what the last start has measured.
    pub recovery_budget: Duration,
    /// How much of the disk stays free.
    pub disk_limits: DiskLimits,
    /// What becomes of QoS 0 messages to a receiver whose output is full.
    pub qos0_full: Qos0Full,
    /// How shared groups choose among their members.
    pub shared: GroupStrategies,
    /// How often `$SYS` topics are renewed; zero turns them off.
    pub sys_interval: Duration,
    /// Where a client that asks for it is told to expect responses, with `%c` for its client
    /// identifier: the Response Information of MQTT 5.
    pub response_information: Option<String>,
    /// Where clients of MQTT 5 are sent when the broker stops.
    pub redirect: Option<Redirect>,
    /// What one client, and all of them, may take.
    pub limits: Limits,
}

/// Where clients go from here: the Server Reference of MQTT 5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// As clients understand it: HOST or HOST:PORT, or several with blanks between.
    pub server: String,
    /// For good (0x9D, Server moved), or for now (0x9C, Use another server).
    pub moved: bool,
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

/// How much history a log keeps. What lies beyond either bound goes when the next image of the
/// state is made, a segment at a time; without a bound nothing is kept on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The newest so many bytes of the log.
    pub bytes: Option<u64>,
    /// What was written so long before the newest record.
    pub age: Option<Duration>,
}

impl Retention {
    /// Whether anything is kept on purpose.
    pub(crate) const fn is_on(&self) -> bool {
        self.bytes.is_some() || self.age.is_some()
    }
}

/// How much of the disk is kept free for what must go on when it is full: receipts, ends of
/// sessions, images of the state. Publishes, sessions and retained messages that would take of it
/// are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskLimits {
    /// Bytes that stay free at least. Without it, and if it is less: as much as two images and a
    /// few of the shortest segments take.
    pub reserve: Option<u64>,
    /// When less is left beside that, the oldest history goes ([`Retention`]), and images are made
    /// to let the log go. Without it: as much as the reserve.
    pub low: Option<u64>,
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

/// What happens to messages for a session whose queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QueueFull {
    /// Nobody may publish what it would get: MQTT 5 is refused with Quota exceeded, MQTT 3 is held.
    /// A session that is away for longer than [`Limits::queue_grace`] ends.
    #[default]
    Refuse,
    /// The session ends at once, with what waits in it, and its connection with it.
    EndSession,
    /// The oldest messages that were not sent to it make room.
    DropOldest,
    /// It is passed by until it has room.
    DropNewest,
}

/// What becomes of QoS 0 messages to a receiver that does not keep up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Qos0Full {
    /// Their publishers are held until it has read, for [`Limits::max_hold`] at most.
    #[default]
    Slow,
    /// They are dropped at once, and counted.
    Drop,
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
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest packet accepted, in bytes with its header.
    pub max_packet_size: u32,
    /// The same of CONNECT, and of AUTH before CONNACK: what somebody may send who is not let in.
    pub max_connect_size: u32,
    /// Memory of all packets that have come in part, and of those that wait to be handled; each
    /// lane has an equal share. Above it whoever has begun a packet of more than 4 KiB is not read
    /// until there is room for it. A quarter is for clients before their CONNACK, for no others.
    pub max_input_bytes_total: usize,
    /// Connections at once, through all endpoints together.
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
    /// Memory of topic aliases of all connections, both ways, beside the first 4 KiB of those that
    /// each client defines.
    pub max_alias_bytes_total: usize,
    /// Longest keep alive; a client that asks for more, or for none, is told this. MQTT 3 cannot be
    /// told, and is not bound. Zero: no bound.
    pub max_keep_alive: u16,
    /// After how much silence the system asks whether a peer is still there (`SO_KEEPALIVE`), and
    /// closes the connection after four questions without an answer. Up to 32767 s; zero: never.
    pub tcp_keep_alive: Duration,
    /// Longest session expiry in seconds; `u32::MAX` lets sessions live for ever.
    pub max_session_expiry: u32,
    /// Time from the connection to its CONNECT.
    pub connect_timeout: Duration,
    /// Memory of the output waiting for one connection, in bytes, above which nothing more is
    /// queued for it.
    pub max_output_bytes: usize,
    /// The same of all connections together; each lane has an equal share. Above it nothing more is
    /// queued for whoever has 28 KiB, so that all have at most this and 32 KiB for each.
    pub max_output_bytes_total: usize,
    /// Memory of messages that are kept for receivers, or as retained, though the log has them;
    /// each lane has an equal share. Beyond it they are read back. Without a log nothing counts.
    pub max_cached_bytes_total: usize,
    /// Sessions, those of clients that are connected among them. Who would open another is refused;
    /// sessions that are there may be resumed. What is under way may come on top.
    pub max_sessions: usize,
    /// Memory that sessions take together with their subscriptions and wills, and what routes are
    /// found by on each lane; `None`: 1 GiB for each lane, as that takes the more the more there
    /// are. Above it no session is opened, no subscription added, and no will taken of more than 1
    /// KiB.
    pub max_session_bytes_total: Option<u64>,
    /// Subscriptions of one session.
    pub max_subscriptions: usize,
    /// Messages waiting for one session at QoS 1 and 2, those among them that it was sent and has
    /// not acknowledged. What was under way when it was reached may come on top.
    pub max_queued_messages: usize,
    /// Bytes of messages waiting for one session.
    pub max_queued_bytes: u64,
    /// What happens at either of the two.
    pub queue_full: QueueFull,
    /// Memory that the queues of all sessions take together, at least 1: references to messages,
    /// and messages that no log has. Whatever would go into a queue then is refused, or held for
    /// MQTT 3, whatever [`Limits::queue_full`] says. What lanes take in one turn may come on top.
    pub max_queued_bytes_total: u64,
    /// With [`QueueFull::Refuse`], how long a session without a connection may have others refused
    /// or held for its full queue: then it ends. Those that hold the most end so as well, whatever
    /// the policy, when [`Limits::max_queued_bytes_total`] was reached for as long.
    pub queue_grace: Duration,
    /// How long a publisher is held for a receiver whose output is full, before what goes to that
    /// receiver at QoS 0 is dropped; and, with [`QueueFull::Refuse`], for a connected one whose
    /// queue is over half of what it may hold, before more goes into it. Zero: not for a queue.
    pub max_hold: Duration,
    /// Bytes of publishes of one client that are held, for a slow receiver or, with MQTT 3, for a
    /// full queue; above them it is not read any more.
    pub max_held_bytes: usize,
    /// The same of all clients; each lane has an equal share.
    pub max_held_bytes_total: usize,
    /// Levels of a topic or filter.
    pub max_topic_levels: usize,
    /// Bytes of a topic or filter.
    pub max_topic_length: usize,
    /// Bytes of a client identifier; MQTT asks for 23 at least.
    pub max_client_id: usize,
    /// Retained messages; those that are there may change. Whoever would add one is refused or,
    /// where it cannot be told (QoS 0, MQTT 3), has it delivered and not retained.
    pub max_retained_messages: usize,
    /// Bytes of all retained messages, with their topics.
    pub max_retained_bytes: u64,
    /// PUBLISH packets that one client may send in a second, beyond which it is not read for as
    /// long; zero: any number.
    pub max_message_rate: u32,
    /// Bytes that one client may send in a second; zero: any number.
    pub max_byte_rate: u32,
    /// The highest QoS that is taken from clients and granted to them.
    pub max_qos: QoS,
    /// Whether clients may have messages retained.
    pub retain: bool,
    /// Whether clients may subscribe by filters with wildcards.
    pub wildcards: bool,
    /// Whether clients may subscribe as members of groups.
    pub shared_subscriptions: bool,
    /// Whether payloads that say so (Payload Format Indicator 1) are held to be UTF-8.
    pub check_payload_format: bool,
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
            retain_log: Retention::default(),
            recovery_budget: Duration::from_secs(3),
            disk_limits: DiskLimits::default(),
            qos0_full: Qos0Full::default(),
            shared: GroupStrategies::default(),
            sys_interval: Duration::from_secs(10),
            response_information: None,
            redirect: None,
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_packet_size: 2 << 20,
            max_connect_size: 512 << 10,
            max_input_bytes_total: 256 << 20,
            max_connections: 16_384,
            max_connections_each: usize::MAX,
            receive_maximum: 4096,
            max_inflight: 1024,
            topic_alias_maximum: 64,
            max_alias_bytes_total: 256 << 20,
            max_keep_alive: 0,
            tcp_keep_alive: Duration::from_mins(10),
            max_session_expiry: u32::MAX,
            connect_timeout: Duration::from_secs(10),
            max_output_bytes: 1 << 20,
            max_output_bytes_total: 256 << 20,
            max_cached_bytes_total: 64 << 20,
            max_sessions: usize::MAX,
            max_session_bytes_total: None,
            max_subscriptions: 16_384,
            max_queued_messages: 10_000_000,
            max_queued_bytes: 1 << 30,
            queue_full: QueueFull::default(),
            max_queued_bytes_total: u64::MAX,
            queue_grace: Duration::from_hours(1),
            max_hold: Duration::from_secs(5),
            max_held_bytes: 1 << 20,
            max_held_bytes_total: 64 << 20,
            max_topic_levels: 128,
            max_topic_length: 65_535,
            max_client_id: 65_535,
            max_retained_messages: usize::MAX,
            max_retained_bytes: u64::MAX,
            max_message_rate: 0,
            max_byte_rate: 0,
            max_qos: QoS::ExactlyOnce,
            retain: true,
            wildcards: true,
            shared_subscriptions: true,
            check_payload_format: false,
        }
    }
}
