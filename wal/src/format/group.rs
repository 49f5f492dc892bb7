//! A group: the records of one write.
//!
//! Owns: the group header, both checksums, the chain. Does not know: which group should be where.
//!
//! ```text
//!   0   4  magic "ZQGR"
//!   4   4  checksum of the header: CRC-32 of bytes 8 .. 128
//!   8   4  checksum of the body: CRC-32 of bytes 128 .. length, padding included
//!  12   4  length of the group in bytes, a multiple of 4096
//!  16  16  salt of the segment
//!  32   8  segment number
//!  40   8  group number: dense over the log, from 1
//!  48   8  term
//!  56   8  LSN of its first record, or of the next record if it completes none
//!  64   8  log time in ms
//!  72   8  durable LSN when it was sealed
//!  80   4  records that it completes: whole ones and last parts
//!  84   4  length of the records in bytes; they begin at 128, zeroes follow
//!  88   4  checksum of the header of the group before; 0 in the first
//!  92   4  zero
//!  96   8  segment with the first part of the oldest big record unfinished before it; 0: none
//! 104   8  offset there of the group with that part
//! 112  16  zero
//! 128   .  records
//! ```

use super::field::{array_at, put, u32_at, u64_at};
use super::record::{self, RecordFault};
use super::{Salt, checksum};
use crate::disk::BLOCK;
use crate::lsn::Lsn;

/// Bytes before the first record.
pub const HEADER_LEN: usize = 128;
/// The longest group that any writer makes.
pub const LEN_MAX: usize = 16 * 1024 * 1024;

const MAGIC: [u8; 4] = *b"ZQGR";

const _: () = assert!(HEADER_LEN < BLOCK && LEN_MAX.is_multiple_of(BLOCK));
const _: () = assert!(LEN_MAX < u32::MAX as usize);

/// The header of a group. `checksum` is the one of the header itself; it names the whole group,
/// since it covers the checksum of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupHeader {
    /// Of the header, bytes 8 .. 128. Known once it is sealed.
    pub checksum: u32,
    /// Of the body. Known once it is sealed.
    pub body_checksum: u32,
    /// Bytes of the whole group. Known once it is sealed.
    pub length: usize,
    /// Of the segment it was written to.
    pub salt: Salt,
    /// Of the segment it was written to.
    pub segment: u64,
    /// Dense over the log, from 1.
    pub number: u64,
    /// Leadership it was made under; 0 without a cluster.
    pub term: u64,
    /// Of the first record it completes.
    pub first_lsn: Lsn,
    /// Log time in ms: never less than in the group before.
    pub time_ms: u64,
    /// What was durable when this was sealed: proof for recovery.
    pub durable: Lsn,
    /// How many records it completes.
    pub records: u32,
    /// Bytes of records. Known once it is sealed.
    pub records_len: usize,
    /// `checksum` of the group before.
    pub previous: u32,
    /// Where the oldest big record begins that was unfinished before this group.
    pub open: Option<Place>,
}

/// Where a group lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Number of the segment, from 1.
    pub segment: u64,
    /// Byte offset in it.
    pub offset: u64,
}

impl Place {
    /// Groups lie behind the first block.
    fn is_possible(self) -> bool {
        let block = BLOCK as u64;
        self.offset >= block && self.offset.is_multiple_of(block)
    }
}

impl GroupHeader {
    /// Reads the header at the front of `block`; `None` unless it is intact and possible.
    pub fn decode(block: &[u8]) -> Option<Self> {
        let header = block.get(..HEADER_LEN)?;
        if header[..4] != MAGIC || checksum(&header[8..]) != u32_at(header, 4) {
            return None;
        }
        let open = Place { segment: u64_at(header, 96), offset: u64_at(header, 104) };
        let decoded = Self {
            checksum: u32_at(header, 4),
            body_checksum: u32_at(header, 8),
            length: usize::try_from(u32_at(header, 12)).ok()?,
            salt: array_at(header, 16),
            segment: u64_at(header, 32),
            number: u64_at(header, 40),
            term: u64_at(header, 48),
            first_lsn: Lsn::new(u64_at(header, 56)),
            time_ms: u64_at(header, 64),
            durable: Lsn::new(u64_at(header, 72)),
            records: u32_at(header, 80),
            records_len: usize::try_from(u32_at(header, 84)).ok()?,
            previous: u32_at(header, 88),
            open: (open.segment != 0).then_some(open),
        };
        decoded.is_possible().then_some(decoded)
    }

    /// Holds for whatever a writer makes; later arithmetic rests on it.
    fn is_possible(&self) -> bool {
        self.length.is_multiple_of(BLOCK)
            && self.length <= LEN_MAX
            && self.records_len.checked_add(HEADER_LEN).is_some_and(|end| end <= self.length)
            && self.number > 0
            && self.number < u64::MAX
            && self.first_lsn > Lsn::ZERO
            && self.first_lsn.get().checked_add(u64::from(self.records)).is_some()
            && self.durable < self.first_lsn
            && self.open.is_none_or(|open| open.segment <= self.segment && open.is_possible())
    }

    /// The LSN of its last record; the one before `first_lsn` if it completes none.
    pub fn last_lsn(&self) -> Lsn {
        Lsn::new(self.first_lsn.get() - 1 + u64::from(self.records))
    }

    /// The whole group is in `bytes`, and its body is what was sealed.
    pub fn body_is_intact(&self, bytes: &[u8]) -> bool {
        bytes.get(HEADER_LEN..self.length).is_some_and(|body| checksum(body) == self.body_checksum)
    }

    /// The records within `bytes`, the group.
    pub fn records<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[HEADER_LEN..HEADER_LEN + self.records_len]
    }

    /// Takes the records behind `last`, which it holds, out of the group that is `bytes`, and seals
    /// it anew: at the same place, in the same chain.
    ///
    /// # Panics
    /// If it does not hold that record.
    pub fn cut(&self, bytes: &mut Vec<u8>, last: Lsn) -> Result<Self, RecordFault> {
        assert!(self.first_lsn <= last && last <= self.last_lsn(), "it holds the last that stays");
        let (mut rest, mut lsn) = (self.records(bytes), self.first_lsn);
        while lsn <= last {
            let (record, behind) = record::split(rest)?;
            lsn = if record.flags.takes_lsn() { lsn.next() } else { lsn };
            rest = behind;
        }
        let kept = self.records_len - rest.len();
        bytes.truncate(HEADER_LEN + kept);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        let mut header = *self;
        header.records = u32::try_from(lsn.get() - self.first_lsn.get()).unwrap_or(u32::MAX);
        let body_checksum = checksum(&bytes[HEADER_LEN..]);
        header.seal(bytes, kept, body_checksum);
        Ok(header)
    }

    /// Finishes a group whose records, `records_len` bytes, are in place in `bytes` with zeroes
    /// behind them, which all have `body_checksum`: fills in lengths and checksums, and writes the
    /// header.
    pub(crate) fn seal(&mut self, bytes: &mut [u8], records_len: usize, body_checksum: u32) {
        assert!(bytes.len().is_multiple_of(BLOCK) && bytes.len() <= LEN_MAX);
        self.length = bytes.len();
        self.records_len = records_len;
        self.body_checksum = body_checksum;
        self.seal_again(bytes);
    }

    /// As [`seal`](Self::seal).
    #[cfg(test)]
    pub(crate) fn seal_all(&mut self, bytes: &mut [u8], records_len: usize) {
        let sum = checksum(&bytes[HEADER_LEN..]);
        self.seal(bytes, records_len, sum);
    }

    /// Writes the header of a group that was sealed before, after a change to its place or chain.
    pub(crate) fn seal_again(&mut self, bytes: &mut [u8]) {
        assert!(self.is_possible(), "a writer makes only what a reader takes");
        let header = &mut bytes[..HEADER_LEN];
        header.fill(0);
        let open = self.open.unwrap_or(Place { segment: 0, offset: 0 });
        put(header, 0, &MAGIC);
        put(header, 8, &self.body_checksum.to_le_bytes());
        put(header, 12, &length_u32(self.length).to_le_bytes());
        put(header, 16, &self.salt);
        put(header, 32, &self.segment.to_le_bytes());
        put(header, 40, &self.number.to_le_bytes());
        put(header, 48, &self.term.to_le_bytes());
        put(header, 56, &self.first_lsn.get().to_le_bytes());
        put(header, 64, &self.time_ms.to_le_bytes());
        put(header, 72, &self.durable.get().to_le_bytes());
        put(header, 80, &self.records.to_le_bytes());
        put(header, 84, &length_u32(self.records_len).to_le_bytes());
        put(header, 88, &self.previous.to_le_bytes());
        put(header, 96, &open.segment.to_le_bytes());
        put(header, 104, &open.offset.to_le_bytes());
        self.checksum = checksum(&header[8..]);
        put(header, 4, &self.checksum.to_le_bytes());
    }
}

fn length_u32(length: usize) -> u32 {
    let Ok(length) = u32::try_from(length) else { unreachable!("lengths are below LEN_MAX") };
    length
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn sample() -> GroupHeader {
        GroupHeader {
            checksum: 0,
            body_checksum: 0,
            length: 0,
            salt: *b"0123456789abcdef",
            segment: 7,
            number: 9,
            term: 3,
            first_lsn: Lsn::new(100),
            time_ms: 1_700_000_000_123,
            durable: Lsn::new(98),
            records: 2,
            records_len: 0,
            previous: 0xdead_beef,
            open: Some(Place { segment: 6, offset: 8192 }),
        }
    }

    #[test]
    fn what_is_sealed_is_read_back() {
        let mut bytes = vec![0; 2 * BLOCK];
        bytes[HEADER_LEN..HEADER_LEN + 5000].fill(0x55);
        let mut header = sample();
        header.seal_all(&mut bytes, 5000);
        let back = GroupHeader::decode(&bytes).unwrap();
        assert_eq!(back, header);
        assert!(back.body_is_intact(&bytes));
        assert_eq!(back.records(&bytes), &[0x55; 5000][..]);
        assert_eq!(back.last_lsn(), Lsn::new(101));
    }

    #[test]
    fn a_group_that_is_cut_holds_what_comes_before() {
        use crate::format::record::{Flags, Record};
        let first = record::HEADER_LEN + 3000;
        let ends = [first, 2 * first + 40, 3 * first + 40];
        let mut bytes = vec![0; HEADER_LEN + ends[2]];
        let records = &mut bytes[HEADER_LEN..];
        record::put_header(&mut records[..first], 1, Flags::WAITS, 0);
        // A part of a big record that ends elsewhere takes no LSN.
        record::put_header(&mut records[first..first + 40], 2, Flags::MORE, 3);
        record::put_header(&mut records[first + 40..ends[1]], 1, Flags::WAITS, 0);
        record::put_header(&mut records[ends[1]..], 1, Flags::WAITS, 0);
        record::seal(records);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        let mut whole = GroupHeader { records: 3, ..sample() };
        whole.seal_all(&mut bytes, ends[2]);
        for (kept, end) in ends.into_iter().enumerate() {
            let last = Lsn::new(100 + kept as u64);
            let mut cut = bytes.clone();
            let header = whole.cut(&mut cut, last).unwrap();
            assert_eq!(GroupHeader::decode(&cut), Some(header));
            assert!(header.body_is_intact(&cut) && cut.len() == header.length);
            assert_eq!((header.last_lsn(), header.records_len), (last, end));
            assert_eq!((header.number, header.previous), (whole.number, whole.previous));
            let records = header.records(&cut);
            assert!(matches!(record::split(records), Ok((Record { kind: 1, .. }, _))));
            assert_eq!(header == whole, last == whole.last_lsn(), "whole it is as it was");
        }
        bytes[HEADER_LEN + 20] ^= 1;
        assert_eq!(whole.cut(&mut bytes, Lsn::new(100)), Err(RecordFault::Checksum));
    }

    #[test]
    fn a_change_of_any_byte_is_noticed() {
        let mut bytes = vec![0; BLOCK];
        sample().seal_all(&mut bytes, 10);
        for at in 0..BLOCK {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            let taken =
                GroupHeader::decode(&changed).is_some_and(|header| header.body_is_intact(&changed));
            assert!(!taken, "byte {at}");
        }
    }

    /// Recovery counts on from these numbers, and reads from these places.
    #[test]
    fn what_no_writer_says_is_no_group() {
        let place = |segment, offset| Some(Place { segment, offset });
        let changes: [fn(&mut GroupHeader); 3] = [
            |header| header.number = u64::MAX,
            |header| header.number = 0,
            |header| header.durable = header.first_lsn,
        ];
        let mut headers: Vec<GroupHeader> = changes
            .iter()
            .map(|change| {
                let mut header = sample();
                change(&mut header);
                header
            })
            .collect();
        for open in [place(8, 4096), place(7, 0), place(7, 5000), place(7, u64::MAX)] {
            headers.push(GroupHeader { open, ..sample() });
        }
        for header in headers {
            let header = GroupHeader { length: BLOCK, records_len: 10, ..header };
            assert!(!header.is_possible(), "{header:?}");
        }
    }

    #[test]
    fn a_group_cut_short_is_not_intact() {
        let mut bytes = vec![0; 2 * BLOCK];
        sample().seal_all(&mut bytes, 10);
        let header = GroupHeader::decode(&bytes[..BLOCK]).unwrap();
        assert!(!header.body_is_intact(&bytes[..2 * BLOCK - 1]));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = GroupHeader::decode(&bytes);
            // With the magic and the checksum right, so that the checks behind them are reached.
            if bytes.len() >= HEADER_LEN {
                put(&mut bytes, 0, &MAGIC);
                let sum = checksum(&bytes[8..HEADER_LEN]);
                put(&mut bytes, 4, &sum.to_le_bytes());
                if let Some(header) = GroupHeader::decode(&bytes) {
                    let _ = (header.last_lsn(), header.body_is_intact(&bytes));
                }
            }
        }
    }
}
