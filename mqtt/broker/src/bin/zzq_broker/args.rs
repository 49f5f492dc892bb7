//! The command line of `zzq_broker`, and the options that it stands for.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use zzq_broker::units::{parse_duration, parse_size};
use zzq_broker::{BrokerOptions, DeliverPolicy, DiskBackend, EXIT_STATUS_HELP, Limits, LogPolicy};

const EXAMPLES: &str = "\
Examples:
  zzq_broker --data-dir /var/lib/zzq
  zzq_broker --bind tcp://127.0.0.1:1883 --data-dir data --lanes 2
  zzq_broker --bind tcp://[::]:1883 --max-packet-size 256KiB";

/// A durable MQTT 3.1, 3.1.1 and 5.0 broker: what it acknowledges is in its log.
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

    /// IO threads [default: half the cores, at least one].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) lanes: Option<u16>,

    /// Largest packet accepted.
    #[arg(long, value_name = "SIZE", default_value = "2MiB", value_parser = parse_size)]
    pub(crate) max_packet_size: u64,

    /// Connections at once, through each endpoint.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_connections)]
    pub(crate) max_connections: usize,

    /// Of these from one address, or one /64 of IPv6 [default: all].
    #[arg(long, value_name = "N")]
    pub(crate) max_connections_each: Option<usize>,

    /// QoS 1 and 2 publishes that one client may have unacknowledged.
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

    /// Longest keep alive in seconds; 0 leaves it to the client.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) max_keep_alive: u16,

    /// Longest session expiry; sessions live for ever without it.
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    pub(crate) max_session_expiry: Option<Duration>,

    /// How long a connection may take to send its CONNECT.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_duration)]
    pub(crate) connect_timeout: Duration,

    /// Output waiting for one connection above which nothing more is queued for it.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = parse_size)]
    pub(crate) max_output: u64,

    /// Subscriptions of one session.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_subscriptions)]
    pub(crate) max_subscriptions: usize,

    /// Messages waiting for one session; further ones are refused, or held for MQTT 3 clients.
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_queued_messages)]
    pub(crate) max_queued_messages: usize,

    /// Bytes of messages waiting for one session; further ones are refused, or held.
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = parse_size)]
    pub(crate) max_queued_bytes: u64,

    /// How long a publisher is held for a slow receiver before QoS 0 messages to it are dropped.
    #[arg(long, value_name = "SPAN", default_value = "5s", value_parser = parse_duration)]
    pub(crate) max_hold: Duration,

    /// Publishes of one MQTT 3 client held for a full queue above which it is not read any more.
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = parse_size)]
    pub(crate) max_held: u64,

    /// How often $SYS topics are renewed; 0s turns them off.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_duration)]
    pub(crate) sys_interval: Duration,

    /// What is logged on stderr: error, warn, info, debug or trace. The variable `RUST_LOG`
    /// overrides it, and can name parts, as in `info,zzq_wal=debug`.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: String,
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

impl Args {
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
            max_session_expiry: u32::try_from(seconds).unwrap_or(u32::MAX),
            connect_timeout: self.connect_timeout,
            max_output_bytes: bounded("--max-output", self.max_output, 4096, 1 << 30)?,
            max_subscriptions: self.max_subscriptions,
            max_queued_messages: self.max_queued_messages,
            max_queued_bytes: self.max_queued_bytes,
            max_hold: self.max_hold,
            max_held_bytes: bounded("--max-held", self.max_held, 0, 1 << 30)?,
            ..Limits::default()
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
            sys_interval: self.sys_interval,
            limits,
        })
    }
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
    use super::*;

    fn parse(words: &[&str]) -> Args {
        Args::parse_from([&["zzq_broker"], words].concat())
    }

    #[test]
    fn no_flags_mean_the_default_options() {
        assert_eq!(parse(&[]).options(), Ok(BrokerOptions::default()));
        assert_eq!(parse(&[]).bind, ["tcp://0.0.0.0:1883"]);
    }

    #[test]
    fn flags_reach_their_options() {
        let args = parse(&[
            "--bind=tcp://127.0.0.1:0",
            "--bind=tcp://[::1]:0",
            "--data-dir=d",
            "--log=needed",
            "--deliver=committed",
            "--disk=uring",
            "--log-thread",
            "--segment-size=8MiB",
            "--snapshot-every=1GiB",
            "--max-packet-size=4KiB",
            "--max-session-expiry=1d",
        ]);
        let options = args.options().unwrap();
        assert_eq!(args.bind.len(), 2);
        assert_eq!(options.data_dir, Some(PathBuf::from("d")));
        assert_eq!(options.log, LogPolicy::Needed);
        assert_eq!(options.deliver, DeliverPolicy::Committed);
        assert_eq!(options.disk, DiskBackend::Uring);
        assert!(options.log_thread);
        assert_eq!(options.segment_size, 8 << 20);
        assert_eq!(options.snapshot_every, 1 << 30);
        assert_eq!(options.limits.max_packet_size, 4096);
        assert_eq!(options.limits.max_session_expiry, 86_400);
    }

    #[test]
    fn sizes_out_of_range_name_their_flag() {
        let error = parse(&["--segment-size=1KiB"]).options().unwrap_err();
        assert!(error.contains("--segment-size"), "{error}");
    }

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
