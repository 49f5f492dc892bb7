//! Writing a volume: in one pass, aside, and only then under its name.
//!
//! Owns: the order of the steps. Each is a step that may fail or be the last before a power cut:
//! what is under the volume's name afterwards is the whole volume, or nothing.
//! Assumes: one volume of a kind is written at a time.

use zzq_wal::disk::{BLOCK, Disk, DiskFile};

use crate::error::WriteError;
use crate::format::footer::{Footer, SECTIONS_MAX, SectionEntry, chained};
use crate::format::heading::Heading;
use crate::format::node::{Child, ENTRY_MAX, NodeBuf};
use crate::levels::{Levels, Shelve};
use crate::needs::{NEEDS, Need, SECTION_MAX};
use crate::pace::Pace;
use crate::sink::Sink;
use crate::volume::Volume;

/// Nodes of this size cost a random read one device request, and a stream nothing.
const NODE_SIZE: usize = 16 * 1024;

/// A volume that is being written.
pub struct Writer<'w, D: Disk> {
    disk: &'w D,
    heading: Heading,
    pace: Pace<'w>,
    nodes: Nodes<'w, D::File>,
    levels: Levels,
    sections: Vec<SectionEntry>,
    open: Option<Open>,
}

/// The section that is being written.
struct Open {
    section: u16,
    entries: u64,
    bytes: u64,
    start: u64,
    last: Vec<u8>,
}

/// Nodes on their way to the file.
struct Nodes<'w, F> {
    sink: Sink<'w, F>,
    file: u64,
    section: u16,
    count: u64,
    chain: u32,
}

impl<F: DiskFile> Shelve for Nodes<'_, F> {
    fn shelve(&mut self, level: u8, node: &mut NodeBuf) -> Result<Child, WriteError> {
        let offset = self.sink.offset();
        let (bytes, checksum) = node.seal(self.section, level, self.file, self.count);
        let length = u32::try_from(bytes.len());
        assert!(length.is_ok(), "a node is within its bound");
        self.sink.append(bytes)?;
        self.chain = chained(self.chain, checksum);
        self.count += 1;
        Ok(Child { offset, length: length.unwrap_or(u32::MAX), checksum })
    }
}

impl<'w, D: Disk> Writer<'w, D> {
    pub(crate) fn begin(disk: &'w D, heading: Heading, pace: Pace<'w>) -> Result<Self, WriteError> {
        Self::begin_with(disk, heading, NODE_SIZE, pace)
    }

    /// As [`begin`](Self::begin), with nodes of another size: tests want deep trees of few bytes.
    #[doc(hidden)]
    pub fn begin_with(
        disk: &'w D,
        heading: Heading,
        node_size: usize,
        pace: Pace<'w>,
    ) -> Result<Self, WriteError> {
        let mut sink = Sink::create(disk, heading.kind.aside(), pace)?;
        let mut block = [0; BLOCK];
        heading.encode(&mut block);
        sink.append(&block)?;
        let nodes = Nodes { sink, file: heading.number, section: 0, count: 0, chain: 0 };
        let levels = Levels::new(node_size);
        Ok(Self { disk, heading, pace, nodes, levels, sections: Vec::new(), open: None })
    }

    /// Adds the next entry. Sections ascend, and keys within each.
    ///
    /// # Panics
    /// If they do not, if the section is not a state's, or if the entry is longer than 2 GiB.
    pub fn entry(&mut self, section: u16, key: &[u8], value: &[u8]) -> Result<(), WriteError> {
        assert!(section <= SECTION_MAX, "section {section} is none of a state");
        self.put(section, key, value)
    }

    /// States a file that the entries need, behind all entries; by kind and number.
    ///
    /// # Panics
    /// If they do not ascend.
    pub fn need(&mut self, need: &Need) -> Result<(), WriteError> {
        self.put(NEEDS, &need.key(), &need.value())
    }

    /// Ends it: all is synced, read back, compared and given its name, and the name is durable.
    pub fn finish(mut self) -> Result<Volume<D::File>, WriteError> {
        self.end_section()?;
        let mut first = [0; BLOCK];
        let heading_checksum = self.heading.encode(&mut first);
        let end = self.nodes.sink.offset();
        self.nodes.sink.pad()?;
        let footer = Footer {
            heading_checksum,
            length: self.nodes.sink.offset() + BLOCK as u64,
            end,
            nodes: self.nodes.count,
            chain: self.nodes.chain,
            sections: self.sections,
        };
        let mut last = [0; BLOCK];
        footer.encode(self.heading.kind, &mut last);
        self.nodes.sink.append(&last)?;
        let file = self.nodes.sink.finish()?;
        let aside = self.heading.kind.aside();
        let volume = read_back(file, aside, &self.heading, &footer, self.pace)?;
        let name = self.heading.kind.name(self.heading.number);
        let failed = self.disk.failed_syncs();
        self.disk.rename(aside, &name).map_err(WriteError::disk("renaming to", &name))?;
        self.disk.sync_names(failed).map_err(WriteError::disk("syncing the name of", &name))?;
        Ok(volume.renamed(name))
    }

    fn put(&mut self, section: u16, key: &[u8], value: &[u8]) -> Result<(), WriteError> {
        assert!(key.len().saturating_add(value.len()) <= ENTRY_MAX, "an entry is too long");
        if self.open.as_ref().is_none_or(|open| open.section != section) {
            self.begin_section(section)?;
        }
        let Some(open) = &mut self.open else { unreachable!("a section was begun") };
        assert!(open.entries == 0 || &*open.last < key, "keys of section {section} ascend");
        open.entries += 1;
        open.bytes += (key.len() + value.len()) as u64;
        open.last.clear();
        open.last.extend_from_slice(key);
        self.levels.push(key, value, &mut self.nodes)
    }

    fn begin_section(&mut self, section: u16) -> Result<(), WriteError> {
        self.end_section()?;
        let before = self.sections.last().map(|done| done.section);
        assert!(before.is_none_or(|before| before < section), "sections ascend");
        assert!(self.sections.len() < SECTIONS_MAX, "sections fit their block");
        self.nodes.section = section;
        let start = self.nodes.sink.offset();
        self.open = Some(Open { section, entries: 0, bytes: 0, start, last: Vec::new() });
        Ok(())
    }

    fn end_section(&mut self) -> Result<(), WriteError> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let Some((root, levels)) = self.levels.finish(&mut self.nodes)? else {
            unreachable!("a section begins with its first entry")
        };
        let Open { section, entries, bytes, start, .. } = open;
        self.sections.push(SectionEntry { section, entries, bytes, start, root, levels });
        Ok(())
    }
}

/// What the device has is what was meant.
fn read_back<F: DiskFile>(
    file: F,
    aside: &str,
    heading: &Heading,
    footer: &Footer,
    pace: Pace<'_>,
) -> Result<Volume<F>, WriteError> {
    let volume = Volume::of(file, aside, heading.kind);
    let volume = volume.map_err(WriteError::ReadBack)?;
    volume.is_as_written(heading, footer).map_err(|damage| WriteError::ReadBack(damage.into()))?;
    volume.verify(pace).map_err(WriteError::ReadBack)?;
    Ok(volume)
}
