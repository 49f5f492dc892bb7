//! Flags of what clients are offered: which parts of the protocol, and what they are told of it.

use clap::Args;

/// See the file.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Debug, Args)]
pub(crate) struct OfferFlags {
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
}
