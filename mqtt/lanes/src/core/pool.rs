//! Buffers that nobody uses now. A connection borrows one while it has output or a partial packet
//! and gives it back when done, so memory follows the work and not the number of connections.

use super::output::Sealed;

/// Capacities that are pooled are powers of two from this one on: a buffer is never twice what was
/// asked for. Larger ones than the last go back to the allocator.
const SMALLEST: usize = 256;
const CLASSES: usize = 9;
/// A buffer that grew by doubling may hold up to this and still be kept.
const LARGEST: usize = SMALLEST << CLASSES;

const _: () = assert!(LARGEST == 128 << 10);

/// The class that has room for so many bytes.
#[inline]
const fn class_for(room: usize) -> usize {
    let units = room.saturating_sub(1) / SMALLEST;
    (usize::BITS - units.leading_zeros()) as usize
}

/// So many lists of pieces are kept.
const LISTS: usize = 64;

pub(crate) struct Pool {
    idle: [Vec<Vec<u8>>; CLASSES],
    /// Empty ones.
    #[expect(clippy::vec_box, reason = "a connection without one has a pointer's room for it")]
    lists: Vec<Box<Sealed>>,
    bytes: usize,
    limit: usize,
}

impl Pool {
    pub(crate) fn new(limit: usize) -> Self {
        Self { idle: Default::default(), lists: Vec::new(), bytes: 0, limit }
    }

    /// An empty buffer with room for at least `room` bytes.
    pub(crate) fn take(&mut self, room: usize) -> Vec<u8> {
        let class = class_for(room);
        let Some(idle) = self.idle.get_mut(class) else { return Vec::with_capacity(room) };
        let Some(buffer) = idle.pop() else { return Vec::with_capacity(SMALLEST << class) };
        self.bytes -= buffer.capacity();
        buffer
    }

    /// Keeps the buffer for later, or frees it if the pool is full.
    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if !(SMALLEST..=LARGEST).contains(&capacity) || self.bytes + capacity > self.limit {
            return;
        }
        // The largest whose buffers are no larger than this one.
        let class = (class_for(capacity + 1) - 1).min(CLASSES - 1);
        buffer.clear();
        self.bytes += capacity;
        self.idle[class].push(buffer);
    }

    /// A list without pieces, if one is kept.
    pub(super) fn take_list(&mut self) -> Option<Box<Sealed>> {
        self.lists.pop()
    }

    /// Keeps one for later, or frees it.
    pub(super) fn give_list(&mut self, list: Box<Sealed>) {
        if self.lists.len() < LISTS {
            self.lists.push(list);
        }
    }

    /// Bytes of idle buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_given_buffer_is_taken_again_empty() {
        let mut pool = Pool::new(1 << 20);
        let mut buffer = pool.take(3000);
        assert!(buffer.capacity() >= 3000);
        buffer.extend_from_slice(b"old");
        let at = buffer.as_ptr();
        pool.give(buffer);
        let again = pool.take(2500);
        assert_eq!((again.as_ptr(), again.len(), pool.bytes()), (at, 0, 0));
    }

    #[test]
    fn a_buffer_is_never_twice_what_was_asked_for_and_serves_its_class_again() {
        let mut pool = Pool::new(1 << 20);
        for room in [0, 1, 255, 256, 257, 512, 513, 4096, 4097, 40_000, 65_536] {
            let buffer = pool.take(room);
            let capacity = buffer.capacity();
            assert!(capacity >= room && capacity < (2 * room).max(257), "{capacity} for {room}");
            pool.give(buffer);
            assert_eq!(pool.bytes(), capacity);
            assert_eq!(pool.take(capacity).capacity(), capacity);
            assert_eq!(pool.bytes(), 0, "it is the one that was kept");
        }
        pool.give(Vec::with_capacity(5000));
        assert_eq!((pool.take(4097).capacity(), pool.bytes()), (8192, 5000));
        assert_eq!(pool.take(4096).capacity(), 5000);
    }

    #[test]
    fn the_pool_keeps_no_more_than_its_limit_and_nothing_huge() {
        let mut pool = Pool::new(10_000);
        for _ in 0..10 {
            pool.give(Vec::with_capacity(4096));
        }
        pool.give(Vec::with_capacity(1 << 20));
        assert_eq!(pool.bytes(), 8192);
        pool.give(Vec::new());
        assert_eq!(pool.bytes(), 8192);
    }
}
