//! Bytes that came and are no whole packet yet, with the time at which they left the broker.

use std::collections::VecDeque;

/// See the file.
#[derive(Debug, Default)]
pub(super) struct Input {
    bytes: Vec<u8>,
    /// How many bytes left the broker when, from the front.
    marks: VecDeque<(usize, u64)>,
}

impl Input {
    pub(super) fn add(&mut self, bytes: &[u8], written_ms: u64) {
        self.bytes.extend_from_slice(bytes);
        self.marks.push_back((bytes.len(), written_ms));
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// When the first byte left the broker.
    pub(super) fn written_ms(&self) -> u64 {
        self.marks.front().map_or(0, |(_, at)| *at)
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.bytes.drain(..count);
        let mut left = count;
        while left > 0
            && let Some((len, _)) = self.marks.front_mut()
        {
            let taken = left.min(*len);
            *len -= taken;
            left -= taken;
            if *len == 0 {
                self.marks.pop_front();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_keeps_its_time() {
        let mut input = Input::default();
        input.add(&[1, 2, 3], 10);
        input.add(&[4, 5], 20);
        assert_eq!(input.written_ms(), 10);
        input.consume(2);
        assert_eq!((input.bytes(), input.written_ms()), (&[3, 4, 5][..], 10));
        input.consume(1);
        assert_eq!((input.bytes(), input.written_ms()), (&[4, 5][..], 20));
        input.consume(2);
        assert!(input.bytes().is_empty());
    }
}
