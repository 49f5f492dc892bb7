//! The command line of `zzq_broker`. Each kind of flag has a file of its own, with the words of the
//! help, where they stand in the order of the fields below.

mod connections;
mod lanes;
mod messages;
mod offer;
mod options;
mod queues;
mod receivers;
mod store;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
pub(crate) mod tls;
mod users;

use std::time::Duration;

use clap::Parser;
use zzq_broker::EXIT_STATUS_HELP;
use zzq_broker::units::parse_duration;

use connections::ConnectionFlags;
use lanes::LaneFlags;
use messages::MessageFlags;
use offer::OfferFlags;
use queues::QueueFlags;
use receivers::ReceiverFlags;
use store::StoreFlags;
pub(crate) use users::UserFlags;

const EXAMPLES: &str = "\
Examples:
  zzq_broker --data-dir /var/lib/zzq
  zzq_broker --bind tcp://127.0.0.1:1883 --data-dir data --lanes 2
  zzq_broker --bind tls://0.0.0.0:8883 --cert chain.pem --key key.pem
  zzq_broker --bind tcp://0.0.0.0:1883 --bind ws://0.0.0.0:8083/mqtt
  zzq_broker --bind tcp://[::]:1883 --max-packet-size 256KiB";

/// A durable MQTT 3.1, 3.1.1 and 5.0 broker: what it acknowledges is in its log.
#[derive(Debug, Parser)]
#[command(name = "zzq_broker", version, after_long_help = after_help(), max_term_width = 100)]
pub(crate) struct Args {
    /// An endpoint to listen on, tcp://HOST:PORT, or for WebSocket ws://HOST:PORT/PATH, or over TLS
    /// tls://HOST:PORT and wss://HOST:PORT/PATH, which take --cert and --key; may be given several
    /// times. Without a path clients may ask for any.
    #[arg(long, value_name = "URI", default_value = "tcp://0.0.0.0:1883")]
    pub(crate) bind: Vec<String>,

    #[cfg(feature = "tls")]
    #[command(flatten)]
    pub(crate) tls: tls::TlsFlags,

    #[command(flatten)]
    pub(crate) store: StoreFlags,

    #[command(flatten)]
    pub(crate) lanes: LaneFlags,

    #[command(flatten)]
    pub(crate) connections: ConnectionFlags,

    #[command(flatten)]
    pub(crate) queues: QueueFlags,

    #[command(flatten)]
    pub(crate) messages: MessageFlags,

    #[command(flatten)]
    pub(crate) offer: OfferFlags,

    #[command(flatten)]
    pub(crate) receivers: ReceiverFlags,

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

    #[command(flatten)]
    pub(crate) users: UserFlags,

    /// What is logged on stderr: error, warn, info, debug or trace. The variable `RUST_LOG`
    /// overrides it, and can name parts, as in `info,zzq_wal=debug`.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    pub(crate) log_level: String,
}

fn after_help() -> String {
    format!("{EXAMPLES}\n\n{EXIT_STATUS_HELP}")
}
