//! Instructions of staging, packing and acknowledging records, on a disk that takes everything at
//! once and keeps nothing: `cargo xtask counts wal`.

#![expect(clippy::unwrap_used, reason = "a count that cannot go on stops")]

#[path = "../../benches/src/counting.rs"]
mod counting;

use std::io;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use zzq_wal::disk::{Completion, Disk, DiskFile, Write};
use zzq_wal::io::IoBuffer;
use zzq_wal::{Log, Options, StageError, Staging, Wake};

use crate::counting::{Case, count};

fn main() -> Result<()> {
    let mut cases = Vec::new();
    for (records, len) in [(1, 100), (16, 100), (100, 100), (1000, 100), (100, 1024)] {
        cases.push(group(records, len)?);
    }
    count(cases)
}

/// So many records of one producer in one group, from staging to the durable mark.
fn group(records: usize, len: usize) -> Result<Case> {
    let entropy = Box::new(|| [7; 16]);
    let (log, _) = Log::open(Void::default(), Options::new(entropy), 0, &mut |_| Ok(()))?;
    let mut producer = log.producer(Arc::new(Nobody), None)?;
    let body = vec![5; len];
    let staging = Staging { kind: 1, waits: true, lanes: 0, reserved: false };
    Ok(Case::new(format!("group of {records} x {len} B"), move || {
        let mut handed = producer.handed();
        for _ in 0..records {
            handed = loop {
                match producer.stage(&staging, |out| out.extend_from_slice(&body)) {
                    Ok(handed) => break handed,
                    Err(StageError::Full) => log.helper_step(0),
                    Err(error) => unreachable!("{error}"),
                };
                producer.drive(0);
            };
        }
        while producer.durable() < handed {
            producer.drive(0);
            log.helper_step(0);
            log.trim(log.durable());
        }
    }))
}

struct Nobody;

impl Wake for Nobody {
    fn wake(&self) {}
}

/// What is written is gone, and reads as if it had never been.
#[derive(Clone, Debug, Default)]
struct Void {
    done: Arc<Mutex<Vec<Completion>>>,
}

#[derive(Clone, Debug)]
struct Nothing(u64);

impl Disk for Void {
    type File = Nothing;

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        Ok(Vec::new())
    }

    fn create(&self, _: &str, len: u64) -> io::Result<Nothing> {
        Ok(Nothing(len))
    }

    fn open(&self, _: &str) -> io::Result<Nothing> {
        Ok(Nothing(0))
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(1 << 40)
    }

    fn submit(&self, write: Write<Nothing>) -> Result<(), (Write<Nothing>, io::Error)> {
        let Write { buffer, token, .. } = write;
        let result = Ok(buffer.len());
        self.done.lock().unwrap().push(Completion { token, buffer, result });
        Ok(())
    }

    fn reap(&self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.done.lock().unwrap());
    }
}

impl DiskFile for Nothing {
    fn read_at(&self, buffer: &mut IoBuffer, _: u64) -> io::Result<usize> {
        buffer.fill(0);
        Ok(buffer.len())
    }

    fn write_at(&self, _: &IoBuffer, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn give_back(&self, _: u64, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0)
    }
}
