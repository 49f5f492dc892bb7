//! The `$SYS` topics: what they are called and what they say.
//!
//! Names follow mosquitto's where it has one, since tools read those; what a log has to tell stands
//! under `$SYS/broker/store`.

use std::time::Duration;

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

/// The log at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreStatus {
    pub(crate) durable: u64,
    pub(crate) appended: u64,
    pub(crate) writable: bool,
    /// The first record that is still there.
    pub(crate) first: u64,
    pub(crate) images: ImageCounts,
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
        ("connections/open", counts.connections),
        ("connections/accepted", counts.accepted),
        ("connections/refused", counts.refused),
        ("connections/faults", counts.peer_faults),
        ("subscriptions/count", counts.subscriptions),
        ("retained messages/count", counts.retained),
        ("store/messages/count", counts.queued + counts.retained),
        ("messages/received", counts.packets_in),
        ("messages/sent", counts.packets_out),
        ("bytes/received", counts.bytes_in),
        ("bytes/sent", counts.bytes_out),
        ("publish/messages/received", counts.publishes_in),
        ("publish/messages/sent", counts.publishes_out),
        ("publish/messages/dropped", counts.dropped()),
        ("publish/messages/expired", counts.expired),
        ("publish/messages/refused", counts.refused_quota),
        ("publish/messages/shed", counts.shed),
    ];
    for (name, value) in numbers {
        visit(&format!("$SYS/broker/{name}"), &value.to_string());
    }
    status.loads.each(|name, value| {
        visit(&format!("$SYS/broker/load/{name}"), &format!("{value:.2}"));
    });
    if let Some(store) = &status.store {
        visit("$SYS/broker/store/state", if store.writable { "writable" } else { "read-only" });
        visit("$SYS/broker/store/offset/durable", &store.durable.to_string());
        visit("$SYS/broker/store/offset/appended", &store.appended.to_string());
        let ImageCounts { made, failed, bytes, offset } = store.images;
        let numbers = [
            ("offset/first", store.first),
            ("records", counts.records),
            ("snapshot/offset", offset),
            ("snapshot/bytes", bytes),
            ("snapshot/count", made),
            ("snapshot/failed", failed),
        ];
        for (name, value) in numbers {
            visit(&format!("$SYS/broker/store/{name}"), &value.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use zzq_types::TopicName;

    use super::*;

    #[test]
    fn all_topics_are_names_below_sys_and_stand_once() {
        let images = ImageCounts::default();
        let store = StoreStatus { durable: 7, appended: 9, writable: true, first: 1, images };
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
        let load = "$SYS/broker/load/messages/received/1min";
        assert!(seen.contains(&(load.into(), "0.00".into())));
        assert!(seen.contains(&("$SYS/broker/store/offset/durable".into(), "7".into())));
        let mut names: Vec<_> = seen.iter().map(|(topic, _)| topic).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), seen.len());
    }
}
