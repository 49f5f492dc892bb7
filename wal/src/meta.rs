//! `meta`, the file of node-local facts.
//!
//! Owns: when and how its two pages are written: one after the other, and neither before the other
//! is synced, so that one of them is whole at any moment. Does not know: who needs which fact.

use std::io;
use std::sync::Arc;

use crate::disk::{BLOCK, Disk, DiskFile};
use crate::error::{Damage, OpenError, during};
use crate::format::Fault;
use crate::format::meta::Facts;
use crate::format::segment::LastGood;
use crate::io::IoBuffer;
use crate::lsn::Lsn;
use crate::segment::{META_NAME, META_NEW_NAME};

const PAGES: usize = 2;

/// The open file and what it says.
pub(crate) struct Meta<D: Disk> {
    file: D::File,
    /// Of the file, for errors.
    name: &'static str,
    facts: Arc<Facts>,
    /// A page that holds the facts and is synced. The other one is written first: this may be the
    /// only one.
    whole: usize,
    /// A write failed: the file is not to be trusted with another one.
    poisoned: bool,
}

impl<D: Disk> Meta<D> {
    /// Makes the file of a new log.
    pub(crate) fn create(disk: &D, facts: Facts) -> io::Result<Self> {
        let name = META_NEW_NAME;
        let failed = |step| move |error| during(format_args!("{step} {name}"), &error);
        match disk.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("removing")(error));
            }
            _ => {}
        }
        let file = disk.create(name, (PAGES * BLOCK) as u64).map_err(failed("making"))?;
        let mut meta = Self { file, name, facts: Arc::default(), whole: 0, poisoned: false };
        meta.write(facts)?;
        let failed_syncs = disk.failed_syncs();
        disk.rename(name, META_NAME).map_err(failed("giving its name to"))?;
        disk.sync_names(failed_syncs).map_err(failed("syncing the directory for"))?;
        meta.name = META_NAME;
        Ok(meta)
    }

    /// Changes facts in a file made anew. A process that ended may have been told that its write of
    /// a page, or the sync of the name, had failed: what can be read may never become durable, and
    /// the page that is certain is not known.
    pub(crate) fn replace(self, disk: &D, change: impl FnOnce(&mut Facts)) -> io::Result<Self> {
        let mut facts = Facts::clone(&self.facts);
        change(&mut facts);
        assert!(facts.durable >= self.facts.durable, "what was durable stays so");
        Self::create(disk, facts)
    }

    /// Reads the newer good page.
    pub(crate) fn open(disk: &D) -> Result<Self, OpenError> {
        let failed = || OpenError::disk(format!("reading {META_NAME}"));
        let file = disk.open(META_NAME).map_err(failed())?;
        let (whole, facts) = newest(&read_pages(&file).map_err(failed())?)?;
        Ok(Self { file, name: META_NAME, facts: Arc::new(facts), whole, poisoned: false })
    }

    pub(crate) fn facts(&self) -> &Arc<Facts> {
        &self.facts
    }

    /// Changes facts durably. After an error what is on disk is either, and no change is
    /// accepted any more.
    pub(crate) fn update(&mut self, change: impl FnOnce(&mut Facts)) -> io::Result<()> {
        let mut facts = Facts::clone(&self.facts);
        change(&mut facts);
        assert!(facts.durable >= self.facts.durable, "what was durable stays so");
        self.write(facts)
    }

    /// States which segments there are, and what was durable, durably: one page is synced, and the
    /// other one written. It is synced with whatever is stated next, and counts only if the first
    /// one is damaged.
    pub(crate) fn note_segments(&mut self, change: impl FnOnce(&mut Facts)) -> io::Result<()> {
        let mut facts = Facts::clone(&self.facts);
        change(&mut facts);
        assert!(facts.durable >= self.facts.durable, "what was durable stays so");
        let page = self.begin(&mut facts)?;
        let synced = 1 - self.whole;
        self.put(&page, synced)?;
        self.sync()?;
        self.put(&page, self.whole)?;
        self.whole = synced;
        self.end(facts);
        Ok(())
    }

    /// As [`update`](Self::update), and takes back the durable mark where it is beyond `last`: what
    /// lies there is about to become void.
    pub(crate) fn take_back(
        &mut self,
        last: &LastGood,
        change: impl FnOnce(&mut Facts),
    ) -> io::Result<()> {
        let mut facts = Facts::clone(&self.facts);
        change(&mut facts);
        facts.durable = facts.durable.min(last.lsn);
        facts.durable_group = facts.durable_group.min(last.group);
        assert!(facts.snapshot <= last.lsn, "an image holds what is committed");
        self.write(facts)
    }

    fn write(&mut self, mut facts: Facts) -> io::Result<()> {
        let page = self.begin(&mut facts)?;
        for number in [1 - self.whole, self.whole] {
            self.put(&page, number)?;
            self.sync()?;
        }
        self.end(facts);
        Ok(())
    }

    /// The page to write. Until the end no other one is accepted.
    fn begin(&mut self, facts: &mut Facts) -> io::Result<IoBuffer> {
        if self.poisoned {
            return Err(io::Error::other("an earlier write of meta failed"));
        }
        facts.sequence = self.facts.sequence.max(facts.sequence) + 1;
        self.poisoned = true;
        let mut page = IoBuffer::with_blocks(1);
        facts.encode(&mut page);
        Ok(page)
    }

    fn put(&self, page: &IoBuffer, number: usize) -> io::Result<()> {
        let at = (number * BLOCK) as u64;
        let failed = |error| during(format_args!("writing {} at byte {at}", self.name), &error);
        self.file.write_at(page, at).map_err(failed)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync().map_err(|error| during(format_args!("syncing {}", self.name), &error))
    }

    fn end(&mut self, facts: Facts) {
        self.poisoned = false;
        self.facts = Arc::new(facts);
    }
}

/// Makes `meta` of a directory whose other files are there and durable: for tools that make a log
/// of the files of another one. A `meta` that is there is replaced, at once or not at all.
pub fn write_facts<D: Disk>(disk: &D, facts: Facts) -> io::Result<()> {
    Meta::create(disk, facts).map(drop)
}

/// The facts in `meta`, without changing anything: for tools.
pub fn read_facts<D: Disk>(disk: &D) -> Result<Facts, OpenError> {
    let failed = || OpenError::disk(format!("reading {META_NAME}"));
    let file = disk.open(META_NAME).map_err(failed())?;
    newest(&read_pages(&file).map_err(failed())?).map(|(_, facts)| facts)
}

fn read_pages<F: DiskFile>(file: &F) -> io::Result<[Result<Facts, Fault>; PAGES]> {
    let mut buffer = IoBuffer::with_blocks(PAGES);
    let read = file.read_at(&mut buffer, 0)?;
    buffer[read..].fill(0);
    let (pages, _) = buffer.as_chunks::<BLOCK>();
    Ok([Facts::decode(&pages[0]), Facts::decode(&pages[1])])
}

fn newest(pages: &[Result<Facts, Fault>; PAGES]) -> Result<(usize, Facts), OpenError> {
    for page in pages {
        if let Err(fault @ Fault::Version { .. }) = page {
            return Err(OpenError::Version { file: META_NAME.to_owned(), fault: *fault });
        }
    }
    let whole =
        pages.iter().enumerate().filter_map(|(number, page)| Some((number, page.as_ref().ok()?)));
    let newest = whole.max_by_key(|(_, facts)| facts.sequence);
    newest.map(|(number, facts)| (number, facts.clone())).ok_or_else(|| {
        OpenError::Damage(Damage {
            file: META_NAME.to_owned(),
            offset: 0,
            first: Lsn::FIRST,
            last: Lsn::ZERO,
            reason: "neither of its two pages is intact".to_owned(),
            proof: ": it is never without a whole one".to_owned(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::meta::tests::sample;
    use crate::sim_disk::{Fault, Op, SimDisk};

    fn spoil(disk: &SimDisk, page: u64) {
        let mut bytes = IoBuffer::with_blocks(1);
        bytes.fill(0xff);
        disk.open(META_NAME).unwrap().write_at(&bytes, page * BLOCK as u64).unwrap();
    }

    #[test]
    fn facts_survive_either_page() {
        for page in 0..2 {
            let disk = SimDisk::new();
            let mut meta = Meta::create(&disk, sample()).unwrap();
            meta.update(|facts| facts.term = 77).unwrap();
            spoil(&disk, page);
            let mut meta = Meta::open(&disk).unwrap();
            assert_eq!(meta.facts().term, 77);
            meta.update(|facts| facts.vote = 1).unwrap();
            spoil(&disk, 1 - page);
            assert_eq!(read_facts(&disk).unwrap().vote, 1, "the spoilt page is written again");
        }
    }

    /// A power cut tore one page; the next one must not meet the other while it is the only one.
    #[test]
    fn the_only_whole_page_is_never_written_first() {
        for page in 0..2 {
            let disk = SimDisk::new();
            Meta::create(&disk, sample()).unwrap();
            spoil(&disk, page);
            let mut meta = Meta::open(&disk).unwrap();
            disk.fail(Op::Write, 2, Fault::Fail(io::ErrorKind::Other));
            assert!(meta.update(|facts| facts.term = 78).is_err());
            spoil(&disk, page);
            assert_eq!(read_facts(&disk).unwrap().term, sample().term, "page {page}");
        }
    }

    /// Which segments there are is stated with one sync each time, between other changes.
    #[test]
    fn segments_that_were_stated_survive_a_power_cut_and_the_loss_of_either_page() {
        let disk = SimDisk::new();
        let mut meta = Meta::create(&disk, sample()).unwrap();
        let says = |disk: &SimDisk, last| {
            let facts = read_facts(disk).unwrap();
            assert_eq!(facts.segments().map(|range| (range.first, range.last)), Some((17, last)));
        };
        for last in 20..26 {
            meta.note_segments(|facts| facts.set_segments(17, last, None)).unwrap();
            for seed in 0..50 {
                says(&disk.crash(seed), last);
            }
            for page in 0..2 {
                let disk = disk.restart();
                spoil(&disk, page);
                says(&disk, last);
            }
            if last == 22 {
                meta.update(|facts| facts.vote = 9).unwrap();
            }
        }
        // The page that is not synced is the one that the next change begins with.
        disk.fail(Op::Write, 2, Fault::Fail(io::ErrorKind::Other));
        assert!(meta.update(|facts| facts.vote = 10).is_err());
        for seed in 0..50 {
            says(&disk.crash(seed), 25);
        }
    }

    #[test]
    fn both_pages_spoilt_are_damage() {
        let disk = SimDisk::new();
        Meta::create(&disk, sample()).unwrap();
        spoil(&disk, 0);
        spoil(&disk, 1);
        assert!(matches!(Meta::open(&disk), Err(OpenError::Damage(_))));
    }
}
