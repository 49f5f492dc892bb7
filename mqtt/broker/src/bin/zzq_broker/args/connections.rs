//! Limits of connections: how many there are, how long they last, what is under way on each.

use std::time::Duration;

use clap::Args;
use zzq_broker::Limits;
use zzq_broker::units::{parse_duration, parse_size};

/// See the file.
#[derive(Debug, Args)]
pub(crate) struct ConnectionFlags {
    /// Largest packet accepted.
    #[arg(long, value_name = "SIZE", default_value = "2MiB", value_parser = parse_size)]
    pub(crate) max_packet_size: u64,

    /// Largest CONNECT accepted, and AUTH before CONNACK: what is kept of somebody who is not let
    /// in yet.
    #[arg(long, value_name = "SIZE", default_value = "512KiB", value_parser = parse_size)]
    pub(crate) max_connect_size: u64,

    /// Memory of packets that have come in part, or wait to be handled, of all connections
    /// together, above which whoever has begun one of more than 4 KiB is not read until there is
    /// room for it, so that all have at most this and 8 KiB for each; each lane has an equal share.
    /// A quarter is for clients that are not let in yet, the rest for those that are.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    pub(crate) max_input_total: u64,

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

    /// Memory of topic aliases of all connections together, above which who defines another beyond
    /// its own first 4 KiB is disconnected, and clients are given no more.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    pub(crate) max_aliases_total: u64,

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
}

impl ConnectionFlags {
    /// As far as the system takes it, in whole seconds.
    pub(super) fn tcp_keep_alive(&self) -> Result<Duration, String> {
        let silence = self.tcp_keep_alive;
        if silence.subsec_nanos() > 0 || silence.as_secs() > 32_767 {
            return Err("--tcp-keep-alive must be whole seconds, at most 32767".to_owned());
        }
        Ok(silence)
    }
}
