//! The command line of `zzq_broker`, and the options that it stands for.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use zzq_broker::units::{parse_busy_poll, parse_duration, parse_retention, parse_size};
use zzq_broker::{
    BrokerOptions, BusyPoll, DeliverPolicy, DiskBackend, DiskLimits, DriverKind, EXIT_STATUS_HELP,
    GroupStrategies, GroupStrategy, Limits, LogPolicy, Qos0Full, QueueFull as FullPolicy, Redirect,
    Retention,
};
use zzq_types::QoS;

const EXAMPLES: &str = "\
Examples:
  zzq_broker --data-dir /var/lib/zzq
  zzq_broker --bind tcp://127.0.0.1:1883 --data-dir data --lanes 2
  zzq_broker --bind tcp://[::]:1883 --max-packet-size 256KiB";

/// A durable MQTT 3.1, 3.1.1 and 5.0 broker: what it acknowledges is in its log.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Debug, Parser)]
#[command(name = "zzq_broker", version, after_long_help = after_help(), max_term_width = 100)]
pub(crate) struct Args {
    /// An endpoint to listen on, tcp://HOST:PORT; may be given several times.
    #[arg(long, value_name = "URI", default_value = "tcp://0.0.0.0:1883")]
    pub(crate) bind: Vec<String>,

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

    /// IO threads [default: half the cores, at least one].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) lanes: Option<u16>,

    /// How IO threads wait, receive and send.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Io::Epoll)]
    pub(crate) io: Io,

    /// How long an IO thread looks for work before it sleeps: saves the wake-up, costs processor
    /// time. auto: with a data directory 100us while waits are shorter than that, if lanes leave a
    /// core free [possible values: auto, off, SPAN].
    #[arg(long, value_name = "auto|off|SPAN", default_value = "auto",
          value_parser = parse_busy_poll)]
    pub(crate) busy_poll: BusyPoll,

    /// Largest packet accepted.
    #[arg(long, value_name = "SIZE", default_value = "2MiB", value_parser = parse_size)]
    pub(crate) max_packet_size: u64,

    /// Connections at once, through all endpoints together; further ones are closed as they come.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_connections)]
    pub(crate) max_connections: usize,

    /// Of these from one address, or one /64 of IPv6; further ones are closed [default: all].
    #[arg(long, value_name = "N")]
    pub(crate) max_connections_each: Option<usize>,

    /// QoS 1 and 2 publishes that one client of MQTT 5 may have unacknowledged.
    #[arg(long, value_name = "N", default_value_t = Limits::default().receive_maximum,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) receive_maximum: u16,

    /// QoS 1 and 2 messages on their way to one client.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_inflight,
          value_parser = clap::value_parser!(u16).range(1..=32_767))]
    pub(crate) max_inflight: u16,

    /// Topic aliases of one connection, each way: those that the client may define, and those that
    /// it is given if it takes some.
    #[arg(long, value_name = "N", default_value_t = Limits::default().topic_alias_maximum)]
    pub(crate) max_topic_aliases: u16,

    /// Longest keep alive in seconds; 0 leaves it to the client. Clients of MQTT 5 are told. Those
    /// of MQTT 3 cannot be told, and are held to what they have chosen, which may be none.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) max_keep_alive: u16,

    /// After how much silence the system asks whether a peer is still there (TCP keep alive); after
    /// four questions without an answer, at most 30s apart, the connection is closed. Finds peers
    /// that are gone without a word and have no keep alive of MQTT; 0s turns it off.
    #[arg(long, value_name = "SPAN", default_value = "10m", value_parser = parse_duration)]
    pub(crate) tcp_keep_alive: Duration,

    /// Longest session expiry; sessions live for ever without it.
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    pub(crate) max_session_expiry: Option<Duration>,

    /// How long a connection may take to send its CONNECT.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_duration)]
    pub(crate) connect_timeout: Duration,

    /// Memory of the output waiting for one connection above which nothing more is queued for it,
    /// at least 32KiB.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = parse_size)]
    pub(crate) max_output: u64,

    /// The same for all connections together, above which whoever has 28 KiB gets no more until it
    /// has read, so that all have at most this and 32 KiB for each; each lane has an equal share.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    pub(crate) max_output_total: u64,

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

    /// With --queue-full refuse, how long a session that is away may have others refused or held
    /// for its full queue. Then it ends, with what waits in it.
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = parse_duration)]
    pub(crate) queue_grace: Duration,

    /// How long a publisher is held for a slow receiver before QoS 0 messages to it are dropped.
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = parse_duration)]
    pub(crate) max_hold: Duration,

    /// Publishes of one MQTT 3 client held for a full queue above which it is not read any more.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = parse_size)]
    pub(crate) max_held: u64,

    /// The same for all MQTT 3 clients together; each lane has an equal share.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    pub(crate) max_held_total: u64,

    /// Levels of a topic or filter.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_topic_levels)]
    pub(crate) max_topic_levels: usize,

    /// Bytes of a topic or filter.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_topic_length)]
    pub(crate) max_topic_length: usize,

    /// Bytes of a client identifier, at least 23.
    #[arg(long, value_name = "N", default_value = "65535",
          value_parser = clap::value_parser!(u16).range(23..))]
    pub(crate) max_client_id: u16,

    /// Retained messages; more are refused, those that are there may change [default: any number].
    #[arg(long, value_name = "N")]
    pub(crate) max_retained: Option<usize>,

    /// Bytes of all retained messages and their topics [default: any number].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_retained_bytes: Option<u64>,

    /// PUBLISH packets that one client may send in a second. One that sends more is read more
    /// slowly, never cut off [default: any number].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_message_rate: Option<u32>,

    /// Bytes that one client may send in a second, likewise [default: any number].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_byte_rate: Option<u64>,

    /// The highest QoS that clients may publish at and are granted.
    #[arg(long, value_name = "QOS", default_value_t = 2,
          value_parser = clap::value_parser!(u8).range(0..=2))]
    pub(crate) max_qos: u8,

    /// Takes no retained messages.
    #[arg(long)]
    pub(crate) no_retain: bool,

    /// Refuses subscriptions with wildcards.
    #[arg(long)]
    pub(crate) no_wildcards: bool,

    /// Refuses shared subscriptions.
    #[arg(long)]
    pub(crate) no_shared: bool,

    /// Refuses payloads that say that they are UTF-8 (Payload Format Indicator) and are not.
    #[arg(long)]
    pub(crate) check_payload_format: bool,

    /// Where clients of MQTT 5 that ask for it are told to expect responses; %c is the client
    /// identifier, as in response/%c.
    #[arg(long, value_name = "TEXT")]
    pub(crate) response_information: Option<String>,

    /// What becomes of QoS 0 messages to a receiver whose output is full (--max-output).
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Full0::Slow)]
    pub(crate) qos0_full: Full0,

    /// How shared groups choose among the members that can take a message: STRATEGY for all of
    /// them, GROUP=STRATEGY for those of one name; may be given several times.
    ///
    /// round-robin: one after the other. least-inflight: who is owed the fewest QoS 1 and 2
    /// messages. sticky: the same one, who has been connected for longest. hash-client: the same
    /// one for a publishing client. hash-topic: the same one for a topic.
    #[arg(long, value_name = "[GROUP=]STRATEGY", default_value = "round-robin",
          value_parser = parse_shared)]
    pub(crate) shared_strategy: Vec<(Option<Box<str>>, GroupStrategy)>,

    /// How often $SYS topics are renewed; 0s turns them off.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_duration)]
    pub(crate) sys_interval: Duration,

    /// When it stops, clients of MQTT 5 are told to use this server for now (0x9C with a Server
    /// Reference); others are closed.
    #[arg(long, value_name = "SERVER")]
    pub(crate) redirect_to: Option<String>,

    /// The same, but from now on (0x9D).
    #[arg(long, value_name = "SERVER", conflicts_with = "redirect_to")]
    pub(crate) moved_to: Option<String>,

    /// Clients have to show who they are, by the keys in this file: by SCRAM-SHA-256 or by user
    /// name and password. A line is what --scram-entry prints.
    #[arg(long, value_name = "FILE")]
    pub(crate) scram_file: Option<PathBuf>,

    /// With --scram-file, lets in who shows neither user name nor password as well.
    #[arg(long, requires = "scram_file")]
    pub(crate) allow_anonymous: bool,

    /// Prints the line of a user for --scram-file and ends. The password is the first line of
    /// stdin.
    #[arg(long, value_name = "USER")]
    pub(crate) scram_entry: Option<String>,

    /// How long a guess at a password of --scram-entry takes; RFC 7677 asks for 4096 at least.
    #[arg(long, value_name = "N", default_value_t = 15_000, requires = "scram_entry",
          value_parser = clap::value_parser!(u32).range(4096..))]
    pub(crate) scram_iterations: u32,

    /// What is logged on stderr: error, warn, info, debug or trace. The variable `RUST_LOG`
    /// overrides it, and can name parts, as in `info,zzq_wal=debug`.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: String,
}

impl Args {
    /// What stands later for the same groups counts.
    fn group_strategies(&self) -> GroupStrategies {
        let mut all = GroupStrategies::default();
        for (group, strategy) in &self.shared_strategy {
            match group {
                Some(group) => drop(all.named.insert(group.clone(), *strategy)),
                None => all.others = *strategy,
            }
        }
        all
    }
}

impl Args {
    /// As far as the system takes it, in whole seconds.
    fn tcp_keep_alive(&self) -> Result<Duration, String> {
        let silence = self.tcp_keep_alive;
        if silence.subsec_nanos() > 0 || silence.as_secs() > 32_767 {
            return Err("--tcp-keep-alive must be whole seconds, at most 32767".to_owned());
        }
        Ok(silence)
    }

    fn redirect(&self) -> Option<Redirect> {
        let (server, moved) = match (&self.redirect_to, &self.moved_to) {
            (Some(server), _) => (server, false),
            (None, Some(server)) => (server, true),
            (None, None) => return None,
        };
        Some(Redirect { server: server.clone(), moved })
    }
}

fn after_help() -> String {
    format!("{EXAMPLES}\n\n{EXIT_STATUS_HELP}")
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

/// `--deliver`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Deliver {
    /// As soon as it has its place in the log; QoS 2 waits for the commit all the same.
    Early,
    /// Only when it is committed.
    Committed,
}

/// `--queue-full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QueueFull {
    /// Publishers are refused with reason code 0x97, those of MQTT 3 are held.
    Refuse,
    /// The session ends, with what waits in it, and its connection with it.
    EndSession,
    /// The oldest messages that were not sent yet make room.
    DropOldest,
    /// The session gets nothing more until it has room; an MQTT 5 publisher is refused if nobody
    /// else gets the message either.
    DropNewest,
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

/// `--io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Io {
    /// epoll, and a call for each read and write.
    Epoll,
    /// `io_uring`, if the system allows it (Linux 6.1 or newer), else epoll.
    Uring,
}

/// `--qos0-full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Full0 {
    /// Their publishers are slowed down, for up to --max-hold; then they are dropped until the
    /// receiver has read what waits.
    Slow,
    /// They are dropped at once.
    Drop,
}

impl Args {
    /// What lanes wait and send by.
    pub(crate) fn driver(&self) -> DriverKind {
        match self.io {
            Io::Epoll => DriverKind::Epoll,
            Io::Uring => DriverKind::Uring,
        }
    }

    /// The broker's options, or why they make no sense together.
    pub(crate) fn options(&self) -> Result<BrokerOptions, String> {
        let seconds = self.max_session_expiry.map_or(u64::from(u32::MAX), |span| span.as_secs());
        let limits = Limits {
            max_packet_size: bounded("--max-packet-size", self.max_packet_size, 64, 268_435_460)?,
            max_connections: self.max_connections,
            max_connections_each: self.max_connections_each.unwrap_or(usize::MAX),
            receive_maximum: self.receive_maximum,
            max_inflight: self.max_inflight,
            topic_alias_maximum: self.max_topic_aliases,
            max_keep_alive: self.max_keep_alive,
            tcp_keep_alive: self.tcp_keep_alive()?,
            max_session_expiry: u32::try_from(seconds).unwrap_or(u32::MAX),
            connect_timeout: self.connect_timeout,
            max_output_bytes: bounded("--max-output", self.max_output, 32 << 10, 1 << 30)?,
            max_output_bytes_total: bounded(
                "--max-output-total",
                self.max_output_total,
                0,
                1 << 40,
            )?,
            max_subscriptions: self.max_subscriptions,
            max_queued_messages: self.max_queued_messages,
            max_queued_bytes: self.max_queued_bytes,
            queue_full: match self.queue_full {
                QueueFull::Refuse => FullPolicy::Refuse,
                QueueFull::EndSession => FullPolicy::EndSession,
                QueueFull::DropOldest => FullPolicy::DropOldest,
                QueueFull::DropNewest => FullPolicy::DropNewest,
            },
            queue_grace: self.queue_grace,
            max_hold: self.max_hold,
            max_held_bytes: bounded("--max-held", self.max_held, 0, 1 << 30)?,
            max_held_bytes_total: bounded("--max-held-total", self.max_held_total, 0, 1 << 40)?,
            max_topic_levels: self.max_topic_levels,
            max_topic_length: self.max_topic_length,
            max_client_id: usize::from(self.max_client_id),
            max_retained_messages: self.max_retained.unwrap_or(usize::MAX),
            max_retained_bytes: self.max_retained_bytes.unwrap_or(u64::MAX),
            max_message_rate: self.max_message_rate.unwrap_or(0),
            max_byte_rate: match self.max_byte_rate {
                Some(rate) => bounded("--max-byte-rate", rate, 1, u64::from(u32::MAX))?,
                None => 0,
            },
            max_qos: QoS::from_bits(self.max_qos).unwrap_or_default(),
            retain: !self.no_retain,
            wildcards: !self.no_wildcards,
            shared_subscriptions: !self.no_shared,
            check_payload_format: self.check_payload_format,
        };
        Ok(BrokerOptions {
            data_dir: self.data_dir.clone(),
            log: match self.log {
                Log::All => LogPolicy::All,
                Log::Everything => LogPolicy::Everything,
                Log::Needed => LogPolicy::Needed,
            },
            deliver: match self.deliver {
                Deliver::Early => DeliverPolicy::Early,
                Deliver::Committed => DeliverPolicy::Committed,
            },
            disk: match self.disk {
                Disk::Auto => DiskBackend::Auto,
                Disk::Aio => DiskBackend::Aio,
                Disk::Uring => DiskBackend::Uring,
                Disk::Pwrite => DiskBackend::Pwrite,
            },
            log_thread: self.log_thread,
            segment_size: bounded("--segment-size", self.segment_size, 1 << 20, 1 << 40)?,
            snapshot_every: self.snapshot_every,
            retain_log: self.retain_log.unwrap_or_default(),
            disk_limits: DiskLimits { reserve: self.disk_reserve, low: self.disk_low },
            recovery_budget: self.recovery_budget,
            qos0_full: match self.qos0_full {
                Full0::Slow => Qos0Full::Slow,
                Full0::Drop => Qos0Full::Drop,
            },
            shared: self.group_strategies(),
            sys_interval: self.sys_interval,
            response_information: self.response_information.clone(),
            redirect: self.redirect(),
            limits,
        })
    }
}

/// `--shared-strategy`: the group it is for, if it is not for all.
fn parse_shared(text: &str) -> Result<(Option<Box<str>>, GroupStrategy), String> {
    // A group's name may hold any character but those of filters.
    let (group, name) = text.rsplit_once('=').map_or((None, text), |(g, name)| (Some(g), name));
    if let Some(group) = group
        && (group.is_empty() || group.contains(['/', '+', '#']))
    {
        return Err(format!("'{group}' is no name of a group"));
    }
    let strategies = [
        ("round-robin", GroupStrategy::RoundRobin),
        ("least-inflight", GroupStrategy::LeastInflight),
        ("sticky", GroupStrategy::Sticky),
        ("hash-client", GroupStrategy::HashClient),
        ("hash-topic", GroupStrategy::HashTopic),
    ];
    let found = strategies.iter().find(|(known, _)| *known == name).map(|(_, one)| *one);
    let names = strategies.map(|(known, _)| known).join(", ");
    found
        .map(|strategy| (group.map(Into::into), strategy))
        .ok_or_else(|| format!("'{name}' is no strategy: {names}"))
}

fn bounded<T: TryFrom<u64>>(flag: &str, value: u64, least: u64, most: u64) -> Result<T, String> {
    let out_of_range = || format!("{flag} must be between {least} and {most} bytes, not {value}");
    if !(least..=most).contains(&value) {
        return Err(out_of_range());
    }
    T::try_from(value).map_err(|_| out_of_range())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(words: &[&str]) -> Args {
        Args::parse_from([&["zzq_broker"], words].concat())
    }

    #[test]
    fn no_flags_mean_the_default_options() {
        assert_eq!(parse(&[]).options(), Ok(BrokerOptions::default()));
        assert_eq!(parse(&[]).bind, ["tcp://0.0.0.0:1883"]);
        assert_eq!(parse(&[]).driver(), DriverKind::default());
    }

    /// A flag, and what it changes of the options.
    type Change = (&'static str, fn(&mut BrokerOptions));

    const CHANGES: &[Change] = &[
        ("--data-dir=d", |o| o.data_dir = Some(PathBuf::from("d"))),
        ("--log=needed", |o| o.log = LogPolicy::Needed),
        ("--deliver=committed", |o| o.deliver = DeliverPolicy::Committed),
        ("--disk=uring", |o| o.disk = DiskBackend::Uring),
        ("--log-thread", |o| o.log_thread = true),
        ("--segment-size=8MiB", |o| o.segment_size = 8 << 20),
        ("--snapshot-every=1GiB", |o| o.snapshot_every = 1 << 30),
        ("--retain-log=2GiB,7d", |o| {
            let age = Some(Duration::from_hours(7 * 24));
            o.retain_log = Retention { bytes: Some(2 << 30), age };
        }),
        ("--disk-reserve=32MiB", |o| o.disk_limits.reserve = Some(32 << 20)),
        ("--disk-low=1GiB", |o| o.disk_limits.low = Some(1 << 30)),
        ("--recovery-budget=500ms", |o| o.recovery_budget = Duration::from_millis(500)),
        ("--max-packet-size=4KiB", |o| o.limits.max_packet_size = 4096),
        ("--max-connections=3", |o| o.limits.max_connections = 3),
        ("--max-connections-each=4", |o| o.limits.max_connections_each = 4),
        ("--receive-maximum=5", |o| o.limits.receive_maximum = 5),
        ("--max-inflight=6", |o| o.limits.max_inflight = 6),
        ("--max-topic-aliases=7", |o| o.limits.topic_alias_maximum = 7),
        ("--max-keep-alive=8", |o| o.limits.max_keep_alive = 8),
        ("--tcp-keep-alive=9s", |o| o.limits.tcp_keep_alive = Duration::from_secs(9)),
        ("--max-session-expiry=1d", |o| o.limits.max_session_expiry = 86_400),
        ("--connect-timeout=2s", |o| o.limits.connect_timeout = Duration::from_secs(2)),
        ("--max-output=32KiB", |o| o.limits.max_output_bytes = 32 << 10),
        ("--max-output-total=3MiB", |o| o.limits.max_output_bytes_total = 3 << 20),
        ("--max-subscriptions=10", |o| o.limits.max_subscriptions = 10),
        ("--max-queued-messages=11", |o| o.limits.max_queued_messages = 11),
        ("--max-queued-bytes=12", |o| o.limits.max_queued_bytes = 12),
        ("--queue-full=drop-oldest", |o| o.limits.queue_full = FullPolicy::DropOldest),
        ("--queue-grace=2m", |o| o.limits.queue_grace = Duration::from_mins(2)),
        ("--max-hold=3s", |o| o.limits.max_hold = Duration::from_secs(3)),
        ("--max-held=13", |o| o.limits.max_held_bytes = 13),
        ("--max-held-total=2MiB", |o| o.limits.max_held_bytes_total = 2 << 20),
        ("--max-topic-levels=14", |o| o.limits.max_topic_levels = 14),
        ("--max-topic-length=15", |o| o.limits.max_topic_length = 15),
        ("--max-client-id=24", |o| o.limits.max_client_id = 24),
        ("--max-retained=16", |o| o.limits.max_retained_messages = 16),
        ("--max-retained-bytes=1KiB", |o| o.limits.max_retained_bytes = 1024),
        ("--max-message-rate=17", |o| o.limits.max_message_rate = 17),
        ("--max-byte-rate=1MiB", |o| o.limits.max_byte_rate = 1 << 20),
        ("--max-qos=1", |o| o.limits.max_qos = QoS::AtLeastOnce),
        ("--no-retain", |o| o.limits.retain = false),
        ("--no-wildcards", |o| o.limits.wildcards = false),
        ("--no-shared", |o| o.limits.shared_subscriptions = false),
        ("--check-payload-format", |o| o.limits.check_payload_format = true),
        ("--response-information=r/%c", |o| o.response_information = Some("r/%c".to_owned())),
        ("--qos0-full=drop", |o| o.qos0_full = Qos0Full::Drop),
        ("--shared-strategy=sticky", |o| o.shared.others = GroupStrategy::Sticky),
        ("--sys-interval=18s", |o| o.sys_interval = Duration::from_secs(18)),
        ("--redirect-to=a", |o| {
            o.redirect = Some(Redirect { server: "a".to_owned(), moved: false });
        }),
        ("--moved-to=b", |o| o.redirect = Some(Redirect { server: "b".to_owned(), moved: true })),
    ];

    /// What else a command line can say.
    const OTHERS: [&str; 11] = [
        "--allow-anonymous",
        "--bind",
        "--busy-poll",
        "--help",
        "--io",
        "--lanes",
        "--log-level",
        "--scram-entry",
        "--scram-file",
        "--scram-iterations",
        "--version",
    ];

    fn name(flag: &str) -> &str {
        flag.split_once('=').map_or(flag, |(name, _)| name)
    }

    #[test]
    fn each_flag_changes_its_option_and_no_other() {
        for (flag, change) in CHANGES {
            let mut wanted = BrokerOptions::default();
            change(&mut wanted);
            assert_ne!(wanted, BrokerOptions::default(), "{flag}");
            assert_eq!(parse(&[flag]).options(), Ok(wanted), "{flag}");
        }
        let args = parse(&["--bind=tcp://127.0.0.1:0", "--bind=tcp://[::1]:0", "--io=uring"]);
        assert_eq!(args.bind, ["tcp://127.0.0.1:0", "tcp://[::1]:0"]);
        assert_eq!(args.driver(), DriverKind::Uring);
    }

    /// Those of the command, all of them.
    fn all_flags() -> Vec<(String, String)> {
        let mut command = Args::command();
        command.build();
        let flags = command.get_arguments().filter_map(|flag| {
            let defaults: Vec<_> = flag.get_default_values().iter().collect();
            let default = defaults.first().map(|text| text.to_string_lossy().into_owned());
            Some((format!("--{}", flag.get_long()?), default.unwrap_or_default()))
        });
        flags.collect()
    }

    #[test]
    fn no_flag_is_left_out_above() {
        let mut all: Vec<_> = all_flags().into_iter().map(|(flag, _)| flag).collect();
        let mut known: Vec<_> = CHANGES.iter().map(|(flag, _)| name(flag)).chain(OTHERS).collect();
        all.sort_unstable();
        known.sort_unstable();
        assert_eq!(known, all);
    }

    #[test]
    fn each_limit_is_a_line_in_the_documentation_with_its_default() {
        let text = include_str!("../../../../../doc/limits.md");
        let rows = text.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            Some((cells.next()?.trim_end_matches('`'), cells.next()?.trim_matches('`')))
        });
        let rows: Vec<(&str, &str)> = rows.collect();
        let flags = all_flags();
        for (row, _) in &rows {
            assert!(flags.iter().any(|(flag, _)| flag == row), "{row} is no flag");
        }
        let no_limits = BrokerOptions::default().limits;
        for (flag, change) in CHANGES {
            let mut options = BrokerOptions::default();
            change(&mut options);
            if options.limits == no_limits {
                continue;
            }
            let flag = name(flag);
            let found: Vec<_> = rows.iter().filter(|(row, _)| *row == flag).collect();
            assert_eq!(found.len(), 1, "{flag} in doc/limits.md");
            let default = flags.iter().find(|(known, _)| known == flag).map(|(_, text)| &**text);
            let wanted = match default {
                Some("") | None => "none",
                Some("false") => "off",
                Some(default) => default,
            };
            assert_eq!(found[0].1, wanted, "{flag} in doc/limits.md");
        }
    }

    #[test]
    fn a_keep_alive_that_the_system_does_not_take_is_refused() {
        assert_eq!(parse(&["--tcp-keep-alive=0s"]).options().map(|_| ()), Ok(()));
        for bad in ["--tcp-keep-alive=1500ms", "--tcp-keep-alive=1d"] {
            let error = parse(&[bad]).options().unwrap_err();
            assert!(error.contains("--tcp-keep-alive"), "{error}");
        }
    }

    #[test]
    fn sizes_out_of_range_name_their_flag() {
        let error = parse(&["--segment-size=1KiB"]).options().unwrap_err();
        assert!(error.contains("--segment-size"), "{error}");
    }

    #[test]
    fn groups_have_the_strategy_of_their_name_or_that_of_all() {
        let args = parse(&[
            "--shared-strategy=sticky",
            "--shared-strategy=workers=round-robin",
            "--shared-strategy=a=b=hash-topic",
            "--shared-strategy=workers=least-inflight",
        ]);
        let shared = args.options().unwrap().shared;
        assert_eq!(shared.of("other"), GroupStrategy::Sticky);
        assert_eq!(shared.of("workers"), GroupStrategy::LeastInflight, "the last one counts");
        assert_eq!(shared.of("a=b"), GroupStrategy::HashTopic);
        for bad in ["random", "=sticky", "a/b=sticky", "g+=sticky", "g="] {
            let words = ["zzq_broker", "--shared-strategy", bad];
            let error = Args::try_parse_from(words).unwrap_err().to_string();
            assert!(error.contains("--shared-strategy"), "{error}");
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }
}
