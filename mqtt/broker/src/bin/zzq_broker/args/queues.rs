//! Limits of sessions, and of what waits: for one that does not keep up, and for those who publish
//! to it.

use std::time::Duration;

use clap::{Args, ValueEnum};
use zzq_broker::units::{parse_duration, parse_size};
use zzq_broker::{Limits, QueueFull as FullPolicy};

/// See the file.
#[derive(Debug, Args)]
pub(crate) struct QueueFlags {
    /// Sessions, those of connected clients among them; who would open another is refused with
    /// reason code 0x97 [default: no bound].
    #[arg(long, value_name = "N")]
    pub(crate) max_sessions: Option<usize>,

    /// Memory of all sessions with their subscriptions and wills. Above it no session is opened,
    /// no filter granted that its session has not, and no will taken of more than 1 KiB: 0x97.
    /// Filters count once for each lane [default: 1GiB for each lane].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_sessions_total: Option<u64>,

    /// Subscriptions of one session.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_subscriptions)]
    pub(crate) max_subscriptions: usize,

    /// Messages waiting for one session at QoS 1 and 2; --queue-full says what happens then.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_queued_messages)]
    pub(crate) max_queued_messages: usize,

    /// Bytes of messages waiting for one session; --queue-full says what happens then.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    pub(crate) max_queued_bytes: u64,

    /// What happens when the queue of a session is full. What is dropped is counted below
    /// $SYS/broker/publish/messages/dropped.
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = QueueFull::Refuse)]
    pub(crate) queue_full: QueueFull,

    /// Memory that the queues of all sessions take together: 16 bytes and more for each message
    /// that waits, and the message itself where no log has it. Above it whatever would go into a
    /// queue is refused with reason code 0x97, or held for MQTT 3, whatever --queue-full says
    /// [default: no bound].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_queued_total: Option<u64>,

    /// With --queue-full refuse, how long a session that is away may have others refused or held
    /// for its full queue. Then it ends, with what waits in it. After as long at --max-queued-total
    /// those end, one by one, that were away for longer and hold the most.
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = parse_duration)]
    pub(crate) queue_grace: Duration,

    /// How long a publisher is held for a slow receiver before QoS 0 messages to it are dropped, or
    /// others are put into its queue although that is half full.
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = parse_duration)]
    pub(crate) max_hold: Duration,

    /// Publishes of one client held for slow receivers or full queues above which it is not read
    /// any more.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = parse_size)]
    pub(crate) max_held: u64,

    /// The same for all clients together; each lane has an equal share.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    pub(crate) max_held_total: u64,

    /// With a data directory: memory of messages that are kept though the log has them; each lane
    /// has an equal share. Beyond it they are read back.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    pub(crate) max_cached_total: u64,
}

/// `--queue-full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueueFull {
    /// Publishers are held when the queue of a connected session is half full. When it is full they
    /// are refused with reason code 0x97, those of MQTT 3 are held.
    Refuse,
    /// The session ends, with what waits in it, and its connection with it.
    EndSession,
    /// The oldest messages that were not sent yet make room.
    DropOldest,
    /// The session gets nothing more until it has room; an MQTT 5 publisher is refused if nobody
    /// else gets the message either.
    DropNewest,
}

impl From<QueueFull> for FullPolicy {
    fn from(flag: QueueFull) -> Self {
        match flag {
            QueueFull::Refuse => Self::Refuse,
            QueueFull::EndSession => Self::EndSession,
            QueueFull::DropOldest => Self::DropOldest,
            QueueFull::DropNewest => Self::DropNewest,
        }
    }
}
