//! Which part of a state each entry of an image belongs to.

use rustc_hash::FxHashMap;

use super::read::{glance, session_of};
use super::{ImageError, Section};
use crate::facts::owner_of;
use crate::number::SessionNumber;
use crate::shard::Shard;
use crate::wire::{Reader, RecordError};

/// Deals entries out to so many parts, in the order of the image, so that each part reads its own
/// only.
#[derive(Clone, Debug)]
pub struct Owners {
    count: u32,
    /// Of sessions and ended sessions.
    sessions: FxHashMap<SessionNumber, u32>,
}

/// See [`Owners`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// All parts.
    All,
    /// The part of this index.
    One(u32),
    /// None: it belongs to a session that is not there.
    Nobody,
}

impl Owners {
    /// # Panics
    /// If there are no parts.
    pub fn new(count: u32) -> Self {
        assert!(count > 0, "a state has a part at least");
        Self { count, sessions: FxHashMap::default() }
    }

    /// Whose the next entry is.
    pub fn of(&mut self, section: Section, key: &[u8], value: &[u8]) -> Result<Owner, ImageError> {
        if self.count == 1 {
            return Ok(Owner::One(0));
        }
        self.find(section, key, value).map_err(|error| ImageError::Entry(section, error))
    }

    fn find(&mut self, section: Section, key: &[u8], value: &[u8]) -> Result<Owner, RecordError> {
        let by = |key: &[u8]| Shard::index_of(key, self.count);
        Ok(match section {
            Section::Marks => Owner::All,
            Section::Sessions | Section::Ended => {
                let client = if section == Section::Sessions {
                    glance(key, value)?.1.client
                } else {
                    let mut value = Reader::new(value);
                    value.byte()?;
                    value.text()?
                };
                let owner = by(client.as_bytes());
                self.sessions.insert(session_of(&mut Reader::new(key))?, owner);
                Owner::One(owner)
            }
            Section::Wills => Owner::One(by(Reader::new(value).bytes()?)),
            Section::Subscriptions
            | Section::Inbound
            | Section::Queues
            | Section::Orphans
            | Section::Replays => {
                let owner = self.sessions.get(&session_of(&mut Reader::new(key))?);
                owner.map_or(Owner::Nobody, |owner| Owner::One(*owner))
            }
            Section::Retained => Owner::One(by(key)),
            Section::Facts => {
                let mut key = Reader::new(key);
                let kind = key.byte()?;
                Owner::One(by(&owner_of(kind, key.rest())))
            }
        })
    }
}
