//! Memory that a device can read and write without a copy.
//!
//! Owns: alignment and initialisation of bytes for direct I/O. Every byte up to the capacity is
//! initialised at all times, so that no length can ever show memory that was never written.

mod map;
mod pool;

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use self::map::Map;
pub(super) use self::pool::Pool;
use crate::disk::BLOCK;

/// An owned byte buffer whose address and capacity are multiples of [`BLOCK`].
///
/// It grows by whole blocks and never shrinks; its address changes when it grows, its bytes do
/// not. As a slice it is its first `len` bytes.
///
/// A large one has memory of its own from the system, which goes back there with it: readers and
/// whoever makes files have theirs for a moment. One that is made
/// [`with_capacity`](Self::with_capacity) is meant to be used again and again, and has the
/// allocator's, which costs less to get anew.
#[derive(Default)]
pub struct IoBuffer {
    memory: Memory,
    len: usize,
    /// Where its blocks are on loan from.
    loan: Option<Loan>,
    /// However large it is, its memory is the allocator's.
    is_allocated: bool,
}

/// Whole blocks, all of them initialised.
enum Memory {
    Allocated(Vec<Block>),
    Mapped(Map),
}

/// From so many blocks on they are mapped.
const LARGE: usize = 32;

impl Memory {
    const EMPTY: Self = Self::Allocated(Vec::new());

    fn allocated(blocks: usize) -> Self {
        Self::Allocated(vec![ZERO; blocks])
    }

    /// What the system does not map, the allocator may still have.
    fn mapped(blocks: usize) -> Self {
        Map::new(blocks).map_or_else(|| Self::allocated(blocks), Self::Mapped)
    }

    fn blocks(&self) -> &[Block] {
        match self {
            Self::Allocated(blocks) => blocks,
            Self::Mapped(map) => map.blocks(),
        }
    }

    fn blocks_mut(&mut self) -> &mut [Block] {
        match self {
            Self::Allocated(blocks) => blocks,
            Self::Mapped(map) => map.blocks_mut(),
        }
    }

    /// With more blocks: the new ones are zeroes.
    fn grow(&mut self, blocks: usize, is_allocated: bool) {
        match self {
            Self::Allocated(own) if is_allocated || blocks < LARGE => own.resize(blocks, ZERO),
            _ => {
                let mut grown = Self::mapped(blocks);
                let old = self.blocks();
                grown.blocks_mut()[..old.len()].clone_from_slice(old);
                *self = grown;
            }
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::EMPTY
    }
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
        Self { memory: Memory::EMPTY, len: 0, loan: None, is_allocated: false }
    }

    /// `blocks` blocks of zeroes; its length is its capacity.
    pub fn with_blocks(blocks: usize) -> Self {
        let memory =
            if blocks < LARGE { Memory::allocated(blocks) } else { Memory::mapped(blocks) };
        Self { memory, len: blocks * BLOCK, loan: None, is_allocated: false }
    }

    /// An empty buffer with room for at least `bytes`, to be used again and again.
    pub fn with_capacity(bytes: usize) -> Self {
        let memory = Memory::allocated(bytes.div_ceil(BLOCK));
        Self { memory, len: 0, loan: None, is_allocated: true }
    }

    /// Bytes that it holds without moving.
    pub fn capacity(&self) -> usize {
        self.memory.blocks().len() * BLOCK
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
        let (needed, blocks) = (len.div_ceil(BLOCK), self.memory.blocks().len());
        if needed > blocks {
            self.grow(needed.max(blocks * 2));
        }
        self.len = len;
        assert!(self.len <= self.capacity(), "a buffer is never longer than its memory");
    }

    /// Blocks on loan stay as they are: the copy is the buffer's own.
    #[cold]
    fn grow(&mut self, blocks: usize) {
        if self.loan.is_some() {
            let mut own = Vec::with_capacity(blocks);
            own.extend_from_slice(self.memory.blocks());
            self.give_back(Memory::Allocated(own));
        }
        self.memory.grow(blocks, self.is_allocated);
    }

    /// Ends the loan, if there is one, with `instead` in its place.
    fn give_back(&mut self, instead: Memory) {
        let Some(Loan { pool, slot }) = self.loan.take() else { return };
        let lent = std::mem::replace(&mut self.memory, instead);
        let Memory::Allocated(blocks) = lent else { unreachable!("a slot is never mapped") };
        pool.take_back(slot, blocks);
    }

    /// The slot of `pool` that its bytes lie in, from its beginning.
    pub(super) fn slot_of(&self, pool: &Arc<Pool>) -> Option<u16> {
        self.loan.as_ref().filter(|loan| Arc::ptr_eq(&loan.pool, pool)).map(|loan| loan.slot)
    }
}

impl Clone for IoBuffer {
    /// The copy's memory is its own.
    fn clone(&self) -> Self {
        let is_allocated = self.is_allocated;
        let mut copy = Self { memory: Memory::EMPTY, len: 0, loan: None, is_allocated };
        copy.memory.grow(self.memory.blocks().len(), is_allocated);
        copy.memory.blocks_mut().clone_from_slice(self.memory.blocks());
        copy.len = self.len;
        copy
    }
}

impl Drop for IoBuffer {
    fn drop(&mut self) {
        self.give_back(Memory::EMPTY);
    }
}

impl Deref for IoBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the blocks are contiguous initialised bytes (`Block` is one array without
        // padding), `len` never passes their end, and the borrow of `self` keeps them in place.
        unsafe {
            let start = self.memory.blocks().as_ptr().cast::<u8>();
            std::slice::from_raw_parts(start, self.len)
        }
    }
}

impl DerefMut for IoBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the borrow of `self` is exclusive, so is the slice.
        unsafe {
            let start = self.memory.blocks_mut().as_mut_ptr().cast::<u8>();
            std::slice::from_raw_parts_mut(start, self.len)
        }
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
    fn large_ones_are_mapped_unless_they_are_to_be_used_again() {
        let is_mapped = |buffer: &IoBuffer| matches!(buffer.memory, Memory::Mapped(_));
        let mut grown = IoBuffer::new();
        grown.resize((LARGE - 1) * BLOCK);
        grown.fill(7);
        assert!(!is_mapped(&grown));
        grown.extend_from_slice(&[8]);
        assert!(is_mapped(&grown) && is_mapped(&IoBuffer::with_blocks(LARGE)));
        let copy = grown.clone();
        assert!(is_mapped(&copy) && *copy == *grown && copy.capacity() == grown.capacity());
        assert!(copy[..(LARGE - 1) * BLOCK].iter().all(|byte| *byte == 7));
        let mut kept = IoBuffer::with_capacity(LARGE * BLOCK);
        kept.resize(3 * LARGE * BLOCK);
        assert!(!is_mapped(&kept) && !is_mapped(&kept.clone()));
    }

    #[test]
    fn may_be_written_by_another_thread() {
        for blocks in [1, LARGE] {
            let mut buffer = IoBuffer::with_blocks(blocks);
            let buffer = std::thread::spawn(move || {
                buffer[BLOCK - 1] = 7;
                buffer
            })
            .join()
            .unwrap();
            assert_eq!(buffer[BLOCK - 1], 7);
        }
    }
}
