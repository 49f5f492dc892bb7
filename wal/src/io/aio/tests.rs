//! AIO against real files: what the unsafe code promises to the kernel and to its callers.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::disk::{BLOCK, DiskFile};
use crate::io::directory::Directory;
use crate::io::samples::{self, LONG, write};
use crate::io::{IoBuffer, event};

struct Fixture {
    file: OpenFile,
    _directory: tempfile::TempDir,
}

fn fixture(blocks: u64) -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let file = Directory::open(directory.path()).unwrap();
    let file = file.create("segment", blocks * BLOCK as u64).unwrap();
    Fixture { file, _directory: directory }
}

fn reap(aio: &Aio, event: &OwnedFd, count: usize) -> Vec<Completion> {
    samples::reap(event, count, |completions| aio.reap(completions))
}

#[test]
fn a_write_signals_its_event_and_comes_back_with_its_buffer() {
    let Fixture { file, _directory } = fixture(4);
    let aio = Aio::new(4).unwrap();
    let event = event::create().unwrap();
    let write = write(&file, 2, 7, Some(&event));
    let address = write.buffer.as_ptr();
    aio.submit(write).unwrap();
    let completions = reap(&aio, &event, 1);
    assert_eq!(completions.len(), 1);
    assert_eq!(completions[0].token, 2);
    assert_eq!(*completions[0].result.as_ref().unwrap(), BLOCK);
    assert_eq!(completions[0].buffer.as_ptr(), address);
    let mut read = IoBuffer::with_blocks(4);
    assert_eq!(file.read_at(&mut read, 0).unwrap(), 4 * BLOCK);
    assert!(read[2 * BLOCK..3 * BLOCK].iter().all(|byte| *byte == 7));
    assert!(read[..2 * BLOCK].iter().chain(&read[3 * BLOCK..]).all(|byte| *byte == 0));
}

#[test]
fn a_reap_of_nothing_returns_nothing() {
    let aio = Aio::new(4).unwrap();
    let mut completions = Vec::new();
    aio.reap(&mut completions);
    assert!(completions.is_empty());
    assert!(aio.context.is_empty());
}

/// The look needs no system call, takes nothing, and any thread may have it.
#[test]
fn a_look_tells_of_a_completion_until_it_is_taken() {
    let Fixture { file, _directory } = fixture(4);
    let aio = Aio::new(4).unwrap();
    let event = event::create().unwrap();
    assert_eq!(aio.has_completed(), Some(false));
    aio.submit(write(&file, 1, 7, Some(&event))).unwrap();
    assert!(event::wait(&event, LONG).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(aio.has_completed(), Some(true)));
    });
    assert_eq!(reap(&aio, &event, 1).len(), 1);
    assert_eq!(aio.has_completed(), Some(false));
}

#[test]
fn a_full_context_gives_the_write_back_untouched() {
    let Fixture { file, _directory } = fixture(8);
    let aio = Aio::new(2).unwrap();
    let event = event::create().unwrap();
    // Completions stay in `flight` until they are reaped, however fast the device is.
    aio.submit(write(&file, 0, 1, Some(&event))).unwrap();
    aio.submit(write(&file, 1, 2, Some(&event))).unwrap();
    let (back, error) = aio.submit(write(&file, 2, 3, Some(&event))).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    assert_eq!((back.token, back.buffer[0]), (2, 3));
    assert_eq!(reap(&aio, &event, 2).len(), 2);
    aio.submit(back).unwrap();
    assert_eq!(reap(&aio, &event, 1)[0].token, 2);
}

#[test]
fn a_refused_submission_gives_the_write_back() {
    let Fixture { file, _directory } = fixture(1);
    let aio = Aio::new(2).unwrap();
    let mut refused = write(&file, 0, 1, None);
    refused.offset = u64::MAX - 4095;
    let (back, error) = aio.submit(refused).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    assert_eq!(back.buffer[0], 1);
    assert!(aio.flight().is_empty());
}

#[test]
fn a_failed_write_completes_with_its_error() {
    let Fixture { file, _directory } = fixture(1);
    let aio = Aio::new(2).unwrap();
    let event = event::create().unwrap();
    // Beyond the largest file that any file system here can have.
    let mut beyond = write(&file, 0, 1, Some(&event));
    beyond.offset = 1 << 62;
    aio.submit(beyond).unwrap();
    let completions = reap(&aio, &event, 1);
    let error = completions[0].result.as_ref().unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EFBIG));
}

#[test]
fn dropping_waits_for_writes_in_flight() {
    let Fixture { file, _directory } = fixture(32);
    let event = event::create().unwrap();
    let aio = Aio::new(32).unwrap();
    for at in 0..32 {
        aio.submit(write(&file, at, 9, Some(&event))).unwrap();
    }
    drop(aio);
    assert_eq!(event::drain(&event), 32);
    let mut read = IoBuffer::with_blocks(32);
    file.read_at(&mut read, 0).unwrap();
    assert!(read.iter().all(|byte| *byte == 9));
}

#[test]
fn threads_that_submit_and_reap_together_get_each_completion_once() {
    const EACH: u64 = 200;
    let Fixture { file, _directory } = fixture(4 * EACH);
    let aio = Aio::new(16).unwrap();
    let reaped = AtomicUsize::new(0);
    let tokens = Mutex::new(HashSet::new());
    let take = |completions: &mut Vec<Completion>| {
        aio.reap(completions);
        for completion in completions.drain(..) {
            assert_eq!(*completion.result.as_ref().unwrap(), BLOCK);
            let fill = u8::try_from(completion.token % 251).unwrap();
            assert!(completion.buffer.iter().all(|byte| *byte == fill));
            assert!(tokens.lock().unwrap().insert(completion.token));
            reaped.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (take, aio, file, reaped) = (&take, &aio, &file, &reaped);
            scope.spawn(move || {
                let mut completions = Vec::new();
                for at in thread * EACH..(thread + 1) * EACH {
                    let mut next = write(file, at, u8::try_from(at % 251).unwrap(), None);
                    next.sync = false;
                    while let Err((back, error)) = aio.submit(next) {
                        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                        next = back;
                        take(&mut completions);
                    }
                }
                while reaped.load(Ordering::Relaxed) < usize::try_from(4 * EACH).unwrap() {
                    take(&mut completions);
                }
            });
        }
    });
    assert!(aio.flight().is_empty());
    assert_eq!(tokens.lock().unwrap().len(), usize::try_from(4 * EACH).unwrap());
}

#[test]
fn more_completions_than_one_call_takes_are_all_taken() {
    let Fixture { file, _directory } = fixture(100);
    let aio = Aio::new(100).unwrap();
    let event = event::create().unwrap();
    for at in 0..100 {
        let mut next = write(&file, at, 5, Some(&event));
        next.sync = false;
        aio.submit(next).unwrap();
    }
    assert_eq!(reap(&aio, &event, 100).len(), 100);
}
