//! The bytes of a disk in pages that copies share until one of them writes.
//!
//! Owns: cheap copies of a disk, of which most is zero or the same. Does not know: who writes.

use std::sync::Arc;

const PAGE: usize = 4096;

/// A disk's bytes.
#[derive(Clone, Debug)]
pub struct Image {
    /// `None`: zeroes.
    pages: Vec<Option<Arc<[u8; PAGE]>>>,
}

impl Image {
    /// Zeroes; `len` in bytes is rounded down to whole pages.
    pub fn zeroes(len: u64) -> Self {
        Self { pages: vec![None; usize::try_from(len).unwrap_or(usize::MAX) / PAGE] }
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        (self.pages.len() * PAGE) as u64
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Bytes of the pages that were ever written.
    pub fn used(&self) -> u64 {
        (self.pages.iter().flatten().count() * PAGE) as u64
    }

    /// Fills the buffer from `offset` on, with zeroes behind the end.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) {
        for (page, within, part) in parts(offset, buffer.len()) {
            let into = &mut buffer[part];
            match self.pages.get(page) {
                Some(Some(bytes)) => into.copy_from_slice(&bytes[within..within + into.len()]),
                _ => into.fill(0),
            }
        }
    }

    /// Writes at `offset`. What lies behind the end is left out.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (page, within, part) in parts(offset, bytes.len()) {
            let from = &bytes[part];
            if let Some(page) = self.pages.get_mut(page) {
                let page = page.get_or_insert_with(|| Arc::new([0; PAGE]));
                Arc::make_mut(page)[within..within + from.len()].copy_from_slice(from);
            }
        }
    }
}

/// The pages that a range touches: page, place in it, part of the range.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX - len);
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = start + done;
        let within = at % PAGE;
        let count = (PAGE - within).min(len - done);
        let part = done..done + count;
        done += count;
        (count > 0).then_some((at / PAGE, within, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_pages_until_one_is_written() {
        let mut image = Image::zeroes(4 * 4096);
        image.write(4000, &[7; 5000]);
        let before = image.clone();
        image.write(4096, &[9; 10]);
        let mut bytes = [1; 5200];
        image.read(3900, &mut bytes);
        let mut wanted = [[0; 100].as_slice(), &[7; 96], &[9; 10], &[7; 4894], &[0; 100]].concat();
        assert_eq!(bytes.as_slice(), wanted);
        before.read(3900, &mut bytes);
        wanted[196..206].fill(7);
        assert_eq!(bytes.as_slice(), wanted);
    }

    #[test]
    fn nothing_lies_behind_the_end() {
        let mut image = Image::zeroes(4096);
        image.write(4000, &[3; 1000]);
        let mut bytes = [1; 200];
        image.read(4000, &mut bytes);
        assert_eq!((bytes[95], bytes[96], bytes[199]), (3, 0, 0));
        assert_eq!((image.len(), image.used()), (4096, 4096));
    }
}
