//! Making segments: the blocking steps by which a file becomes the next place to write.
//!
//! Owns: spare files, numbers, the order of steps: a file gets a segment's name only with a
//! header that is synced, so that a bad header under such a name is never a torn one.
//! Does not know: when a segment is needed.

use std::io;
use std::sync::Arc;

use crate::disk::{Ahead, BLOCK, Disk, DiskFile};
use crate::error::during;
use crate::format::segment::{Beginning, GROUPS_AT, Identity, LastGood, SegmentHeader};
use crate::format::{Salt, index};
use crate::io::IoBuffer;
use crate::log::options::Entropy;
use crate::segment::{Segment, segment_name, spare_name};

/// Spare files kept for reuse; more are removed.
const SPARES_MAX: usize = 2;

/// What the next segment is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purpose {
    pub(crate) beginning: Beginning,
    /// Number and salt of the segment it continues.
    pub(crate) continues: (u64, Salt),
    pub(crate) last_good: LastGood,
    pub(crate) length: u64,
}

/// How far a new file is zeroed before it is used.
#[derive(Clone, Copy)]
pub(crate) struct Zeroes<'z> {
    /// Bytes at most.
    pub(crate) most: u64,
    /// By how many there are.
    pub(crate) pace: &'z dyn Fn(u64) -> Ahead,
}

impl Zeroes<'static> {
    /// All of it.
    pub(crate) const ALL: Self = Self { most: u64::MAX, pace: &|_| Ahead::Briskly };
}

/// A file to make a segment of, under its name, and how far its blocks have been written.
type Taken<F> = (String, F, u64);

/// A file that nothing needs, for a later segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spare {
    pub(crate) number: u64,
    pub(crate) length: u64,
    pub(crate) name: Name,
}

/// Whether a spare file could be a segment again after a power cut: then it must not be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Name {
    /// It is durable.
    Durable,
    /// It will be, with the next sync of the directory, if there are no more failed ones by then.
    Given(u64),
    /// Somebody may have been told that making it durable had failed: a start has found it, or a
    /// sync has failed since it was given.
    Found,
}

pub(crate) struct Maker<D: Disk> {
    pub(crate) disk: Arc<D>,
    pub(crate) identity: Identity,
    pub(crate) epoch: u64,
    /// The newest number and its salt; 0 before the first.
    pub(crate) newest: (u64, Salt),
    pub(crate) spares: Vec<Spare>,
    pub(crate) next_spare: u64,
    /// Space is wanted: only the shortest files are kept for reuse.
    pub(crate) is_thrifty: bool,
    pub(crate) entropy: Entropy,
}

/// Why a segment could not be made. Each error names the step and its file.
#[derive(Debug)]
pub(crate) enum MakeError {
    /// There is no space for it; what was begun has been taken back.
    NoSpace(io::Error),
    /// Its file failed, and is not used again: another one may do.
    File(io::Error),
    /// The directory failed, or what is stated about it: which files there are is uncertain now.
    Names(io::Error),
}

impl From<MakeError> for io::Error {
    fn from(error: MakeError) -> Self {
        match error {
            MakeError::NoSpace(error) | MakeError::File(error) | MakeError::Names(error) => error,
        }
    }
}

impl MakeError {
    fn of_file(error: io::Error) -> Self {
        if is_full(&error) { Self::NoSpace(error) } else { Self::File(error) }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl<D: Disk> Maker<D> {
    /// A segment in place, its name durable, ready for groups. After an error nothing of it is
    /// left under a segment's name, unless the directory itself failed.
    pub(crate) fn make(
        &mut self,
        purpose: &Purpose,
        zeroes: Zeroes<'_>,
    ) -> Result<Arc<Segment<D::File>>, MakeError> {
        let taken = self.take_file(purpose.length, zeroes)?;
        let header = self.header(purpose, self.epoch);
        self.put_in_place(taken, header, &IoBuffer::new())
    }

    /// The same in a file of its own, for an epoch that has ended, with groups in it from the
    /// start: `seal` fits them to the segment. It has its name only once they are durable.
    pub(crate) fn make_with(
        &mut self,
        purpose: &Purpose,
        epoch: u64,
        seal: impl FnOnce(&SegmentHeader) -> IoBuffer,
    ) -> Result<Arc<Segment<D::File>>, MakeError> {
        let taken = self.create_file(purpose.length, Zeroes::ALL)?;
        let header = self.header(purpose, epoch);
        self.put_in_place(taken, header, &seal(&header))
    }

    fn header(&mut self, purpose: &Purpose, epoch: u64) -> SegmentHeader {
        SegmentHeader {
            identity: self.identity,
            key: 0,
            epoch,
            number: self.newest.0 + 1,
            length: purpose.length,
            salt: (self.entropy)(),
            continues_salt: purpose.continues.1,
            continues: purpose.continues.0,
            beginning: purpose.beginning,
            last_good: purpose.last_good,
        }
    }

    fn put_in_place(
        &mut self,
        (spare, file, zeroed): Taken<D::File>,
        header: SegmentHeader,
        groups: &IoBuffer,
    ) -> Result<Arc<Segment<D::File>>, MakeError> {
        if let Err(error) = self.place(&spare, &file, &header, groups) {
            // The file is poisoned: it is not used again, whatever happens to its name.
            let _ = self.disk.remove(&spare);
            return Err(error);
        }
        self.note_synced();
        self.newest = (header.number, header.salt);
        Ok(Arc::new(Segment::new(header, file).zeroed_to(zeroed)))
    }

    fn place(
        &self,
        spare: &str,
        file: &D::File,
        header: &SegmentHeader,
        groups: &IoBuffer,
    ) -> Result<(), MakeError> {
        let mut block = IoBuffer::with_blocks(1);
        header.encode(&mut block);
        let write = |bytes: &IoBuffer, at| {
            let written = file.write_at(bytes, at);
            written.map_err(|error| during(format_args!("writing {spare} at byte {at}"), &error))
        };
        write(&block, 0).map_err(MakeError::of_file)?;
        if !groups.is_empty() {
            write(groups, GROUPS_AT).map_err(MakeError::of_file)?;
        }
        let synced = file.sync().map_err(|error| during(format_args!("syncing {spare}"), &error));
        synced.map_err(MakeError::of_file)?;
        let name = segment_name(header.number);
        let failed = self.disk.failed_syncs();
        match self.rename(spare, &name) {
            Err(error) if is_full(&error) => return Err(MakeError::NoSpace(error)),
            renamed => renamed.map_err(MakeError::Names)?,
        }
        self.sync_name(&name, failed).map_err(MakeError::Names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let renamed = self.disk.rename(from, to);
        renamed.map_err(|error| during(format_args!("renaming {from} to {to}"), &error))
    }

    fn sync_name(&self, name: &str, failed: u64) -> io::Result<()> {
        let synced = self.disk.sync_names(failed);
        synced.map_err(|error| during(format_args!("syncing the directory for {name}"), &error))
    }

    /// Removes a file of the log.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        let removed = self.disk.remove(name);
        removed.map_err(|error| during(format_args!("removing {name}"), &error))
    }

    /// Bytes that are free, and those that spare files take.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        let spares: u64 = self.spares.iter().map(|spare| spare.length).sum();
        Ok(self.disk.free_bytes()?.saturating_add(spares))
    }

    /// Gives the space of spare files back that are longer than `shortest`, and of all but one.
    pub(crate) fn shed_spares(&mut self, shortest: u64) -> io::Result<()> {
        let is_kept = |spare: &Spare| spare.length <= shortest;
        let kept = self.spares.iter().position(is_kept).map(|at| self.spares.swap_remove(at));
        self.drop_spares()?;
        self.spares.extend(kept);
        Ok(())
    }

    fn drop_spares(&mut self) -> io::Result<()> {
        while let Some(spare) = self.spares.pop() {
            self.remove(&spare_name(spare.number))?;
        }
        Ok(())
    }

    fn take_file(&mut self, length: u64, zeroes: Zeroes<'_>) -> Result<Taken<D::File>, MakeError> {
        let fitting = self.spares.iter().enumerate().filter(|(_, spare)| spare.length == length);
        if let Some((at, _)) = fitting.min_by_key(|(_, spare)| spare.name) {
            let spare = self.spares.swap_remove(at);
            let name = self.certain_name(spare).map_err(MakeError::Names)?;
            let opened = self.disk.open(&name);
            let opened = opened.map_err(|error| during(format_args!("opening {name}"), &error));
            let file = opened.map_err(MakeError::of_file)?;
            // If a part of it was never written, that was left out once and costs time once more.
            return Ok((name, file, length));
        }
        // Spares of another length only take space from the file to be made.
        self.drop_spares().map_err(MakeError::Names)?;
        self.create_file(length, zeroes)
    }

    fn create_file(
        &mut self,
        length: u64,
        zeroes: Zeroes<'_>,
    ) -> Result<Taken<D::File>, MakeError> {
        let name = self.fresh_name();
        let pace = |done| if done < zeroes.most { (zeroes.pace)(done) } else { Ahead::Enough };
        match self.disk.create_ahead(&name, length, &pace) {
            Ok((file, written)) => Ok((name, file, written)),
            Err(error) => {
                // What was there before is not ours.
                if error.kind() != io::ErrorKind::AlreadyExists {
                    let _ = self.disk.remove(&name);
                }
                let size = format_args!("making {name} of {length} bytes");
                Err(MakeError::of_file(during(size, &error)))
            }
        }
    }

    /// Takes back the file of a segment that nothing needs any more. Its old groups cannot pass
    /// for new ones: the next use has another salt.
    pub(crate) fn recycle(&mut self, number: u64, length: u64) -> io::Result<()> {
        let name = segment_name(number);
        let is_surplus = self.is_thrifty && !self.spares.is_empty();
        if self.spares.len() >= SPARES_MAX || is_surplus {
            return self.remove(&name);
        }
        let number = self.next_spare;
        let spare = self.fresh_name();
        let failed = self.disk.failed_syncs();
        match self.rename(&name, &spare) {
            // A name may need space, too.
            Err(error) if is_full(&error) => return self.remove(&name),
            renamed => renamed?,
        }
        // The old name must not come back with a new header after a power cut. The sync of the name
        // that the next segment gets makes this one durable, too, most often before it is used.
        self.spares.push(Spare { number, length, name: Name::Given(failed) });
        Ok(())
    }

    /// Whether a segment of this length would be made of a file that is there.
    pub(crate) fn has_spare(&self, length: u64) -> bool {
        self.spares.iter().any(|spare| spare.length == length)
    }

    /// The directory has been synced.
    fn note_synced(&mut self) {
        let failed = self.disk.failed_syncs();
        for spare in &mut self.spares {
            if let Name::Given(before) = spare.name {
                spare.name = if before == failed { Name::Durable } else { Name::Found };
            }
        }
    }

    fn certain_name(&mut self, spare: Spare) -> io::Result<String> {
        let failed = self.disk.failed_syncs();
        let name = match spare.name {
            Name::Durable => return Ok(spare_name(spare.number)),
            Name::Given(before) if before == failed => spare_name(spare.number),
            Name::Given(_) | Name::Found => {
                let fresh = self.fresh_name();
                self.rename(&spare_name(spare.number), &fresh)?;
                fresh
            }
        };
        self.sync_name(&name, failed)?;
        self.note_synced();
        Ok(name)
    }

    fn fresh_name(&mut self) -> String {
        self.next_spare += 1;
        spare_name(self.next_spare - 1)
    }
}

/// Writes the index and the copy of the header behind the groups of a full segment.
pub(crate) fn close<F: DiskFile>(
    segment: &Segment<F>,
    entries: &[index::Entry],
    last: LastGood,
) -> io::Result<()> {
    let index_len = index::len(entries.len());
    let mut bytes = IoBuffer::with_capacity(index_len + BLOCK);
    bytes.resize(index_len + BLOCK);
    let (index_bytes, block) = bytes.split_at_mut(index_len);
    index::encode(entries, index_bytes);
    let closing = crate::format::segment::Closing {
        first_lsn: entries[0].first_lsn,
        end: last.end,
        groups: entries.len() as u64,
        last,
        index_checksum: crate::format::checksum(index_bytes),
    };
    segment.header.encode_closing(&closing, block);
    let at = segment.header.length - bytes.len() as u64;
    assert!(last.end <= at, "room for the index was kept");
    segment.file.write_at(&bytes, at)?;
    segment.file.sync()?;
    segment.set_indexed(closing.groups);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::options::tests::counted;
    use crate::sim_disk::{Fault, Op, SimDisk, SimFile, Survival};

    const LENGTH: u64 = 16 * BLOCK as u64;

    fn maker(disk: &SimDisk) -> Maker<SimDisk> {
        Maker {
            disk: Arc::new(disk.clone()),
            identity: Identity::default(),
            epoch: 1,
            newest: (0, Salt::default()),
            spares: Vec::new(),
            next_spare: 1,
            is_thrifty: false,
            entropy: counted(),
        }
    }

    fn make(maker: &mut Maker<SimDisk>) -> Result<Arc<Segment<SimFile>>, MakeError> {
        let (continues, last_good) = (maker.newest, LastGood::default());
        let purpose = Purpose { beginning: Beginning::Roll, continues, last_good, length: LENGTH };
        maker.make(&purpose, Zeroes::ALL)
    }

    /// Whose sync has failed, ours or that of somebody who shares the directory: the file of a
    /// segment that was let go is not written to before its name is certain again.
    #[test]
    fn no_segment_comes_back_as_another_one() {
        for failed_syncs in [0, 1] {
            let disk = SimDisk::new();
            let mut maker = maker(&disk);
            make(&mut maker).unwrap();
            maker.recycle(1, LENGTH).unwrap();
            for _ in 0..failed_syncs {
                disk.fail(Op::SyncDir, 1, Fault::Fail(io::ErrorKind::Other));
                disk.sync_dir().unwrap_err();
            }
            // The spare's name is made certain, the new segment's is not.
            disk.fail(Op::SyncDir, 2, Fault::Fail(io::ErrorKind::Other));
            assert!(matches!(make(&mut maker), Err(MakeError::Names(_))));
            let left = disk.crash_with(Survival::Nothing).list().unwrap();
            let came_back = left.iter().any(|(name, _)| *name == segment_name(1));
            assert!(!came_back, "behind {failed_syncs} failed syncs: {left:?}");
        }
    }
}
