//! The `$SYS` topics: one lane renews them, every lane sends them to its subscribers.
//!
//! They are messages of no log and of no retained store: what they say is true now or not at all.

use std::time::Duration;

use zzq_engine::{Handed, Publication};
use zzq_lanes::Millis;
use zzq_types::{Properties, QoS, TopicName};
use zzq_wal::WriteTimes;
use zzq_wal::disk::Disk;

use super::wire::Content;
use super::{Io, Shell};
use crate::load::Loads;
use crate::metrics::Counts;
use crate::sys::{self, Recent, STORE_STATE, Status, StoreState, StoreStatus};

/// A commit that is timed.
#[derive(Debug)]
pub(super) struct Timed {
    handed: Handed,
    /// The turn that handed over its records.
    since: Millis,
    /// The end of that turn, by the clock of the disk.
    since_us: u64,
}

/// When the values are renewed, and what is remembered from one time to the next.
#[derive(Debug, Default)]
pub(super) struct Renewal {
    pub(super) due: Millis,
    uptime: Duration,
    loads: Loads,
    clients_most: u64,
    /// What was counted, and appended, at the last time.
    before: (Counts, u64),
    writes_before: WriteTimes,
}

impl Renewal {
    /// How the log has done since the last time.
    fn recent(&mut self, counts: &Counts, appended: u64, writes: WriteTimes) -> Recent {
        let writes_before = std::mem::replace(&mut self.writes_before, writes);
        let (before, appended_before) = &self.before;
        let mean = |sum: u64, count: u64| {
            let [sum, count] = [sum, count].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
            if count == 0 { 0.0 } else { f64::from(sum) / f64::from(count) }
        };
        // The first values would count what was recovered.
        let records = if *appended_before == 0 { 0 } else { appended - appended_before };
        Recent {
            group_records: mean(records, counts.groups - before.groups),
            commit_ms: mean(
                counts.commit_ms - before.commit_ms,
                counts.commits_timed - before.commits_timed,
            ),
            commit_us: mean(
                counts.commit_us - before.commit_us,
                counts.commits_timed - before.commits_timed,
            ),
            write_us: mean(
                writes.total_us - writes_before.total_us,
                writes.writes - writes_before.writes,
            ),
            write_longest_us: writes.longest_us,
        }
    }
}

impl<D: Disk> Shell<D> {
    /// Notes how long commits take: of one at a time, whose records this turn has handed over.
    pub(super) fn time_commits(&mut self, now: Millis) {
        if let Some(timed) = self.timed.take_if(|timed| self.journal.is_committed(timed.handed)) {
            self.counts.commits_timed += 1;
            let ms = u64::try_from(now.since(timed.since).as_millis()).unwrap_or(u64::MAX);
            self.counts.commit_ms = self.counts.commit_ms.saturating_add(ms);
            let us = self.journal.now_us().saturating_sub(timed.since_us);
            self.counts.commit_us = self.counts.commit_us.saturating_add(us);
        }
        let handed = self.journal.handed();
        if self.timed.is_none() && !self.journal.is_committed(handed) {
            let since_us = self.journal.now_us();
            self.timed = Some(Timed { handed, since: now, since_us });
        }
    }

    /// Renews the values when it is time; only on the first lane.
    pub(super) fn renew_sys(&mut self, io: &mut Io<'_, D>) {
        let interval = self.shared.options.sys_interval;
        if self.lane.0 != 0 || interval.is_zero() || io.now() < self.sys.due || self.stopping {
            return;
        }
        self.sys.due = io.now() + interval;
        self.publish_counts(io);
        let counts = self.shared.counts();
        let store = self.journal.marks().map(|(durable, appended)| StoreStatus {
            durable: durable.get(),
            appended: appended.get(),
            state: self.store_state(),
            free: self.journal.free_bytes(),
            first: self.journal.first_whole().get(),
            images: self.shared.images.counts(),
            segments: self.journal.segments(),
            recent: self.sys.recent(&counts, appended.get(), self.journal.write_times()),
        });
        self.sys.before = (counts, store.map_or(0, |store| store.appended));
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

    /// Tells at once how the store is, whenever the others are renewed.
    pub(super) fn publish_store_state(&mut self, io: &mut Io<'_, D>, state: StoreState) {
        if self.shared.options.sys_interval.is_zero() || self.stopping {
            return;
        }
        let mut values = self.shared.sys();
        if let Some((_, value)) = values.iter_mut().find(|(topic, _)| topic == STORE_STATE) {
            state.as_str().clone_into(value);
            self.shared.set_sys(values);
        }
        self.publish_sys(io, STORE_STATE, state.as_str());
    }

    fn publish_sys(&mut self, io: &mut Io<'_, D>, topic: &str, value: &str) {
        let Ok(topic) = TopicName::new(topic) else { return };
        let qos = QoS::AtMostOnce;
        let publication =
            Publication { topic, publisher: None, client_hash: 0, qos, retain: false };
        let mut decision = std::mem::take(&mut self.decision);
        let routed = self.router.route(&mut self.index, publication, &mut decision);
        if routed.destinations > 0 {
            let record = content(topic, value).record(qos, decision.as_decision());
            self.spread(io, &record, &routed);
            self.router.taken(&mut self.index);
        }
        self.decision = decision;
    }
}

/// A value as it is sent.
pub(super) fn content<'a>(topic: TopicName<'a>, value: &'a str) -> Content<'a> {
    Content {
        topic,
        properties: Properties::EMPTY,
        payload: value.as_bytes(),
        expires_ms: None,
        time_ms: 0,
        place: None,
    }
}
