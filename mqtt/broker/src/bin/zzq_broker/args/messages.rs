//! Limits of messages: their names, those that are retained, how many a client may send.

use clap::Args;
use zzq_broker::Limits;
use zzq_broker::units::parse_size;

/// See the file.
#[expect(clippy::struct_field_names, reason = "a field is called as its flag")]
#[derive(Debug, Args)]
pub(crate) struct MessageFlags {
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

    /// Retained messages; those that are there may change. More are refused or, where that cannot
    /// be said (QoS 0, MQTT 3), delivered and not retained [default: any number].
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
}
