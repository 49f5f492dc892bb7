//! `io_uring` against real files: what the unsafe code promises to the kernel and to its callers.
//! What it shares with the other backends is tested with them, in `file_disk`.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::*;
use crate::disk::{BLOCK, DiskFile};
use crate::io::confined::{Refused, refuse};
use crate::io::directory::Directory;
use crate::io::samples::{self, LONG, write};

struct Fixture {
    uring: Uring,
    directory: Directory,
    file: OpenFile,
    folder: tempfile::TempDir,
}

/// `None`, with a line that says why, where there is no `io_uring`.
fn fixture(issuers: Issuers, depth: usize, blocks: u64) -> Option<Fixture> {
    let folder = tempfile::tempdir().unwrap();
    let directory = Directory::open(folder.path()).unwrap();
    let file = directory.create("segment", blocks * BLOCK as u64).unwrap();
    match Uring::new(depth, issuers) {
        Ok(uring) => Some(Fixture { uring, directory, file, folder }),
        Err(error) => {
            eprintln!("skipped: no io_uring ({error})");
            None
        }
    }
}

fn reap(uring: &Uring, event: &OwnedFd, count: usize) -> Vec<Completion> {
    samples::reap(event, count, |completions| uring.reap(completions))
}

fn read(file: &OpenFile, at: u64) -> u8 {
    let mut buffer = IoBuffer::with_blocks(1);
    file.read_at(&mut buffer, at * BLOCK as u64).unwrap();
    assert!(buffer.iter().all(|byte| *byte == buffer[0]));
    buffer[0]
}

#[test]
fn memory_is_written_whether_it_is_registered_or_not() {
    for issuers in [Issuers::Any, Issuers::One] {
        let Some(Fixture { uring, file, .. }) = fixture(issuers, 8, 6 * 256) else { return };
        let pool = uring.pool.clone().expect("registered memory");
        let event = event::create().unwrap();
        let mut lent = 0;
        for token in 0..6 {
            let mut buffer = uring.buffer(BLOCK);
            buffer.resize(256 * BLOCK);
            buffer.fill(u8::try_from(token).unwrap() + 1);
            lent += usize::from(buffer.slot_of(&pool).is_some());
            let (file, notify) = (file.clone(), Some(Arc::clone(&event)));
            let offset = token * 256 * BLOCK as u64;
            uring.submit(Write { file, buffer, offset, sync: true, token, notify }).unwrap();
        }
        assert_eq!(lent, pool.starts().len());
        for done in reap(&uring, &event, 6) {
            assert_eq!(done.result.unwrap(), done.buffer.len());
            assert_eq!(u64::from(done.buffer[0]), done.token + 1);
        }
        for at in 0..6 * 256 {
            assert_eq!(u64::from(read(&file, at)), at / 256 + 1);
        }
    }
}

#[test]
fn files_come_and_go_while_writes_are_in_flight() {
    for issuers in [Issuers::Any, Issuers::One] {
        let Some(fixture) = fixture(issuers, 64, 1) else { return };
        let Fixture { uring, directory, .. } = &fixture;
        let event = event::create().unwrap();
        let files: Vec<_> = (0..5)
            .map(|number| directory.create(&format!("{number}"), 8 * BLOCK as u64).unwrap())
            .collect();
        let mut fill = 0;
        for at in 0..8 {
            for file in &files {
                fill += 1;
                uring.submit(write(file, at, fill, Some(&event))).unwrap();
            }
        }
        assert!(reap(uring, &event, 40).iter().all(|done| matches!(done.result, Ok(BLOCK))));
        let mut expected = 0;
        for at in 0..8 {
            for file in &files {
                expected += 1;
                assert_eq!(read(file, at), expected);
            }
        }
    }
}

/// What was removed gives its space back once another segment is written.
#[test]
fn only_the_file_that_is_written_is_kept_open() {
    for issuers in [Issuers::Any, Issuers::One] {
        let Some(fixture) = fixture(issuers, 8, 1) else { return };
        let Fixture { uring, directory, .. } = &fixture;
        let event = event::create().unwrap();
        for name in ["first-file", "second-file"] {
            let file = directory.create(name, BLOCK as u64).unwrap();
            uring.submit(write(&file, 0, 1, Some(&event))).unwrap();
            assert_eq!(reap(uring, &event, 1).len(), 1);
            directory.remove(name).unwrap();
        }
        let kept = uring.inner().ring.described();
        assert!(kept.contains("second-file") && !kept.contains("first-file"), "{kept}");
    }
}

#[test]
fn each_leader_is_called_for_its_own_writes() {
    let Some(Fixture { uring, file, .. }) = fixture(Issuers::Any, 8, 8) else { return };
    let mine = event::create().unwrap();
    let theirs = event::create().unwrap();
    uring.submit(write(&file, 0, 1, Some(&mine))).unwrap();
    uring.submit(write(&file, 1, 2, Some(&theirs))).unwrap();
    uring.submit(write(&file, 2, 3, None)).unwrap();
    assert!(event::wait(&mine, LONG).unwrap() && event::wait(&theirs, LONG).unwrap());
    // Once more each where a write came back before its submission was looked at.
    let rung = [event::drain(&mine), event::drain(&theirs)];
    assert!(rung.iter().all(|count| (1..=2).contains(count)), "{rung:?}");
    let mut completions = Vec::new();
    while completions.len() < 3 {
        uring.reap(&mut completions);
        thread::yield_now();
    }
}

#[test]
fn a_write_that_fails_rings_all_the_same() {
    for issuers in [Issuers::Any, Issuers::One] {
        let Some(Fixture { uring, file, folder, .. }) = fixture(issuers, 8, 1) else { return };
        let readable = std::fs::File::open(folder.path().join("segment")).unwrap();
        let event = event::create().unwrap();
        let mut wrong = write(&OpenFile::from(OwnedFd::from(readable)), 0, 1, Some(&event));
        wrong.token = 1;
        let mut negative = write(&file, 0, 1, Some(&event));
        (negative.token, negative.offset) = (2, u64::MAX - 4095);
        let mut beyond = write(&file, 0, 1, Some(&event));
        (beyond.token, beyond.offset) = (3, 1 << 62);
        for (failing, error) in
            [(wrong, libc::EBADF), (negative, libc::EINVAL), (beyond, libc::EFBIG)]
        {
            let token = failing.token;
            uring.submit(failing).unwrap();
            let done = reap(&uring, &event, 1).remove(0);
            assert_eq!(done.token, token);
            assert_eq!(done.result.unwrap_err().raw_os_error(), Some(error), "{issuers:?}");
        }
    }
}

/// The kernel does not ring for a thread that has ended, as [`Issuers::Any`] says.
#[test]
fn writes_outlive_the_thread_that_led_them() {
    let Some(Fixture { uring, file, .. }) = fixture(Issuers::Any, 32, 32) else { return };
    let event = event::create().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for at in 0..32 {
                uring.submit(write(&file, at, 6, Some(&event))).unwrap();
            }
        });
    });
    let (mut completions, end) = (Vec::new(), Instant::now() + LONG);
    while completions.len() < 32 {
        assert!(Instant::now() < end, "{} completions", completions.len());
        uring.reap(&mut completions);
        thread::yield_now();
    }
    assert!((0..32).all(|at| read(&file, at) == 6));
}

#[test]
fn a_ring_of_one_thread_is_handed_on_when_nothing_is_in_flight() {
    let Some(Fixture { uring, file, .. }) = fixture(Issuers::One, 8, 8) else { return };
    if uring.inner().ring.kind() == Kind::Shared {
        return eprintln!("skipped: {}", uring.describe());
    }
    let (mine, theirs) = (event::create().unwrap(), event::create().unwrap());
    uring.submit(write(&file, 0, 1, Some(&mine))).unwrap();
    let (back, error) = uring.submit(write(&file, 1, 2, Some(&theirs))).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "one eventfd at a time");
    let mut completions = Vec::new();
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            uring.reap(&mut completions);
            uring.submit(write(&file, 1, 2, Some(&mine))).unwrap_err().1.kind()
        });
        assert_eq!(other.join().unwrap(), io::ErrorKind::WouldBlock, "one thread at a time");
    });
    assert!(completions.is_empty(), "they are the first thread's to take");
    assert_eq!(reap(&uring, &mine, 1)[0].token, 0);
    uring.submit(back).unwrap();
    assert_eq!(reap(&uring, &theirs, 1)[0].token, 1);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = uring.buffer(BLOCK);
            buffer.resize(BLOCK);
            let write = Write { buffer, ..write(&file, 2, 0, Some(&mine)) };
            uring.submit(write).unwrap();
            assert_eq!(reap(&uring, &mine, 1)[0].token, 2);
        });
    });
    assert_eq!(uring.inner().ring.kind(), Kind::Shared, "it goes on for whoever comes");
    uring.submit(write(&file, 3, 1, Some(&mine))).unwrap();
    assert_eq!(reap(&uring, &mine, 1)[0].token, 3);
}

#[test]
fn memory_that_nobody_can_wait_for_is_never_freed() {
    let Some(Fixture { uring, file, .. }) = fixture(Issuers::One, 8, 8) else { return };
    if uring.inner().ring.kind() == Kind::Shared {
        return eprintln!("skipped: {}", uring.describe());
    }
    let mut buffer = uring.buffer(BLOCK);
    buffer.resize(BLOCK);
    let pool = Arc::downgrade(&uring.pool.clone().expect("registered memory"));
    let write = Write { buffer, ..write(&file, 0, 0, None) };
    thread::scope(|scope| {
        scope.spawn(|| uring.submit(write).unwrap());
    });
    drop(uring);
    assert!(pool.upgrade().is_some(), "what is in flight keeps its memory");
}

#[test]
fn dropping_waits_for_writes_in_flight() {
    for issuers in [Issuers::Any, Issuers::One] {
        let Some(Fixture { uring, file, .. }) = fixture(issuers, 32, 32) else { return };
        let event = event::create().unwrap();
        for at in 0..32 {
            uring.submit(write(&file, at, 9, Some(&event))).unwrap();
        }
        drop(uring);
        assert!((0..32).all(|at| read(&file, at) == 9));
        assert_eq!(Arc::strong_count(&event), 1, "no signal is still to come");
    }
}

#[test]
fn a_ring_that_refuses_gives_the_write_back_and_makes_room_for_another() {
    let Some(Fixture { uring, file, .. }) = fixture(Issuers::Any, 8, 8) else { return };
    let event = event::create().unwrap();
    uring.submit(write(&file, 0, 1, Some(&event))).unwrap();
    let refused = thread::scope(|scope| {
        let confined = scope.spawn(|| {
            let rule = Refused::always(libc::SYS_io_uring_enter, libc::EPERM);
            if let Err(error) = refuse(&[rule]) {
                eprintln!("skipped: no filter for system calls ({error})");
                return false;
            }
            let (back, error) = uring.submit(write(&file, 1, 2, Some(&event))).unwrap_err();
            assert_eq!((back.token, back.buffer[0]), (1, 2));
            assert_eq!(error.raw_os_error(), Some(libc::EPERM));
            true
        });
        confined.join().unwrap()
    });
    if !refused {
        return;
    }
    // The ring may still have the entry; nothing must send it, so another one goes on.
    let mut next = write(&file, 2, 3, Some(&event));
    let mut completions = Vec::new();
    while let Err((back, error)) = uring.submit(next) {
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "what is in flight comes first");
        next = back;
        uring.reap(&mut completions);
        thread::yield_now();
    }
    while completions.len() < 2 {
        completions.append(&mut reap(&uring, &event, 1));
    }
    assert!(completions.iter().map(|done| done.token).eq([0, 2]));
    drop(uring);
    assert_eq!((read(&file, 0), read(&file, 1), read(&file, 2)), (1, 0, 3));
}

/// No test can have the kernel run out of memory between the two.
#[test]
fn a_write_that_went_without_its_bell_is_awaited_and_called_for() {
    let Some(Fixture { uring, file, .. }) = fixture(Issuers::Any, 8, 8) else { return };
    let event = event::create().unwrap();
    uring.submit(write(&file, 0, 1, None)).unwrap();
    uring.inner().flight[0].bell = Some(Arc::clone(&event));
    uring.inner().await_without_bell(0);
    assert_eq!(reap(&uring, &event, 1)[0].token, 0);
    uring.submit(write(&file, 1, 2, Some(&event))).unwrap();
    assert_eq!(reap(&uring, &event, 1)[0].token, 1);
    assert_eq!((read(&file, 0), read(&file, 1)), (1, 2));
}

#[test]
fn threads_that_submit_and_reap_together_get_each_completion_once() {
    const EACH: u64 = 200;
    let Some(Fixture { uring, file, .. }) = fixture(Issuers::Any, 16, 4 * EACH) else { return };
    let reaped = AtomicUsize::new(0);
    let tokens = Mutex::new(HashSet::new());
    let event = event::create().unwrap();
    let take = |completions: &mut Vec<Completion>| {
        uring.reap(completions);
        for completion in completions.drain(..) {
            assert_eq!(*completion.result.as_ref().unwrap(), BLOCK);
            let fill = u8::try_from(completion.token % 251).unwrap();
            assert!(completion.buffer.iter().all(|byte| *byte == fill));
            assert!(tokens.lock().unwrap().insert(completion.token));
            reaped.fetch_add(1, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        for lane in 0..4 {
            let (take, uring, file, reaped, event) = (&take, &uring, &file, &reaped, &event);
            scope.spawn(move || {
                let mut completions = Vec::new();
                for at in lane * EACH..(lane + 1) * EACH {
                    let byte = u8::try_from(at % 251).unwrap();
                    let mut next = write(file, at, byte, Some(event).filter(|_| at % 2 == 0));
                    next.sync = false;
                    while let Err((back, error)) = uring.submit(next) {
                        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                        next = back;
                        take(&mut completions);
                    }
                }
                while reaped.load(Ordering::Relaxed) < usize::try_from(4 * EACH).unwrap() {
                    take(&mut completions);
                    thread::yield_now();
                }
            });
        }
    });
    assert_eq!(uring.inner().writes, 0);
}
