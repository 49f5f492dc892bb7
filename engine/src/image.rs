//! Images: the state as sections of entries sorted by key, without payloads, and back.
//!
//! Owns: what stands in each section. Keys compare as bytes, numbers in them are big-endian, so
//! that whoever keeps sections (the snapshot room) merges them without knowing what they mean.
//! The entries of all parts of a state, merged, are those of the whole: the number of shards
//! leaves no trace. `doc/records.md` draws every byte.

mod owners;
mod read;
mod references;
mod sections;
#[cfg(test)]
mod tests;
mod touched;
mod untouched;
mod write;

use zzq_types::Lsn;

use crate::wire::{Reader, RecordError, put};

pub use owners::{Owner, Owners};
pub use read::{ImageError, Loader};
pub use references::references;
pub use sections::Sections;
pub use touched::Touched;
pub use untouched::UntouchedReader;
pub use write::{write, write_with};

/// A part of an image; in an image they stand in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Section {
    /// How far the log was applied and which session numbers were used.
    Marks = 1,
    /// Sessions by number, with the marks of their queues.
    Sessions = 2,
    /// Subscriptions by session and number, shared ones that were left among them.
    Subscriptions = 3,
    /// Identifiers of QoS 2 messages that are not released, by session.
    Inbound = 4,
    /// Open messages by session and first number, in blocks.
    Queues = 5,
    /// Wills whose session has ended or was taken over, by session and record.
    Wills = 6,
    /// Ended sessions with what they shared, by number.
    Ended = 7,
    /// What they left, by session and number.
    Orphans = 8,
    /// Retained messages by topic.
    Retained = 9,
    /// Facts by kind and key.
    Facts = 10,
    /// How far subscriptions have come that start in the past, by session and number.
    Replays = 11,
}

impl Section {
    /// All, in their order.
    pub const ALL: [Self; 11] = [
        Self::Marks,
        Self::Sessions,
        Self::Subscriptions,
        Self::Inbound,
        Self::Queues,
        Self::Wills,
        Self::Ended,
        Self::Orphans,
        Self::Retained,
        Self::Facts,
        Self::Replays,
    ];

    /// The section with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|section| section.code() == code)
    }

    /// Its number in an image.
    pub const fn code(self) -> u8 {
        self as u8
    }
}

/// What of a state is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Select {
    /// All.
    All,
    /// Without volatile sessions and without marks: what the live state, which has volatile
    /// sessions that the log never saw, and the fold of the log have in common.
    Persistent,
}

/// The one entry of [`Section::Marks`], under the empty key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Marks {
    applied: Lsn,
    next_session: u64,
}

impl Marks {
    fn write(self) -> Vec<u8> {
        let mut value = Vec::new();
        put(&mut value, self.applied.get());
        put(&mut value, self.next_session);
        value
    }

    fn read(value: &[u8]) -> Result<Self, RecordError> {
        let mut value = Reader::new(value);
        let marks = Self { applied: Lsn::new(value.int()?), next_session: value.int()? };
        value.end().map(|()| marks)
    }

    /// The marks of two parts together.
    fn max(self, other: Self) -> Self {
        Self {
            applied: self.applied.max(other.applied),
            next_session: self.next_session.max(other.next_session),
        }
    }
}

const HAS_ID: u8 = 1 << 6;
const LEFT: u8 = 1 << 7;

const UP: u8 = 1;
const HAS_WILL: u8 = 1 << 1;
const WILL_DUE: u8 = 1 << 2;

const QOS2: u8 = 1;
const RETAIN: u8 = 1 << 1;
const TAKEN: u8 = 1 << 2;
const LATE: u8 = 1 << 3;
const PICK: u8 = 1 << 4;
const IDS: u8 = 1 << 5;
const EXPIRES: u8 = 1 << 6;
const PLACED: u8 = 1 << 7;

const VOLATILE: u8 = 1;

const HAS_EXPIRY: u8 = 1 << 2;

/// Messages of a queue in one entry: a queue of a million is read by parts.
const BLOCK: usize = 512;
