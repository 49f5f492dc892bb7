//! Buffers that nobody uses now. A connection borrows one while it has output or a partial packet
//! and gives it back when done, so memory follows the work and not the number of connections.

/// Capacities that are pooled, smallest first. Larger buffers go back to the allocator.
const CLASSES: [usize; 5] = [256, 1024, 4096, 16 << 10, 64 << 10];
/// A buffer that grew by doubling may hold up to this and still be kept.
const LARGEST: usize = 2 * CLASSES[CLASSES.len() - 1];

pub(crate) struct Pool {
    idle: [Vec<Vec<u8>>; CLASSES.len()],
    bytes: usize,
    limit: usize,
}

impl Pool {
    pub(crate) fn new(limit: usize) -> Self {
        Self { idle: Default::default(), bytes: 0, limit }
    }

    /// An empty buffer with room for at least `room` bytes.
    pub(crate) fn take(&mut self, room: usize) -> Vec<u8> {
        let Some(class) = CLASSES.iter().position(|size| *size >= room) else {
            return Vec::with_capacity(room);
        };
        let Some(buffer) = self.idle[class].pop() else {
            return Vec::with_capacity(CLASSES[class]);
        };
        self.bytes -= buffer.capacity();
        buffer
    }

    /// Keeps the buffer for later, or frees it if the pool is full.
    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        let Some(class) = CLASSES.iter().rposition(|size| *size <= capacity) else { return };
        if capacity > LARGEST || self.bytes + capacity > self.limit {
            return;
        }
        buffer.clear();
        self.bytes += capacity;
        self.idle[class].push(buffer);
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
        let again = pool.take(2000);
        assert_eq!((again.as_ptr(), again.len(), pool.bytes()), (at, 0, 0));
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
