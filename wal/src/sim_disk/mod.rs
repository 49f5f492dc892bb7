//! A disk in memory, for tests and for the simulator.
//!
//! Owns: the model of a directory on a device. Does not know: what the bytes mean.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Completion, Disk, DiskFile, Write};
use crate::io::IoBuffer;

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct SimDisk {
    inner: Arc<Mutex<Inner>>,
}

/// An open file of a [`SimDisk`].
#[derive(Clone, Debug)]
pub struct SimFile {
    inner: Arc<Mutex<Inner>>,
    inode: usize,
}

#[derive(Debug, Default)]
struct Inner {
    names: BTreeMap<String, usize>,
    inodes: Vec<Vec<u8>>,
    held: bool,
    withheld: VecDeque<Write<SimFile>>,
    done: Vec<Completion>,
}

impl SimDisk {
    /// An empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Withholds completions from now on.
    pub fn hold(&self) {
        lock(&self.inner).held = true;
    }

    /// Completes all withheld writes, and those to come at once.
    pub fn release_all(&self) {
        let mut inner = lock(&self.inner);
        inner.held = false;
        while let Some(write) = inner.withheld.pop_front() {
            inner.complete(write);
        }
    }
}

impl Inner {
    fn inode(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn write(&mut self, inode: usize, bytes: &[u8], offset: u64) -> io::Result<()> {
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let file = &mut self.inodes[inode];
        file.resize(file.len().max(start + bytes.len()), 0);
        file[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn complete(&mut self, write: Write<SimFile>) {
        let result = self.write(write.file.inode, &write.buffer, write.offset);
        let result = result.map(|()| write.buffer.len());
        self.done.push(Completion { token: write.token, buffer: write.buffer, result });
        if let Some(notify) = write.notify {
            let signalled = rustix::io::write(&*notify, &1_u64.to_ne_bytes());
            assert!(signalled.is_ok(), "an eventfd takes a signal");
        }
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Disk for SimDisk {
    type File = SimFile;

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let inner = lock(&self.inner);
        let sized = |(name, inode): (&String, &usize)| {
            (name.clone(), u64::try_from(inner.inodes[*inode].len()).unwrap_or(u64::MAX))
        };
        Ok(inner.names.iter().map(sized).collect())
    }

    fn create(&self, name: &str, len: u64) -> io::Result<SimFile> {
        let mut inner = lock(&self.inner);
        if inner.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let len = usize::try_from(len).map_err(io::Error::other)?;
        let inode = inner.inodes.len();
        inner.inodes.push(vec![0; len]);
        inner.names.insert(name.to_owned(), inode);
        Ok(SimFile { inner: Arc::clone(&self.inner), inode })
    }

    fn open(&self, name: &str) -> io::Result<SimFile> {
        let inode = lock(&self.inner).inode(name)?;
        Ok(SimFile { inner: Arc::clone(&self.inner), inode })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = lock(&self.inner);
        let inode = inner.inode(from)?;
        inner.names.remove(from);
        inner.names.insert(to.to_owned(), inode);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inner = lock(&self.inner);
        inner.inode(name)?;
        inner.names.remove(name);
        Ok(())
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(1 << 40)
    }

    fn submit(&self, write: Write<SimFile>) -> Result<(), (Write<SimFile>, io::Error)> {
        let mut inner = lock(&self.inner);
        if inner.held {
            inner.withheld.push_back(write);
        } else {
            inner.complete(write);
        }
        Ok(())
    }

    fn reap(&self, completions: &mut Vec<Completion>) {
        completions.append(&mut lock(&self.inner).done);
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buffer: &mut IoBuffer, offset: u64) -> io::Result<usize> {
        let inner = lock(&self.inner);
        let file = &inner.inodes[self.inode];
        let start = usize::try_from(offset).map_err(io::Error::other)?.min(file.len());
        let count = buffer.len().min(file.len() - start);
        buffer[..count].copy_from_slice(&file[start..start + count]);
        Ok(count)
    }

    fn write_at(&self, buffer: &IoBuffer, offset: u64) -> io::Result<()> {
        lock(&self.inner).write(self.inode, buffer, offset)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        u64::try_from(lock(&self.inner).inodes[self.inode].len()).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_write_completes_when_released() {
        let disk = SimDisk::new();
        let file = disk.create("a", 4096).unwrap();
        disk.hold();
        let mut buffer = IoBuffer::with_blocks(1);
        buffer.fill(7);
        let write =
            Write { file: file.clone(), buffer, offset: 0, sync: true, token: 9, notify: None };
        disk.submit(write).unwrap();
        let mut completions = Vec::new();
        disk.reap(&mut completions);
        assert!(completions.is_empty());
        disk.release_all();
        disk.reap(&mut completions);
        assert_eq!(completions[0].token, 9);
        let mut back = IoBuffer::with_blocks(1);
        assert_eq!(file.read_at(&mut back, 0).unwrap(), 4096);
        assert!(back.iter().all(|byte| *byte == 7));
    }
}
