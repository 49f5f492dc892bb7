//! A chunk: records that one producer has encoded, on their way into a group.
//!
//! Owns: encoding in place, the parts of a big record, what the tail must know of each record.
//! Does not know: LSNs, groups, rings.

use crate::format::record::{self, Flags, HEADER_LEN, Record};
use crate::format::{Checksum, checksum};

/// Of as many bytes, a checksum is worth being made by their producer.
const LONG: usize = 16 * 1024;

/// Which part of a big record a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Whole records only.
    None,
    /// The first part of one.
    First,
    /// One that is neither first nor last.
    Middle,
    /// The last part: the record takes its LSN here.
    Last,
}

/// Encoded records of one producer in their order.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Records with headers, as they go to disk.
    pub(crate) bytes: Vec<u8>,
    /// Of `bytes`, if they are many: whoever packs them need not read them for that, in the time
    /// of all, and out of another processor's cache.
    checksum: Option<u32>,
    /// Lanes concerned, for each record that takes an LSN.
    pub(crate) lanes: Vec<u64>,
    /// All of `lanes`.
    pub(crate) lanes_all: u64,
    /// The whole body of the big record of which this is the last part.
    pub(crate) whole: Vec<u8>,
    /// The producer's count before this chunk.
    pub(crate) handed_before: u64,
    /// Who made it.
    pub(crate) producer: u16,
    /// Somebody waits for one of the records.
    pub(crate) waits: bool,
    /// When records that nobody waits for were first seen in it, in log time; 0: long ago.
    pub(crate) since_ms: u64,
    /// Whether it is a part.
    pub(crate) part: Part,
}

impl Chunk {
    pub(crate) fn new(producer: u16) -> Self {
        Self {
            bytes: Vec::new(),
            checksum: None,
            lanes: Vec::new(),
            lanes_all: 0,
            whole: Vec::new(),
            handed_before: 0,
            producer,
            waits: false,
            since_ms: 0,
            part: Part::None,
        }
    }

    /// Forgets the records, keeps the memory up to `keep` bytes of either kind.
    pub(crate) fn clear(&mut self, keep: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(keep);
        self.checksum = None;
        self.lanes.clear();
        self.lanes.shrink_to(keep / size_of::<u64>());
        self.lanes_all = 0;
        self.whole = Vec::new();
        self.waits = false;
        self.since_ms = 0;
        self.part = Part::None;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes that it holds on to when it is empty.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.lanes.capacity() * size_of::<u64>()
    }

    /// Records that take an LSN.
    pub(crate) fn records(&self) -> u32 {
        let Ok(records) = u32::try_from(self.lanes.len()) else {
            unreachable!("a chunk is far shorter")
        };
        records
    }

    /// The producer's count after this chunk.
    pub(crate) fn handed_after(&self) -> u64 {
        self.handed_before + u64::from(self.records())
    }

    /// Lets `encode` append a body behind room for a header; returns where the record begins.
    pub(crate) fn encode(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; HEADER_LEN]);
        encode(&mut self.bytes);
        assert!(self.bytes.len() >= start + HEADER_LEN, "an encoder only appends");
        start
    }

    /// Finishes the record that begins at `start`, but for its checksum.
    pub(crate) fn finish(&mut self, start: usize, kind: u8, flags: Flags, lanes: u64) {
        record::put_header(&mut self.bytes[start..], kind, flags, 0);
        self.count(flags, lanes);
    }

    /// Becomes one part of a big record.
    pub(crate) fn hold_part(&mut self, kind: u8, flags: Flags, lanes: u64, body: &[u8]) {
        assert!(self.is_empty(), "a part has a chunk of its own");
        self.bytes.extend_from_slice(&[0; HEADER_LEN]);
        self.bytes.extend_from_slice(body);
        record::put_header(&mut self.bytes, kind, flags, self.producer);
        self.part = match (flags.has(Flags::CONTINUES), flags.has(Flags::MORE)) {
            (false, true) => Part::First,
            (true, true) => Part::Middle,
            (true, false) => Part::Last,
            (false, false) => Part::None,
        };
        self.count(flags, lanes);
    }

    /// Makes the checksums of its records, which are all there: it leaves its producer.
    pub(crate) fn seal(&mut self) {
        record::seal(&mut self.bytes);
        self.checksum = (self.bytes.len() >= LONG).then(|| checksum(&self.bytes));
    }

    /// Adds its bytes to a checksum.
    pub(crate) fn add_to(&self, sum: &mut Checksum) {
        match self.checksum {
            Some(checksum) => sum.append(checksum, self.bytes.len()),
            None => sum.update(&self.bytes),
        }
    }

    fn count(&mut self, flags: Flags, lanes: u64) {
        self.waits |= flags.has(Flags::WAITS);
        if flags.takes_lsn() {
            self.lanes.push(lanes);
            self.lanes_all |= lanes;
        }
    }

    /// The records that take an LSN, with their lanes, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Record<'_>, u64)> {
        let mut rest = &self.bytes[..];
        self.lanes.iter().map(move |lanes| {
            let Ok((mut record, _, behind)) = record::split_unchecked(rest) else {
                unreachable!("a chunk holds what its producer sealed")
            };
            rest = behind;
            if self.part == Part::Last {
                record.body = &self.whole;
            }
            (record, *lanes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_records_and_lanes_in_order() {
        let mut chunk = Chunk::new(4);
        chunk.handed_before = 10;
        for (body, lanes) in [(&b"one"[..], 1), (b"", 2), (b"three", 4)] {
            let start = chunk.encode(|out| out.extend_from_slice(body));
            chunk.finish(start, 9, Flags::WAITS, lanes);
        }
        let read: Vec<_> = chunk.iter().map(|(record, lanes)| (record.body, lanes)).collect();
        assert_eq!(read, [(&b"one"[..], 1), (b"", 2), (b"three", 4)]);
        assert_eq!((chunk.handed_after(), chunk.lanes_all, chunk.waits), (13, 7, true));
    }

    #[test]
    fn only_the_last_part_counts_as_a_record() {
        let mut first = Chunk::new(4);
        first.hold_part(9, Flags::MORE, 1, b"half");
        assert_eq!((first.records(), first.part), (0, Part::First));
        let mut last = Chunk::new(4);
        last.hold_part(9, Flags::CONTINUES, 1, b" and half");
        last.whole = b"half and half".to_vec();
        assert_eq!((last.records(), last.part), (1, Part::Last));
        assert_eq!(last.iter().next().unwrap().0.body, b"half and half");
    }

    #[test]
    fn its_checksum_is_that_of_its_bytes() {
        for len in [0, 100, LONG] {
            let mut chunk = Chunk::new(0);
            chunk.hold_part(1, Flags::default(), 1, &vec![7; len]);
            chunk.seal();
            assert_eq!(chunk.checksum.is_some(), len == LONG);
            let mut sum = Checksum::new();
            sum.update(b"before");
            chunk.add_to(&mut sum);
            assert_eq!(sum.value(), checksum(&[b"before", &chunk.bytes[..]].concat()), "{len}");
            assert!(record::split(&chunk.bytes).is_ok());
            chunk.clear(0);
            assert_eq!(chunk.checksum, None);
        }
    }

    #[test]
    fn keeps_nothing_when_cleared() {
        let mut chunk = Chunk::new(0);
        chunk.hold_part(1, Flags::CONTINUES.with(Flags::WAITS), 1, &[7; 1000]);
        chunk.whole = vec![7; 5000];
        chunk.clear(100);
        assert!(chunk.is_empty() && chunk.whole.is_empty() && !chunk.waits);
        assert!(chunk.bytes.capacity() < 1000);
    }
}
