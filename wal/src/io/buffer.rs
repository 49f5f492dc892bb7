//! Memory that a device can read and write without a copy.
//!
//! Owns: alignment and initialisation of bytes for direct I/O. Every byte up to the capacity is
//! initialised at all times, so that no length can ever show memory that was never written.

mod pool;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::disk::BLOCK;

pub(super) use self::pool::Pool;

/// An owned byte buffer whose address and capacity are multiples of [`BLOCK`].
///
/// It grows by whole blocks and never shrinks; its address changes when it grows, its bytes do
/// not. As a slice it is its first `len` bytes.
#[derive(Default)]
pub struct IoBuffer {
    blocks: Vec<Block>,
    len: usize,
    /// Where its blocks are on loan from.
    loan: Option<Loan>,
}

/// A slot of a pool.
struct Loan {
    pool: Arc<Pool>,
    slot: u16,
}

#[derive(Clone)]
#[repr(C, align(4096))]
struct Block([u8; BLOCK]);

const _: () = assert!(size_of::<Block>() == BLOCK && align_of::<Block>() == BLOCK);

const ZERO: Block = Block([0; BLOCK]);

impl IoBuffer {
    /// An empty buffer that takes no memory yet.
    pub const fn new() -> Self {
        Self { blocks: Vec::new(), len: 0, loan: None }
    }

    /// `blocks` blocks of zeroes; its length is its capacity.
    pub fn with_blocks(blocks: usize) -> Self {
        Self { blocks: vec![ZERO; blocks], len: blocks * BLOCK, loan: None }
    }

    /// An empty buffer with room for at least `bytes`.
    pub fn with_capacity(bytes: usize) -> Self {
        Self { blocks: vec![ZERO; bytes.div_ceil(BLOCK)], len: 0, loan: None }
    }

    /// Bytes that it holds without moving.
    pub fn capacity(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    /// Forgets the bytes, keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Forgets the bytes from `len` on; does nothing when there are none.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Appends `bytes`.
    #[inline]
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let start = self.len;
        self.set_len(start + bytes.len());
        self[start..].copy_from_slice(bytes);
    }

    /// Cuts or extends to `len` bytes; bytes added are zero.
    pub fn resize(&mut self, len: usize) {
        let old = self.len;
        self.set_len(len);
        if len > old {
            self[old..].fill(0);
        }
    }

    /// Extends with zeroes to a multiple of [`BLOCK`].
    pub fn pad_to_block(&mut self) {
        self.resize(self.len.next_multiple_of(BLOCK));
    }

    /// Sets the length, with whatever bytes are there from before.
    #[inline]
    fn set_len(&mut self, len: usize) {
        let needed = len.div_ceil(BLOCK);
        if needed > self.blocks.len() {
            self.grow(needed.max(self.blocks.len() * 2));
        }
        self.len = len;
        assert!(self.len <= self.capacity(), "a buffer is never longer than its memory");
    }

    /// Blocks on loan stay as they are: the copy is the buffer's own.
    #[cold]
    fn grow(&mut self, blocks: usize) {
        if self.loan.is_some() {
            let mut own = Vec::with_capacity(blocks);
            own.extend_from_slice(&self.blocks);
            self.give_back(own);
        }
        self.blocks.resize(blocks, ZERO);
    }

    /// Ends the loan, if there is one, with `instead` in its place.
    fn give_back(&mut self, instead: Vec<Block>) {
        if let Some(Loan { pool, slot }) = self.loan.take() {
            pool.take_back(slot, std::mem::replace(&mut self.blocks, instead));
        }
    }

    /// The slot of `pool` that its bytes lie in, from its beginning.
    pub(super) fn slot_of(&self, pool: &Arc<Pool>) -> Option<u16> {
        self.loan.as_ref().filter(|loan| Arc::ptr_eq(&loan.pool, pool)).map(|loan| loan.slot)
    }
}

impl Clone for IoBuffer {
    /// The copy's memory is its own.
    fn clone(&self) -> Self {
        Self { blocks: self.blocks.clone(), len: self.len, loan: None }
    }
}

impl Drop for IoBuffer {
    fn drop(&mut self) {
        self.give_back(Vec::new());
    }
}

impl Deref for IoBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the blocks are contiguous initialised bytes (`Block` is one array without
        // padding), `len` never passes their end, and the borrow of `self` keeps them in place.
        unsafe { std::slice::from_raw_parts(self.blocks.as_ptr().cast::<u8>(), self.len) }
    }
}

impl DerefMut for IoBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the borrow of `self` is exclusive, so is the slice.
        unsafe { std::slice::from_raw_parts_mut(self.blocks.as_mut_ptr().cast::<u8>(), self.len) }
    }
}

impl fmt::Debug for IoBuffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "IoBuffer({} of {} bytes)", self.len, self.capacity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_aligned(buffer: &IoBuffer) -> bool {
        buffer.as_ptr().addr().is_multiple_of(BLOCK)
    }

    #[test]
    fn starts_zeroed_and_aligned() {
        let buffer = IoBuffer::with_blocks(3);
        assert!(is_aligned(&buffer));
        assert_eq!(buffer.len(), 3 * BLOCK);
        assert!(buffer.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn keeps_bytes_and_alignment_while_it_grows() {
        let mut buffer = IoBuffer::new();
        assert!(buffer.is_empty());
        let mut model = Vec::new();
        for round in 0..100_u8 {
            let piece = vec![round; 777];
            buffer.extend_from_slice(&piece);
            model.extend_from_slice(&piece);
            assert!(is_aligned(&buffer));
            assert_eq!(*buffer, *model);
        }
        assert!(buffer.capacity().is_multiple_of(BLOCK));
    }

    #[test]
    fn capacity_is_rounded_up_to_blocks() {
        let buffer = IoBuffer::with_capacity(BLOCK + 1);
        assert_eq!((buffer.len(), buffer.capacity()), (0, 2 * BLOCK));
    }

    #[test]
    fn old_bytes_never_come_back_after_clear() {
        let mut buffer = IoBuffer::with_blocks(1);
        buffer.fill(0xee);
        buffer.clear();
        buffer.extend_from_slice(b"group");
        buffer.pad_to_block();
        assert_eq!(buffer.len(), BLOCK);
        assert_eq!(buffer[..5], *b"group");
        assert!(buffer[5..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn padding_of_a_full_block_adds_nothing() {
        let mut buffer = IoBuffer::with_blocks(2);
        buffer.pad_to_block();
        assert_eq!(buffer.len(), 2 * BLOCK);
        buffer.truncate(1);
        buffer.truncate(5);
        assert_eq!(buffer.len(), 1);
    }

    #[test]
    fn may_be_written_by_another_thread() {
        let mut buffer = IoBuffer::with_blocks(1);
        let buffer = std::thread::spawn(move || {
            buffer[BLOCK - 1] = 7;
            buffer
        })
        .join()
        .unwrap();
        assert_eq!(buffer[BLOCK - 1], 7);
    }
}
