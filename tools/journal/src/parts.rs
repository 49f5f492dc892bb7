//! Big records from their parts.

use std::collections::BTreeMap;

use zzq_wal::format::record::{BODY_MAX, Flags, Record};

/// Parts by their stream, until the last one comes.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    open: BTreeMap<u16, Vec<u8>>,
}

/// What a record or part makes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Made<'a> {
    /// It is a record by itself.
    Whole(&'a [u8]),
    /// It was the last part of this body.
    Last(Vec<u8>),
    /// More parts follow.
    More,
    /// It continues what is not there.
    NoBeginning,
    /// No writer makes this.
    Senseless(&'static str),
}

impl Parts {
    pub(crate) fn take<'a>(&mut self, record: &Record<'a>) -> Made<'a> {
        let continues = record.flags.has(Flags::CONTINUES);
        let more = record.flags.has(Flags::MORE);
        if !continues && !more {
            return Made::Whole(record.body);
        }
        let mut body = match (continues, self.open.remove(&record.stream)) {
            (true, Some(body)) => body,
            (false, None) => Vec::new(),
            (true, None) => return Made::NoBeginning,
            (false, Some(_)) => {
                return Made::Senseless("a big record begins within another of the same stream");
            }
        };
        if body.len() + record.body.len() > BODY_MAX {
            return Made::Senseless("a big record is longer than any may be");
        }
        body.extend_from_slice(record.body);
        if more {
            self.open.insert(record.stream, body);
            return Made::More;
        }
        Made::Last(body)
    }

    /// What is unfinished is void. Returns how many records that were.
    pub(crate) fn forget(&mut self) -> usize {
        let unfinished = self.open.len();
        self.open.clear();
        unfinished
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_a_record_and_crumbs_do_not() {
        let mut parts = Parts::default();
        let part = |stream, flags, body| Record { kind: 1, flags, stream, body };
        let (first, last) = (Flags::MORE, Flags::CONTINUES);
        assert_eq!(parts.take(&part(0, Flags::WAITS, b"x")), Made::Whole(b"x"));
        assert_eq!(parts.take(&part(1, first, b"a")), Made::More);
        assert_eq!(parts.take(&part(2, last, b"z")), Made::NoBeginning);
        assert_eq!(parts.take(&part(1, first.with(last), b"b")), Made::More);
        assert_eq!(parts.take(&part(1, last, b"c")), Made::Last(b"abc".to_vec()));
        assert_eq!(parts.take(&part(1, first, b"a")), Made::More);
        assert!(matches!(parts.take(&part(1, first, b"a")), Made::Senseless(_)));
        assert_eq!(parts.take(&part(1, first, b"a")), Made::More);
        assert_eq!(parts.forget(), 1);
    }
}
