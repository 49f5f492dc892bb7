//! One entry of a volume, and those behind it, without the rest.
//!
//! Owns: the way down a tree. Each node is checked against what the node above says of it.

use zzq_wal::disk::{BLOCK, DiskFile};
use zzq_wal::io::IoBuffer;

use crate::entries::Entry;
use crate::error::ReadError;
use crate::format::OUTER;
use crate::format::footer::SectionEntry;
use crate::format::node::{Child, NodeHeader, Steps, is_intact};
use crate::volume::Volume;

/// The entries of one section from a key on.
pub struct Cursor<'v, F> {
    volume: &'v Volume<F>,
    section: u16,
    /// From the root down; a leaf at the end.
    path: Vec<Node>,
}

/// A node on the way, and how far it was gone through.
struct Node {
    offset: u64,
    level: u8,
    bytes: Vec<u8>,
    header: NodeHeader,
    steps: Steps,
}

impl<'v, F: DiskFile> Cursor<'v, F> {
    pub(crate) fn seek(
        volume: &'v Volume<F>,
        section: Option<&SectionEntry>,
        key: &[u8],
    ) -> Result<Self, ReadError> {
        let mut cursor = Self { volume, section: 0, path: Vec::new() };
        let Some(entry) = section else { return Ok(cursor) };
        cursor.section = entry.section;
        let (mut child, mut level) = (entry.root, entry.levels - 1);
        loop {
            let mut node = cursor.load(child, level)?;
            if level == 0 {
                cursor.place(&mut node, |found| found < key)?;
                cursor.path.push(node);
                return Ok(cursor);
            }
            // The last child that begins at or before the key, or else the first.
            let count = cursor.place(&mut node, |found| found <= key)?;
            if count == 0 {
                cursor.step(&mut node)?;
            }
            child = cursor.child(&node)?;
            cursor.path.push(node);
            level -= 1;
        }
    }

    /// The next entry; `None` behind the last of the section.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, ReadError> {
        while let Some(mut node) = self.path.pop() {
            if !self.step(&mut node)? {
                continue;
            }
            let level = node.level;
            let below = if level > 0 { Some(self.child(&node)?) } else { None };
            self.path.push(node);
            match below {
                Some(child) => {
                    let node = self.load(child, level - 1)?;
                    self.path.push(node);
                }
                None => break,
            }
        }
        let section = self.section;
        let entry = |leaf| entry_of(section, leaf);
        Ok(self.path.last().map(entry))
    }

    /// Goes behind all entries at the front for which `is_before` holds; says how many.
    fn place(&self, node: &mut Node, is_before: impl Fn(&[u8]) -> bool) -> Result<u32, ReadError> {
        let mut count = 0;
        while self.step(node)? && is_before(node.steps.key()) {
            count += 1;
        }
        node.steps.begin(&node.header);
        for _ in 0..count {
            self.step(node)?;
        }
        Ok(count)
    }

    fn step(&self, node: &mut Node) -> Result<bool, ReadError> {
        let stepped = node.steps.step(&node.bytes);
        stepped.map_err(|reason| self.volume.damage(node.offset, reason).into())
    }

    /// The child that a branch is at.
    fn child(&self, node: &Node) -> Result<Child, ReadError> {
        let child = Child::decode(node.steps.value(&node.bytes));
        let reason = "a child that lies nowhere";
        child.ok_or_else(|| self.volume.damage(node.offset, reason).into())
    }

    fn load(&self, child: Child, level: u8) -> Result<Node, ReadError> {
        let Child { offset, length, checksum } = child;
        let damaged = |reason| ReadError::from(self.volume.damage(offset, reason));
        let end = child.end().filter(|end| *end <= self.volume.footer().end && offset >= OUTER);
        let end = end.ok_or_else(|| damaged("a node is named there that lies nowhere"))?;
        let start = offset / BLOCK as u64 * BLOCK as u64;
        let count = usize::try_from(end - start).unwrap_or(usize::MAX);
        let mut buffer = IoBuffer::new();
        buffer.resize(count.next_multiple_of(BLOCK));
        self.volume.read_at(&mut buffer, start)?;
        let at = usize::try_from(offset - start).unwrap_or(usize::MAX);
        let bytes = buffer[at..count].to_vec();
        let Some(head) = bytes.first_chunk() else {
            return Err(damaged("a node that is shorter than its head"));
        };
        let header = NodeHeader::decode(head).map_err(damaged)?;
        if header.length != length || header.checksum != checksum || !is_intact(&header, &bytes) {
            return Err(damaged("it is not the node that is named there"));
        }
        let place = (header.section, header.level, header.file);
        if place != (self.section, level, self.volume.heading().number) || header.entries == 0 {
            return Err(damaged("a node from another place"));
        }
        let mut steps = Steps::default();
        steps.begin(&header);
        Ok(Node { offset, level, bytes, header, steps })
    }
}

fn entry_of(section: u16, leaf: &Node) -> Entry<'_> {
    Entry { section, key: leaf.steps.key(), value: leaf.steps.value(&leaf.bytes) }
}
