//! Big records from their parts, in recovery and in readers.

use std::collections::BTreeMap;

use crate::format::record::{BODY_MAX, Flags, Record};

/// Collects parts by stream until each record is whole.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    open: BTreeMap<u16, Vec<u8>>,
    whole: Vec<u8>,
}

/// Parts that no writer makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PartFault {
    #[error("a part of a big record has no part before it")]
    NoBeginning,
    #[error("a big record begins within another of the same stream")]
    TwoBeginnings,
    #[error("a big record is longer than any may be")]
    TooLong,
}

impl Assembler {
    /// The body, if `record` is whole or makes one whole.
    pub(crate) fn take<'a>(
        &'a mut self,
        record: &Record<'a>,
    ) -> Result<Option<&'a [u8]>, PartFault> {
        let continues = record.flags.has(Flags::CONTINUES);
        let more = record.flags.has(Flags::MORE);
        if !continues && !more {
            return Ok(Some(record.body));
        }
        let begun = self.open.remove(&record.stream);
        let mut body = match (continues, begun) {
            (true, Some(body)) => body,
            (false, None) => Vec::new(),
            (true, None) => return Err(PartFault::NoBeginning),
            (false, Some(_)) => return Err(PartFault::TwoBeginnings),
        };
        if body.len() + record.body.len() > BODY_MAX {
            return Err(PartFault::TooLong);
        }
        body.extend_from_slice(record.body);
        if more {
            self.open.insert(record.stream, body);
            return Ok(None);
        }
        self.whole = body;
        Ok(Some(&self.whole))
    }

    /// As [`take`](Self::take), for a caller that reads the body later by [`whole`](Self::whole).
    pub(crate) fn gather(&mut self, record: &Record<'_>) -> Result<bool, PartFault> {
        if !record.flags.has(Flags::CONTINUES) && !record.flags.has(Flags::MORE) {
            self.whole.clear();
            self.whole.extend_from_slice(record.body);
            return Ok(true);
        }
        let part = Record { body: record.body, ..*record };
        self.take(&part).map(|whole| whole.is_some())
    }

    /// The body that the last [`gather`](Self::gather) made whole.
    pub(crate) fn whole(&self) -> &[u8] {
        &self.whole
    }

    /// What is unfinished is void: a new start writes no more parts of it. Returns how many.
    pub(crate) fn forget(&mut self) -> usize {
        let unfinished = self.open.len();
        self.open.clear();
        self.whole = Vec::new();
        unfinished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(stream: u16, flags: Flags, body: &[u8]) -> Record<'_> {
        Record { kind: 1, flags, stream, body }
    }

    #[test]
    fn parts_of_two_streams_lie_between_one_another() {
        let mut assembler = Assembler::default();
        let (first, last) = (Flags::MORE, Flags::CONTINUES);
        let middle = first.with(last);
        assert_eq!(assembler.take(&part(1, first, b"a")), Ok(None));
        assert_eq!(assembler.take(&part(2, first, b"x")), Ok(None));
        assert_eq!(assembler.take(&part(0, Flags::WAITS, b"whole")), Ok(Some(&b"whole"[..])));
        assert_eq!(assembler.take(&part(1, middle, b"b")), Ok(None));
        assert_eq!(assembler.take(&part(1, last, b"c")), Ok(Some(&b"abc"[..])));
        assert_eq!(assembler.take(&part(2, last, b"y")), Ok(Some(&b"xy"[..])));
        assert_eq!(assembler.forget(), 0);
    }

    #[test]
    fn nothing_continues_across_a_start() {
        let mut assembler = Assembler::default();
        assert_eq!(assembler.take(&part(1, Flags::MORE, b"a")), Ok(None));
        assert_eq!(assembler.take(&part(1, Flags::MORE, b"a")), Err(PartFault::TwoBeginnings));
        assert_eq!(assembler.take(&part(1, Flags::MORE, b"a")), Ok(None));
        assert_eq!(assembler.forget(), 1);
        let last = part(1, Flags::CONTINUES, b"b");
        assert_eq!(assembler.take(&last), Err(PartFault::NoBeginning));
    }
}
