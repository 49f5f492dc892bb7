//! The least that a group commit can do: frame and copy records into a group, checksum it, write
//! it with DSYNC, and start over while up to two groups are on their way.
//!
//! Owns: no log. Nothing here could be read back after a crash: it is the bound to measure
//! against, on the same disk and in the same run.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use zzq_wal::disk::{BLOCK, Completion, Disk, Write};
use zzq_wal::io::{Backend, FileDisk, IoBuffer, OpenFile, event};

use crate::closed_loop::Subject;

const FILE: &str = "bound";
const FILE_SIZE: u64 = 64 << 20;
const HEADER: usize = 64;
const FLIGHTS_MAX: usize = 2;

pub(crate) struct Bound {
    disk: FileDisk,
    file: OpenFile,
    event: Arc<OwnedFd>,
    group: IoBuffer,
    records: u64,
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
    pub(crate) fn open(directory: &Path, backend: Backend) -> Result<Self> {
        let disk = FileDisk::open(directory, backend)?;
        // A file of an earlier run, if there was one.
        let _ = disk.remove(FILE);
        let file = disk.create(FILE, FILE_SIZE)?;
        Ok(Self {
            disk,
            file,
            event: event::create()?,
            group: empty(),
            records: 0,
            spare: Vec::new(),
            flights: VecDeque::new(),
            completions: Vec::new(),
            offset: 0,
            token: 0,
        })
    }

    /// Sends the group off, if there is one and a place for it.
    fn submit(&mut self) -> Result<()> {
        if self.records == 0 || self.flights.len() >= FLIGHTS_MAX {
            return Ok(());
        }
        let next = self.spare.pop().unwrap_or_else(empty);
        let mut buffer = std::mem::replace(&mut self.group, next);
        buffer.pad_to_block();
        let checksum = crc32fast::hash(&buffer[HEADER..]);
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
        let records = std::mem::take(&mut self.records);
        self.flights.push_back(Flight { token: self.token, records, durable: false });
        self.offset += len;
        Ok(())
    }

    /// Takes completions; returns the records that have become durable.
    fn reap(&mut self) -> Result<u64> {
        self.disk.reap(&mut self.completions);
        for completion in self.completions.drain(..) {
            ensure!(completion.result? == completion.buffer.len(), "a short write");
            let ended = self.flights.iter_mut().find(|flight| flight.token == completion.token);
            if let Some(flight) = ended {
                flight.durable = true;
            }
            let mut buffer = completion.buffer;
            buffer.truncate(HEADER);
            self.spare.push(buffer);
        }
        let mut durable = 0;
        while let Some(flight) = self.flights.pop_front_if(|flight| flight.durable) {
            durable += flight.records;
        }
        Ok(durable)
    }
}

impl Subject for Bound {
    fn stage(&mut self, body: &[u8]) -> Result<()> {
        self.group.extend_from_slice(&u64::try_from(body.len())?.to_le_bytes());
        self.group.extend_from_slice(body);
        self.records += 1;
        Ok(())
    }

    fn wait(&mut self) -> Result<u64> {
        self.submit()?;
        loop {
            ensure!(event::wait(&self.event, Duration::from_secs(10))?, "the disk is silent");
            event::drain(&self.event);
            let durable = self.reap()?;
            if durable > 0 {
                return Ok(durable);
            }
        }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        // What is left in the directory is only for the next run to remove.
        let _ = self.disk.remove(FILE);
    }
}

fn empty() -> IoBuffer {
    let mut buffer = IoBuffer::with_capacity(64 * BLOCK);
    buffer.resize(HEADER);
    buffer
}
