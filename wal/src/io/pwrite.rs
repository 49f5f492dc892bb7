//! Writes on a thread, for systems that allow no asynchronous I/O.
//!
//! Owns: one thread that writes in the order of submission, one write at a time, and a bounded
//! queue to it. Neither submitting nor reaping waits for the device.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rustix::fs::fdatasync;
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

use crate::disk::{Completion, Write};
use crate::io::file::repeat;
use crate::io::{OpenFile, event};

/// Writes in flight on one thread.
#[derive(Debug)]
pub(super) struct Pwrite {
    /// Gone only while dropping: its end stops the thread.
    queue: Option<SyncSender<Write<OpenFile>>>,
    done: Arc<Done>,
    thread: Option<JoinHandle<()>>,
}

/// Completions that nobody has taken yet.
#[derive(Debug, Default)]
struct Done(Mutex<VecDeque<Completion>>);

impl Pwrite {
    /// Starts the thread, with a queue of `depth` writes.
    pub(super) fn new(depth: usize) -> io::Result<Self> {
        let (queue, writes) = sync_channel(depth);
        let done = Arc::new(Done::default());
        let theirs = Arc::clone(&done);
        let builder = std::thread::Builder::new().name("zzq-wal-write".to_owned());
        let thread = builder.spawn(move || write_all(&writes, &theirs))?;
        Ok(Self { queue: Some(queue), done, thread: Some(thread) })
    }

    /// Queues the write, or gives it back: `WouldBlock` when the queue is full.
    pub(super) fn submit(
        &self,
        write: Write<OpenFile>,
    ) -> Result<(), (Write<OpenFile>, io::Error)> {
        let Some(queue) = &self.queue else {
            return Err((write, io::ErrorKind::BrokenPipe.into()));
        };
        queue.try_send(write).map_err(|error| match error {
            TrySendError::Full(write) => (write, io::ErrorKind::WouldBlock.into()),
            TrySendError::Disconnected(write) => (write, io::ErrorKind::BrokenPipe.into()),
        })
    }

    /// Appends completions that have arrived.
    pub(super) fn reap(&self, completions: &mut Vec<Completion>) {
        completions.extend(self.done.lock().drain(..));
    }
}

impl Drop for Pwrite {
    /// Waits for everything that was queued.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok(), "the writing thread does not panic");
        }
    }
}

impl Done {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Completion>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_all(writes: &Receiver<Write<OpenFile>>, done: &Done) {
    let mut method = Method::Dsync;
    for Write { file, buffer, offset, sync, token, notify } in writes {
        let result = method.write(&file, &buffer, offset, sync);
        done.lock().push_back(Completion { token, buffer, result });
        if let Some(notify) = notify {
            event::signal(&notify);
        }
    }
}

/// How a write is made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    /// By a flag of the write itself.
    Dsync,
    /// By a call of its own, where the kernel or the file system does not know the flag.
    Fdatasync,
}

impl Method {
    /// Writes all of `bytes`; durable, if `sync`, when it returns.
    fn write(
        &mut self,
        file: &OpenFile,
        bytes: &[u8],
        offset: u64,
        sync: bool,
    ) -> io::Result<usize> {
        if sync && *self == Self::Dsync {
            match write_flagged(file, bytes, offset, ReadWriteFlags::DSYNC) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => *self = Self::Fdatasync,
                result => return Ok(result?),
            }
        }
        let written = write_flagged(file, bytes, offset, ReadWriteFlags::empty());
        let written = match written {
            Err(Errno::NOSYS) => write_plain(file, bytes, offset),
            result => result,
        }?;
        if sync {
            fdatasync(file)?;
        }
        Ok(written)
    }
}

fn write_flagged(
    file: &OpenFile,
    bytes: &[u8],
    offset: u64,
    flags: ReadWriteFlags,
) -> Result<usize, Errno> {
    repeat(bytes, offset, |rest, offset| pwritev2(file, &[IoSlice::new(rest)], offset, flags))
}

fn write_plain(file: &OpenFile, bytes: &[u8], offset: u64) -> Result<usize, Errno> {
    repeat(bytes, offset, |rest, offset| rustix::io::pwrite(file, rest, offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{BLOCK, DiskFile};
    use crate::io::IoBuffer;
    use crate::io::directory::Directory;

    // Completions and dropping are tested for all backends together, in `file_disk`.

    #[test]
    fn every_method_writes_the_same_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let files = Directory::open(directory.path()).unwrap();
        let file = files.create("a", 4 * BLOCK as u64).unwrap();
        let mut bytes = IoBuffer::with_blocks(1);
        let mut read = IoBuffer::with_blocks(1);
        let attempts = [
            (Method::Dsync, true),
            (Method::Dsync, false),
            (Method::Fdatasync, true),
            (Method::Fdatasync, false),
        ];
        for (at, (mut method, sync)) in (1_u8..).zip(attempts) {
            bytes.fill(at);
            let offset = u64::from(at - 1) * BLOCK as u64;
            assert_eq!(method.write(&file, &bytes, offset, sync).unwrap(), BLOCK);
            file.read_at(&mut read, offset).unwrap();
            assert_eq!(*read, *bytes);
        }
        bytes.fill(9);
        assert_eq!(write_plain(&file, &bytes, 0).unwrap(), BLOCK);
        file.read_at(&mut read, 0).unwrap();
        assert_eq!(*read, *bytes);
    }

    #[test]
    fn a_full_queue_gives_the_write_back() {
        let directory = tempfile::tempdir().unwrap();
        let files = Directory::open(directory.path()).unwrap();
        let file = files.create("a", BLOCK as u64).unwrap();
        let pwrite = Pwrite::new(3).unwrap();
        let event = event::create().unwrap();
        let write = |token| {
            let (buffer, notify) = (IoBuffer::with_blocks(1), Some(Arc::clone(&event)));
            Write { file: file.clone(), buffer, offset: 0, sync: true, token, notify }
        };
        // The thread cannot tell that it is done with its first write, if it has taken one.
        let held_up = pwrite.done.lock();
        let mut taken = 0;
        let (back, error) = loop {
            match pwrite.submit(write(taken)) {
                Ok(()) => taken += 1,
                Err(refused) => break refused,
            }
        };
        drop(held_up);
        assert_eq!((back.token, error.kind()), (taken, io::ErrorKind::WouldBlock));
        assert!((3..=4).contains(&taken), "three in the queue, one with the thread: {taken}");
        let mut completions = Vec::new();
        while (completions.len() as u64) < taken {
            assert!(event::wait(&event, std::time::Duration::from_secs(30)).unwrap());
            event::drain(&event);
            pwrite.reap(&mut completions);
        }
        assert!(completions.iter().map(|done| done.token).eq(0..taken), "in their order");
    }

    #[test]
    fn an_error_other_than_not_supported_does_not_change_the_method() {
        let directory = tempfile::tempdir().unwrap();
        let files = Directory::open(directory.path()).unwrap();
        let file = files.create("a", BLOCK as u64).unwrap();
        let bytes = IoBuffer::with_blocks(1);
        let mut method = Method::Dsync;
        let error = method.write(&file, &bytes, 1 << 62, true).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFBIG));
        assert_eq!(method, Method::Dsync);
    }
}
