//! The plainest life of a log, in which a test lets one thing go wrong: records that follow from
//! their LSNs, written until they are all there or the log takes no more. It rolls, trims, uses
//! files again, writes big records.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use zzq_wal::sim_disk::{Op, SimDisk, Survival};
use zzq_wal::{Log, Lsn, OpenError, Recovery};

use crate::common::*;

/// Ways in which a crash may go, at each place.
pub const OUTCOMES: [Survival; 6] = [
    Survival::Nothing,
    Survival::Everything,
    Survival::Seeded(11),
    Survival::Seeded(12),
    Survival::Seeded(13),
    Survival::Seeded(14),
];

pub const RECORDS: u64 = 56;

/// What the writer knows about its log.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// Highest LSN that was durable.
    pub acknowledged: u64,
    /// Everything below may be gone.
    pub trimmed: u64,
}

/// The body of each record follows from its LSN; every eighth is longer than a part.
pub fn body(lsn: u64) -> Vec<u8> {
    let len =
        if lsn.is_multiple_of(8) { 20_000 } else { 1000 + usize::try_from(lsn).unwrap() * 90 };
    let mut body = vec![u8::try_from(lsn % 251).unwrap(); len];
    body[..8].copy_from_slice(&lsn.to_le_bytes());
    body
}

/// Opens the log and writes records until all are there, or the log takes or writes no more.
pub fn live(disk: &SimDisk, story: &mut Story) -> Result<Log<SimDisk>, OpenError> {
    let (log, recovery, seen) = open(disk.clone(), small(1))?;
    check(&recovery, &seen, story);
    // What a start finds is durable from then on.
    story.acknowledged = recovery.last_lsn.get();
    let mut lane = producer(&log).0;
    'records: for lsn in recovery.last_lsn.get() + 1..=RECORDS {
        if stage(&mut lane, &body(lsn)).is_err() {
            assert!(log.is_read_only());
            break;
        }
        let mut turns = 0;
        while log.durable().get() < lsn {
            turns += 1;
            if log.is_read_only() || turns == 100 {
                break 'records;
            }
            turn(&log, &mut lane);
            story.acknowledged = story.acknowledged.max(log.durable().get());
        }
        if lsn.is_multiple_of(10) {
            story.trimmed = lsn - 8;
            log.trim(Lsn::new(story.trimmed));
        }
    }
    // It may fail, and whatever it has done by then must be true.
    let _ = log.mark_durable();
    Ok(log)
}

/// A life that nothing disturbs: it comes to its end.
pub fn live_on(disk: &SimDisk, story: &mut Story) {
    let lived = live(disk, story);
    assert!(lived.is_ok(), "{:?}", lived.err());
    assert_eq!(story.acknowledged, RECORDS, "the log goes on");
}

/// A start has found what it must, and nothing that was never written.
pub fn check(recovery: &Recovery, seen: &[Seen], story: &Story) {
    let last = recovery.last_lsn.get();
    assert!(last >= story.acknowledged, "{last} of {story:?}");
    assert!(last <= RECORDS);
    let first = seen.first().map_or(last + 1, |record| record.lsn);
    assert!(first <= story.trimmed.max(1), "{first} of {story:?}");
    assert_eq!(first + seen.len() as u64, last + 1);
    for (record, lsn) in seen.iter().zip(first..) {
        assert_eq!(record.lsn, lsn);
        assert!(record.body == body(lsn), "record {lsn} is another");
    }
}

/// Operations that change the disk.
pub const CHANGES: [Op; 7] =
    [Op::Create, Op::Rename, Op::Remove, Op::SyncDir, Op::Submit, Op::Write, Op::Sync];
