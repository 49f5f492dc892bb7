//! The least that a group commit can do: frame and copy records into a group, checksum it, write
//! it with DSYNC, and start over when records have become durable. One loop on one thread, with
//! buffers that are made before; no rings, nobody to wake.
//!
//! Owns: no log. Nothing here could be read back after a crash: it is the bound to measure
//! against, on the same disk and in the same run.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use zzq_wal::disk::{BLOCK, Completion, Disk, Write};
use zzq_wal::io::{Backend, FileDisk, IoBuffer, OpenFile, event};

use crate::outstanding::{Outcome, Outstanding, cpu_time};

const FILE: &str = "bound";
const FILE_SIZE: u64 = 64 << 20;
/// As much as the log has in front of a group and of a record.
const GROUP_HEADER: usize = 128;
const RECORD_HEADER: usize = 12;
/// As the log's longest group, by default.
const GROUP_MAX: usize = 1 << 20;
const FLIGHTS_MAX: usize = 2;

const _: () = assert!(GROUP_MAX.is_multiple_of(BLOCK));

pub(crate) struct Bound {
    disk: FileDisk,
    file: OpenFile,
    event: Arc<OwnedFd>,
    spare: Vec<IoBuffer>,
    flights: VecDeque<Flight>,
    completions: Vec<Completion>,
    offset: u64,
    token: u64,
}

struct Flight {
    token: u64,
    records: u64,
    durable: bool,
}

impl Bound {
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let disk = FileDisk::open(directory, Backend::Aio)?;
        let file = disk.create(FILE, FILE_SIZE)?;
        Ok(Self {
            disk,
            file,
            event: event::create()?,
            spare: vec![IoBuffer::with_capacity(GROUP_MAX); FLIGHTS_MAX],
            flights: VecDeque::new(),
            completions: Vec::new(),
            offset: 0,
            token: 0,
        })
    }

    /// Keeps `writers` records of `body` in flight for `length`, and waits for the last.
    pub(crate) fn run(&mut self, writers: u64, body: &[u8], length: Duration) -> Result<Outcome> {
        let most = records_max(writers, body.len());
        let mut outstanding = Outstanding::new()?;
        let (start, cpu) = (Instant::now(), cpu_time());
        let mut free = writers;
        loop {
            let now = Instant::now();
            while free > 0 && now - start < length && self.flights.len() < FLIGHTS_MAX {
                let records = free.min(most);
                free -= records;
                self.submit(records, body)?;
                outstanding.begin(now, records);
            }
            if outstanding.is_empty() {
                break;
            }
            let durable = self.wait()?;
            outstanding.end(durable)?;
            free += durable;
        }
        let (elapsed, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
        let (records, latency) = outstanding.into_parts();
        Ok(Outcome { records, elapsed, cpu, latency })
    }

    fn submit(&mut self, records: u64, body: &[u8]) -> Result<()> {
        let Some(mut buffer) = self.spare.pop() else { unreachable!("one for each flight") };
        buffer.clear();
        buffer.resize(GROUP_HEADER);
        let mut header = [0; RECORD_HEADER];
        for _ in 0..records {
            header[4..8].copy_from_slice(&u32::try_from(body.len())?.to_le_bytes());
            buffer.extend_from_slice(&header);
            buffer.extend_from_slice(body);
        }
        buffer.pad_to_block();
        let checksum = crc32fast::hash(&buffer[GROUP_HEADER..]);
        buffer[..4].copy_from_slice(&checksum.to_le_bytes());
        let len = buffer.len() as u64;
        if self.offset + len > FILE_SIZE {
            self.offset = 0;
        }
        self.token += 1;
        let write = Write {
            file: self.file.clone(),
            buffer,
            offset: self.offset,
            sync: true,
            token: self.token,
            notify: Some(Arc::clone(&self.event)),
        };
        self.disk.submit(write).map_err(|(_, error)| error)?;
        self.flights.push_back(Flight { token: self.token, records, durable: false });
        self.offset += len;
        Ok(())
    }

    /// Waits until more records are durable, in their order; returns how many more.
    fn wait(&mut self) -> Result<u64> {
        loop {
            ensure!(event::wait(&self.event, PATIENCE)?, "the disk is silent");
            event::drain(&self.event);
            self.reap()?;
            let mut durable = 0;
            while let Some(flight) = self.flights.pop_front_if(|flight| flight.durable) {
                durable += flight.records;
            }
            if durable > 0 {
                return Ok(durable);
            }
        }
    }

    fn reap(&mut self) -> Result<()> {
        self.disk.reap(&mut self.completions);
        for completion in self.completions.drain(..) {
            ensure!(completion.result? == completion.buffer.len(), "a short write");
            let ended = self.flights.iter_mut().find(|flight| flight.token == completion.token);
            if let Some(flight) = ended {
                flight.durable = true;
            }
            self.spare.push(completion.buffer);
        }
        Ok(())
    }
}

/// How many records make a group: all of them, so that one write serves them all; or half, so that
/// the disk writes one half while the next is framed, where that was measured to be faster.
fn records_max(writers: u64, body: usize) -> u64 {
    let record = (RECORD_HEADER + body) as u64;
    if writers * record > HALVE_ABOVE { writers.div_ceil(2) } else { writers }
}

const HALVE_ABOVE: u64 = GROUP_MAX as u64 / 2;

/// A disk that takes longer for one write is broken.
const PATIENCE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_halved() {
        assert_eq!(records_max(1, 100), 1);
        assert_eq!(records_max(1000, 100), 1000);
        assert_eq!(records_max(10_000, 100), 5000);
        assert_eq!(records_max(1000, 1024), 500);
        for (writers, body) in [(10_000, 100_u64), (1000, 1024)] {
            let body = usize::try_from(body).unwrap();
            let group = records_max(writers, body) * (RECORD_HEADER + body) as u64;
            assert!(group + GROUP_HEADER as u64 <= GROUP_MAX as u64, "as long as the log's");
        }
    }
}
