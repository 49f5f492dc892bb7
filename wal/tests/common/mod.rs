//! A log on a simulated disk, driven in one thread.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "it is only part of tests")]

pub mod hooked;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{
    Entropy, Handed, Log, Lsn, OpenError, Options, Producer, Recovery, StageError, Staging, Wake,
};

/// Salts that differ and are the same in each run.
pub fn entropy(seed: u64) -> Entropy {
    let mut state = u128::from(seed) << 64 | 0x9e37_79b9_7f4a_7c15;
    Box::new(move || {
        state = state.wrapping_mul(0xda94_2042_e4dd_58b5_da94_2042_e4dd_58b5).wrapping_add(1);
        (state ^ state >> 61).to_le_bytes()
    })
}

/// Sizes at which segments roll soon.
pub fn small(seed: u64) -> Options {
    Options {
        segment_size: 128 * 1024,
        group_size: 32 * 1024,
        chunk_size: 4096,
        part_size: 8192,
        ring_chunks: 16,
        ..Options::new(entropy(seed))
    }
}

/// Counts its calls.
#[derive(Default)]
pub struct Woken(AtomicU64);

impl Woken {
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::SeqCst)
    }
}

impl Wake for Woken {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// What a record was when it was staged or found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub lsn: u64,
    pub kind: u8,
    pub body: Vec<u8>,
}

/// Opens and keeps what recovery shows.
pub fn open<D: Disk>(
    disk: D,
    options: Options,
) -> Result<(Log<D>, Recovery, Vec<Seen>), OpenError> {
    let mut seen = Vec::new();
    let (log, recovery) = Log::open(disk, options, 0, &mut |record| {
        seen.push(Seen { lsn: record.lsn.get(), kind: record.kind, body: record.body.to_vec() });
        Ok(())
    })?;
    Ok((log, recovery, seen))
}

pub fn reopen(disk: &SimDisk, seed: u64) -> (Log<SimDisk>, Recovery, Vec<Seen>) {
    open(disk.clone(), small(seed)).unwrap()
}

pub fn producer<D: Disk>(log: &Log<D>) -> (Producer<D>, Arc<Woken>) {
    let woken = Arc::new(Woken::default());
    (log.producer(woken.clone(), None).unwrap(), woken)
}

pub const WAITS: Staging = Staging { kind: 1, waits: true, lanes: 0, reserved: false };
pub const LAZY: Staging = Staging { kind: 2, waits: false, lanes: 0, reserved: false };

pub fn stage<D: Disk>(producer: &mut Producer<D>, body: &[u8]) -> Result<Handed, StageError> {
    producer.stage(&WAITS, |out| out.extend_from_slice(body))
}

/// Stages, drives and lets the helper work until the record is durable.
pub fn put<D: Disk>(log: &Log<D>, producer: &mut Producer<D>, body: &[u8]) -> Lsn {
    let handed = loop {
        match stage(producer, body) {
            Ok(handed) => break handed,
            Err(StageError::Full) => turn(log, producer),
            Err(error) => panic!("{error}"),
        }
    };
    for _ in 0..1000 {
        if producer.durable() >= handed {
            return log.durable();
        }
        turn(log, producer);
    }
    panic!("record {handed:?} does not become durable: {log:?}");
}

pub fn turn<D: Disk>(log: &Log<D>, producer: &mut Producer<D>) {
    producer.drive(1000);
    log.helper_step(0);
}

/// The file with the highest segment number in which there is a group.
pub fn last_file(recovery: &Recovery) -> String {
    let used = recovery.segments.iter().rfind(|segment| segment.groups > 0);
    used.unwrap().file.clone()
}

pub fn bodies(seen: &[Seen]) -> Vec<&[u8]> {
    seen.iter().map(|record| &record.body[..]).collect()
}
