//! How much of the log stays although no image needs it: for subscriptions that start in the past.
//!
//! Owns: which segments a size and an age let go. Does not know: what images need, who reads.

use std::collections::BTreeMap;
use std::mem::take;
use std::time::Duration;

use zzq_wal::disk::Disk;
use zzq_wal::{KeptSegment, Log, Lsn, ReadError};

use crate::options::Retention;
use crate::planted::{self, Bug};

/// What is known of closed segments: when they ended, by number.
#[derive(Debug, Default)]
pub(super) struct Retainer {
    retention: Retention,
    ends: BTreeMap<u64, u64>,
}

impl Retainer {
    pub(super) fn new(retention: Retention) -> Self {
        Self { retention, ends: BTreeMap::new() }
    }

    pub(super) const fn is_on(&self) -> bool {
        self.retention.is_on()
    }

    /// The first record that is to stay at `now_ms`, log time; `None` if none has to. Of the oldest
    /// so many bytes more go than would otherwise, for space is wanted.
    pub(super) fn first<D: Disk>(
        &mut self,
        log: &Log<D>,
        now_ms: u64,
        yields: u64,
    ) -> Result<Option<Lsn>, ReadError> {
        if !self.is_on() || planted::is(Bug::RetentionIgnored) {
            return Ok(None);
        }
        // One that is there for a later one, which has the end of a record that begins in it, was
        // let go: its own records may be without beginning.
        let segments = log.whole_segments();
        if self.retention.age.is_some() {
            self.learn(log, &segments)?;
        }
        let ends = |segment: &KeptSegment| self.ends.get(&segment.number).copied();
        let first = first(&segments, self.retention, now_ms, ends);
        Ok(first.map(|first| behind(&segments, first, yields)))
    }

    /// Reads when segments ended, each once. The last one goes on.
    fn learn<D: Disk>(&mut self, log: &Log<D>, segments: &[KeptSegment]) -> Result<(), ReadError> {
        let front = segments.first().map_or(u64::MAX, |segment| segment.number);
        self.ends.retain(|number, _| *number >= front);
        let closed = segments.split_last().map_or(&[][..], |(_, closed)| closed);
        for segment in closed.iter().filter(|segment| segment.last >= segment.first) {
            if self.ends.contains_key(&segment.number) {
                continue;
            }
            match ended_ms(log, segment.last) {
                Ok(Some(ended_ms)) => _ = self.ends.insert(segment.number, ended_ms),
                // What was let go before may go while this looks.
                Ok(None) | Err(ReadError::Trimmed { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Log time of a record.
fn ended_ms<D: Disk>(log: &Log<D>, lsn: Lsn) -> Result<Option<u64>, ReadError> {
    Ok(log.reader(lsn)?.next_record()?.map(|last| last.time_ms))
}

/// The first record of the oldest segment that neither a size nor an age lets go: what lies beyond
/// either goes. A segment goes as a whole, the last one stays.
fn first(
    segments: &[KeptSegment],
    retention: Retention,
    now_ms: u64,
    ended_ms: impl Fn(&KeptSegment) -> Option<u64>,
) -> Option<Lsn> {
    let age_ms = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
    let oldest_ms = retention.age.map_or(0, |age| now_ms.saturating_sub(age_ms(age)));
    let (last, closed) = segments.split_last()?;
    let mut behind = last.bytes;
    let mut first = last.first;
    // Of those in which no record begins. They go with what is in front of them.
    let mut of_parts = 0_u64;
    for segment in closed.iter().rev() {
        if segment.last < segment.first {
            of_parts = of_parts.saturating_add(segment.bytes);
            continue;
        }
        let beyond = retention.bytes.is_some_and(|bytes| behind >= bytes);
        // Of one without an end of its own the next one tells.
        let old = ended_ms(segment).is_some_and(|ended_ms| ended_ms < oldest_ms);
        if beyond || old {
            break;
        }
        behind = behind.saturating_add(segment.bytes).saturating_add(take(&mut of_parts));
        first = segment.first;
    }
    Some(first)
}

/// The first record that stays when so many bytes from `first` on do not; the last segment does.
fn behind(segments: &[KeptSegment], first: Lsn, yields: u64) -> Lsn {
    let mut yielded = 0_u64;
    let kept = segments.iter().filter(|segment| segment.first >= first).find(|segment| {
        let is_enough = yielded >= yields;
        yielded = yielded.saturating_add(segment.bytes);
        is_enough
    });
    let last = || segments.last().map_or(first, |last| last.first.max(first));
    kept.map_or_else(last, |kept| kept.first)
}

#[cfg(test)]
mod tests {
    use zzq_wal::Staging;
    use zzq_wal::sim_disk::SimDisk;

    use super::*;
    use crate::small_log::small_log;

    /// Ten segments of 100 bytes and ten records each.
    fn segments() -> Vec<KeptSegment> {
        let segment = |n: u64| KeptSegment {
            number: n,
            first: Lsn::new(n * 10),
            last: Lsn::new(n * 10 + 9),
            bytes: 100,
        };
        (1..=10).map(segment).collect()
    }

    /// What stays of them where each took a second.
    fn kept(bytes: Option<u64>, age_s: Option<u64>) -> Option<u64> {
        let segments = segments();
        let retention = Retention { bytes, age: age_s.map(Duration::from_secs) };
        let ends = |segment: &KeptSegment| Some(segment.number * 1000);
        first(&segments, retention, 10_000, ends).map(Lsn::get)
    }

    #[test]
    fn as_many_whole_segments_stay_as_cover_a_size() {
        assert_eq!(kept(Some(0), None), Some(100), "the last one stays");
        assert_eq!(kept(Some(100), None), Some(100));
        assert_eq!(kept(Some(101), None), Some(90));
        assert_eq!(kept(Some(5000), None), Some(10));
    }

    /// Found by the simulator: 57 344 bytes of a start that had written nothing yet were counted,
    /// and let go.
    #[test]
    fn what_goes_with_the_segments_in_front_of_it_covers_nothing() {
        let segments = segments();
        let (old, new) = segments.split_at(8);
        let parts = KeptSegment { number: 0, first: new[0].first, last: old[7].last, bytes: 1000 };
        let all = [old, &[parts; 2], new].concat();
        let kept = |bytes| {
            let retention = Retention { bytes: Some(bytes), age: None };
            first(&all, retention, 0, |_| None).map(Lsn::get)
        };
        assert_eq!([kept(200), kept(201), kept(300)], [Some(90), Some(80), Some(80)]);
        assert_eq!([kept(2300), kept(2301)], [Some(80), Some(70)], "they stay with those");
    }

    #[test]
    fn segments_stay_that_end_within_an_age() {
        assert_eq!(kept(None, Some(0)), Some(100));
        assert_eq!(kept(None, Some(3)), Some(70));
        assert_eq!(kept(None, Some(1_000_000)), Some(10));
    }

    #[test]
    fn what_lies_beyond_either_goes() {
        assert_eq!(kept(Some(500), Some(2)), Some(80));
        assert_eq!(kept(Some(200), Some(5)), Some(90));
    }

    #[test]
    fn the_oldest_yields_where_space_is_wanted() {
        let segments = segments();
        let behind = |first, yields| behind(&segments, Lsn::new(first), yields).get();
        assert_eq!(behind(30, 0), 30);
        assert_eq!(behind(30, 1), 40);
        assert_eq!(behind(30, 200), 50);
        assert_eq!(behind(30, 10_000), 100, "the last one stays");
    }

    /// A log of records each of which begins where the one before ends, in the same segment.
    fn of_big_records(count: u64) -> Log<SimDisk> {
        let (log, mut lane) = small_log();
        let how = Staging { kind: 1, waits: true, ..Staging::default() };
        while log.durable().get() < count {
            if lane.handed() == lane.durable() {
                let len = 200_000 + 1000 * usize::try_from(log.durable().get()).unwrap();
                lane.stage(&how, |out| out.resize(len, 7)).unwrap();
            }
            lane.drive(1000);
            log.helper_step(0);
        }
        log
    }

    /// The last record of such a segment has lost its beginning, so it was not to be learnt when it
    /// ended: no image was made after the next start, and nothing was let go.
    #[test]
    fn a_segment_that_is_kept_for_a_later_one_is_none_of_those_that_stay() {
        let log = of_big_records(20);
        let age = Some(Duration::from_secs(1));
        let mut without_beginning = 0;
        for below in 1..=20 {
            log.trim(Lsn::new(below));
            while log.helper_step(0) {}
            let front = log.segments()[0];
            let has_lost = front.last >= front.first && log.reader(front.last).is_err();
            without_beginning += u32::from(has_lost);
            let mut retainer = Retainer::new(Retention { bytes: Some(u64::MAX), age });
            let first = retainer.first(&log, 1000, 0).unwrap();
            assert_eq!(first, Some(log.first_whole()));
        }
        assert!(without_beginning > 3, "{without_beginning}");
    }

    /// The helper of the log comes to it when it likes: an image is made all the same.
    #[test]
    fn what_was_let_go_may_go_while_it_is_looked_at() {
        let log = of_big_records(20);
        let segments = log.whole_segments();
        log.trim(Lsn::new(20));
        while log.helper_step(0) {}
        assert!(log.whole_segments().len() + 1 < segments.len());
        let mut retainer = Retainer::default();
        retainer.learn(&log, &segments).unwrap();
        assert!(retainer.ends.len() < segments.len());
    }

    #[test]
    fn a_log_without_segments_has_no_first() {
        assert_eq!(first(&[], Retention::default(), 0, |_| None), None);
    }
}
