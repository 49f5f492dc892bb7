//! A log of small segments on a simulated disk, as tests of what reads it want one.

use std::sync::Arc;

use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Log, Options, Producer, Wake};

struct Nobody;

impl Wake for Nobody {
    fn wake(&self) {}
}

/// One of 128 KiB a segment and 32 KiB a group, with a producer that wakes nobody: it is driven.
pub(crate) fn small_log() -> (Log<SimDisk>, Producer<SimDisk>) {
    let mut salt = 0_u128;
    let entropy = move || {
        salt += 1;
        salt.to_le_bytes()
    };
    let options = Options {
        segment_size: 128 * 1024,
        group_size: 32 * 1024,
        chunk_size: 4096,
        part_size: 8192,
        ring_chunks: 16,
        ..Options::new(Box::new(entropy))
    };
    let (log, _) =
        Log::open(SimDisk::new(), options, 0, &mut |_| Ok(())).expect("a disk without faults");
    let producer = log.producer(Arc::new(Nobody), None).expect("the first producer");
    (log, producer)
}
