//! The directory that is being made.
//!
//! Owns: the order in which it becomes durable. From the first moment on it has a `meta` that is
//! none, so that whatever a crash leaves of it, no broker takes it for a log or for an empty
//! directory; the true one comes last.
//! Does not know: where the bytes come from.

use std::io;

use zzq_wal::disk::{BLOCK, Disk, DiskFile};
use zzq_wal::format::meta::Facts;
use zzq_wal::io::IoBuffer;
use zzq_wal::{META_NAME, write_facts};

use super::error::BackupError;

/// Bytes of one write.
const WRITE: usize = 1024 * 1024;

pub(super) struct Draft<'t, T: Disk> {
    disk: &'t T,
    made: Vec<String>,
    bytes: u64,
}

/// A file of it.
pub(super) struct Sheet<F> {
    file: F,
    name: String,
    buffer: IoBuffer,
    at: u64,
}

impl<'t, T: Disk> Draft<'t, T> {
    /// Begins it on an empty disk.
    pub(super) fn begin(disk: &'t T) -> Result<Self, BackupError> {
        disk.create(META_NAME, 0).map_err(target(META_NAME))?;
        let mut draft = Self { disk, made: Vec::new(), bytes: 0 };
        if let Err(error) = disk.sync_dir() {
            let _ = draft.give_up();
            return Err(target(META_NAME)(error));
        }
        Ok(draft)
    }

    /// A new file.
    pub(super) fn sheet(&mut self, name: &str) -> Result<Sheet<T::File>, BackupError> {
        self.made.push(name.to_owned());
        let file = self.disk.create(name, 0).map_err(target(name))?;
        Ok(Sheet { file, name: name.to_owned(), buffer: IoBuffer::with_capacity(WRITE), at: 0 })
    }

    /// Makes a file durable.
    pub(super) fn done(&mut self, mut sheet: Sheet<T::File>) -> Result<(), BackupError> {
        sheet.flush()?;
        sheet.file.sync().map_err(target(&sheet.name))?;
        self.bytes += sheet.at;
        Ok(())
    }

    /// Bytes of all files.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Removes all that was made, to begin again.
    pub(super) fn forget(&mut self) -> Result<(), BackupError> {
        self.bytes = 0;
        while let Some(name) = self.made.pop() {
            match self.disk.remove(&name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(target(&name)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes what tells that it was begun, too.
    pub(super) fn give_up(&mut self) -> Result<(), BackupError> {
        self.forget()?;
        self.disk.remove(META_NAME).map_err(target(META_NAME))
    }

    /// All files are there: it becomes a log.
    pub(super) fn finish(&mut self, facts: Facts) -> Result<(), BackupError> {
        let finished = self.disk.sync_dir().and_then(|()| write_facts(self.disk, facts));
        finished.map_err(target(META_NAME))
    }
}

impl<F: DiskFile> Sheet<F> {
    /// Adds bytes.
    pub(super) fn append(&mut self, mut bytes: &[u8]) -> Result<(), BackupError> {
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at(bytes.len().min(WRITE - self.buffer.len()));
            self.buffer.extend_from_slice(head);
            bytes = rest;
            if self.buffer.len() == WRITE {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Adds zeroes up to an offset: written ones, or a hole.
    pub(super) fn zeroes(&mut self, to: u64, written: bool) -> Result<(), BackupError> {
        if !written {
            self.flush()?;
            self.at = self.at.max(to);
            return Ok(());
        }
        while self.end() < to {
            let left = usize::try_from(to - self.end()).unwrap_or(usize::MAX);
            self.append(&[0; BLOCK][..left.min(BLOCK)])?;
        }
        Ok(())
    }

    fn end(&self) -> u64 {
        self.at + self.buffer.len() as u64
    }

    fn flush(&mut self) -> Result<(), BackupError> {
        self.buffer.pad_to_block();
        if !self.buffer.is_empty() {
            self.file.write_at(&self.buffer, self.at).map_err(target(&self.name))?;
            self.at += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }
}

fn target(what: &str) -> impl FnOnce(io::Error) -> BackupError {
    let what = what.to_owned();
    move |error| BackupError::Target { what, error }
}

// The buffer is filled to the byte before it is written.
const _: () = assert!(WRITE.is_multiple_of(BLOCK));
