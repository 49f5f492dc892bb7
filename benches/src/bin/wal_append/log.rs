//! The log itself, led by the one thread that writes to it.
//!
//! Owns: one producer and its turns, and trimming, so that segments come round again as they do
//! in a broker that takes snapshots.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use zzq_wal::io::{Backend, FileDisk, event};
use zzq_wal::{HelperThread, Log, Options, Producer, Staging, Status, Wake};

use crate::closed_loop::Subject;

/// Everything below what is durable is given up each time so many records have become durable.
const TRIM_EVERY: u64 = 1 << 16;

const STAGING: Staging = Staging { kind: 1, waits: true, lanes: 0, reserved: false };

pub(crate) struct LogSubject {
    producer: Producer<FileDisk>,
    event: Arc<OwnedFd>,
    durable: u64,
    trimmed: u64,
    log: Log<FileDisk>,
    _helper: HelperThread,
}

struct Waker(Arc<OwnedFd>);

impl Wake for Waker {
    fn wake(&self) {
        // Fails only when the counter is full, and then it is readable already.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

impl LogSubject {
    pub(crate) fn open(directory: &Path, backend: Backend) -> Result<Self> {
        let disk = FileDisk::open(directory, backend)?;
        let (log, _) = Log::open(disk, Options::from_os()?, now_ms()?, &mut |_| Ok(()))?;
        let helper = log.spawn_helper()?;
        let event = event::create()?;
        let producer =
            log.producer(Arc::new(Waker(Arc::clone(&event))), Some(Arc::clone(&event)))?;
        Ok(Self { producer, event, durable: 0, trimmed: 0, log, _helper: helper })
    }

    fn trim(&mut self) {
        if self.durable >= self.trimmed + TRIM_EVERY {
            self.trimmed = self.durable;
            self.log.trim(self.log.durable());
        }
    }
}

impl Subject for LogSubject {
    fn stage(&mut self, body: &[u8]) -> Result<()> {
        self.producer.stage(&STAGING, |out| out.extend_from_slice(body))?;
        Ok(())
    }

    fn wait(&mut self) -> Result<u64> {
        loop {
            let now = now_ms()?;
            let drive = self.producer.drive(now);
            let durable = self.producer.durable().get();
            if durable > self.durable {
                let more = durable - self.durable;
                self.durable = durable;
                self.trim();
                return Ok(more);
            }
            let patience = drive.again_at.map_or(10_000, |at| at.saturating_sub(now));
            let woken = event::wait(&self.event, Duration::from_millis(patience))?;
            ensure!(woken || drive.again_at.is_some(), "the log is silent");
            ensure!(self.log.status() == Status::Running, "{:?}", self.log.status());
            event::drain(&self.event);
        }
    }
}

fn now_ms() -> Result<u64> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}
