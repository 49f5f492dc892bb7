//! A simulated disk that tells a test what the log asks of it, before it does so.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use zzq_wal::disk::{Ahead, Completion, Disk, DiskFile, Write};
use zzq_wal::io::IoBuffer;
use zzq_wal::sim_disk::{SimDisk, SimFile};

/// What a test wants to know of; it may do anything then.
pub trait Hooks: Send + Sync + 'static {
    fn before_create(&self) {}
    fn before_submit(&self) {}
    fn before_reap(&self) {}
    fn before_read(&self, _: Read) {}
}

/// One read as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub file: String,
    pub offset: u64,
    pub len: usize,
}

/// Notes each read, so that a test can say what a look at the log costs.
#[derive(Debug, Default)]
pub struct Reads(Mutex<Vec<Read>>);

impl Hooks for Reads {
    fn before_read(&self, read: Read) {
        self.0.lock().unwrap().push(read);
    }
}

pub type Counting = Hooked<Reads>;

impl Counting {
    /// What was read since the last call.
    pub fn take(&self) -> Vec<Read> {
        std::mem::take(&mut self.hooks.0.lock().unwrap())
    }
}

pub struct Hooked<H> {
    pub disk: SimDisk,
    pub hooks: Arc<H>,
}

impl<H: Default> Hooked<H> {
    pub fn new(disk: SimDisk) -> Self {
        Self { disk, hooks: Arc::default() }
    }
}

impl<H> Clone for Hooked<H> {
    fn clone(&self) -> Self {
        Self { disk: self.disk.clone(), hooks: Arc::clone(&self.hooks) }
    }
}

pub struct HookedFile<H> {
    name: String,
    file: SimFile,
    hooks: Arc<H>,
}

impl<H> Clone for HookedFile<H> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), file: self.file.clone(), hooks: Arc::clone(&self.hooks) }
    }
}

impl<H> fmt::Debug for HookedFile<H> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(formatter)
    }
}

impl<H: Hooks> Hooked<H> {
    fn file(&self, name: &str, file: SimFile) -> HookedFile<H> {
        HookedFile { name: name.to_owned(), file, hooks: Arc::clone(&self.hooks) }
    }
}

impl<H: Hooks> Disk for Hooked<H> {
    type File = HookedFile<H>;

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.disk.list()
    }

    fn create(&self, name: &str, len: u64) -> io::Result<Self::File> {
        self.hooks.before_create();
        Ok(self.file(name, self.disk.create(name, len)?))
    }

    fn create_ahead(
        &self,
        name: &str,
        len: u64,
        pace: &dyn Fn(u64) -> Ahead,
    ) -> io::Result<(Self::File, u64)> {
        self.hooks.before_create();
        let (file, zeroed) = self.disk.create_ahead(name, len, pace)?;
        Ok((self.file(name, file), zeroed))
    }

    fn open(&self, name: &str) -> io::Result<Self::File> {
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

    fn failed_syncs(&self) -> u64 {
        self.disk.failed_syncs()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }

    fn submit(&self, write: Write<Self::File>) -> Result<(), (Write<Self::File>, io::Error)> {
        self.hooks.before_submit();
        let Write { file, buffer, offset, sync, token, notify } = write;
        let inner = Write { file: file.file.clone(), buffer, offset, sync, token, notify };
        self.disk.submit(inner).map_err(|(write, error)| {
            let Write { buffer, offset, sync, token, notify, .. } = write;
            (Write { file, buffer, offset, sync, token, notify }, error)
        })
    }

    fn reap(&self, completions: &mut Vec<Completion>) {
        self.hooks.before_reap();
        self.disk.reap(completions);
    }
}

impl<H: Hooks> DiskFile for HookedFile<H> {
    fn read_at(&self, buffer: &mut IoBuffer, offset: u64) -> io::Result<usize> {
        self.hooks.before_read(Read { file: self.name.clone(), offset, len: buffer.len() });
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
