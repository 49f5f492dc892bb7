//! The merge: a volume that was there, with the entries that have changed since, into the next.
//!
//! Owns: the order of both. Memory is one window of the old volume and the open nodes of the new
//! one. Does not know: why an entry is replaced.

use zzq_wal::disk::Disk;

use crate::entries::{Entries, Entry};
use crate::error::{ReadError, WriteError};
use crate::needs::Need;
use crate::volume::Volume;
use crate::writer::Writer;

/// The merge was given up.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// The old volume could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The new one could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// See the file.
pub struct Merge<'m, D: Disk, K> {
    base: Option<Entries<'m, D::File>>,
    writer: Writer<'m, D>,
    keep: K,
}

impl<'m, D: Disk, K: FnMut(Entry<'_>) -> bool> Merge<'m, D, K> {
    /// Of the entries of `base`, if there is one, those stay that `keep` says; it sees each once.
    /// It keeps none that is added anew.
    pub fn new(
        base: Option<Entries<'m, D::File>>,
        writer: Writer<'m, D>,
        keep: K,
    ) -> Result<Self, MergeError> {
        let mut merge = Self { base, writer, keep };
        merge.advance()?;
        Ok(merge)
    }

    /// Adds an entry. Sections ascend, and keys within each.
    pub fn entry(&mut self, section: u16, key: &[u8], value: &[u8]) -> Result<(), MergeError> {
        self.copy(|old| (old.section, old.key) <= (section, key))?;
        Ok(self.writer.entry(section, key, value)?)
    }

    /// Copies what is left. Gives the writer back for its end, and what was asked all the time.
    pub fn finish(mut self) -> Result<(Writer<'m, D>, K), MergeError> {
        self.copy(|_| true)?;
        Ok((self.writer, self.keep))
    }

    /// Copies old entries as long as `goes` says.
    fn copy(&mut self, goes: impl Fn(&Entry<'_>) -> bool) -> Result<(), MergeError> {
        while let Some(base) = &self.base
            && let Some(old) = base.current().filter(&goes)
        {
            if (self.keep)(old) {
                self.writer.entry(old.section, old.key, old.value)?;
            }
            self.advance()?;
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<(), MergeError> {
        if let Some(base) = &mut self.base
            && !base.advance()?
        {
            self.base = None;
        }
        Ok(())
    }
}

impl<D: Disk> Writer<'_, D> {
    /// States these needs, which ascend, and ends the volume.
    pub fn finish_with(mut self, needs: &[Need]) -> Result<Volume<D::File>, WriteError> {
        needs.iter().try_for_each(|need| self.need(need))?;
        self.finish()
    }
}
