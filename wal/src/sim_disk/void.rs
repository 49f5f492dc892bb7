//! A disk that takes everything at once and keeps nothing: for counting what the log itself does,
//! where a disk that remembers would be most of it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::disk::{Completion, Disk, DiskFile, Write, assert_blocks};
use crate::io::IoBuffer;

/// See the file. Clones are the same disk. What was written reads as zeroes: a log on it can be
/// neither opened again nor read.
#[derive(Clone, Debug, Default)]
pub struct VoidDisk {
    done: Arc<Mutex<Vec<Completion>>>,
}

/// An open file of a [`VoidDisk`]: its length is all of it.
#[derive(Clone, Debug)]
pub struct VoidFile(u64);

impl Disk for VoidDisk {
    type File = VoidFile;

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        Ok(Vec::new())
    }

    fn create(&self, _: &str, len: u64) -> io::Result<VoidFile> {
        Ok(VoidFile(len))
    }

    fn open(&self, _: &str) -> io::Result<VoidFile> {
        Err(io::ErrorKind::NotFound.into())
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

    fn failed_syncs(&self) -> u64 {
        0
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(1 << 40)
    }

    fn submit(&self, write: Write<VoidFile>) -> Result<(), (Write<VoidFile>, io::Error)> {
        let Write { buffer, token, offset, notify, .. } = write;
        assert_blocks(buffer.len(), offset);
        let result = Ok(buffer.len());
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.push(Completion { token, buffer, result });
        if let Some(event) = notify {
            // A full counter is readable as it is.
            let _ = rustix::io::write(&*event, &1_u64.to_ne_bytes());
        }
        Ok(())
    }

    fn reap(&self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.done.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl DiskFile for VoidFile {
    fn read_at(&self, buffer: &mut IoBuffer, offset: u64) -> io::Result<usize> {
        assert_blocks(buffer.len(), offset);
        buffer.fill(0);
        let left = usize::try_from(self.0.saturating_sub(offset)).unwrap_or(usize::MAX);
        Ok(left.min(buffer.len()))
    }

    fn write_at(&self, buffer: &IoBuffer, offset: u64) -> io::Result<()> {
        assert_blocks(buffer.len(), offset);
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
