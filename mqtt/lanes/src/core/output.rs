//! A connection's queued output: pieces to send in order, small writes gathered in pooled buffers,
//! large payloads by reference.
//!
//! Owns: what it counts as held, which is the capacity of its buffers and not what lies in them. A
//! buffer of some size that is full is not grown, for that would double it: another one follows.
//! Assumes: bytes leave from the front only, as the driver says how many it took.
use std::{collections::VecDeque, io::IoSlice};

use bytes::Bytes;

use super::pool::Pool;

/// A tail of this size is closed when its connection is blocked, so that what was sent can be
/// given back while more is appended.
const SEAL: usize = 32 << 10;
/// Bytes of one piece.
const PIECE_MOST: usize = u32::MAX as usize;
/// Pieces given to one write.
pub(crate) const MAX_SLICES: usize = 32;
/// A buffer below this grows where it is. A connection that is to take no more than it needs takes
/// as much at once.
const STEP: usize = 4 << 10;
/// The room that a tail has at most before anybody says that it will be needed: the first of some
/// output, and one that follows another.
const FIRST_MOST: usize = 16 << 10;
const NEXT_MOST: usize = 64 << 10;
/// Room beyond what the last tail came to, for those who do not know what they append.
const SLACK: usize = 64;

#[derive(Default)]
pub(crate) struct Output {
    /// What is before the tail; nothing in the usual case.
    sealed: Option<Box<Sealed>>,
    tail: Vec<u8>,
    /// Bytes of the first piece that were sent. No piece has more than [`PIECE_MOST`].
    sent: u32,
    queued: usize,
    /// Room the next tail starts with: what the last one came to.
    hint: u32,
}

/// Pieces before the tail.
#[derive(Default)]
pub(super) struct Sealed {
    pieces: VecDeque<Piece>,
    /// Memory of them.
    held: usize,
    /// Bytes of tails that were full, since the last time that there was nothing.
    filled: u32,
}

impl Sealed {
    fn push(&mut self, piece: Piece) {
        self.held += piece.held();
        self.pieces.push_back(piece);
    }

    fn pop(&mut self) -> Option<Piece> {
        let first = self.pieces.pop_front()?;
        self.held -= first.held();
        Some(first)
    }

    /// Gives the buffers back, and leaves nothing but room for some pieces.
    fn clear(&mut self, pool: &mut Pool) {
        for piece in self.pieces.drain(..) {
            if let Piece::Owned(buffer) = piece {
                pool.give(buffer);
            }
        }
        self.pieces.shrink_to(MAX_SLICES);
        (self.held, self.filled) = (0, 0);
    }
}

/// How much memory may be taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// What a connection is likely to need.
    Likely,
    /// No more than it needs.
    Needed,
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

    /// What it holds. Shared bytes count for each that waits for them, as if they were its own.
    fn held(&self) -> usize {
        match self {
            Self::Owned(buffer) => buffer.capacity(),
            Self::Shared(bytes) => bytes.len(),
        }
    }
}

impl Output {
    /// Bytes not sent yet.
    pub(crate) fn queued(&self) -> usize {
        self.queued
    }

    /// Memory of what is not sent.
    #[inline]
    pub(crate) fn held(&self) -> usize {
        self.sealed.as_ref().map_or(0, |sealed| sealed.held) + self.tail.capacity()
    }

    /// The buffer to append to, with room for at least `room` bytes. [`Output::appended`] follows.
    #[inline]
    pub(crate) fn tail(&mut self, room: usize, take: Take, pool: &mut Pool) -> &mut Vec<u8> {
        if self.tail.capacity() - self.tail.len() < room.max(1) {
            self.make_room(room, take, pool);
        }
        &mut self.tail
    }

    fn make_room(&mut self, room: usize, take: Take, pool: &mut Pool) {
        if self.tail.capacity() == 0 {
            let likely = if take == Take::Likely { self.hint as usize } else { 0 };
            self.tail = pool.take(room.max(likely));
        } else if self.tail.len() < STEP {
            let mut larger = pool.take(self.tail.len() + room.max(self.tail.len()));
            larger.extend_from_slice(&self.tail);
            pool.give(std::mem::replace(&mut self.tail, larger));
        } else {
            let filled = u32::try_from(self.tail.len()).unwrap_or(u32::MAX);
            self.seal(pool);
            let sealed = self.sealed(pool);
            sealed.filled = sealed.filled.saturating_add(filled);
            let likely = if take == Take::Likely { self.queued.min(NEXT_MOST) } else { STEP };
            self.tail = pool.take(room.max(likely));
        }
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

    pub(crate) fn push_shared(&mut self, mut bytes: Bytes, pool: &mut Pool) {
        if bytes.is_empty() {
            return;
        }
        self.seal(pool);
        self.queued += bytes.len();
        while bytes.len() > PIECE_MOST {
            let first = bytes.split_to(PIECE_MOST);
            self.sealed(pool).push(Piece::Shared(first));
        }
        self.sealed(pool).push(Piece::Shared(bytes));
    }

    /// `bytes` that the driver took go to the front again.
    pub(crate) fn put_back(&mut self, mut bytes: Vec<u8>, pool: &mut Pool) {
        if bytes.is_empty() {
            return;
        }
        self.queued += bytes.len();
        let sent = std::mem::take(&mut self.sent) as usize;
        if sent > 0 {
            // What is left of the first piece comes along, since only the first may begin in its
            // middle.
            self.seal(pool);
            if let Some(first) = self.sealed(pool).pop() {
                bytes.extend_from_slice(&first.as_slice()[sent..]);
                if let Piece::Owned(buffer) = first {
                    pool.give(buffer);
                }
            }
        }
        let (sealed, piece) = (self.sealed(pool), Piece::Owned(bytes));
        sealed.held += piece.held();
        sealed.pieces.push_front(piece);
    }

    /// Closes a large tail of a connection that cannot send now.
    pub(crate) fn seal_large(&mut self, pool: &mut Pool) {
        if self.tail.len() >= SEAL {
            self.seal(pool);
        }
    }

    fn seal(&mut self, pool: &mut Pool) {
        if !self.tail.is_empty() {
            let tail = std::mem::take(&mut self.tail);
            self.sealed(pool).push(Piece::Owned(tail));
        }
    }

    fn sealed(&mut self, pool: &mut Pool) -> &mut Sealed {
        self.sealed.get_or_insert_with(|| pool.take_list().unwrap_or_default())
    }

    /// The first pieces to send, and their length together.
    pub(crate) fn slices<'a>(&'a self, into: &mut [IoSlice<'a>; MAX_SLICES]) -> (usize, usize) {
        let sealed = self.sealed.iter().flat_map(|sealed| &sealed.pieces).map(Piece::as_slice);
        let pieces = sealed.chain(std::iter::once(self.tail.as_slice()));
        let (mut count, mut length, mut skip) = (0, 0, self.sent as usize);
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
        let mut sent = self.sent as usize + bytes;
        if let Some(sealed) = &mut self.sealed {
            while let Some(first) = sealed.pieces.front() {
                let length = first.as_slice().len();
                if sent < length {
                    return self.note_sent(sent);
                }
                sent -= length;
                if let Some(Piece::Owned(buffer)) = sealed.pop() {
                    pool.give(buffer);
                }
            }
        }
        assert!(sent <= self.tail.len(), "sent beyond the tail");
        if sent == self.tail.len() {
            return self.release(pool);
        }
        self.note_sent(sent);
    }

    fn note_sent(&mut self, sent: usize) {
        let Ok(sent) = u32::try_from(sent) else { unreachable!("a piece of {sent} bytes or more") };
        self.sent = sent;
    }

    /// Gives all buffers back, sent or not.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        let mut filled = 0;
        if let Some(mut sealed) = self.sealed.take() {
            filled = sealed.filled;
            sealed.clear(pool);
            pool.give_list(sealed);
        }
        if self.tail.capacity() > 0 {
            let length = filled as usize + self.tail.len() + SLACK;
            self.hint = u32::try_from(length.min(FIRST_MOST)).unwrap_or(u32::MAX);
            pool.give(std::mem::take(&mut self.tail));
        }
        self.sent = 0;
        self.queued = 0;
    }

    /// Whether it owns memory.
    #[cfg(test)]
    pub(crate) fn owns_nothing(&self) -> bool {
        self.sealed.is_none() && self.held() == 0
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
        /// what is held is counted, and nothing is owned at the end.
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
                        // Now and then it becomes more than was said.
                        let (room, take) = (size - size % 7, [Take::Likely, Take::Needed][n % 2]);
                        output.tail(room, take, &mut pool).extend_from_slice(&chunk);
                        output.appended(size);
                        given.extend_from_slice(&chunk);
                    }
                    1 => {
                        given.extend_from_slice(&chunk);
                        output.push_shared(Bytes::from(chunk), &mut pool);
                    }
                    2 => output.seal_large(&mut pool),
                    3 => {
                        let bytes = drain(&mut output, &mut pool, size);
                        output.put_back(bytes, &mut pool);
                    }
                    _ => taken.extend(drain(&mut output, &mut pool, size)),
                }
                prop_assert_eq!(output.queued(), given.len() - taken.len());
                let sealed = output.sealed.iter().flat_map(|sealed| &sealed.pieces);
                let sealed: usize = sealed.map(Piece::held).sum();
                prop_assert_eq!(output.held(), sealed + output.tail.capacity());
                prop_assert!(output.held() >= output.queued());
            }
            while output.queued() > 0 {
                taken.extend(drain(&mut output, &mut pool, 10_000));
            }
            output.advance(0, &mut pool);
            prop_assert!(output.owns_nothing());
            prop_assert_eq!(given, taken);
        }
    }

    fn append(output: &mut Output, pool: &mut Pool, take: Take, bytes: usize) {
        output.tail(bytes, take, pool).extend(std::iter::repeat_n(7, bytes));
        output.appended(bytes);
    }

    /// A buffer of 32 KiB that took another message had 64.
    #[test]
    fn what_is_needed_takes_one_step_more_at_most() {
        for bytes in [1, 70, 900, 4000, 4096] {
            let (mut output, mut pool) = (Output::default(), Pool::new(0));
            while output.queued() < 100_000 {
                append(&mut output, &mut pool, Take::Needed, bytes);
                let (queued, held) = (output.queued(), output.held());
                // What a message does not fit into is left at the end of each buffer.
                let waste = queued / STEP * (bytes - 1) + STEP.max(queued.min(STEP));
                assert!(held <= queued + waste, "{held} for {queued} by {bytes}");
            }
        }
    }

    #[test]
    fn what_is_likely_grows_by_as_much_as_there_is_and_is_remembered() {
        let (mut output, mut pool) = (Output::default(), Pool::new(1 << 20));
        for _ in 0..300 {
            append(&mut output, &mut pool, Take::Likely, 70);
        }
        let pieces = output.sealed.as_ref().map_or(0, |sealed| sealed.pieces.len());
        assert!(pieces <= 2 && output.held() <= 2 * 21_000, "{}", output.held());
        output.advance(output.queued(), &mut pool);
        assert!(output.owns_nothing());
        append(&mut output, &mut pool, Take::Likely, 70);
        assert_eq!(output.held(), FIRST_MOST);
        output.advance(70, &mut pool);
        append(&mut output, &mut pool, Take::Needed, 70);
        assert_eq!(output.held(), 256);
    }
}
