//! An image in memory: the entries of each section as bytes.
//!
//! An entry is the length of its key, the key, the length of its value, the value.

use std::collections::BTreeMap;

use crate::number::SessionNumber;
use crate::session::Untouched;
use crate::shard::Shard;
use crate::state::State;
use crate::wire::{Reader, RecordError, put_bytes};

use super::read::{ImageError, Loader};
use super::{Marks, Section, Select, UntouchedReader, write, write_with};

/// The sections of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sections(BTreeMap<Section, Vec<u8>>);

impl Sections {
    /// The image of a state.
    pub fn of(state: &State, select: Select) -> Self {
        let mut sections = Self::default();
        write(state, select, |section, key, value| sections.push(section, key, value));
        sections
    }

    /// As [`of`](Self::of), of a state of whose queues parts are in an image only, which `read`
    /// reads.
    pub fn of_whole(
        state: &State,
        select: Select,
        read: impl FnMut(SessionNumber, Untouched) -> UntouchedReader,
    ) -> Self {
        let mut sections = Self::default();
        write_with(state, select, read, |section, key, value| sections.push(section, key, value));
        sections
    }

    /// The image of the whole, of those of its parts.
    pub fn merge(parts: &[Self]) -> Result<Self, ImageError> {
        let mut merged = Self::default();
        for section in Section::ALL {
            let mut entries = BTreeMap::<&[u8], &[u8]>::new();
            let mut marks = None;
            for entry in parts.iter().flat_map(|part| part.entries(section)) {
                let (key, value) = entry.map_err(|error| ImageError::Entry(section, error))?;
                if section == Section::Marks {
                    let part = Marks::read(value).map_err(|e| ImageError::Entry(section, e))?;
                    marks = Some(part.max(marks.unwrap_or_default()));
                } else {
                    entries.insert(key, value);
                }
            }
            for (key, value) in entries {
                merged.push(section, key, value);
            }
            if let Some(marks) = marks {
                merged.push(section, &[], &marks.write());
            }
        }
        Ok(merged)
    }

    /// The bytes of each section that has any, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Section, &[u8])> {
        self.0.iter().map(|(&section, bytes)| (section, &**bytes))
    }

    /// Sets the bytes of a section as they were read from somewhere.
    pub fn set(&mut self, section: Section, bytes: Vec<u8>) {
        self.0.insert(section, bytes);
    }

    /// The keys and values of a section.
    pub fn entries(
        &self,
        section: Section,
    ) -> impl Iterator<Item = Result<(&[u8], &[u8]), RecordError>> {
        let mut reader = Reader::new(self.0.get(&section).map_or(&[], |bytes| &**bytes));
        core::iter::from_fn(move || {
            if reader.is_empty() {
                return None;
            }
            let entry = reader.bytes().and_then(|key| Ok((key, reader.bytes()?)));
            if entry.is_err() {
                reader = Reader::new(&[]);
            }
            Some(entry)
        })
    }

    /// The part of the state that `shard` owns.
    pub fn load(&self, shard: Shard) -> Result<State, ImageError> {
        let mut loader = Loader::new(shard);
        for section in Section::ALL {
            for entry in self.entries(section) {
                let (key, value) = entry.map_err(|error| ImageError::Entry(section, error))?;
                loader.entry(section, key, value)?;
            }
        }
        loader.finish()
    }

    pub(crate) fn push(&mut self, section: Section, key: &[u8], value: &[u8]) {
        let bytes = self.0.entry(section).or_default();
        put_bytes(bytes, key);
        put_bytes(bytes, value);
    }
}
