//! The `$SYS` topics: one lane renews them, every lane sends them to its subscribers.
//!
//! They are messages of no log and of no retained store: what they say is true now or not at all.

use std::time::Duration;

use zzq_engine::Publication;
use zzq_lanes::Millis;
use zzq_types::{Properties, QoS, TopicName};
use zzq_wal::disk::Disk;

use super::wire::Content;
use super::{Io, Shell};
use crate::load::Loads;
use crate::metrics;
use crate::sys::{self, Status, StoreStatus};

/// When the values are renewed, and what is remembered from one time to the next.
#[derive(Debug, Default)]
pub(super) struct Renewal {
    pub(super) due: Millis,
    uptime: Duration,
    loads: Loads,
    clients_most: u64,
}

impl<D: Disk> Shell<D> {
    /// Renews the values when it is time; only on the first lane.
    pub(super) fn renew_sys(&mut self, io: &mut Io<'_, D>) {
        let interval = self.shared.options.sys_interval;
        if self.lane.0 != 0 || interval.is_zero() || io.now() < self.sys.due || self.stopping {
            return;
        }
        self.sys.due = io.now() + interval;
        self.publish_counts(io);
        let store = self.journal.marks().map(|(durable, appended)| StoreStatus {
            durable: durable.get(),
            appended: appended.get(),
            writable: !self.journal.is_read_only(),
            first: self.journal.first_kept().get(),
            images: self.shared.images.counts(),
        });
        let counts = metrics::total(&self.shared.metrics);
        let uptime = self.shared.started.elapsed();
        let passed = uptime.saturating_sub(self.sys.uptime);
        self.sys.uptime = uptime;
        self.sys.loads.renew(&counts, passed);
        self.sys.clients_most = self.sys.clients_most.max(counts.clients);
        let Renewal { loads, clients_most, .. } = self.sys;
        let status = Status { uptime, counts, clients_most, loads, store };
        let mut values = Vec::new();
        sys::topics(&status, &mut |topic, value| values.push((topic.to_owned(), value.to_owned())));
        for (topic, value) in &values {
            self.publish_sys(io, topic, value);
        }
        self.shared.set_sys(values);
    }

    fn publish_sys(&mut self, io: &mut Io<'_, D>, topic: &str, value: &str) {
        let Ok(topic) = TopicName::new(topic) else { return };
        let qos = QoS::AtMostOnce;
        let publication = Publication { topic, publisher: None, qos, retain: false };
        let mut decision = std::mem::take(&mut self.decision);
        let routed = self.router.route(&mut self.index, publication, &mut decision);
        if routed.destinations > 0 {
            let record = content(topic, value).record(qos, decision.as_decision());
            self.spread(io, &record, &routed);
        }
        self.decision = decision;
    }
}

/// A value as it is sent.
pub(super) fn content<'a>(topic: TopicName<'a>, value: &'a str) -> Content<'a> {
    Content { topic, properties: Properties::EMPTY, payload: value.as_bytes(), expires_ms: None }
}
