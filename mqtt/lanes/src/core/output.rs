//! A connection's queued output: pieces to send in order, small writes gathered in pooled buffers,
//! large payloads by reference.
//!
//! Assumes: bytes leave from the front only, as the driver says how many it took.
use std::{collections::VecDeque, io::IoSlice};

use bytes::Bytes;

use super::pool::Pool;

/// A tail of this size is closed when its connection is blocked, so that what was sent can be
/// given back while more is appended.
const SEAL: usize = 32 << 10;
/// Pieces given to one write.
pub(crate) const MAX_SLICES: usize = 32;

#[derive(Default)]
pub(crate) struct Output {
    /// Pieces before the tail; none in the usual case.
    sealed: VecDeque<Piece>,
    tail: Vec<u8>,
    /// Bytes of the first piece that were sent.
    sent: usize,
    queued: usize,
    /// Room the next tail starts with: what the last one came to.
    hint: u32,
}

enum Piece {
    Owned(Vec<u8>),
    Shared(Bytes),
}

impl Piece {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Owned(buffer) => buffer,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl Output {
    /// Bytes not sent yet.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// The buffer to append to. [`Output::appended`] follows.
    pub(crate) fn tail(&mut self, pool: &mut Pool) -> &mut Vec<u8> {
        if self.tail.capacity() == 0 {
            self.tail = pool.take(self.hint as usize);
        }
        &mut self.tail
    }

    pub(crate) fn tail_ref(&self) -> &Vec<u8> {
        &self.tail
    }

    pub(crate) fn tail_mut(&mut self) -> &mut Vec<u8> {
        &mut self.tail
    }

    /// `bytes` were put at the end of the tail.
    pub(crate) fn appended(&mut self, bytes: usize) {
        self.queued += bytes;
    }

    pub(crate) fn push_shared(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        self.seal();
        self.queued += bytes.len();
        self.sealed.push_back(Piece::Shared(bytes));
    }

    /// `bytes` that the driver took go to the front again.
    pub(crate) fn put_back(&mut self, mut bytes: Vec<u8>, pool: &mut Pool) {
        if bytes.is_empty() {
            return;
        }
        self.queued += bytes.len();
        let sent = std::mem::take(&mut self.sent);
        if sent > 0 {
            // What is left of the first piece comes along, since only the first may begin in its
            // middle.
            self.seal();
            if let Some(first) = self.sealed.pop_front() {
                bytes.extend_from_slice(&first.as_slice()[sent..]);
                if let Piece::Owned(buffer) = first {
                    pool.give(buffer);
                }
            }
        }
        self.sealed.push_front(Piece::Owned(bytes));
    }

    /// Closes a large tail of a connection that cannot send now.
    pub(crate) fn seal_large(&mut self) {
        if self.tail.len() >= SEAL {
            self.seal();
        }
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            let tail = std::mem::take(&mut self.tail);
            self.sealed.push_back(Piece::Owned(tail));
        }
    }

    /// The first pieces to send, and their length together.
    pub(crate) fn slices<'a>(&'a self, into: &mut [IoSlice<'a>; MAX_SLICES]) -> (usize, usize) {
        let sealed = self.sealed.iter().map(Piece::as_slice);
        let pieces = sealed.chain(std::iter::once(self.tail.as_slice()));
        let (mut count, mut length, mut skip) = (0, 0, self.sent);
        for (slot, piece) in into.iter_mut().zip(pieces) {
            let piece = &piece[std::mem::take(&mut skip)..];
            if !piece.is_empty() {
                *slot = IoSlice::new(piece);
                length += piece.len();
                count += 1;
            }
        }
        (count, length)
    }

    /// The driver took `bytes` from the front. Buffers sent in whole go to `pool`.
    pub(crate) fn advance(&mut self, bytes: usize, pool: &mut Pool) {
        assert!(bytes <= self.queued, "{bytes} sent of {} queued", self.queued);
        self.queued -= bytes;
        self.sent += bytes;
        while let Some(first) = self.sealed.front() {
            let length = first.as_slice().len();
            if self.sent < length {
                return;
            }
            self.sent -= length;
            if let Some(Piece::Owned(buffer)) = self.sealed.pop_front() {
                pool.give(buffer);
            }
        }
        assert!(self.sent <= self.tail.len(), "sent beyond the tail");
        if self.sent == self.tail.len() {
            self.release(pool);
        }
    }

    /// Gives all buffers back, sent or not.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        for piece in std::mem::take(&mut self.sealed) {
            if let Piece::Owned(buffer) = piece {
                pool.give(buffer);
            }
        }
        if self.tail.capacity() > 0 {
            self.hint = u32::try_from(self.tail.len()).unwrap_or(u32::MAX).min(64 << 10);
            pool.give(std::mem::take(&mut self.tail));
        }
        self.sent = 0;
        self.queued = 0;
    }

    /// Whether it owns memory.
    #[cfg(test)]
    pub(crate) fn owns_nothing(&self) -> bool {
        self.sealed.capacity() == 0 && self.tail.capacity() == 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn drain(output: &mut Output, pool: &mut Pool, most: usize) -> Vec<u8> {
        let mut slots = [IoSlice::new(&[]); MAX_SLICES];
        let (count, length) = output.slices(&mut slots);
        let all: Vec<u8> = slots[..count].iter().flat_map(|slice| slice.to_vec()).collect();
        assert_eq!(all.len(), length);
        let taken = most.min(length);
        output.advance(taken, pool);
        all[..taken].to_vec()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Appends, payloads by reference and partial writes in any order: the same bytes come out,
        /// and nothing is owned at the end.
        #[test]
        fn what_goes_in_comes_out(ops in prop::collection::vec(
            (0u8..5, prop_oneof![0usize..300, 30_000usize..70_000]), 1..16,
        )) {
            let (mut output, mut pool) = (Output::default(), Pool::new(1 << 20));
            let (mut given, mut taken) = (Vec::new(), Vec::new());
            for (n, (kind, size)) in ops.into_iter().enumerate() {
                let chunk = vec![u8::try_from(n).unwrap(); size];
                match kind {
                    0 => {
                        output.tail(&mut pool).extend_from_slice(&chunk);
                        output.appended(size);
                        given.extend_from_slice(&chunk);
                    }
                    1 => {
                        given.extend_from_slice(&chunk);
                        output.push_shared(Bytes::from(chunk));
                    }
                    2 => output.seal_large(),
                    3 => {
                        let bytes = drain(&mut output, &mut pool, size);
                        output.put_back(bytes, &mut pool);
                    }
                    _ => taken.extend(drain(&mut output, &mut pool, size)),
                }
                prop_assert_eq!(output.queued(), given.len() - taken.len());
            }
            while output.queued() > 0 {
                taken.extend(drain(&mut output, &mut pool, 10_000));
            }
            output.advance(0, &mut pool);
            prop_assert!(output.owns_nothing());
            prop_assert_eq!(given, taken);
        }
    }
}
