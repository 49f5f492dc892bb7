//! A disk on which nothing is ever synced, though it says so: what the rig must find out.

use std::io;

use zzq_wal::disk::{Completion, Disk, DiskFile, Write};
use zzq_wal::io::IoBuffer;

/// Passes everything on but syncs.
#[derive(Clone, Debug)]
pub(super) struct Careless<T>(pub(super) T);

impl<D: Disk> Disk for Careless<D> {
    type File = Careless<D::File>;

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.0.list()
    }

    fn create(&self, name: &str, len: u64) -> io::Result<Self::File> {
        self.0.create(name, len).map(Careless)
    }

    fn open(&self, name: &str) -> io::Result<Self::File> {
        self.0.open(name).map(Careless)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(())
    }

    fn failed_syncs(&self) -> u64 {
        0
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.0.free_bytes()
    }

    fn submit(&self, write: Write<Self::File>) -> Result<(), (Write<Self::File>, io::Error)> {
        let Write { file, buffer, offset, sync, token, notify } = write;
        let unsynced = Write { file: file.0, buffer, offset, sync: false, token, notify };
        self.0.submit(unsynced).map_err(|(write, error)| {
            let Write { file, buffer, offset, token, notify, .. } = write;
            (Write { file: Careless(file), buffer, offset, sync, token, notify }, error)
        })
    }

    fn reap(&self, completions: &mut Vec<Completion>) {
        self.0.reap(completions);
    }
}

impl<F: DiskFile> DiskFile for Careless<F> {
    fn read_at(&self, buffer: &mut IoBuffer, offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, buffer: &IoBuffer, offset: u64) -> io::Result<()> {
        self.0.write_at(buffer, offset)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn give_back(&self, offset: u64, len: u64) -> io::Result<()> {
        self.0.give_back(offset, len)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}
