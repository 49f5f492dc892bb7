//! Bytes of a volume in the order of the file: long reads, of which parts are taken.

use zzq_wal::disk::{BLOCK, DiskFile};
use zzq_wal::io::IoBuffer;

use crate::error::ReadError;
use crate::pace::Pace;
use crate::volume::Volume;

/// Bytes of one read, unless a node is longer.
const WINDOW: usize = 512 * 1024;

/// A stretch of the file in memory.
pub(crate) struct Window<'v, F> {
    volume: &'v Volume<F>,
    buffer: IoBuffer,
    start: u64,
    pace: Pace<'v>,
}

impl<'v, F: DiskFile> Window<'v, F> {
    pub(crate) fn new(volume: &'v Volume<F>, pace: Pace<'v>) -> Self {
        Self { volume, buffer: IoBuffer::new(), start: 0, pace }
    }

    /// The bytes from `offset` on, which lie in front of the last block.
    pub(crate) fn take(&mut self, offset: u64, len: usize) -> Result<&[u8], ReadError> {
        let end = offset + len as u64;
        if offset < self.start || end > self.start + self.buffer.len() as u64 {
            self.read(offset, end)?;
        }
        let at = usize::try_from(offset - self.start).unwrap_or(usize::MAX);
        Ok(&self.buffer[at..at + len])
    }

    fn read(&mut self, offset: u64, end: u64) -> Result<(), ReadError> {
        let start = offset / BLOCK as u64 * BLOCK as u64;
        let wanted = usize::try_from(end - start).unwrap_or(usize::MAX).max(WINDOW);
        let left = usize::try_from(self.volume.size() - start).unwrap_or(usize::MAX);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(wanted.next_multiple_of(BLOCK).min(left));
        self.volume.read_at(&mut buffer, start)?;
        (self.buffer, self.start) = (buffer, start);
        let stopped = (self.pace)(self.buffer.len()).is_break();
        if stopped { Err(ReadError::Stopped) } else { Ok(()) }
    }
}
