//! Makes the log that is read.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use zzq_wal::io::{Backend, FileDisk, event};
use zzq_wal::{Log, Lsn, Options, Staging, Status, Wake};

const STAGING: Staging = Staging { kind: 1, waits: true, lanes: 0, reserved: false };
const NOW_MS: u64 = 1_700_000_000_000;

struct Waker(Arc<OwnedFd>);

impl Wake for Waker {
    fn wake(&self) {
        // Fails only when the counter is full, and then it is readable already.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

/// Fills a log with `total` bytes of records of this size, `batch` at a time; its last LSN.
pub(crate) fn fill(directory: &Path, total: u64, size: usize, batch: usize) -> Result<Lsn> {
    let disk = FileDisk::open(directory, Backend::Auto)?;
    let (log, _) = Log::open(disk, Options::from_os()?, NOW_MS, &mut |_| Ok(()))?;
    let _helper = log.spawn_helper()?;
    let event = event::create()?;
    let waker = Arc::new(Waker(Arc::clone(&event)));
    let mut lane = log.producer(waker, Some(Arc::clone(&event)))?;
    let body = vec![0x5a; size];
    let mut staged = 0;
    while staged < total {
        for _ in 0..batch {
            if !lane.has_room(false) {
                break;
            }
            lane.stage(&STAGING, |out| out.extend_from_slice(&body))?;
            staged += size as u64;
        }
        while lane.durable() < lane.handed() {
            let drive = lane.drive(NOW_MS);
            if lane.durable() < lane.handed() && drive.again_at.is_none() {
                ensure!(event::wait(&event, Duration::from_secs(10))?, "the log is silent");
                event::drain(&event);
            }
            ensure!(log.status() == Status::Running, "{:?}", log.status());
        }
    }
    log.mark_durable()?;
    Ok(log.durable())
}
