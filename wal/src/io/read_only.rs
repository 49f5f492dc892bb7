//! A directory of log files for those who only look: tools, other users, read-only mounts.
//!
//! Owns: opening for reads alone, and the question who holds the directory. Nothing here creates,
//! writes, renames, removes, probes or locks anything; what would change the disk is an error.
//! Files are read past the page cache, so that the reads may meet the direct writes of a program
//! that has the log open. A file system that refuses that takes no log either: there nobody writes
//! directly, and buffered reads mix with nothing.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, major, minor, openat, statat};
use rustix::io::Errno;

use crate::disk::{Completion, Disk, DiskFile, Write, assert_name};
use crate::io::directory::{Directory, LOCK};
use crate::io::lock::read_pid;
use crate::io::{IoBuffer, OpenError, OpenFile};

/// A directory of log files that is read and never changed: each method that would change it
/// returns [`ReadOnlyFilesystem`](io::ErrorKind::ReadOnlyFilesystem).
///
/// For [`inspect`](crate::inspect) and [`read_facts`](crate::read_facts); a log does not open on
/// it. It needs the permission to read and takes no lock: see [`lock_holder`].
#[derive(Debug)]
pub struct ReadOnlyDisk {
    directory: Directory,
}

/// An open file of a [`ReadOnlyDisk`].
#[derive(Clone, Debug)]
pub struct ReadOnlyFile(OpenFile);

impl ReadOnlyDisk {
    /// Opens `path`, which must be a directory.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let failed = |source| OpenError::Directory { path: path.to_owned(), source };
        Ok(Self { directory: Directory::open(path).map_err(failed)? })
    }
}

impl Disk for ReadOnlyDisk {
    type File = ReadOnlyFile;

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.directory.list()
    }

    fn create(&self, name: &str, _len: u64) -> io::Result<ReadOnlyFile> {
        Err(refused("create", name))
    }

    fn open(&self, name: &str) -> io::Result<ReadOnlyFile> {
        open_to_read(self.directory.as_fd(), name)
    }

    fn rename(&self, from: &str, _to: &str) -> io::Result<()> {
        Err(refused("rename", from))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Err(refused("remove", name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        Err(refused("sync", "the directory"))
    }

    fn failed_syncs(&self) -> u64 {
        0
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn submit(&self, write: Write<ReadOnlyFile>) -> Result<(), (Write<ReadOnlyFile>, io::Error)> {
        Err((write, refused("write to", "a file")))
    }

    fn reap(&self, _completions: &mut Vec<Completion>) {}
}

impl DiskFile for ReadOnlyFile {
    fn read_at(&self, buffer: &mut IoBuffer, offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, _buffer: &IoBuffer, _offset: u64) -> io::Result<()> {
        Err(refused("write to", "a file"))
    }

    fn sync(&self) -> io::Result<()> {
        Err(refused("sync", "a file"))
    }

    fn give_back(&self, _offset: u64, _len: u64) -> io::Result<()> {
        Err(refused("give back blocks of", "a file"))
    }

    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
}

fn refused(what: &str, name: &str) -> io::Error {
    let text = format!("a disk that is only read does not {what} {name}");
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, text)
}

fn open_to_read(directory: BorrowedFd<'_>, name: &str) -> io::Result<ReadOnlyFile> {
    assert_name(name);
    // Only the owner may ask that its reading leaves no time behind.
    let quietly = OFlags::DIRECT | OFlags::NOATIME;
    for extra in [quietly, OFlags::DIRECT, OFlags::NOATIME, OFlags::empty()] {
        match open_with(directory, name, extra) {
            Err(Errno::INVAL | Errno::PERM | Errno::OPNOTSUPP) if !extra.is_empty() => {}
            opened => return Ok(ReadOnlyFile(opened?.into())),
        }
    }
    unreachable!("the last of them returns")
}

fn open_with(directory: BorrowedFd<'_>, name: &str, extra: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | extra;
    openat(directory, name, flags, Mode::empty())
}

/// Who has a directory locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// Its process, where the kernel says so.
    pub pid: Option<u32>,
}

/// Who holds the [`DirectoryLock`](crate::io::DirectoryLock) of `directory`, if anybody does. The
/// answer is read from the kernel's list of locks: asking by trying to lock could make the start
/// of another process fail at that very moment. The list does not name holders in containers whose
/// processes this one cannot see; `None` is no promise.
pub fn lock_holder(directory: &Path) -> io::Result<Option<LockHolder>> {
    let parent = Directory::open(directory)?;
    let status = match statat(&parent, LOCK, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        status => status?,
    };
    let locks = match std::fs::read_to_string("/proc/locks") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        locks => locks?,
    };
    let written = std::fs::File::open(directory.join(LOCK));
    let written = written.ok().and_then(|mut file| read_pid(&mut file));
    let device = format!("{:02x}:{:02x}", major(status.st_dev), minor(status.st_dev));
    Ok(find_holder(&locks, &device, status.st_ino, written))
}

/// The holder of an exclusive lock on the file with this device and inode. Some file systems show
/// another device there than `stat` does: then the process must be the one that has written itself
/// into the file.
fn find_holder(locks: &str, device: &str, inode: u64, written: Option<u32>) -> Option<LockHolder> {
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (kind, _, mode) = (words.next()?, words.next()?, words.next()?);
        if kind != "FLOCK" || mode != "WRITE" {
            return None;
        }
        let pid: Option<u32> = words.next()?.parse().ok().filter(|pid| *pid > 0);
        let (found_device, found_inode) = words.next()?.rsplit_once(':')?;
        let same_inode = found_inode.parse() == Ok(inode);
        let same_file = found_device == device || (pid.is_some() && pid == written);
        (same_inode && same_file).then_some(LockHolder { pid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::BLOCK;
    use crate::io::DirectoryLock;

    fn with_file(bytes: &[u8]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), bytes).unwrap();
        directory
    }

    #[test]
    fn reads_what_is_there_up_to_its_end() {
        let directory = with_file(&[7; BLOCK + 10]);
        let disk = ReadOnlyDisk::open(directory.path()).unwrap();
        assert_eq!(disk.list().unwrap(), [("file".to_owned(), BLOCK as u64 + 10)]);
        let file = disk.open("file").unwrap();
        let mut buffer = IoBuffer::with_blocks(3);
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), BLOCK + 10);
        assert!(buffer[..BLOCK + 10].iter().all(|byte| *byte == 7));
        assert_eq!(file.size().unwrap(), BLOCK as u64 + 10);
        assert_eq!(disk.open("other").unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn whatever_would_change_something_is_refused() {
        let directory = with_file(&[7; BLOCK]);
        let disk = ReadOnlyDisk::open(directory.path()).unwrap();
        let file = disk.open("file").unwrap();
        let buffer = IoBuffer::with_blocks(1);
        let write =
            Write { file: file.clone(), buffer, offset: 0, sync: true, token: 1, notify: None };
        let buffer = IoBuffer::with_blocks(1);
        let outcomes = [
            disk.create("new", 0).map(|_| ()),
            disk.rename("file", "new"),
            disk.remove("file"),
            disk.sync_dir(),
            disk.submit(write).map_err(|(_, error)| error),
            file.write_at(&buffer, 0),
            file.sync(),
            file.give_back(0, BLOCK as u64),
        ];
        for outcome in outcomes {
            assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
        }
        assert_eq!(std::fs::read(directory.path().join("file")).unwrap(), [7; BLOCK]);
        assert_eq!(disk.list().unwrap().len(), 1);
    }

    #[test]
    fn a_link_is_not_followed() {
        let directory = with_file(&[7; BLOCK]);
        std::os::unix::fs::symlink("file", directory.path().join("link")).unwrap();
        let disk = ReadOnlyDisk::open(directory.path()).unwrap();
        assert!(disk.open("link").is_err());
        assert!(ReadOnlyDisk::open(&directory.path().join("file")).is_err());
    }

    /// Where the kernel keeps no list there is nothing to ask.
    #[test]
    fn the_holder_of_a_directory_is_named_and_not_disturbed() {
        if !Path::new("/proc/locks").exists() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(lock_holder(directory.path()).unwrap(), None);
        let lock = DirectoryLock::acquire(directory.path()).unwrap();
        let holder = lock_holder(directory.path()).unwrap().unwrap();
        assert_eq!(holder.pid, Some(std::process::id()));
        drop(lock);
        assert_eq!(lock_holder(directory.path()).unwrap(), None, "the file alone is no lock");
        DirectoryLock::acquire(directory.path()).unwrap();
    }

    #[test]
    fn the_holder_is_found_by_its_file() {
        let locks = "1: FLOCK  ADVISORY  READ 11 fe:00:77 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 12 fe:00:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 13 fe:00:78 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 14 fe:00:77 0 EOF\n\
                     5: FLOCK  ADVISORY  WRITE -1 fe:00:79 0 EOF\n\
                     broken\n";
        let found = |device, inode, written| find_holder(locks, device, inode, written);
        let holder = |pid| Some(LockHolder { pid });
        assert_eq!(found("fe:00", 77, None), holder(Some(14)));
        assert_eq!(found("fe:00", 79, None), holder(None));
        assert_eq!(found("fe:00", 80, None), None);
        assert_eq!(found("00:2f", 77, Some(14)), holder(Some(14)), "as on btrfs");
        assert_eq!(found("00:2f", 77, Some(99)), None);
    }
}
