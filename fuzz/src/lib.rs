//! What the targets about the log share: the golden log on a simulated disk, the mending of
//! checksums in changed bytes, and the check that two readings of a disk find the same.
//!
//! Owns: no judgement of its own; the targets say what must hold.

#![forbid(unsafe_code)]

use std::ops::ControlFlow;

use zzq_journal::{Event, Survey, walk};
use zzq_wal::disk::BLOCK;
use zzq_wal::format::{Salt, checksum, group, record};
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Lsn, META_NAME, OpenError, Options, Recovery, inspect, segment_name};

/// `meta` of the golden log.
pub const META: &[u8] = include_bytes!("../../wal/tests/golden/log-v1/meta");

/// Its segments.
pub const SEGMENTS: [(u64, &[u8]); 4] = [
    (1, include_bytes!("../../wal/tests/golden/log-v1/00000000000000000001.log")),
    (2, include_bytes!("../../wal/tests/golden/log-v1/00000000000000000002.log")),
    (4, include_bytes!("../../wal/tests/golden/log-v1/00000000000000000004.log")),
    (5, include_bytes!("../../wal/tests/golden/log-v1/00000000000000000005.log")),
];

/// How many records it has, and the last of them that its `meta` says was durable.
pub const RECORDS: u64 = 18;
/// See [`RECORDS`].
pub const DURABLE: u64 = 14;

const LENGTH: usize = 64 * 1024;

/// The golden log.
pub fn golden() -> SimDisk {
    let disk = SimDisk::new();
    disk.insert(META_NAME, META.to_vec());
    for (number, bytes) in SEGMENTS {
        let mut bytes = bytes.to_vec();
        bytes.resize(LENGTH, 0);
        disk.insert(&segment_name(number), bytes);
    }
    disk
}

/// The body of its record n.
pub fn body(n: u64) -> Vec<u8> {
    let len = if n.is_multiple_of(7) { 9000 } else { n * 40 };
    (0..len).map(|at| (at * n % 251) as u8).collect()
}

/// Sizes at which segments roll soon.
pub fn options() -> Options {
    let mut state = 7_u128;
    Options {
        segment_size: 128 * 1024,
        group_size: 32 * 1024,
        chunk_size: 4096,
        part_size: 8192,
        ring_chunks: 16,
        recovery_threads: 0,
        ..Options::new(Box::new(move || -> Salt {
            state = state.wrapping_mul(0xda94_2042_e4dd_58b5_da94_2042_e4dd_58b5).wrapping_add(1);
            (state ^ state >> 61).to_le_bytes()
        }))
    }
}

/// A record as it was found.
pub type Seen = (u64, u8, Vec<u8>);

/// What recovery finds. It changes nothing, and holds no more than was there.
pub fn recovered(disk: &SimDisk) -> (Result<Recovery, OpenError>, Vec<Seen>) {
    let before = disk.image_hash();
    let mut seen = Vec::new();
    let outcome = inspect(disk.clone(), &options(), &mut |record| {
        seen.push((record.lsn.get(), record.kind, record.body.to_vec()));
        Ok(())
    });
    assert_eq!(disk.image_hash(), before, "looking changes nothing");
    let dense = seen.windows(2).all(|pair| pair[0].0 < pair[1].0);
    assert!(dense, "LSNs ascend");
    (outcome, seen)
}

/// What the journal tool finds in front of the first place that is not as it should be.
pub fn walked(disk: &SimDisk) -> Vec<Seen> {
    let mut seen = Vec::new();
    let Ok(survey) = Survey::read(disk) else { return seen };
    let outcome = walk(&survey, Lsn::FIRST, &mut |event| match event {
        Event::Record(record) => {
            seen.push((record.lsn.get(), record.kind, record.body.to_vec()));
            ControlFlow::Continue(())
        }
        Event::Stop(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert!(outcome.is_ok(), "the files can be read: {outcome:?}");
    // And on behind all of it.
    let _ = walk(&survey, Lsn::FIRST, &mut |_| ControlFlow::Continue(()));
    seen
}

/// Both readings find the same in a log that recovery takes.
pub fn assert_readings_agree(disk: &SimDisk) {
    let (outcome, seen) = recovered(disk);
    let walked = walked(disk);
    if let Ok(recovery) = outcome {
        assert!(walked == seen, "{recovery:?}: {} and {}", walked.len(), seen.len());
    }
}

/// Makes the checksums in a segment right for its bytes, so that what stands in them is looked at:
/// of the header and the closing, of groups at blocks and their chain, and of their records.
pub fn mend_segment(bytes: &mut [u8]) {
    let mut previous = None;
    for at in (0..bytes.len()).step_by(BLOCK) {
        let block = &mut bytes[at..];
        if block.len() >= BLOCK && block.starts_with(b"ZQ-SEGMT") {
            mend_block(&mut block[..BLOCK]);
        } else if block.len() >= group::HEADER_LEN && block.starts_with(b"ZQGR") {
            previous = Some(mend_group(block, previous));
        }
    }
}

/// Makes the checksum of a header or a page of `meta` right.
pub fn mend_block(block: &mut [u8]) {
    let sum = checksum(&block[12..BLOCK]);
    put(block, 8, sum);
}

/// Makes the checksums in a group right; returns that of its header.
pub fn mend_group(bytes: &mut [u8], previous: Option<u32>) -> u32 {
    let length = number(bytes, 12).clamp(group::HEADER_LEN, bytes.len());
    let records = number(bytes, 84).min(length - group::HEADER_LEN);
    let mut rest = &mut bytes[group::HEADER_LEN..group::HEADER_LEN + records];
    while rest.len() >= record::HEADER_LEN {
        let end = record::HEADER_LEN.saturating_add(number(rest, 4)).min(rest.len());
        let sum = checksum(&rest[4..end]);
        put(rest, 0, sum);
        rest = &mut rest[end..];
    }
    let sum = checksum(&bytes[group::HEADER_LEN..length]);
    put(bytes, 8, sum);
    if let Some(previous) = previous {
        put(bytes, 88, previous);
    }
    let sum = checksum(&bytes[8..group::HEADER_LEN]);
    put(bytes, 4, sum);
    sum
}

/// Writes a field of four bytes.
pub fn put(bytes: &mut [u8], at: usize, field: u32) {
    bytes[at..at + 4].copy_from_slice(&field.to_le_bytes());
}

fn number(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

/// The file that a target was given: its first byte says whether checksums are mended.
pub fn volume(bytes: &[u8]) -> Option<Vec<u8>> {
    let (mode, bytes) = bytes.split_first()?;
    let mut bytes = bytes.to_vec();
    if mode % 2 == 1 {
        mend_volume(&mut bytes);
    }
    Some(bytes)
}

/// Makes the checksums of a volume's outer blocks, of nodes and their chain, and of roots right for
/// the bytes.
fn mend_volume(bytes: &mut [u8]) {
    if bytes.len() < 2 * BLOCK {
        return;
    }
    let last = bytes.len() - BLOCK;
    let mut chain = 0;
    let mut at = BLOCK;
    while at + 40 <= last && bytes[at..].starts_with(b"ZQND") {
        let end = at.saturating_add(number(bytes, at + 8)).min(last);
        if end < at + 40 {
            break;
        }
        let sum = checksum(&bytes[at + 8..end]);
        put(bytes, at + 4, sum);
        let both = [u32::to_le_bytes(chain), sum.to_le_bytes()].concat();
        chain = checksum(&both);
        for section in (last + 64..bytes.len() - 48).step_by(48) {
            if number(bytes, section + 16) == at {
                put(bytes, section + 4, sum);
            }
        }
        at = end;
    }
    put(bytes, last + 48, chain);
    let first = checksum(&bytes[12..BLOCK]);
    put(bytes, 8, first);
    put(bytes, last + 16, first);
    let sum = checksum(&bytes[last + 12..]);
    put(bytes, last + 8, sum);
}
