//! `meta`: facts about this node that are no records, in two pages with the same content.
//!
//! Owns: the pages. Does not know: when they are written (see `crate::meta`).
//!
//! ```text
//!   0   8  magic "ZQ-META\0"
//!   8   4  checksum: CRC-32 of bytes 12 .. 4096
//!  12   4  format version
//!  16   8  sequence: one more at each change
//!  24  16  log id
//!  40  16  cluster id
//!  56   4  node id
//!  60   4  zero
//!  64   8  epoch: how often the log has been opened
//!  72   8  term
//!  80   8  vote in that term: a consensus id; 0: none
//!  88   8  durable mark: LSN
//!  96   8  durable mark: group number
//! 104   8  snapshot mark: LSN of the newest good image; 0: none
//! 112   8  snapshot mark: number of that image
//! 120   4  zero
//! 124   4  number of file ranges, at most 164
//! 128  24  each: kind (4; 1 segments, 2 cold files), zero (4), first number (8), last number (8)
//! 4064  8  first group: its number; 0: the first segment says it itself
//! 4072  8  first group: its first LSN
//! 4080  8  names of spares from this number on are the log's
//! 4088  8  zero
//! ```

use super::field::{array_at, put, u32_at, u64_at};
use super::group::GroupHeader;
use super::segment::Identity;
use super::{Fault, check_block, seal_block};
use crate::disk::BLOCK;
use crate::lsn::Lsn;

const MAGIC: [u8; 8] = *b"ZQ-META\0";
const RANGES_AT: usize = 128;
const RANGE_LEN: usize = 24;
/// What came later lies behind the ranges, where it was zero before.
const FIRST_GROUP_AT: usize = 4064;
const SPARES_AT: usize = 4080;

/// How many ranges of files fit.
pub const RANGES_MAX: usize = (FIRST_GROUP_AT - RANGES_AT) / RANGE_LEN;

const _: () = assert!(RANGES_MAX == 164 && RANGES_AT + RANGES_MAX * RANGE_LEN == FIRST_GROUP_AT);
const _: () = assert!(SPARES_AT == FIRST_GROUP_AT + 16 && SPARES_AT + 16 == BLOCK);

/// Kind of the files of the log itself.
pub const SEGMENTS: u32 = 1;
/// Kind of the files that the cleaner makes.
pub const COLD_FILES: u32 = 2;

/// Spares have lower numbers: those that follow have some, too, and no log has made so many.
pub(crate) const SPARES_END: u64 = u64::MAX / 2;

/// Files of one kind: `first ..= last`, none if `last < first`. All segments of theirs should be
/// there. Of cold files those that are needed lie in it, and `last` is the highest number that any
/// has had: it only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRange {
    /// [`SEGMENTS`] or [`COLD_FILES`].
    pub kind: u32,
    /// Lowest number.
    pub first: u64,
    /// Highest number.
    pub last: u64,
}

/// The group that the log begins with, where it was trimmed: what must stand first in a segment
/// whose header does not say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstGroup {
    /// Its number.
    pub number: u64,
    /// LSN of the first record that it completes, or of the next one.
    pub first_lsn: Lsn,
}

impl FirstGroup {
    /// The one with this header.
    pub fn of(header: &GroupHeader) -> Self {
        Self { number: header.number, first_lsn: header.first_lsn }
    }
}

/// The node's own facts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// One more at each change.
    pub sequence: u64,
    /// Which log, and whose.
    pub identity: Identity,
    /// How often the log has been opened.
    pub epoch: u64,
    /// The newest term this node has heard of.
    pub term: u64,
    /// Whom it gave its vote in that term; 0: nobody.
    pub vote: u64,
    /// This LSN was durable.
    pub durable: Lsn,
    /// This group was durable.
    pub durable_group: u64,
    /// LSN of the newest good image; zero: none.
    pub snapshot: Lsn,
    /// Number of that image.
    pub snapshot_number: u64,
    /// Which files should be there.
    pub files: Vec<FileRange>,
    /// What the first of the segments begins with, if that rolls on from one that was trimmed. One
    /// that breaks names the group before.
    pub first_group: Option<FirstGroup>,
    /// Files called as spares are, with lower numbers, were there before the log.
    pub spares_from: u64,
}

impl Facts {
    /// The segments that should be there, if any was ever made.
    pub fn segments(&self) -> Option<FileRange> {
        self.files.iter().find(|range| range.kind == SEGMENTS).copied()
    }

    /// States which segments should be there, and what the first one begins with, if that rolls on.
    pub fn set_segments(&mut self, first: u64, last: u64, first_group: Option<FirstGroup>) {
        self.set(FileRange { kind: SEGMENTS, first, last });
        self.first_group = first_group;
    }

    /// The cold files, if any was ever made.
    pub fn cold_files(&self) -> Option<FileRange> {
        self.files.iter().find(|range| range.kind == COLD_FILES).copied()
    }

    /// States the lowest number of a cold file that is needed, and the highest that any has had.
    ///
    /// # Panics
    /// If that was higher.
    pub fn set_cold_files(&mut self, first: u64, last: u64) {
        let before = self.cold_files().map_or(0, |range| range.last);
        assert!(last >= before, "numbers of cold files are not used again");
        self.set(FileRange { kind: COLD_FILES, first, last });
    }

    fn set(&mut self, range: FileRange) {
        self.files.retain(|other| other.kind != range.kind);
        self.files.push(range);
        self.files.sort_unstable_by_key(|range| range.kind);
    }

    /// Writes a page.
    pub(crate) fn encode(&self, page: &mut [u8]) {
        assert_eq!(page.len(), BLOCK, "a page is one block");
        assert!(self.files.len() <= RANGES_MAX, "ranges of files fit their page");
        page.fill(0);
        put(page, 16, &self.sequence.to_le_bytes());
        put(page, 24, &self.identity.log);
        put(page, 40, &self.identity.cluster);
        put(page, 56, &self.identity.node.to_le_bytes());
        put(page, 64, &self.epoch.to_le_bytes());
        put(page, 72, &self.term.to_le_bytes());
        put(page, 80, &self.vote.to_le_bytes());
        put(page, 88, &self.durable.get().to_le_bytes());
        put(page, 96, &self.durable_group.to_le_bytes());
        put(page, 104, &self.snapshot.get().to_le_bytes());
        put(page, 112, &self.snapshot_number.to_le_bytes());
        let Ok(count) = u32::try_from(self.files.len()) else { unreachable!("RANGES_MAX fits") };
        put(page, 124, &count.to_le_bytes());
        for (range, bytes) in self.files.iter().zip(page[RANGES_AT..].chunks_exact_mut(RANGE_LEN)) {
            put(bytes, 0, &range.kind.to_le_bytes());
            put(bytes, 8, &range.first.to_le_bytes());
            put(bytes, 16, &range.last.to_le_bytes());
        }
        if let Some(group) = self.first_group {
            put(page, FIRST_GROUP_AT, &group.number.to_le_bytes());
            put(page, FIRST_GROUP_AT + 8, &group.first_lsn.get().to_le_bytes());
        }
        put(page, SPARES_AT, &self.spares_from.to_le_bytes());
        seal_block(page, MAGIC);
    }

    /// Reads a page.
    pub fn decode(page: &[u8; BLOCK]) -> Result<Self, Fault> {
        check_block(page, MAGIC)?;
        let count = usize::try_from(u32_at(page, 124)).unwrap_or(usize::MAX);
        if count > RANGES_MAX {
            return Err(Fault::Senseless("more ranges of files than fit"));
        }
        let counts = [u64_at(page, 16), u64_at(page, 64), u64_at(page, 112)];
        let range = |bytes: &[u8]| FileRange {
            kind: u32_at(bytes, 0),
            first: u64_at(bytes, 8),
            last: u64_at(bytes, 16),
        };
        let files = page[RANGES_AT..].chunks_exact(RANGE_LEN).take(count).map(range);
        let files: Vec<FileRange> = files.collect();
        if counts.into_iter().chain(files.iter().map(|range| range.last)).any(|n| n == u64::MAX) {
            return Err(Fault::Senseless("the log is at its end"));
        }
        let spares_from = u64_at(page, SPARES_AT);
        if spares_from > SPARES_END {
            return Err(Fault::Senseless("a log has made all spares that there can be"));
        }
        let first_group = FirstGroup {
            number: u64_at(page, FIRST_GROUP_AT),
            first_lsn: Lsn::new(u64_at(page, FIRST_GROUP_AT + 8)),
        };
        if (first_group.number == 0) != (first_group.first_lsn == Lsn::ZERO) {
            return Err(Fault::Senseless("half of a first group"));
        }
        Ok(Self {
            sequence: u64_at(page, 16),
            identity: Identity {
                log: array_at(page, 24),
                cluster: array_at(page, 40),
                node: u32_at(page, 56),
            },
            epoch: u64_at(page, 64),
            term: u64_at(page, 72),
            vote: u64_at(page, 80),
            durable: Lsn::new(u64_at(page, 88)),
            durable_group: u64_at(page, 96),
            snapshot: Lsn::new(u64_at(page, 104)),
            snapshot_number: u64_at(page, 112),
            files,
            first_group: (first_group.number > 0).then_some(first_group),
            spares_from,
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn sample() -> Facts {
        Facts {
            sequence: 5,
            identity: Identity { log: [1; 16], cluster: [2; 16], node: 3 },
            epoch: 4,
            term: 9,
            vote: 2,
            durable: Lsn::new(60),
            durable_group: 23,
            snapshot: Lsn::new(40),
            snapshot_number: 6,
            files: vec![
                FileRange { kind: SEGMENTS, first: 7, last: 9 },
                FileRange { kind: COLD_FILES, first: 1, last: 2 },
            ],
            first_group: None,
            spares_from: 0,
        }
    }

    /// With what was zero in the first programs.
    pub(crate) fn trimmed_sample() -> Facts {
        let first_group = Some(FirstGroup { number: 17, first_lsn: Lsn::new(31) });
        Facts { first_group, spares_from: 4, ..sample() }
    }

    #[test]
    fn facts_are_read_back() {
        for facts in [sample(), trimmed_sample()] {
            let mut page = [0; BLOCK];
            facts.encode(&mut page);
            assert_eq!(Facts::decode(&page), Ok(facts));
        }
    }

    #[test]
    fn all_ranges_that_fit_leave_room_for_what_is_behind_them() {
        let range = FileRange { kind: 7, first: u64::MAX - 1, last: u64::MAX - 1 };
        let facts = Facts { files: vec![range; RANGES_MAX], ..trimmed_sample() };
        let mut page = [0; BLOCK];
        facts.encode(&mut page);
        assert_eq!(Facts::decode(&page), Ok(facts));
    }

    #[test]
    fn files_of_a_kind_are_stated_once() {
        let mut facts = sample();
        facts.set_segments(8, 12, trimmed_sample().first_group);
        assert_eq!(facts.first_group, trimmed_sample().first_group);
        assert_eq!(facts.segments(), Some(FileRange { kind: SEGMENTS, first: 8, last: 12 }));
        facts.set_cold_files(3, 2);
        assert_eq!(facts.cold_files(), Some(FileRange { kind: COLD_FILES, first: 3, last: 2 }));
        assert_eq!(facts.files.iter().map(|range| range.kind).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    #[should_panic(expected = "are not used again")]
    fn numbers_of_cold_files_only_grow() {
        sample().set_cold_files(1, 1);
    }

    /// The next start counts on from these.
    #[test]
    fn what_no_writer_says_is_no_page() {
        let half = |number, first_lsn| Some(FirstGroup { number, first_lsn });
        let changes: [&dyn Fn(&mut Facts); 7] = [
            &|facts| facts.spares_from = SPARES_END + 1,
            &|facts| facts.first_group = half(0, Lsn::new(1)),
            &|facts| facts.first_group = half(1, Lsn::ZERO),
            &|facts| facts.sequence = u64::MAX,
            &|facts| facts.epoch = u64::MAX,
            &|facts| facts.snapshot_number = u64::MAX,
            &|facts| facts.set_cold_files(1, u64::MAX),
        ];
        for change in changes {
            let mut facts = sample();
            change(&mut facts);
            let mut page = [0; BLOCK];
            facts.encode(&mut page);
            assert!(matches!(Facts::decode(&page), Err(Fault::Senseless(_))), "{facts:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 400)) {
            let mut page = [0; BLOCK];
            put(&mut page, 0, &bytes);
            seal_block(&mut page, MAGIC);
            let _ = Facts::decode(&page);
        }
    }
}
