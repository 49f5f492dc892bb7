//! Instructions of staging, packing and acknowledging records, on a disk that takes everything at
//! once and keeps nothing: `cargo xtask counts wal`.

#[path = "../../benches/src/counting.rs"]
mod counting;

use std::sync::Arc;

use anyhow::Result;
use zzq_wal::sim_disk::VoidDisk;
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
    let (log, _) = Log::open(VoidDisk::default(), Options::new(entropy), 0, &mut |_| Ok(()))?;
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
