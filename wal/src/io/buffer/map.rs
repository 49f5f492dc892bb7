//! Memory of its own from the system.
//!
//! Owns: the mapping, which ends with it. An allocator keeps what a thread gives back for that
//! thread; a mapping is given back to the system, whichever thread does so.

use std::ptr::{self, NonNull};
use std::slice;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::Block;

/// Blocks of a private mapping, zeroes at first.
pub(super) struct Map {
    start: NonNull<Block>,
    blocks: usize,
}

// SAFETY: the mapping belongs to this value alone, and any thread may use memory.
unsafe impl Send for Map {}
// SAFETY: shared, it can only be read.
unsafe impl Sync for Map {}

impl Map {
    /// So many blocks, of which there is at least one; None: the system has no room for them.
    pub(super) fn new(blocks: usize) -> Option<Self> {
        let len = blocks.checked_mul(size_of::<Block>())?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping wherever the system wants it takes no memory from anybody.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, protection, MapFlags::PRIVATE) };
        let start = NonNull::new(start.ok()?.cast::<Block>())?;
        assert!(start.is_aligned(), "pages are whole blocks");
        Some(Self { start, blocks })
    }

    pub(super) fn blocks(&self) -> &[Block] {
        // SAFETY: so many blocks are mapped until `self` is dropped, and all of their bytes are
        // initialised: zeroes of the system, or what was written through `blocks_mut`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.blocks) }
    }

    pub(super) fn blocks_mut(&mut self) -> &mut [Block] {
        // SAFETY: as in `blocks`; the borrow of `self` is exclusive, so is the slice.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.blocks) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let len = self.blocks * size_of::<Block>();
        // SAFETY: what was mapped by `new`; no slice of it outlives `self`.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), len) };
        assert!(unmapped.is_ok(), "a mapping is given back once: {unmapped:?}");
    }
}
