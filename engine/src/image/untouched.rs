//! Queues that stayed in an image: which records touch one, and how it comes back.
//!
//! Owns: the order of these steps. An image that was made later holds the front of such a queue as
//! well, since nothing has touched it: it is read from whichever is at hand.

use crate::number::SessionNumber;
use crate::record::{RangeSets, Record};
use crate::session::{Queue, Untouched};
use crate::state::State;
use crate::wire::{Reader, RecordError};

use super::read::{each_waiting, key_of};
use super::write::key_with;
use super::{ImageError, Section};

/// Reads the part of a session's queue that is in an image only.
#[derive(Debug)]
pub struct UntouchedReader {
    session: SessionNumber,
    front: Untouched,
    queue: Queue,
}

impl UntouchedReader {
    /// For what [`State::untouched`] says of the session.
    pub fn new(session: SessionNumber, front: Untouched) -> Self {
        Self { session, front, queue: Queue::for_front(&front) }
    }

    /// Where its entries begin: the first of [`Section::Queues`] at or behind this key.
    pub fn key(&self) -> [u8; 16] {
        key_with(self.session, 0)
    }

    /// Takes the next entry of [`Section::Queues`]; `false` once no more is wanted.
    pub fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<bool, ImageError> {
        let failed = |error| ImageError::Entry(Section::Queues, error);
        let (session, first) = key_of(&mut Reader::new(key)).map_err(failed)?;
        if session != self.session || first > self.front.last.get() {
            return Ok(false);
        }
        let (queue, last) = (&mut self.queue, self.front.last);
        each_waiting(first, Reader::new(value), |waiting, late, extra| {
            if waiting.number > last || queue.restore(&waiting, late, extra) {
                Ok(())
            } else {
                Err(RecordError::Value("message of a queue"))
            }
        })
        .map_err(failed)?;
        Ok(true)
    }
}

impl UntouchedReader {
    /// Whether all of it was read that stayed in the image.
    pub fn is_whole(&self) -> bool {
        self.queue.is_front(&self.front)
    }

    /// The queue that this and the rest are together.
    pub(super) fn joined_to(self, rest: &Queue) -> Queue {
        let mut queue = rest.clone();
        assert!(
            queue.join(self.queue),
            "the part of a queue that is in an image only is read whole"
        );
        queue
    }
}

impl State {
    /// Calls `touched` with each session whose queue the record touches and is in an image only:
    /// it has to be given back before the record is applied.
    pub fn touches(&self, record: &Record<'_>, mut touched: impl FnMut(SessionNumber)) {
        if self.untouched == 0 {
            return;
        }
        let mut note = |session| {
            if self.untouched(session).is_some() {
                touched(session);
            }
        };
        let mut sets = |sets: RangeSets<'_>| sets.into_iter().for_each(|set| note(set.session));
        match record {
            Record::Receipt(receipt) => sets(receipt.sets),
            Record::Expire(expire) => sets(expire.sets),
            // A session that it replaces ends as it is.
            Record::Connect(connect)
                if self.clients.get(connect.client) == Some(&connect.session) =>
            {
                note(connect.session);
            }
            _ => {}
        }
    }

    /// Puts the part of a queue in front of the rest that was in an image only. An error if it is
    /// not the one that stayed there. Nothing is done for a session that has ended meanwhile.
    pub fn give_back(&mut self, read: UntouchedReader) -> Result<(), ImageError> {
        let UntouchedReader { session, queue, .. } = read;
        let joined = self.change(session, |session, _| session.queue.join(queue));
        self.untouched -= usize::from(joined == Some(true));
        if joined == Some(false) {
            let wrong = RecordError::Value("front of the queue that was left there");
            return Err(ImageError::Entry(Section::Queues, wrong));
        }
        Ok(())
    }
}
