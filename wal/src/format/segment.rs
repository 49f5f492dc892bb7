//! The first block of a segment, and its copy in the last block once the segment is closed.
//!
//! Owns: what a segment says about itself, and about the log before it.
//! Does not know: whether that is still true of the files before it.
//!
//! ```text
//!   0   8  magic "ZQ-SEGMT"
//!   8   4  checksum: CRC-32 of bytes 12 .. 4096
//!  12   4  format version
//!  16   4  beginning: 1 rolls on from the segment before, 2 breaks with all behind `last good`
//!  20   4  key id; 0: not encrypted
//!  24  16  log id
//!  40  16  cluster id
//!  56   4  node id
//!  60   4  zero
//!  64   8  epoch: how often the log has been opened
//!  72   8  number, from 1
//!  80   8  length of the file in bytes
//!  88  16  salt of this use of the file
//! 104  16  salt of the segment that this one continues; zeroes in the first
//! 120   8  number of the segment that this one continues; 0 in the first
//! 128      last good group before this segment, durable when the header was written:
//! 128   8    segment; 0: none
//! 136   8    offset where the group ends
//! 144   8    group number
//! 152   8    last LSN
//! 160   8    log time in ms
//! 168   4    checksum of the group's header
//! 172   4    zero
//! 176   8  first LSN; 0 where it rolls on: its first group tells
//! 184      only in the copy in the last block, zeroes in the first:
//! 184   8    offset where the groups end
//! 192   8    groups
//! 200   8    last group number
//! 208   8    last LSN
//! 216   8    log time of the last group in ms
//! 224   4    checksum of the last group's header
//! 228   4    checksum of the index
//! 232  ..  zero
//! ```

use super::field::{array_at, put, u32_at, u64_at};
use super::group::{GroupHeader, Place};
use super::{Fault, Salt, check_block, seal_block};
use crate::disk::BLOCK;
use crate::lsn::Lsn;
use crate::rules::{self, Rule};

const MAGIC: [u8; 8] = *b"ZQ-SEGMT";
/// Where groups begin.
pub const GROUPS_AT: u64 = BLOCK as u64;

/// Which log, and whose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Random, given when the log was made: files of another log are never mixed in.
    pub log: [u8; 16],
    /// The cluster; zeroes without one.
    pub cluster: [u8; 16],
    /// The node in it; 0 without one.
    pub node: u32,
}

/// How a segment joins what came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// Its first group follows the last one of the segment before, wherever that ends.
    Roll,
    /// Its first group follows the last good group that it names; all behind that group in older
    /// segments is void.
    Break,
}

/// A group that is known to be durable, and what the next one must fit to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastGood {
    /// Where it ends; segment 0 when there is no group at all.
    pub segment: u64,
    /// Byte offset behind it.
    pub end: u64,
    /// Its number, 0 if none.
    pub group: u64,
    /// Its last LSN.
    pub lsn: Lsn,
    /// Its log time in ms.
    pub time_ms: u64,
    /// The checksum of its header.
    pub checksum: u32,
}

impl LastGood {
    /// The group with this header, which ends at this offset.
    pub fn of(header: &GroupHeader, end: u64) -> Self {
        Self {
            segment: header.segment,
            end,
            group: header.number,
            lsn: header.last_lsn(),
            time_ms: header.time_ms,
            checksum: header.checksum,
        }
    }

    /// Where it ends.
    pub fn place(&self) -> Place {
        Place { segment: self.segment, offset: self.end }
    }

    /// Why a group does not follow this one, which is of `term`, if it does not.
    pub fn why_not_before(&self, next: &GroupHeader, term: u64) -> Option<&'static str> {
        if next.number != self.group + 1 {
            Some("its number is not the next")
        } else if next.first_lsn != self.lsn.next() {
            Some("its first LSN is not the next")
        } else if next.previous != self.checksum && rules::holds(Rule::Chain) {
            Some("it was chained to another group")
        } else if next.time_ms < self.time_ms {
            Some("its time is before that of the group before")
        } else if next.term < term {
            Some("its term is before that of the group before")
        } else {
            None
        }
    }
}

/// What a segment says of itself from the first moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Which log.
    pub identity: Identity,
    /// Which key its groups are encrypted with; 0: none.
    pub key: u32,
    /// How often the log has been opened, with this time.
    pub epoch: u64,
    /// From 1, growing.
    pub number: u64,
    /// Bytes of the file.
    pub length: u64,
    /// Of this use of the file.
    pub salt: Salt,
    /// Salt of the segment it continues.
    pub continues_salt: Salt,
    /// Number of the segment it continues.
    pub continues: u64,
    /// How it joins that one.
    pub beginning: Beginning,
    /// Durable when this was written.
    pub last_good: LastGood,
}

/// What the copy in the last block adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    /// Its first LSN.
    pub first_lsn: Lsn,
    /// Offset behind the last group.
    pub end: u64,
    /// Number of groups.
    pub groups: u64,
    /// Its last group, durable when this was written.
    pub last: LastGood,
    /// CRC-32 of the index in front of the last block.
    pub index_checksum: u32,
}

impl SegmentHeader {
    /// The first LSN where the header can know it.
    pub fn first_lsn(&self) -> Option<Lsn> {
        (self.beginning == Beginning::Break).then(|| self.last_good.lsn.next())
    }

    /// Writes the first block.
    pub(crate) fn encode(&self, block: &mut [u8]) {
        self.fill(block);
        seal_block(block, MAGIC);
    }

    /// Writes the last block.
    pub(crate) fn encode_closing(&self, closing: &Closing, block: &mut [u8]) {
        assert_eq!(closing.last.segment, self.number, "a segment closes with its own last group");
        self.fill(block);
        put(block, 176, &closing.first_lsn.get().to_le_bytes());
        put(block, 184, &closing.end.to_le_bytes());
        put(block, 192, &closing.groups.to_le_bytes());
        put(block, 200, &closing.last.group.to_le_bytes());
        put(block, 208, &closing.last.lsn.get().to_le_bytes());
        put(block, 216, &closing.last.time_ms.to_le_bytes());
        put(block, 224, &closing.last.checksum.to_le_bytes());
        put(block, 228, &closing.index_checksum.to_le_bytes());
        seal_block(block, MAGIC);
    }

    fn fill(&self, block: &mut [u8]) {
        assert_eq!(block.len(), BLOCK, "a header fills one block");
        block.fill(0);
        let beginning: u32 = match self.beginning {
            Beginning::Roll => 1,
            Beginning::Break => 2,
        };
        put(block, 16, &beginning.to_le_bytes());
        put(block, 20, &self.key.to_le_bytes());
        put(block, 24, &self.identity.log);
        put(block, 40, &self.identity.cluster);
        put(block, 56, &self.identity.node.to_le_bytes());
        put(block, 64, &self.epoch.to_le_bytes());
        put(block, 72, &self.number.to_le_bytes());
        put(block, 80, &self.length.to_le_bytes());
        put(block, 88, &self.salt);
        put(block, 104, &self.continues_salt);
        put(block, 120, &self.continues.to_le_bytes());
        put(block, 128, &self.last_good.segment.to_le_bytes());
        put(block, 136, &self.last_good.end.to_le_bytes());
        put(block, 144, &self.last_good.group.to_le_bytes());
        put(block, 152, &self.last_good.lsn.get().to_le_bytes());
        put(block, 160, &self.last_good.time_ms.to_le_bytes());
        put(block, 168, &self.last_good.checksum.to_le_bytes());
        let first = self.first_lsn().unwrap_or(Lsn::ZERO);
        put(block, 176, &first.get().to_le_bytes());
    }

    /// Reads the first block.
    pub fn decode(block: &[u8; BLOCK]) -> Result<Self, Fault> {
        check_block(block, MAGIC)?;
        let beginning = match u32_at(block, 16) {
            1 => Beginning::Roll,
            2 => Beginning::Break,
            _ => return Err(Fault::Senseless("neither rolls on nor breaks")),
        };
        let header = Self {
            identity: Identity {
                log: array_at(block, 24),
                cluster: array_at(block, 40),
                node: u32_at(block, 56),
            },
            key: u32_at(block, 20),
            epoch: u64_at(block, 64),
            number: u64_at(block, 72),
            length: u64_at(block, 80),
            salt: array_at(block, 88),
            continues_salt: array_at(block, 104),
            continues: u64_at(block, 120),
            beginning,
            last_good: LastGood {
                segment: u64_at(block, 128),
                end: u64_at(block, 136),
                group: u64_at(block, 144),
                lsn: Lsn::new(u64_at(block, 152)),
                time_ms: u64_at(block, 160),
                checksum: u32_at(block, 168),
            },
        };
        header.check()?;
        Ok(header)
    }

    fn check(&self) -> Result<(), Fault> {
        if self.number == 0 || self.continues >= self.number {
            return Err(Fault::Senseless("segment numbers out of order"));
        }
        if self.last_good.segment > self.continues {
            return Err(Fault::Senseless("its last good group is not before it"));
        }
        if self.length < LENGTH_MIN || !self.length.is_multiple_of(GROUPS_AT) {
            return Err(Fault::Senseless("an impossible length"));
        }
        let counts = [self.number, self.epoch, self.last_good.lsn.get(), self.last_good.group];
        if counts.contains(&u64::MAX) {
            return Err(Fault::Senseless("the log is at its end"));
        }
        Ok(())
    }

    /// Reads the last block, if it closes the segment that this header begins.
    pub fn decode_closing(&self, block: &[u8; BLOCK]) -> Option<Closing> {
        if Self::decode(block).ok()? != *self {
            return None;
        }
        let end = u64_at(block, 184);
        let closing = Closing {
            first_lsn: Lsn::new(u64_at(block, 176)),
            end,
            groups: u64_at(block, 192),
            last: LastGood {
                segment: self.number,
                end,
                group: u64_at(block, 200),
                lsn: Lsn::new(u64_at(block, 208)),
                time_ms: u64_at(block, 216),
                checksum: u32_at(block, 224),
            },
            index_checksum: u32_at(block, 228),
        };
        let sensible = closing.groups > 0
            && closing.groups < closing.end / GROUPS_AT
            && closing.first_lsn > Lsn::ZERO
            && closing.end.is_multiple_of(GROUPS_AT)
            && closing.end < self.length
            && closing.last.group < u64::MAX
            && closing.last.lsn.get() < u64::MAX;
        sensible.then_some(closing)
    }
}

/// The shortest segment.
pub const LENGTH_MIN: u64 = 64 * 1024;

const _: () = assert!(LENGTH_MIN.is_multiple_of(GROUPS_AT));

/// Whether a block begins as a header does, intact or not.
pub(crate) fn has_magic(block: &[u8; BLOCK]) -> bool {
    block.starts_with(&MAGIC)
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn sample() -> SegmentHeader {
        SegmentHeader {
            identity: Identity { log: [1; 16], cluster: [2; 16], node: 3 },
            key: 0,
            epoch: 4,
            number: 8,
            length: 1 << 20,
            salt: [5; 16],
            continues_salt: [6; 16],
            continues: 7,
            beginning: Beginning::Break,
            last_good: LastGood {
                segment: 7,
                end: 12288,
                group: 20,
                lsn: Lsn::new(41),
                time_ms: 1_700_000_000_000,
                checksum: 0x0102_0304,
            },
        }
    }

    pub(crate) fn sample_closing() -> Closing {
        Closing {
            first_lsn: Lsn::new(42),
            end: 20480,
            groups: 3,
            last: LastGood {
                segment: 8,
                end: 20480,
                group: 23,
                lsn: Lsn::new(60),
                time_ms: 1_700_000_000_500,
                checksum: 0x0506_0708,
            },
            index_checksum: 0x1122_3344,
        }
    }

    #[test]
    fn both_beginnings_are_read_back() {
        for beginning in [Beginning::Roll, Beginning::Break] {
            let header = SegmentHeader { beginning, ..sample() };
            let mut block = [0; BLOCK];
            header.encode(&mut block);
            assert_eq!(SegmentHeader::decode(&block), Ok(header));
            assert_eq!(header.decode_closing(&block), None, "a first block closes nothing");
        }
    }

    #[test]
    fn a_closing_is_read_back_by_its_own_header_only() {
        let header = sample();
        let mut block = [0; BLOCK];
        header.encode_closing(&sample_closing(), &mut block);
        assert_eq!(header.decode_closing(&block), Some(sample_closing()));
        let other = SegmentHeader { salt: [9; 16], ..header };
        assert_eq!(other.decode_closing(&block), None);
    }

    /// Recovery counts on from these numbers.
    #[test]
    fn what_no_writer_says_is_no_header_and_no_closing() {
        let last = LastGood { group: u64::MAX, ..sample().last_good };
        let headers = [
            SegmentHeader { number: u64::MAX, ..sample() },
            SegmentHeader { epoch: u64::MAX, ..sample() },
            SegmentHeader { last_good: last, ..sample() },
        ];
        for header in headers {
            let mut block = [0; BLOCK];
            header.encode(&mut block);
            let decoded = SegmentHeader::decode(&block);
            assert!(matches!(decoded, Err(Fault::Senseless(_))), "{header:?}");
        }
        let good = sample_closing();
        let closings = [
            Closing { last: LastGood { group: u64::MAX, ..good.last }, ..good },
            Closing { last: LastGood { lsn: Lsn::new(u64::MAX), ..good.last }, ..good },
            Closing { groups: 200, ..good },
            Closing { groups: 0, ..good },
            Closing { end: 20_481, ..good },
        ];
        for closing in closings {
            let mut block = [0; BLOCK];
            sample().encode_closing(&closing, &mut block);
            assert_eq!(sample().decode_closing(&block), None, "{closing:?}");
        }
    }

    #[test]
    fn a_newer_version_is_named() {
        let mut block = [0; BLOCK];
        sample().encode(&mut block);
        put(&mut block, 12, &7_u32.to_le_bytes());
        let sum = super::super::checksum(&block[12..]);
        put(&mut block, 8, &sum.to_le_bytes());
        assert_eq!(SegmentHeader::decode(&block), Err(Fault::Version { found: 7 }));
    }

    #[test]
    fn a_change_of_any_byte_is_noticed() {
        let mut block = [0; BLOCK];
        sample().encode(&mut block);
        for at in 0..BLOCK {
            block[at] ^= 1;
            assert!(SegmentHeader::decode(&block).is_err(), "byte {at}");
            block[at] ^= 1;
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 300)) {
            let mut block = [0; BLOCK];
            put(&mut block, 0, &bytes);
            seal_block(&mut block, MAGIC);
            if let Ok(header) = SegmentHeader::decode(&block) {
                let _ = (header.first_lsn(), header.decode_closing(&block));
            }
        }
    }

    #[test]
    fn each_link_of_the_chain_is_checked() {
        let last =
            LastGood { group: 8, lsn: Lsn::new(99), time_ms: 5, checksum: 9, ..sample().last_good };
        let mut fits = crate::format::group::tests::sample();
        (fits.previous, fits.time_ms) = (9, 5);
        let term = fits.term;
        assert_eq!(last.why_not_before(&fits, term), None);
        let changes: [fn(&mut GroupHeader); 5] = [
            |header| header.number += 1,
            |header| header.first_lsn = Lsn::new(101),
            |header| header.previous += 1,
            |header| header.time_ms -= 1,
            |header| header.term -= 1,
        ];
        for change in changes {
            let mut other = fits;
            change(&mut other);
            assert!(last.why_not_before(&other, term).is_some());
        }
    }
}
