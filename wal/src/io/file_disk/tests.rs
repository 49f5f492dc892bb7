//! What every backend promises on a real directory, and how one is chosen.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use tempfile::TempDir;

use super::engine::DEPTH;
use super::*;
use crate::disk::DiskFile;
use crate::io::confined::{Refused, confined, in_child};
use crate::io::event;

const KINDS: [(Backend, Issuers); 4] = [
    (Backend::Aio, Issuers::Any),
    (Backend::Uring, Issuers::Any),
    (Backend::Uring, Issuers::One),
    (Backend::Pwrite, Issuers::Any),
];

/// The backends that this machine lets a test use. All but one are there on any kernel.
fn kinds() -> impl Iterator<Item = (Backend, Issuers)> {
    KINDS.into_iter().filter(|(backend, issuers)| {
        let directory = tempfile::tempdir().unwrap();
        match FileDisk::open_for(directory.path(), *backend, *issuers) {
            Err(OpenError::Backend { failures, .. }) if *backend == Backend::Uring => {
                eprintln!("skipped for io_uring: {failures}");
                false
            }
            disk => disk.is_ok_and(|disk| disk.backend() == *backend),
        }
    })
}

fn disk(backend: Backend) -> (FileDisk, TempDir) {
    disk_for((backend, Issuers::Any))
}

fn disk_for((backend, issuers): (Backend, Issuers)) -> (FileDisk, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    (FileDisk::open_for(directory.path(), backend, issuers).unwrap(), directory)
}

/// How one write ends, whichever way a backend says that it failed.
fn outcome(disk: &FileDisk, write: Write<OpenFile>) -> io::Result<usize> {
    let Some(event) = write.notify.clone() else { panic!("somebody waits for it") };
    match disk.submit(write) {
        Ok(()) => wait_for(disk, &event, 1).remove(0).result,
        Err((_, error)) => Err(error),
    }
}

fn one_write(file: &OpenFile, offset: u64, buffer: IoBuffer) -> Write<OpenFile> {
    let notify = Some(event::create().unwrap());
    Write { file: file.clone(), buffer, offset, sync: true, token: 1, notify }
}

/// A full disk shows when a file is made, however much of it is zeroed.
#[test]
fn what_is_not_zeroed_has_its_space_and_reads_as_zeroes() {
    let (disk, directory) = disk(Backend::Pwrite);
    let asked = std::cell::RefCell::new(Vec::new());
    let pace = |done| {
        asked.borrow_mut().push(done);
        if done < 256 << 10 { Ahead::Briskly } else { Ahead::Enough }
    };
    let (file, zeroed) = disk.create_ahead("ahead", 8 << 20, &pace).unwrap();
    let blocks = std::fs::metadata(directory.path().join("ahead")).unwrap().blocks();
    assert!(blocks * 512 >= 8 << 20, "{blocks} blocks");
    assert_eq!(file.size().unwrap(), 8 << 20);
    // Where space is taken by writing alone nobody is asked.
    if !asked.borrow().is_empty() {
        assert_eq!((zeroed, asked.into_inner()), (256 << 10, vec![0, 128 << 10, 256 << 10]));
    }
    let mut buffer = filled(256, 1);
    assert_eq!(file.read_at(&mut buffer, 6 << 20).unwrap(), 1 << 20);
    assert!(buffer.iter().all(|byte| *byte == 0));
    let written = outcome(&disk, one_write(&file, 6 << 20, filled(1, 7)));
    assert_eq!(written.unwrap(), BLOCK);
    let mut buffer = filled(2, 1);
    file.read_at(&mut buffer, 6 << 20).unwrap();
    assert!(buffer[..BLOCK].iter().all(|byte| *byte == 7));
    assert!(buffer[BLOCK..].iter().all(|byte| *byte == 0));
}

fn filled(blocks: usize, fill: u8) -> IoBuffer {
    let mut buffer = IoBuffer::with_blocks(blocks);
    buffer.fill(fill);
    buffer
}

fn names(disk: &FileDisk) -> Vec<(String, u64)> {
    let mut names = disk.list().unwrap();
    names.sort();
    names
}

fn wait_for(disk: &FileDisk, event: &OwnedFd, count: usize) -> Vec<Completion> {
    let mut completions = Vec::new();
    while completions.len() < count {
        assert!(event::wait(event, Duration::from_secs(30)).unwrap());
        event::drain(event);
        disk.reap(&mut completions);
    }
    completions
}

#[test]
fn every_backend_writes_durable_blocks_and_returns_the_buffers() {
    for kind in kinds() {
        let (disk, _directory) = disk_for(kind);
        assert_eq!(disk.backend(), kind.0);
        let file = disk.create("a", 64 * BLOCK as u64).unwrap();
        let event = event::create().unwrap();
        for token in 0..32_u64 {
            let mut buffer = disk.buffer(2 * BLOCK);
            buffer.resize(2 * BLOCK);
            buffer.fill(u8::try_from(token).unwrap() + 1);
            let notify = Some(Arc::clone(&event));
            let offset = token * 2 * BLOCK as u64;
            let sync = token % 2 == 0;
            let write = Write { file: file.clone(), buffer, offset, sync, token, notify };
            disk.submit(write).unwrap();
        }
        let completions = wait_for(&disk, &event, 32);
        let tokens: BTreeSet<u64> = completions.iter().map(|done| done.token).collect();
        assert_eq!(tokens, (0..32).collect());
        for done in &completions {
            assert_eq!(*done.result.as_ref().unwrap(), 2 * BLOCK);
            assert_eq!(u64::from(done.buffer[0]), done.token + 1);
        }
        let mut read = IoBuffer::with_blocks(64);
        assert_eq!(file.read_at(&mut read, 0).unwrap(), 64 * BLOCK);
        for (at, byte) in read.iter().enumerate() {
            assert_eq!(usize::from(*byte), at / (2 * BLOCK) + 1);
        }
    }
}

#[test]
fn every_backend_reports_a_failed_write_in_its_completion() {
    for kind in kinds() {
        let (disk, _directory) = disk_for(kind);
        let file = disk.create("a", BLOCK as u64).unwrap();
        let event = event::create().unwrap();
        let notify = Some(Arc::clone(&event));
        let write =
            Write { file, buffer: filled(1, 3), offset: 1 << 62, sync: true, token: 5, notify };
        disk.submit(write).unwrap();
        let completions = wait_for(&disk, &event, 1);
        let error = completions[0].result.as_ref().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EFBIG), "{kind:?}");
        assert_eq!((completions[0].token, completions[0].buffer[0]), (5, 3));
    }
}

#[test]
fn dropping_a_disk_waits_for_its_writes() {
    for kind in kinds() {
        let (disk, directory) = disk_for(kind);
        let file = disk.create("a", 16 * BLOCK as u64).unwrap();
        for token in 0..16 {
            let offset = token * BLOCK as u64;
            let (file, buffer) = (file.clone(), filled(1, 8));
            disk.submit(Write { file, buffer, offset, sync: true, token, notify: None }).unwrap();
        }
        drop(disk);
        let mut read = IoBuffer::with_blocks(16);
        file.read_at(&mut read, 0).unwrap();
        assert!(read.iter().all(|byte| *byte == 8), "{kind:?} in {}", directory.path().display());
    }
}

/// The queue of the thread empties while it is filled: its own tests hold it up.
#[test]
fn the_queue_takes_as_many_writes_as_are_promised() {
    for kind in kinds().filter(|(backend, _)| *backend != Backend::Pwrite) {
        let (disk, _directory) = disk_for(kind);
        let file = disk.create("a", BLOCK as u64).unwrap();
        let event = event::create().unwrap();
        let write = |token| {
            let notify = Some(Arc::clone(&event));
            Write { file: file.clone(), buffer: filled(1, 1), offset: 0, sync: true, token, notify }
        };
        let depth = DEPTH as u64;
        // Those that are done stay until they are taken, however fast the device is.
        for token in 0..depth {
            disk.submit(write(token)).unwrap();
        }
        let (back, error) = disk.submit(write(depth)).unwrap_err();
        assert_eq!((back.token, error.kind()), (depth, io::ErrorKind::WouldBlock), "{kind:?}");
        assert_eq!(wait_for(&disk, &event, DEPTH).len(), DEPTH);
        disk.submit(back).unwrap();
        assert_eq!(wait_for(&disk, &event, 1)[0].token, depth);
    }
}

#[test]
fn every_backend_reports_a_file_that_it_may_not_write() {
    for kind in kinds() {
        let (disk, directory) = disk_for(kind);
        disk.create("a", BLOCK as u64).unwrap();
        let file = std::fs::File::open(directory.path().join("a")).unwrap();
        let file = OpenFile::from(OwnedFd::from(file));
        let error = outcome(&disk, one_write(&file, 0, filled(1, 1))).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EBADF), "{kind:?}");
        let good = disk.open("a").unwrap();
        assert_eq!(outcome(&disk, one_write(&good, 0, filled(1, 1))).unwrap(), BLOCK);
    }
}

#[test]
fn every_backend_reports_what_a_limit_lets_it_not_write() {
    in_child("io::file_disk::tests::every_backend_reports_what_a_limit_lets_it_not_write", || {
        let disks: Vec<_> = kinds().map(|kind| (kind, disk_for(kind))).collect();
        let create = |disk: &FileDisk| disk.create("a", 4 * BLOCK as u64).unwrap();
        let files: Vec<_> = disks.iter().map(|(_, (disk, _))| create(disk)).collect();
        let limit = Some(2 * BLOCK as u64);
        setrlimit(Resource::Fsize, Rlimit { current: limit, maximum: limit }).unwrap();
        for ((kind, (disk, _directory)), file) in disks.iter().zip(&files) {
            let behind = outcome(disk, one_write(file, 2 * BLOCK as u64, filled(1, 1)));
            let error = behind.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EFBIG), "{kind:?}");
            let across = outcome(disk, one_write(file, BLOCK as u64, filled(2, 1)));
            match kind.0 {
                // It asks for the rest, and that is refused.
                Backend::Pwrite => {
                    assert_eq!(across.unwrap_err().raw_os_error(), Some(libc::EFBIG));
                }
                _ => assert_eq!(across.unwrap(), BLOCK, "{kind:?}"),
            }
            assert_eq!(outcome(disk, one_write(file, 0, filled(2, 1))).unwrap(), 2 * BLOCK);
        }
    });
}

#[test]
fn a_created_file_is_zero_and_has_its_blocks() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let (disk, directory) = disk(Backend::Auto);
    // Neither a multiple of the piece that is written at once, nor smaller than it.
    let len = (ZEROES_PIECE + 3) * BLOCK as u64;
    let file = disk.create("a", len).unwrap();
    assert_eq!(file.size().unwrap(), len);
    let status = std::fs::metadata(directory.path().join("a")).unwrap();
    assert!(status.blocks() * 512 >= len, "space is taken when the file is made");
    assert_eq!(status.permissions().mode() & 0o777, 0o600);
    let mut read = filled(usize::try_from(ZEROES_PIECE).unwrap() + 3, 1);
    assert_eq!(file.read_at(&mut read, 0).unwrap(), read.len());
    assert!(read.iter().all(|byte| *byte == 0));
}

const ZEROES_PIECE: u64 = 256;

#[test]
fn names_are_created_once_renamed_over_others_and_removed() {
    let (disk, _directory) = disk(Backend::Auto);
    let block = BLOCK as u64;
    assert!(names(&disk).is_empty(), "the probe leaves nothing");
    let a = disk.create("a", block).unwrap();
    disk.create("b", 2 * block).unwrap();
    assert_eq!(disk.create("a", block).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(names(&disk), [("a".to_owned(), block), ("b".to_owned(), 2 * block)]);
    a.write_at(&filled(1, 6), 0).unwrap();
    a.sync().unwrap();
    disk.rename("a", "b").unwrap();
    disk.sync_dir().unwrap();
    assert_eq!(names(&disk), [("b".to_owned(), block)]);
    let mut read = IoBuffer::with_blocks(1);
    disk.open("b").unwrap().read_at(&mut read, 0).unwrap();
    assert!(read.iter().all(|byte| *byte == 6));
    disk.remove("b").unwrap();
    assert!(names(&disk).is_empty());
    assert_eq!(a.read_at(&mut read, 0).unwrap(), BLOCK, "an open file outlives its name");
    for missing in [disk.open("b").map(drop), disk.remove("b"), disk.rename("b", "c")] {
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

#[test]
fn only_the_logs_own_files_are_listed() {
    let (disk, directory) = disk(Backend::Auto);
    let _lock = crate::io::DirectoryLock::acquire(directory.path()).unwrap();
    std::fs::create_dir(directory.path().join("sub")).unwrap();
    std::os::unix::fs::symlink("/dev/null", directory.path().join("link")).unwrap();
    std::fs::write(directory.path().join("mine"), "x").unwrap();
    assert_eq!(names(&disk), [("mine".to_owned(), 1)]);
}

#[test]
fn a_file_cut_within_a_block_reads_up_to_its_end() {
    let (disk, directory) = disk(Backend::Auto);
    let file = disk.create("a", 4 * BLOCK as u64).unwrap();
    let cut = 2 * BLOCK as u64 - 1;
    let outside = std::fs::File::options().write(true).open(directory.path().join("a")).unwrap();
    outside.set_len(cut).unwrap();
    let mut read = IoBuffer::with_blocks(4);
    assert_eq!(file.read_at(&mut read, 0).unwrap(), 2 * BLOCK - 1);
    assert_eq!(file.read_at(&mut read, 2 * BLOCK as u64).unwrap(), 0);
}

#[test]
fn a_file_that_does_not_fit_is_refused_before_it_takes_anything() {
    let (disk, _directory) = disk(Backend::Auto);
    // More than any disk has: a file that nearly fits would fill the disk of whoever tests.
    let error = disk.create("a", 1 << 62).unwrap_err();
    assert!(is_full(&error), "{error}");
    assert!(names(&disk).is_empty());
}

#[test]
fn a_create_that_fails_leaves_no_name() {
    let (disk, _directory) = disk(Backend::Auto);
    // The kernel refuses this length before the file system sees it.
    disk.directory.create("a", u64::MAX - 4095).unwrap_err();
    assert!(names(&disk).is_empty());
}

#[test]
fn space_given_back_reads_as_zeroes_and_is_free() {
    use std::os::unix::fs::MetadataExt;
    let (disk, directory) = disk(Backend::Auto);
    let file = disk.create("a", 64 * BLOCK as u64).unwrap();
    file.write_at(&filled(64, 5), 0).unwrap();
    file.give_back(2 * BLOCK as u64, 62 * BLOCK as u64).unwrap();
    let mut read = IoBuffer::with_blocks(64);
    assert_eq!(file.read_at(&mut read, 0).unwrap(), 64 * BLOCK);
    assert!(read[..2 * BLOCK].iter().all(|byte| *byte == 5));
    assert!(read[2 * BLOCK..].iter().all(|byte| *byte == 0));
    let status = std::fs::metadata(directory.path().join("a")).unwrap();
    assert_eq!(status.len(), 64 * BLOCK as u64);
    assert!(status.blocks() * 512 < 16 * BLOCK as u64, "{} blocks", status.blocks());
}

#[test]
fn free_space_is_told_in_bytes() {
    let (disk, directory) = disk(Backend::Auto);
    let free = disk.free_bytes().unwrap();
    let status = rustix::fs::statvfs(directory.path()).unwrap();
    assert!(free > 0 && free < status.f_blocks * status.f_frsize);
}

#[test]
fn the_choice_is_explained() {
    let (auto, _directory) = disk(Backend::Auto);
    let figures = auto.choice().strip_prefix(&auto.engine.describe()).unwrap();
    assert!(figures.starts_with(": aio "), "{figures}");
    let (pwrite, _directory) = disk(Backend::Pwrite);
    let figures = pwrite.choice().strip_prefix("pwrite: asked for, pwrite ").unwrap();
    assert!(figures.contains(" us, ") && figures.contains(" durable write"), "{figures}");
    for wanted in [Backend::Auto, Backend::Aio] {
        let full = choose(wanted, Issuers::One, None).unwrap();
        assert_eq!(full.engine.backend(), Backend::Aio);
        assert!(full.reason.ends_with("too full for a probe"), "{}", full.reason);
    }
}

#[test]
fn backends_have_names() {
    for backend in [Backend::Auto, Backend::Aio, Backend::Uring, Backend::Pwrite] {
        assert_eq!(backend.to_string().parse(), Ok(backend));
    }
    assert_eq!("Aio".parse::<Backend>(), Err(UnknownBackend));
}

#[test]
fn a_probe_that_cannot_be_written_names_every_backend() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("read-only");
    std::fs::write(&path, vec![0; BLOCK]).unwrap();
    let file = OpenFile::from(OwnedFd::from(std::fs::File::open(&path).unwrap()));
    let failures = choose(Backend::Auto, Issuers::Any, Some(&file)).unwrap_err();
    for backend in ["aio", "uring", "pwrite"] {
        assert!(failures.contains(&format!("{backend} failed (")), "{failures}");
    }
    let bad = "(Bad file descriptor (os error 9))";
    assert!(failures.starts_with(&format!("aio failed {bad}, ")), "{failures}");
}

const NOT_PERMITTED: &str = "(Operation not permitted (os error 1))";

/// Opens a disk on a thread that is refused these calls, and writes to it there.
fn refused(
    refused: &[Refused],
    wanted: Backend,
    issuers: Issuers,
) -> Option<Result<(Backend, String), String>> {
    let directory = tempfile::tempdir().unwrap();
    confined(refused, || {
        let disk = FileDisk::open_for(directory.path(), wanted, issuers);
        let disk = disk.map_err(|error| error.to_string())?;
        let file = disk.create("a", 2 * BLOCK as u64).unwrap();
        let mut buffer = disk.buffer(BLOCK);
        buffer.resize(BLOCK);
        buffer.fill(7);
        assert_eq!(outcome(&disk, one_write(&file, 0, buffer)).unwrap(), BLOCK);
        assert_eq!(outcome(&disk, one_write(&file, BLOCK as u64, filled(1, 7))).unwrap(), BLOCK);
        let mut read = IoBuffer::with_blocks(2);
        file.read_at(&mut read, 0).unwrap();
        assert!(read.iter().all(|byte| *byte == 7));
        Ok((disk.backend(), disk.choice().to_owned()))
    })
}

fn always(call: libc::c_long) -> Refused {
    Refused::always(call, libc::EPERM)
}

#[test]
fn a_backend_that_is_refused_gives_way_to_the_next() {
    let ring = always(libc::SYS_io_uring_setup);
    let (setup, submit) = (always(libc::SYS_io_setup), always(libc::SYS_io_submit));
    // Which of those that are left is used depends on the machine, and whether those behind one
    // that works are tried at all on how much time that took: they need not be told of.
    for (rules, failed, told) in [
        (&[ring][..], &["uring"][..], 0),
        (&[ring, setup], &["aio", "uring"], 2),
        (&[ring, submit], &["aio", "uring"], 2),
        (&[submit], &["aio"], 1),
    ] {
        for issuers in [Issuers::Any, Issuers::One] {
            let Some(chosen) = refused(rules, Backend::Auto, issuers) else { return };
            let (backend, choice) = chosen.unwrap();
            assert!(!failed.contains(&&*backend.to_string()), "{choice}");
            for backend in &failed[..told] {
                assert!(choice.contains(&format!("{backend} failed {NOT_PERMITTED}")), "{choice}");
            }
        }
    }
    // What is asked for is used or refused.
    let Some(asked) = refused(&[ring], Backend::Uring, Issuers::Any) else { return };
    let error = asked.unwrap_err();
    assert!(error.ends_with(&format!("uring failed {NOT_PERMITTED}")), "{error}");
}

#[test]
fn a_part_of_io_uring_that_is_refused_is_done_without() {
    // Numbers of what is registered with a ring, from linux/io_uring.h.
    const BUFFERS: u32 = 0;
    const FILES: u32 = 2;
    const EVENT: u32 = 4;
    const ENABLE: u32 = 12;
    if !kinds().any(|(backend, _)| backend == Backend::Uring) {
        return;
    }
    let register = |what| Refused::when(libc::SYS_io_uring_register, 1, what, libc::EPERM);
    // As an old kernel that does not know the flags.
    let entries = crate::io::uring::ENTRIES_DEFERRED;
    let deferred = Refused::when(libc::SYS_io_uring_setup, 0, entries, libc::EINVAL);
    for (rule, issuers, says) in [
        (register(BUFFERS), Issuers::Any, "0 MiB registered, without registered buffers"),
        (register(BUFFERS), Issuers::One, "one thread issues, 0 MiB registered, without"),
        (register(FILES), Issuers::Any, "without registered files"),
        (register(FILES), Issuers::One, "without registered files"),
        (register(EVENT), Issuers::One, "any thread issues, 4 MiB registered, without deferred"),
        (register(ENABLE), Issuers::One, "any thread issues, 4 MiB registered"),
        (deferred, Issuers::One, "any thread issues, 4 MiB registered, without deferred"),
    ] {
        let Some(chosen) = refused(&[rule], Backend::Uring, issuers) else { return };
        let (backend, choice) = chosen.unwrap();
        assert_eq!(backend, Backend::Uring);
        assert!(choice.contains(says), "{says}: {choice}");
    }
}

#[test]
fn memory_that_may_not_be_locked_is_written_from_all_the_same() {
    let test = "io::file_disk::tests::memory_that_may_not_be_locked_is_written_from_all_the_same";
    in_child(test, || {
        if !kinds().any(|(backend, _)| backend == Backend::Uring) {
            return;
        }
        // Who may lock any amount gives that up for this thread.
        let mut sets = rustix::thread::capabilities(None).unwrap();
        sets.effective.remove(rustix::thread::CapabilitySet::IPC_LOCK);
        rustix::thread::set_capabilities(None, sets).unwrap();
        // The rings count as well.
        for (kibibytes, registered) in
            [(3 << 10, "2 MiB registered"), (256, "0 MiB registered, without registered buffers")]
        {
            let limit = Some(kibibytes << 10);
            setrlimit(Resource::Memlock, Rlimit { current: limit, maximum: limit }).unwrap();
            let (disk, _directory) = disk(Backend::Uring);
            assert!(disk.choice().contains(registered), "{registered}: {}", disk.choice());
            let file = disk.create("a", BLOCK as u64).unwrap();
            let mut buffer = disk.buffer(BLOCK);
            buffer.resize(BLOCK);
            assert_eq!(outcome(&disk, one_write(&file, 0, buffer)).unwrap(), BLOCK);
        }
    });
}

#[test]
fn a_probe_left_by_a_crash_is_no_obstacle() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(PROBE), "old").unwrap();
    let disk = FileDisk::open(directory.path(), Backend::Auto).unwrap();
    assert!(names(&disk).is_empty());
    assert!(!directory.path().join(PROBE).exists());
}

#[test]
fn a_missing_directory_is_made_but_not_its_parents() {
    let directory = tempfile::tempdir().unwrap();
    FileDisk::open(&directory.path().join("log"), Backend::Auto).unwrap();
    FileDisk::open(&directory.path().join("log"), Backend::Auto).unwrap();
    let error = FileDisk::open(&directory.path().join("no/log"), Backend::Auto).unwrap_err();
    assert!(matches!(&error, OpenError::Directory { source, .. }
        if source.kind() == io::ErrorKind::NotFound));
    assert!(error.to_string().contains("no/log"), "{error}");
}

#[test]
#[should_panic(expected = "is no number of blocks")]
fn a_write_of_part_of_a_block_is_a_broken_invariant() {
    let (disk, _directory) = disk(Backend::Auto);
    let file = disk.create("a", BLOCK as u64).unwrap();
    let mut buffer = IoBuffer::with_blocks(1);
    buffer.truncate(512);
    let _ = disk.submit(Write { file, buffer, offset: 0, sync: true, token: 0, notify: None });
}
