//! A disk that notes each read, so that a test can say what a look at the log costs.

use std::io;
use std::sync::{Arc, Mutex};

use zzq_wal::disk::{Completion, Disk, DiskFile, Write};
use zzq_wal::io::IoBuffer;
use zzq_wal::sim_disk::{SimDisk, SimFile};

/// One read as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub file: String,
    pub offset: u64,
    pub len: usize,
}

#[derive(Clone, Debug)]
pub struct Counting {
    pub disk: SimDisk,
    reads: Arc<Mutex<Vec<Read>>>,
}

#[derive(Clone, Debug)]
pub struct CountingFile {
    name: String,
    file: SimFile,
    reads: Arc<Mutex<Vec<Read>>>,
}

impl Counting {
    pub fn new(disk: SimDisk) -> Self {
        Self { disk, reads: Arc::default() }
    }

    /// What was read since the last call.
    pub fn take(&self) -> Vec<Read> {
        std::mem::take(&mut self.reads.lock().unwrap())
    }

    fn file(&self, name: &str, file: SimFile) -> CountingFile {
        CountingFile { name: name.to_owned(), file, reads: Arc::clone(&self.reads) }
    }
}

impl Disk for Counting {
    type File = CountingFile;

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.disk.list()
    }

    fn create(&self, name: &str, len: u64) -> io::Result<CountingFile> {
        Ok(self.file(name, self.disk.create(name, len)?))
    }

    fn open(&self, name: &str) -> io::Result<CountingFile> {
        Ok(self.file(name, self.disk.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }

    fn submit(&self, write: Write<CountingFile>) -> Result<(), (Write<CountingFile>, io::Error)> {
        let Write { file, buffer, offset, sync, token, notify } = write;
        let inner = Write { file: file.file.clone(), buffer, offset, sync, token, notify };
        self.disk.submit(inner).map_err(|(write, error)| {
            let Write { buffer, offset, sync, token, notify, .. } = write;
            (Write { file, buffer, offset, sync, token, notify }, error)
        })
    }

    fn reap(&self, completions: &mut Vec<Completion>) {
        self.disk.reap(completions);
    }
}

impl DiskFile for CountingFile {
    fn read_at(&self, buffer: &mut IoBuffer, offset: u64) -> io::Result<usize> {
        let read = Read { file: self.name.clone(), offset, len: buffer.len() };
        self.reads.lock().unwrap().push(read);
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, buffer: &IoBuffer, offset: u64) -> io::Result<()> {
        self.file.write_at(buffer, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn give_back(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.give_back(offset, len)
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}
