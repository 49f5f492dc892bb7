//! A finished volume: what its outer blocks say, and the ways to read it.

use zzq_wal::disk::{BLOCK, Disk, DiskFile};
use zzq_wal::io::IoBuffer;

use crate::entries::Entries;
use crate::error::{Damage, ReadError};
use crate::format::footer::Footer;
use crate::format::{Fault, Heading, Kind, OUTER, SectionEntry};
use crate::needs::{NEEDS, Need, SECTION_MAX};
use crate::pace::{Pace, at_full_speed};
use crate::seek::Cursor;

/// An open volume. Clones share the file.
#[derive(Clone, Debug)]
pub struct Volume<F> {
    file: F,
    name: String,
    heading: Heading,
    footer: Footer,
}

impl<F: DiskFile> Volume<F> {
    /// Opens the volume of this kind and number. Its outer blocks are checked, its nodes when they
    /// are read.
    pub fn open<D: Disk<File = F>>(disk: &D, kind: Kind, number: u64) -> Result<Self, ReadError> {
        let name = kind.name(number);
        let file = disk.open(&name);
        let file =
            file.map_err(|error| ReadError::Disk { file: name.clone(), offset: 0, error })?;
        let volume = Self::of(file, &name, kind)?;
        if volume.heading.number == number {
            return Ok(volume);
        }
        Err(volume.damage(0, format!("it is number {}", volume.heading.number)).into())
    }

    /// A volume in a file of whatever name.
    pub(crate) fn of(file: F, name: &str, kind: Kind) -> Result<Self, ReadError> {
        let at = |offset| move |error| ReadError::Disk { file: name.to_owned(), offset, error };
        let damaged = |offset, reason: String| {
            ReadError::Damage(Damage { file: name.to_owned(), offset, reason })
        };
        let size = file.size().map_err(at(0))?;
        if size < 2 * OUTER || !size.is_multiple_of(OUTER) {
            return Err(damaged(size, "the file ends too early".to_owned()));
        }
        let first = read_block(&file, 0).map_err(at(0))?;
        let fault = |offset| {
            move |fault: Fault| match fault {
                Fault::Version { found } => ReadError::Version { file: name.to_owned(), found },
                fault => damaged(offset, fault.to_string()),
            }
        };
        let heading = Heading::decode(kind, &first).map_err(fault(0))?;
        let end = size - OUTER;
        let last = read_block(&file, end).map_err(at(end))?;
        let footer = Footer::decode(kind, &last).map_err(fault(end))?;
        if footer.length != size {
            let reason = format!("the last block is that of a file of {} bytes", footer.length);
            return Err(damaged(end, reason));
        }
        if footer.heading_checksum != checksum_of(&first) {
            return Err(damaged(end, "it belongs to another first block".to_owned()));
        }
        Ok(Self { file, name: name.to_owned(), heading, footer })
    }

    /// Its file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is.
    pub const fn heading(&self) -> &Heading {
        &self.heading
    }

    /// Bytes of its file.
    pub const fn size(&self) -> u64 {
        self.footer.length
    }

    /// The sections of the state that have entries, in their order.
    pub fn sections(&self) -> impl Iterator<Item = &SectionEntry> {
        self.footer.sections.iter().filter(|entry| entry.section <= SECTION_MAX)
    }

    /// All entries of these sections in order. Everything that is read is checked on the way; at
    /// the end of each section that nothing of it was missing.
    pub fn entries<'v>(
        &'v self,
        sections: impl Fn(u16) -> bool + 'v,
        pace: Pace<'v>,
    ) -> Entries<'v, F> {
        let wanted =
            move |entry: &&SectionEntry| entry.section <= SECTION_MAX && sections(entry.section);
        Entries::new(self, self.footer.sections.iter().filter(wanted).copied().collect(), pace)
    }

    /// Reads all of it; an error names the first place that is not as it was written.
    pub fn verify(&self, pace: Pace<'_>) -> Result<(), ReadError> {
        Entries::new(self, self.footer.sections.clone(), pace).verify()
    }

    /// The value of one entry.
    pub fn get(&self, section: u16, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        let mut cursor = self.seek(section, key)?;
        let entry = cursor.next_entry()?;
        Ok(entry.filter(|entry| entry.key == key).map(|entry| entry.value.to_vec()))
    }

    /// The entries of a section from `key` on. Reads one node of each level.
    pub fn seek(&self, section: u16, key: &[u8]) -> Result<Cursor<'_, F>, ReadError> {
        Cursor::seek(self, self.footer.section(section), key)
    }

    /// The files with records that its entries name, by kind and number.
    pub fn needs(&self) -> Result<Vec<Need>, ReadError> {
        let section = self.footer.section(NEEDS).copied();
        let mut entries = Entries::new(self, section.into_iter().collect(), at_full_speed());
        let mut needs = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            let Some(need) = Need::decode(entry.key, entry.value) else {
                let reason = "it names a file that no writer names";
                return Err(self.damage(entries.offset(), reason).into());
            };
            needs.push(need);
        }
        Ok(needs)
    }

    /// Whether the outer blocks are those that were meant.
    pub(crate) fn is_as_written(&self, heading: &Heading, footer: &Footer) -> Result<(), Damage> {
        if self.heading != *heading {
            return Err(self.damage(0, "it is not what was written".to_owned()));
        }
        if self.footer != *footer {
            return Err(self.damage(self.size() - OUTER, "it is not what was written".to_owned()));
        }
        Ok(())
    }

    pub(crate) fn renamed(self, name: String) -> Self {
        Self { name, ..self }
    }

    pub(crate) const fn footer(&self) -> &Footer {
        &self.footer
    }

    pub(crate) fn damage(&self, offset: u64, reason: impl Into<String>) -> Damage {
        Damage { file: self.name.clone(), offset, reason: reason.into() }
    }

    /// Fills the whole buffer.
    pub(crate) fn read_at(&self, buffer: &mut IoBuffer, offset: u64) -> Result<(), ReadError> {
        let failed = |error| ReadError::Disk { file: self.name.clone(), offset, error };
        let read = self.file.read_at(buffer, offset).map_err(failed)?;
        if read == buffer.len() {
            return Ok(());
        }
        Err(self.damage(offset + read as u64, "the file has become shorter").into())
    }
}

fn checksum_of(block: &[u8; BLOCK]) -> u32 {
    zzq_wal::format::field::u32_at(block, 8)
}

fn read_block<F: DiskFile>(file: &F, offset: u64) -> std::io::Result<Box<[u8; BLOCK]>> {
    let mut buffer = IoBuffer::with_blocks(1);
    let read = file.read_at(&mut buffer, offset)?;
    buffer[read..].fill(0);
    let mut block = Box::new([0; BLOCK]);
    block.copy_from_slice(&buffer);
    Ok(block)
}
