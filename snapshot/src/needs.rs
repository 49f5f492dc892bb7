//! What an image needs besides itself: the files with the records that its entries name.
//!
//! Owns: a section of every image that needs any, behind all others. The numbers of files are this
//! node's own; what the sections of the state say is the same on every node.

use zzq_wal::Lsn;
use zzq_wal::format::field::{put, u64_at};

/// The section that needs are kept in; no state has it.
pub(crate) const NEEDS: u16 = u16::MAX;

/// The greatest number that a section of a state may have: those above are this room's.
pub(crate) const SECTION_MAX: u16 = 0xFEFF;

const KEY_LEN: usize = 9;
const VALUE_LEN: usize = 32;

/// A kind of file that holds records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NeededKind {
    /// A segment of the log.
    Segment = 1,
    /// A cold file.
    Cold = 2,
}

/// One file that an image needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// What it is.
    pub kind: NeededKind,
    /// Its number.
    pub number: u64,
    /// The first record in it that the image names.
    pub first: Lsn,
    /// The last one.
    pub last: Lsn,
    /// How often the image names records in it.
    pub references: u64,
    /// What these weigh together, in bytes.
    pub bytes: u64,
}

impl Need {
    pub(crate) fn key(&self) -> [u8; KEY_LEN] {
        let mut key = [0; KEY_LEN];
        key[0] = self.kind as u8;
        put(&mut key, 1, &self.number.to_be_bytes());
        key
    }

    pub(crate) fn value(&self) -> [u8; VALUE_LEN] {
        let mut value = [0; VALUE_LEN];
        let fields = [self.first.get(), self.last.get(), self.references, self.bytes];
        for (at, field) in fields.into_iter().enumerate() {
            put(&mut value, at * 8, &field.to_le_bytes());
        }
        value
    }

    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Option<Self> {
        let (&kind, number) = key.split_first()?;
        let kind =
            [NeededKind::Segment, NeededKind::Cold].into_iter().find(|k| *k as u8 == kind)?;
        let number = u64::from_be_bytes(number.try_into().ok()?);
        if value.len() != VALUE_LEN {
            return None;
        }
        let (first, last) = (Lsn::new(u64_at(value, 0)), Lsn::new(u64_at(value, 8)));
        let need = Self {
            kind,
            number,
            first,
            last,
            references: u64_at(value, 16),
            bytes: u64_at(value, 24),
        };
        (first <= last).then_some(need)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_need_is_read_back_and_nothing_else_is_one() {
        let (first, last) = (Lsn::new(5), Lsn::new(9));
        let need = Need {
            kind: NeededKind::Cold,
            number: 300,
            first,
            last,
            references: 4,
            bytes: 1 << 40,
        };
        assert_eq!(Need::decode(&need.key(), &need.value()), Some(need));
        let backwards = Need { first: last, last: first, ..need };
        assert_eq!(Need::decode(&need.key(), &backwards.value()), None);
        assert_eq!(Need::decode(&need.key()[..8], &need.value()), None);
        assert_eq!(Need::decode(&need.key(), &need.value()[1..]), None);
        assert_eq!(Need::decode(&[3; 9], &need.value()), None);
        assert_eq!(Need::decode(&[], &need.value()), None);
    }
}
