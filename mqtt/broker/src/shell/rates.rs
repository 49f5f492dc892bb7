//! What a client may send in a second. One that sends more is not read for as long as it takes, and
//! never cut off: its socket fills, and that slows it down.
//!
//! Owns: buckets that hold what may come in one second, and when who waits is read again. Time
//! comes in as an argument.

use std::collections::BTreeSet;
use std::time::Duration;

use zzq_lanes::{ConnId, Millis};
use zzq_wal::disk::Disk;

use super::{Io, Shell};
use crate::options::Limits;

/// What one client may still send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    messages: Bucket,
    bytes: Bucket,
}

/// See the file.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Zero: there is no bound.
    per_second: u32,
    /// In thousandths; below zero if something large has come.
    left: i64,
    at: Millis,
}

impl Bucket {
    /// A full one.
    fn new(per_second: u32, now: Millis) -> Self {
        Self { per_second, left: i64::from(per_second) * 1000, at: now }
    }

    fn fill(&mut self, now: Millis) {
        let ms = i64::try_from(now.since(self.at).as_millis()).unwrap_or(i64::MAX);
        let most = i64::from(self.per_second) * 1000;
        self.left = ms.saturating_mul(self.per_second.into()).saturating_add(self.left).min(most);
        self.at = now;
    }

    fn take(&mut self, count: usize) {
        if self.per_second > 0 {
            let thousandths = i64::try_from(count).unwrap_or(i64::MAX).saturating_mul(1000);
            self.left = self.left.saturating_sub(thousandths);
        }
    }

    /// How long until something is left.
    fn wait(&self) -> Option<Duration> {
        let short = self.left.checked_neg().filter(|_| self.per_second > 0)?;
        let wait = u64::try_from(short).ok()? / u64::from(self.per_second) + 1;
        Some(Duration::from_millis(wait))
    }
}

impl Rates {
    /// For a client that has just come; `None` without a bound.
    pub(super) fn new(limits: &Limits, now: Millis) -> Option<Self> {
        let Limits { max_message_rate, max_byte_rate, .. } = *limits;
        let (messages, bytes) =
            (Bucket::new(max_message_rate, now), Bucket::new(max_byte_rate, now));
        (max_message_rate > 0 || max_byte_rate > 0).then_some(Self { messages, bytes })
    }

    /// A packet has come.
    fn take(&mut self, is_message: bool, bytes: usize) {
        self.messages.take(usize::from(is_message));
        self.bytes.take(bytes);
    }

    /// How long the client is not to be read.
    fn wait(&mut self, now: Millis) -> Option<Duration> {
        self.messages.fill(now);
        self.bytes.fill(now);
        self.messages.wait().max(self.bytes.wait())
    }
}

impl<D: Disk> Shell<D> {
    /// A packet of a client that may send only so much was handled.
    pub(super) fn count_rate(&mut self, conn: ConnId, is_message: bool, bytes: usize) {
        if let Some(rates) = self.links.get_mut(conn).and_then(|link| link.rates.as_mut()) {
            rates.take(is_message, bytes);
        }
    }

    /// Whether a client has sent so much that it is not read now.
    pub(super) fn is_throttled(&mut self, io: &mut Io<'_, D>, conn: ConnId) -> bool {
        let Some(link) = self.links.get_mut(conn) else { return false };
        let Some(wait) = link.rates.as_mut().and_then(|rates| rates.wait(io.now())) else {
            return false;
        };
        // Its silence is ours.
        link.parked = true;
        self.counts.throttled += 1;
        self.throttled.0.insert((io.now() + wait, conn));
        io.pause(conn);
        true
    }

    /// Reads those again who have waited.
    pub(super) fn go_on_throttled(&mut self, io: &mut Io<'_, D>) {
        while let Some(&(due, conn)) = self.throttled.0.first()
            && due <= io.now()
        {
            self.throttled.0.pop_first();
            io.resume(conn);
        }
    }
}

/// Connections that are not read until some time.
#[derive(Debug, Default)]
pub(super) struct Throttled(BTreeSet<(Millis, ConnId)>);

impl Throttled {
    pub(super) fn next(&self) -> Option<Millis> {
        self.0.first().map(|(due, _)| *due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `packets`, each of so many bytes and offered in each millisecond, are read in
    /// ten seconds.
    fn read_in_ten_seconds(messages: u32, bytes: u32, size: usize) -> usize {
        let limits =
            Limits { max_message_rate: messages, max_byte_rate: bytes, ..Limits::default() };
        let mut rates = Rates::new(&limits, Millis(0)).unwrap();
        let mut read = 0;
        for ms in 0..10_000 {
            for _ in 0..10 {
                if rates.wait(Millis(ms)).is_none() {
                    rates.take(true, size);
                    read += 1;
                }
            }
        }
        read
    }

    #[test]
    fn a_second_may_come_at_once_and_then_what_each_second_brings() {
        assert!((1090..=1110).contains(&read_in_ten_seconds(100, 0, 5000)));
        assert!((1090..=1110).contains(&read_in_ten_seconds(0, 100_000, 1000)));
        assert!((545..=555).contains(&read_in_ten_seconds(100, 50_000, 1000)));
    }

    #[test]
    fn what_is_larger_than_a_second_brings_is_waited_for() {
        let limits = Limits { max_byte_rate: 1000, ..Limits::default() };
        let mut rates = Rates::new(&limits, Millis(0)).unwrap();
        rates.take(true, 5000);
        assert_eq!(rates.wait(Millis(0)), Some(Duration::from_millis(4001)));
        assert_eq!(rates.wait(Millis(4000)), Some(Duration::from_millis(1)));
        assert_eq!(rates.wait(Millis(4001)), None);
        assert!(Rates::new(&Limits::default(), Millis(0)).is_none());
    }
}
