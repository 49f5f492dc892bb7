//! A queue that takes no memory before its first message: most sessions never have one.
//!
//! Assumes: whoever reads sees no difference to a queue that is there and new.

use std::ops::{Deref, DerefMut};

use zzq_types::Lsn;

use super::queue::Queue;
use crate::number::QueueNumber;

static NEW: Queue = Queue::new();

/// See the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rested(Option<Box<Queue>>);

impl Rested {
    /// See [`Queue::with_marks`].
    pub(crate) fn with_marks(last: u64, dup_through: u64, doubtful: u64, late_at: Lsn) -> Self {
        let marks = (last, dup_through, doubtful, late_at.get());
        let queue = || Box::new(Queue::with_marks(last, dup_through, doubtful, late_at));
        Self((marks != (0, 0, 0, 0)).then(queue))
    }

    /// See [`Queue::len`].
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |queue| queue.len())
    }

    /// See [`Queue::went_down`].
    pub(crate) fn went_down(&mut self, sent: Option<QueueNumber>, window: u16) {
        // Nothing was ever there to be sent.
        if let Some(queue) = &mut self.0 {
            queue.went_down(sent, window);
        }
    }
}

impl Deref for Rested {
    type Target = Queue;

    #[inline]
    fn deref(&self) -> &Queue {
        match &self.0 {
            Some(queue) => queue,
            None => &NEW,
        }
    }
}

impl DerefMut for Rested {
    #[inline]
    fn deref_mut(&mut self) -> &mut Queue {
        match &mut self.0 {
            Some(queue) => queue,
            none => make(none),
        }
    }
}

/// Apart, so that what happens once for a session lies in nobody's way.
#[cold]
#[inline(never)]
fn make(queue: &mut Option<Box<Queue>>) -> &mut Queue {
    queue.get_or_insert_default()
}
