//! Flags of the lanes: how many IO threads there are, and how they wait.

use clap::{Args, ValueEnum};
use zzq_broker::units::parse_busy_poll;
use zzq_broker::{BusyPoll, DriverKind};

/// See the file.
#[derive(Debug, Args)]
pub(crate) struct LaneFlags {
    /// IO threads [default: half the cores, at least one].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) lanes: Option<u16>,

    /// How IO threads wait, receive and send.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Io::Epoll)]
    pub(crate) io: Io,

    /// How long an IO thread looks for work before it sleeps: saves the wake-up, costs processor
    /// time. auto: 400us, 100us or not at all, whichever is found to serve best, if lanes leave a
    /// core free [possible values: auto, off, SPAN].
    #[arg(long, value_name = "auto|off|SPAN", default_value = "auto",
          value_parser = parse_busy_poll)]
    pub(crate) busy_poll: BusyPoll,
}

/// `--io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Io {
    /// epoll, and a call for each read and write.
    Epoll,
    /// `io_uring`, if the system allows it (Linux 6.1 or newer), else epoll.
    Uring,
}

impl From<Io> for DriverKind {
    fn from(flag: Io) -> Self {
        match flag {
            Io::Epoll => Self::Epoll,
            Io::Uring => Self::Uring,
        }
    }
}
