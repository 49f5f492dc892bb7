//! The `$SYS` topics: what they are called and what they say.
//!
//! Names follow mosquitto's where it has one, since tools read those; what a log has to tell stands
//! under `$SYS/broker/store`.

use std::time::Duration;

use zzq_types::rfc3339;

use crate::hooks::Dropped;
use crate::load::Loads;
use crate::metrics::{Counts, ImageCounts};

/// What the broker as a whole knows at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Status {
    pub(crate) uptime: Duration,
    pub(crate) counts: Counts,
    /// Most clients connected at a time, of those times at which the topics were renewed.
    pub(crate) clients_most: u64,
    pub(crate) loads: Loads,
    /// Offsets of the log, with a data directory.
    pub(crate) store: Option<StoreStatus>,
}

/// Whether the log takes records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreState {
    /// It does.
    Writable,
    /// It does, and the disk is getting full.
    Low,
    /// It takes what makes space, and what was accepted before.
    Full,
    /// It has failed.
    ReadOnly,
}

impl StoreState {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Writable => "writable",
            Self::Low => "low",
            Self::Full => "full",
            Self::ReadOnly => "read-only",
        }
    }
}

/// Where it is told.
pub(crate) const STORE_STATE: &str = "$SYS/broker/store/state";

/// The log at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreStatus {
    pub(crate) durable: u64,
    pub(crate) appended: u64,
    pub(crate) state: StoreState,
    /// Bytes of the disk that are free.
    pub(crate) free: u64,
    /// The first record that is still there.
    pub(crate) first: u64,
    pub(crate) images: ImageCounts,
    pub(crate) segments: u64,
    pub(crate) recent: Recent,
}

/// How the log has done since the values before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recent {
    /// Records in a group, on average.
    pub(crate) group_records: f64,
    /// Milliseconds from hand-over to commit, on average.
    pub(crate) commit_ms: f64,
    /// The same in microseconds.
    pub(crate) commit_us: f64,
    /// Microseconds from the submission of a write to its end, on average, and at most.
    pub(crate) write_us: f64,
    pub(crate) write_longest_us: u64,
}

/// Version topic, which never changes.
pub(crate) const VERSION: (&str, &str) =
    ("$SYS/broker/version", concat!("zzq version ", env!("CARGO_PKG_VERSION")));

/// Calls `visit` with each topic and its value.
pub(crate) fn topics(status: &Status, visit: &mut dyn FnMut(&str, &str)) {
    let counts = &status.counts;
    visit(VERSION.0, VERSION.1);
    visit("$SYS/broker/uptime", &format!("{} seconds", status.uptime.as_secs()));
    let numbers = [
        ("clients/connected", counts.clients),
        ("clients/active", counts.clients),
        ("clients/disconnected", counts.sessions.saturating_sub(counts.clients)),
        ("clients/inactive", counts.sessions.saturating_sub(counts.clients)),
        ("clients/total", counts.sessions),
        ("clients/maximum", status.clients_most),
        ("clients/expired", counts.expired_sessions),
        ("connections/open", counts.connections),
        ("connections/accepted", counts.accepted),
        ("connections/turned-away", counts.turned_away),
        ("connections/turned-away/address", counts.turned_away_address),
        ("connections/accept-failures", counts.accepts_failed),
        ("connections/tls/handshakes", counts.handshakes),
        ("connections/tls/resumed", counts.handshakes_resumed),
        ("connections/tls/failed", counts.handshakes_failed),
        ("connections/tls/failed/certificate", counts.handshakes_certificate),
        ("connections/tls/failed/alert", counts.handshakes_alert),
        ("connections/tls/failed/not-tls", counts.handshakes_not_tls),
        ("connections/tls/failed/timeout", counts.handshakes_timeout),
        ("connections/websocket/handshakes", counts.web_handshakes),
        ("connections/websocket/failed", counts.web_handshakes_failed),
        ("connections/websocket/failed/not-websocket", counts.web_handshakes_not_web),
        ("connections/websocket/failed/path", counts.web_handshakes_path),
        ("connections/websocket/failed/subprotocol", counts.web_handshakes_subprotocol),
        ("connections/websocket/failed/timeout", counts.web_handshakes_timeout),
        ("connections/refused", counts.refused),
        ("connections/refused/identifier", counts.refused_ids),
        ("connections/refused/sessions", counts.refused_sessions),
        ("connections/timeouts/connect", counts.silent_connects),
        ("connections/timeouts/keep-alive", counts.silent_clients),
        ("connections/timeouts/tcp", counts.vanished_peers),
        ("connections/timeouts/input", counts.overdue_inputs),
        ("connections/input/bytes", counts.input_bytes),
        ("connections/input/waits", counts.input_waits),
        ("connections/aliases/bytes", counts.alias_bytes),
        ("connections/faults", counts.peer_faults),
        ("connections/faults/too-large", counts.faults_size),
        ("connections/faults/receive-maximum", counts.faults_inbound),
        ("connections/faults/topic-alias", counts.faults_alias),
        ("connections/faults/not-offered", counts.faults_unoffered),
        ("subscriptions/count", counts.subscriptions),
        ("shared_subscriptions/count", counts.shared_subscriptions),
        ("retained messages/count", counts.retained),
        ("store/messages/count", counts.queued + counts.retained),
        ("messages/stored", counts.queued + counts.retained),
        ("store/messages/bytes", counts.queued_bytes + counts.retained_bytes),
        ("store/queues/memory", counts.queue_memory),
        ("store/sessions/memory", counts.session_memory),
        ("messages/received", counts.packets_in),
        ("messages/sent", counts.packets_out),
        ("bytes/received", counts.bytes_in),
        ("bytes/sent", counts.bytes_out),
        ("publish/messages/received", counts.publishes_in),
        ("publish/messages/sent", counts.publishes_out),
        ("publish/bytes/received", counts.payload_in),
        ("publish/bytes/sent", counts.payload_out),
        ("publish/messages/dropped", counts.dropped()),
        ("clients/ended/queue-full", counts.ended_full),
        ("publish/messages/expired", counts.expired),
        ("publish/messages/refused", counts.refused_quota),
        ("publish/messages/refused/queued-total", counts.refused_total),
        ("publish/messages/refused/disk-full", counts.refused_space),
        ("publish/messages/refused/topic", counts.refused_topics),
        ("publish/messages/refused/payload", counts.refused_payloads),
        ("publish/messages/refused/retained", counts.refused_retained),
        ("publish/messages/shed", counts.shed),
        ("publish/bytes/held", counts.held_bytes),
        ("publish/messages/denied", counts.denied_publishes),
        ("subscriptions/refused", counts.refused_filters),
        ("subscriptions/refused/quota", counts.refused_filters_quota),
        ("subscriptions/refused/filter", counts.refused_filters_invalid),
        ("subscriptions/refused/not-offered", counts.refused_filters_unoffered),
        ("subscriptions/denied", counts.denied_filters),
        ("hooks/unanswered", counts.unanswered),
        ("hooks/events/lost", counts.events_lost),
        ("clients/throttled", counts.throttled),
    ];
    for (name, value) in numbers {
        visit(&format!("$SYS/broker/{name}"), &value.to_string());
    }
    // What expired stands beside them.
    for (why, count) in counts.drops().into_iter().filter(|(why, _)| *why != Dropped::Expired) {
        let topic = format!("$SYS/broker/publish/messages/dropped/{}", why.name());
        visit(&topic, &count.to_string());
    }
    status.loads.each(|name, value| {
        visit(&format!("$SYS/broker/load/{name}"), &format!("{value:.2}"));
    });
    if let Some(store) = &status.store {
        store_topics(counts, store, visit);
    }
}

/// What a log has to tell.
fn store_topics(counts: &Counts, store: &StoreStatus, visit: &mut dyn FnMut(&str, &str)) {
    visit(STORE_STATE, store.state.as_str());
    visit("$SYS/broker/store/offset/durable", &store.durable.to_string());
    visit("$SYS/broker/store/offset/appended", &store.appended.to_string());
    let ImageCounts { made, failed, bytes, offset, oldest_ms, log_bytes, age_s } = store.images;
    let numbers = [
        ("offset/first", store.first),
        ("bytes", log_bytes),
        ("disk/free", store.free),
        ("offset/lag", store.appended.saturating_sub(store.durable)),
        ("segments/count", store.segments),
        ("groups/count", counts.groups),
        ("acknowledgements/held", counts.held_answers),
        ("messages/dropped", counts.dropped()),
        ("records", counts.records),
        ("snapshot/offset", offset),
        ("snapshot/bytes", bytes),
        ("snapshot/count", made),
        ("snapshot/failed", failed),
    ];
    for (name, value) in numbers {
        visit(&format!("$SYS/broker/store/{name}"), &value.to_string());
    }
    for (why, count) in counts.drops() {
        let topic = format!("$SYS/broker/store/messages/dropped/{}", why.name());
        visit(&topic, &count.to_string());
    }
    let Recent { group_records, commit_ms, commit_us, write_us, write_longest_us } = store.recent;
    visit("$SYS/broker/store/groups/records", &format!("{group_records:.2}"));
    visit("$SYS/broker/store/commit/milliseconds", &format!("{commit_ms:.2}"));
    visit("$SYS/broker/store/commit/microseconds", &format!("{commit_us:.0}"));
    visit("$SYS/broker/store/fsync/microseconds", &format!("{write_us:.0}"));
    let longest = write_longest_us.to_string();
    visit("$SYS/broker/store/fsync/microseconds/maximum", &longest);
    if let Some(age_s) = age_s {
        visit("$SYS/broker/store/snapshot/age", &format!("{age_s} seconds"));
    }
    if oldest_ms > 0 {
        visit("$SYS/broker/store/offset/first/time", &rfc3339(oldest_ms));
    }
}

#[cfg(test)]
mod tests {
    use zzq_types::TopicName;

    use super::*;

    #[test]
    fn all_topics_are_names_below_sys_and_stand_once() {
        let images = ImageCounts { oldest_ms: 1, age_s: Some(5), ..ImageCounts::default() };
        let recent = Recent {
            group_records: 2.5,
            commit_ms: 0.25,
            commit_us: 260.6,
            write_us: 180.4,
            write_longest_us: 1900,
        };
        let store = StoreStatus {
            durable: 7,
            appended: 9,
            state: StoreState::Low,
            free: 5,
            first: 1,
            images,
            segments: 3,
            recent,
        };
        let status = Status {
            uptime: Duration::from_secs(61),
            counts: Counts::default(),
            clients_most: 0,
            loads: Loads::default(),
            store: Some(store),
        };
        let mut seen = Vec::new();
        topics(&status, &mut |topic, value| {
            assert!(TopicName::new(topic).is_ok_and(TopicName::is_dollar), "{topic}");
            assert!(!value.is_empty());
            seen.push((topic.to_owned(), value.to_owned()));
        });
        assert!(seen.contains(&("$SYS/broker/uptime".into(), "61 seconds".into())));
        let oldest = "$SYS/broker/store/offset/first/time";
        assert!(seen.contains(&(oldest.into(), "1970-01-01T00:00:00.001Z".into())));
        for (name, value) in [
            ("state", "low"),
            ("disk/free", "5"),
            ("offset/lag", "2"),
            ("segments/count", "3"),
            ("groups/records", "2.50"),
            ("commit/milliseconds", "0.25"),
            ("commit/microseconds", "261"),
            ("fsync/microseconds", "180"),
            ("fsync/microseconds/maximum", "1900"),
            ("snapshot/age", "5 seconds"),
        ] {
            let topic = format!("$SYS/broker/store/{name}");
            assert!(seen.contains(&(topic, value.into())), "{name}");
        }
        let load = "$SYS/broker/load/messages/received/1min";
        assert!(seen.contains(&(load.into(), "0.00".into())));
        assert!(seen.contains(&("$SYS/broker/store/offset/durable".into(), "7".into())));
        let mut names: Vec<_> = seen.iter().map(|(topic, _)| topic).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), seen.len());
    }

    /// Without a log.
    fn names() -> Vec<String> {
        let mut names = Vec::new();
        let status = Status {
            uptime: Duration::ZERO,
            counts: Counts::default(),
            clients_most: 0,
            loads: Loads::default(),
            store: None,
        };
        topics(&status, &mut |topic, _| names.push(topic.to_owned()));
        names
    }

    /// What `mosquitto_sub -t '$SYS/#'` shows of mosquitto 2.0.11. Its `heap/current` and
    /// `heap/maximum` are left out: nothing here counts what the heap holds.
    #[test]
    fn mosquittos_names_are_here() {
        let names = names();
        let plain = [
            "bytes/received",
            "bytes/sent",
            "clients/active",
            "clients/connected",
            "clients/disconnected",
            "clients/expired",
            "clients/inactive",
            "clients/maximum",
            "clients/total",
            "messages/received",
            "messages/sent",
            "messages/stored",
            "publish/bytes/received",
            "publish/bytes/sent",
            "publish/messages/dropped",
            "publish/messages/received",
            "publish/messages/sent",
            "retained messages/count",
            "shared_subscriptions/count",
            "store/messages/bytes",
            "store/messages/count",
            "subscriptions/count",
            "uptime",
            "version",
        ];
        let loads = [
            "bytes/received",
            "bytes/sent",
            "connections",
            "messages/received",
            "messages/sent",
            "publish/dropped",
            "publish/received",
            "publish/sent",
            "sockets",
        ];
        let spans = |name| ["1min", "5min", "15min"].map(|span| format!("load/{name}/{span}"));
        for name in plain.map(String::from).into_iter().chain(loads.into_iter().flat_map(spans)) {
            assert!(names.contains(&format!("$SYS/broker/{name}")), "{name}");
        }
    }

    #[test]
    fn the_counters_that_limits_name_are_here() {
        let names = names();
        let limits = include_str!("../../../doc/limits.md");
        let rows = limits.lines().filter(|line| line.starts_with("| `"));
        for counter in rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next()) {
            for name in counter.split(", ").filter(|name| *name != "none") {
                let name = name.trim_matches('`');
                assert!(names.contains(&format!("$SYS/broker/{name}")), "{name}");
            }
        }
    }
}
