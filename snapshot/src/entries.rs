//! A volume as a stream: the entries of sections in order, from node to node.
//!
//! Owns: the checks of what is passed on the way: each node by itself and by its place, branches by
//! the nodes below them, a section by what the last block says of it. What lies behind a damaged
//! place is not given out.

use zzq_wal::disk::DiskFile;

use crate::error::ReadError;
use crate::format::OUTER;
use crate::format::footer::{SectionEntry, chained};
use crate::format::node::{Child, LEVELS_MAX, NODE_HEADER, NodeHeader, Steps, is_intact};
use crate::pace::Pace;
use crate::volume::Volume;
use crate::window::Window;

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'e> {
    /// Its section.
    pub section: u16,
    /// Its key.
    pub key: &'e [u8],
    /// Its value.
    pub value: &'e [u8],
}

/// See the file.
pub struct Entries<'v, F> {
    volume: &'v Volume<F>,
    window: Window<'v, F>,
    /// Sections to come, the next one last.
    left: Vec<SectionEntry>,
    section: Option<Section>,
    node: Vec<u8>,
    /// Where that node begins.
    offset: u64,
    steps: Steps,
    is_leaf: bool,
    /// Nodes passed, and their chain.
    nodes: u64,
    chain: u32,
}

/// The section that is being read.
struct Section {
    entry: SectionEntry,
    /// Offset of the next node.
    at: u64,
    /// Number of the next node, once one was read.
    number: Option<u64>,
    entries: u64,
    bytes: u64,
    last: Vec<u8>,
    /// The nodes of each level that no branch has named yet.
    passed: Vec<Vec<Passed>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Passed {
    first: Vec<u8>,
    child: Child,
}

impl<'v, F: DiskFile> Entries<'v, F> {
    /// For sections of this volume, in their order.
    pub(crate) fn new(
        volume: &'v Volume<F>,
        mut sections: Vec<SectionEntry>,
        pace: Pace<'v>,
    ) -> Self {
        sections.reverse();
        Self {
            volume,
            window: Window::new(volume, pace),
            left: sections,
            section: None,
            node: Vec::new(),
            offset: 0,
            steps: Steps::default(),
            is_leaf: false,
            nodes: 0,
            chain: 0,
        }
    }

    /// The next entry; `None` behind the last. After an error there is nothing more to come.
    pub fn next_entry(&mut self) -> Result<Option<Entry<'_>>, ReadError> {
        Ok(if self.advance()? { self.current() } else { None })
    }

    /// Goes to the next entry; `false` behind the last.
    pub(crate) fn advance(&mut self) -> Result<bool, ReadError> {
        loop {
            if self.is_leaf && self.step()? {
                return Ok(true);
            }
            let Some(section) = &self.section else {
                match self.left.pop() {
                    Some(entry) => self.section = Some(Section::new(entry)),
                    None => return Ok(false),
                }
                continue;
            };
            if section.at == section.end() {
                self.end_section()?;
            } else {
                self.next_node()?;
            }
        }
    }

    /// The entry that the last call of [`advance`](Self::advance) went to.
    pub(crate) fn current(&self) -> Option<Entry<'_>> {
        let section = self.section.as_ref().filter(|_| self.is_leaf)?.entry.section;
        Some(Entry { section, key: self.steps.key(), value: self.steps.value(&self.node) })
    }

    /// Where the node begins that was read last.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Reads all that is left; for one that was made for all sections.
    pub(crate) fn verify(mut self) -> Result<(), ReadError> {
        while self.advance()? {}
        let footer = self.volume.footer();
        if (footer.nodes, footer.chain) != (self.nodes, self.chain) {
            let reason = "its nodes are not all that were written";
            return Err(self.volume.damage(footer.length - OUTER, reason).into());
        }
        let unused = usize::try_from(footer.length - OUTER - footer.end).unwrap_or(0);
        let rest = self.window.take(footer.end, unused)?;
        match rest.iter().position(|byte| *byte != 0) {
            None => Ok(()),
            Some(at) => Err(self.volume.damage(footer.end + at as u64, "it is not zero").into()),
        }
    }

    fn step(&mut self) -> Result<bool, ReadError> {
        let Some(section) = &mut self.section else { return Ok(false) };
        let found = match self.steps.step(&self.node) {
            Ok(true) => true,
            Ok(false) => {
                self.is_leaf = false;
                return Ok(false);
            }
            Err(reason) => return self.damaged(reason),
        };
        if section.entries > 0 && self.steps.key() <= &*section.last {
            return self.damaged("keys that do not ascend");
        }
        section.entries += 1;
        section.bytes += (self.steps.key().len() + self.steps.value(&self.node).len()) as u64;
        section.last.clear();
        section.last.extend_from_slice(self.steps.key());
        Ok(found)
    }

    /// Reads the node behind the last one.
    fn next_node(&mut self) -> Result<(), ReadError> {
        let Some(section) = &mut self.section else { return Ok(()) };
        let (at, end) = (section.at, section.end());
        self.offset = at;
        if end - at < NODE_HEADER as u64 {
            return self.damaged("a section that ends within a node");
        }
        let head = self.window.take(at, NODE_HEADER)?;
        let Some(head) = head.first_chunk() else { unreachable!("as long as was asked for") };
        let header = match NodeHeader::decode(head) {
            Ok(header) => header,
            Err(reason) => return self.damaged(reason),
        };
        if at + u64::from(header.length) > end {
            return self.damaged("a node that reaches beyond its section");
        }
        let length = usize::try_from(header.length).unwrap_or(usize::MAX);
        let bytes = self.window.take(at, length)?;
        self.node.clear();
        self.node.extend_from_slice(bytes);
        if !is_intact(&header, &self.node) {
            return self.damaged("its checksum does not match its bytes");
        }
        if let Err(reason) = section.check_place(&header, self.volume.heading().number) {
            return self.damaged(reason);
        }
        section.at += u64::from(header.length);
        section.number = Some(header.number + 1);
        self.nodes += 1;
        self.chain = chained(self.chain, header.checksum);
        self.pass(&header)
    }

    /// A node is there: a leaf is read next, a branch names what was passed before it.
    fn pass(&mut self, header: &NodeHeader) -> Result<(), ReadError> {
        let Some(section) = &mut self.section else { return Ok(()) };
        let mut steps = Steps::default();
        steps.begin(header);
        let first = match steps.step(&self.node) {
            Ok(true) => steps.key().to_vec(),
            Ok(false) => return self.damaged("a node without entries"),
            Err(reason) => return self.damaged(reason),
        };
        if header.level == 0 {
            self.is_leaf = true;
            self.steps.begin(header);
        } else if let Err(reason) = section.adopt(header.level, &self.node, steps) {
            return self.damaged(reason);
        }
        let child = header.as_child(self.offset);
        section.level(header.level).push(Passed { first, child });
        Ok(())
    }

    fn end_section(&mut self) -> Result<(), ReadError> {
        let Some(section) = self.section.take() else { return Ok(()) };
        if section.is_whole() {
            return Ok(());
        }
        self.offset = self.volume.footer().length - OUTER;
        let number = section.entry.section;
        self.damaged(&format!("section {number} is not as it says"))
    }

    fn damaged<R>(&mut self, reason: &str) -> Result<R, ReadError> {
        self.left.clear();
        self.section = None;
        self.is_leaf = false;
        Err(self.volume.damage(self.offset, reason).into())
    }
}

impl Section {
    fn new(entry: SectionEntry) -> Self {
        Self {
            entry,
            at: entry.start,
            number: None,
            entries: 0,
            bytes: 0,
            last: Vec::new(),
            passed: Vec::new(),
        }
    }

    /// Where its nodes end: its root is the last.
    fn end(&self) -> u64 {
        self.entry.root.offset + u64::from(self.entry.root.length)
    }

    fn check_place(&self, header: &NodeHeader, file: u64) -> Result<(), &'static str> {
        if header.file != file {
            return Err("a node of another file");
        }
        if header.section != self.entry.section {
            return Err("a node of another section");
        }
        if self.number.is_some_and(|number| number != header.number) || header.number == u64::MAX {
            return Err("a node from another place");
        }
        if header.level >= LEVELS_MAX {
            return Err("a node of a level that no file has");
        }
        Ok(())
    }

    fn level(&mut self, level: u8) -> &mut Vec<Passed> {
        let level = usize::from(level);
        if self.passed.len() <= level {
            self.passed.resize_with(level + 1, Vec::new);
        }
        &mut self.passed[level]
    }

    /// A branch, whose `steps` are at its first entry, names the nodes of the level below that no
    /// other has named, in their order. One that came in front of it may be left for the next.
    fn adopt(&mut self, level: u8, node: &[u8], mut steps: Steps) -> Result<(), &'static str> {
        let below = self.level(level - 1);
        let mut count = 0;
        loop {
            let child = Child::decode(steps.value(node));
            let fits = |passed: &Passed| child == Some(passed.child) && steps.key() == passed.first;
            if !below.get(count).is_some_and(fits) {
                return Err("a branch that names other nodes than those in front of it");
            }
            count += 1;
            if !steps.step(node)? {
                break;
            }
        }
        below.drain(..count);
        Ok(())
    }

    /// All that was there hangs on its root.
    fn is_whole(&self) -> bool {
        let root_level = usize::from(self.entry.levels) - 1;
        let hangs = self.passed.iter().enumerate().all(|(level, passed)| {
            let roots = passed.iter().map(|passed| passed.child);
            roots.eq((level == root_level).then_some(self.entry.root))
        });
        let counted = (self.entries, self.bytes) == (self.entry.entries, self.entry.bytes);
        hangs && counted && self.passed.len() == root_level + 1
    }
}
