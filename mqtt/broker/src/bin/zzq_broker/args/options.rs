//! The options that a command line stands for, or why they make no sense together.

use zzq_broker::{BrokerOptions, DiskLimits, DriverKind, Limits, Redirect};
use zzq_types::QoS;

use super::Args;

impl Args {
    /// What lanes wait and send by.
    pub(crate) fn driver(&self) -> DriverKind {
        self.lanes.io.into()
    }

    /// The broker's options, or why they make no sense together.
    pub(crate) fn options(&self) -> Result<BrokerOptions, String> {
        let Self { store, receivers, offer, .. } = self;
        Ok(BrokerOptions {
            limits: self.limits()?,
            data_dir: store.data_dir.clone(),
            log: store.log.into(),
            deliver: store.deliver.into(),
            disk: store.disk.into(),
            log_thread: store.log_thread,
            segment_size: bounded("--segment-size", store.segment_size, 1 << 20, 1 << 40)?,
            snapshot_every: store.snapshot_every,
            retain_log: store.retain_log.unwrap_or_default(),
            disk_limits: DiskLimits { reserve: store.disk_reserve, low: store.disk_low },
            recovery_budget: store.recovery_budget,
            qos0_full: receivers.qos0_full.into(),
            shared: receivers.group_strategies(),
            sys_interval: self.sys_interval,
            response_information: offer.response_information.clone(),
            redirect: self.redirect(),
        })
    }

    fn limits(&self) -> Result<Limits, String> {
        let Self { connections, queues, messages, offer, .. } = self;
        let expiry = connections.max_session_expiry;
        let seconds = expiry.map_or(u64::from(u32::MAX), |span| span.as_secs());
        Ok(Limits {
            max_packet_size: bounded(
                "--max-packet-size",
                connections.max_packet_size,
                64,
                268_435_460,
            )?,
            max_connect_size: bounded(
                "--max-connect-size",
                connections.max_connect_size,
                64,
                268_435_460,
            )?,
            max_input_bytes_total: bounded(
                "--max-input-total",
                connections.max_input_total,
                1,
                1 << 40,
            )?,
            max_connections: connections.max_connections,
            max_connections_each: connections.max_connections_each.unwrap_or(usize::MAX),
            receive_maximum: connections.receive_maximum,
            max_inflight: connections.max_inflight,
            topic_alias_maximum: connections.max_topic_aliases,
            max_alias_bytes_total: bounded(
                "--max-aliases-total",
                connections.max_aliases_total,
                0,
                1 << 40,
            )?,
            max_keep_alive: connections.max_keep_alive,
            tcp_keep_alive: connections.tcp_keep_alive()?,
            max_session_expiry: u32::try_from(seconds).unwrap_or(u32::MAX),
            connect_timeout: connections.connect_timeout,
            max_output_bytes: bounded("--max-output", connections.max_output, 32 << 10, 1 << 30)?,
            max_output_bytes_total: bounded(
                "--max-output-total",
                connections.max_output_total,
                1,
                1 << 40,
            )?,
            max_cached_bytes_total: bounded(
                "--max-cached-total",
                queues.max_cached_total,
                0,
                1 << 40,
            )?,
            max_sessions: queues.max_sessions.unwrap_or(usize::MAX),
            max_session_bytes_total: match queues.max_sessions_total {
                Some(most) => Some(bounded("--max-sessions-total", most, 1, 1 << 50)?),
                None => None,
            },
            max_subscriptions: queues.max_subscriptions,
            max_queued_messages: queues.max_queued_messages,
            max_queued_bytes: queues.max_queued_bytes,
            queue_full: queues.queue_full.into(),
            max_queued_bytes_total: match queues.max_queued_total {
                Some(most) => bounded("--max-queued-total", most, 1, 1 << 50)?,
                None => u64::MAX,
            },
            queue_grace: queues.queue_grace,
            max_hold: queues.max_hold,
            max_held_bytes: bounded("--max-held", queues.max_held, 0, 1 << 30)?,
            max_held_bytes_total: bounded("--max-held-total", queues.max_held_total, 0, 1 << 40)?,
            max_topic_levels: messages.max_topic_levels,
            max_topic_length: messages.max_topic_length,
            max_client_id: usize::from(messages.max_client_id),
            max_retained_messages: messages.max_retained.unwrap_or(usize::MAX),
            max_retained_bytes: messages.max_retained_bytes.unwrap_or(u64::MAX),
            max_message_rate: messages.max_message_rate.unwrap_or(0),
            max_byte_rate: match messages.max_byte_rate {
                Some(rate) => bounded("--max-byte-rate", rate, 1, u64::from(u32::MAX))?,
                None => 0,
            },
            max_qos: QoS::from_bits(offer.max_qos).unwrap_or_default(),
            retain: !offer.no_retain,
            wildcards: !offer.no_wildcards,
            shared_subscriptions: !offer.no_shared,
            check_payload_format: offer.check_payload_format,
        })
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

fn bounded<T: TryFrom<u64>>(flag: &str, value: u64, least: u64, most: u64) -> Result<T, String> {
    let out_of_range =
        || format!("{flag} must be at least {least} and at most {most} bytes, not {value}");
    if !(least..=most).contains(&value) {
        return Err(out_of_range());
    }
    T::try_from(value).map_err(|_| out_of_range())
}
