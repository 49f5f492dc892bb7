//! Bytes to a file that grows: whole blocks at a time, as direct writes want them.

use zzq_wal::disk::{BLOCK, Disk, DiskFile};
use zzq_wal::io::IoBuffer;

use crate::error::WriteError;
use crate::pace::Pace;

/// Bytes of one write.
const WRITE: usize = 256 * 1024;

/// The end of a file that is being written.
pub(crate) struct Sink<'p, F> {
    file: F,
    name: &'static str,
    buffer: IoBuffer,
    /// Where the buffer goes.
    at: u64,
    pace: Pace<'p>,
}

impl<'p, F: DiskFile> Sink<'p, F> {
    /// Makes a file of this name, in place of what an attempt before has left.
    pub(crate) fn create<D: Disk<File = F>>(
        disk: &D,
        name: &'static str,
        pace: Pace<'p>,
    ) -> Result<Self, WriteError> {
        match disk.remove(name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(WriteError::disk("removing an unfinished", name)(error));
            }
            _ => {}
        }
        let file = disk.create(name, 0).map_err(WriteError::disk("making", name))?;
        let mut buffer = IoBuffer::with_blocks(WRITE / BLOCK);
        buffer.clear();
        Ok(Self { file, name, buffer, at: 0, pace })
    }

    /// Where the next byte goes.
    pub(crate) fn offset(&self) -> u64 {
        self.at + self.buffer.len() as u64
    }

    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> Result<(), WriteError> {
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at(bytes.len().min(WRITE - self.buffer.len()));
            self.buffer.extend_from_slice(head);
            bytes = rest;
            if self.buffer.len() == WRITE {
                self.write()?;
            }
        }
        Ok(())
    }

    /// Zeroes up to a whole block.
    pub(crate) fn pad(&mut self) -> Result<(), WriteError> {
        self.buffer.pad_to_block();
        if self.buffer.len() == WRITE { self.write() } else { Ok(()) }
    }

    /// Writes the rest, of whole blocks, and makes all of it durable.
    pub(crate) fn finish(mut self) -> Result<F, WriteError> {
        if !self.buffer.is_empty() {
            self.write()?;
        }
        self.file.sync().map_err(WriteError::disk("syncing", self.name))?;
        Ok(self.file)
    }

    fn write(&mut self) -> Result<(), WriteError> {
        let written = self.file.write_at(&self.buffer, self.at);
        written.map_err(WriteError::disk("writing", self.name))?;
        let count = self.buffer.len();
        self.at += count as u64;
        self.buffer.clear();
        if (self.pace)(count).is_break() { Err(WriteError::Stopped) } else { Ok(()) }
    }
}

// The buffer is filled to the byte before it is written.
const _: () = assert!(WRITE.is_multiple_of(BLOCK));
