//! Memory that the kernel is told about once, and that buffers borrow.
//!
//! Owns: the slots, whoever has them. A slot lies in the same place for as long as the pool or a
//! buffer of it lives: nothing grows or frees it on loan.
//! Does not know: who tells the kernel.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Block, IoBuffer, Loan, Memory, ZERO};
use crate::disk::BLOCK;

/// Slots of [`Pool::SLOT`] bytes.
pub(in crate::io) struct Pool {
    free: Mutex<Vec<(u16, Vec<Block>)>>,
    /// The address of each slot.
    starts: Vec<usize>,
}

impl Pool {
    /// Bytes of a slot: the longest group of a log with default options.
    pub(in crate::io) const SLOT: usize = 1024 * 1024;

    /// A pool of `count` slots.
    pub(in crate::io) fn new(count: u16) -> Arc<Self> {
        let blocks: Vec<_> =
            (0..count).map(|slot| (slot, vec![ZERO; Self::SLOT / BLOCK])).collect();
        let starts = blocks.iter().map(|(_, blocks)| blocks.as_ptr().addr()).collect();
        Arc::new(Self { free: Mutex::new(blocks), starts })
    }

    /// The address of each slot, which stays as long as the pool.
    pub(in crate::io) fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// An empty buffer with room for `bytes`, if there is a slot for it.
    pub(in crate::io) fn lend(self: &Arc<Self>, bytes: usize) -> Option<IoBuffer> {
        if bytes > Self::SLOT {
            return None;
        }
        let (slot, blocks) = self.free().pop()?;
        let loan = Some(Loan { pool: Arc::clone(self), slot });
        Some(IoBuffer { memory: Memory::Allocated(blocks), len: 0, loan, is_allocated: true })
    }

    pub(super) fn take_back(&self, slot: u16, blocks: Vec<Block>) {
        let start = self.starts.get(usize::from(slot));
        assert_eq!(start, Some(&blocks.as_ptr().addr()), "a slot comes back as it was lent");
        self.free().push((slot, blocks));
    }

    fn free(&self) -> MutexGuard<'_, Vec<(u16, Vec<Block>)>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Pool({} of {} slots free)", self.free().len(), self.starts.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_lent_to_one_buffer_at_a_time() {
        let pool = Pool::new(2);
        let one = pool.lend(BLOCK).unwrap();
        let two = pool.lend(Pool::SLOT).unwrap();
        assert!(pool.lend(1).is_none());
        assert_ne!(one.slot_of(&pool), two.slot_of(&pool));
        let slot = one.slot_of(&pool);
        drop(one);
        let again = pool.lend(1).unwrap();
        assert_eq!(again.slot_of(&pool), slot);
        assert_eq!(again.slot_of(&Pool::new(1)), None, "a slot of another pool is none");
        assert!(again.is_empty() && again.capacity() == Pool::SLOT);
    }

    #[test]
    fn nothing_longer_than_a_slot_is_lent() {
        assert!(Pool::new(1).lend(Pool::SLOT + 1).is_none());
    }

    #[test]
    fn a_buffer_that_outgrows_its_slot_takes_its_bytes_along() {
        let pool = Pool::new(1);
        let mut buffer = pool.lend(1).unwrap();
        buffer.resize(Pool::SLOT);
        buffer.fill(7);
        assert!(buffer.slot_of(&pool).is_some());
        buffer.extend_from_slice(&[8]);
        assert_eq!(buffer.slot_of(&pool), None);
        assert!(buffer[..Pool::SLOT].iter().all(|byte| *byte == 7) && buffer[Pool::SLOT] == 8);
        assert!(pool.lend(1).is_some(), "its slot is free");
    }

    #[test]
    fn a_copy_is_no_loan_and_a_buffer_outlives_its_pool() {
        let pool = Pool::new(1);
        let mut buffer = pool.lend(1).unwrap();
        buffer.extend_from_slice(b"group");
        let copy = buffer.clone();
        assert_eq!(copy.slot_of(&pool), None);
        let start = pool.starts()[0];
        drop(pool);
        assert_eq!((&*buffer, buffer.as_ptr().addr()), (&b"group"[..], start));
        drop(buffer);
        assert_eq!(*copy, *b"group");
    }
}
