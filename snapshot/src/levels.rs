//! The tree of one section while it is written: one node of each level is open, the leaf at the
//! bottom.
//!
//! Owns: when a node is full. Does not know: files.

use crate::error::WriteError;
use crate::format::node::{Child, LEVELS_MAX, NodeBuf};

/// Takes the nodes that are full: gives the place of the node that it has put there.
pub(crate) trait Shelve {
    fn shelve(&mut self, level: u8, node: &mut NodeBuf) -> Result<Child, WriteError>;
}

/// The open nodes, by level.
pub(crate) struct Levels {
    open: Vec<NodeBuf>,
    /// Nodes are not longer, unless a single entry is, or the first two of a branch are.
    node_size: usize,
}

impl Levels {
    pub(crate) fn new(node_size: usize) -> Self {
        Self { open: vec![NodeBuf::new()], node_size }
    }

    /// Adds an entry of the section.
    pub(crate) fn push(
        &mut self,
        key: &[u8],
        value: &[u8],
        out: &mut impl Shelve,
    ) -> Result<(), WriteError> {
        self.push_at(0, key, value, out)
    }

    /// Ends the section; its root and how many levels there are, `None` without entries.
    pub(crate) fn finish(
        &mut self,
        out: &mut impl Shelve,
    ) -> Result<Option<(Child, u8)>, WriteError> {
        let mut level = 0;
        while self.open[level].entries() > 0 {
            let (key, child) = self.flush(level, out)?;
            let is_top = self.open[level + 1..].iter().all(|node| node.entries() == 0);
            level += 1;
            if is_top {
                return Ok(Some((child, level_of(level))));
            }
            self.push_at(level, &key, &child.encode(), out)?;
        }
        Ok(None)
    }

    fn push_at(
        &mut self,
        level: usize,
        key: &[u8],
        value: &[u8],
        out: &mut impl Shelve,
    ) -> Result<(), WriteError> {
        // With two children a branch halves its level at least, so that levels end.
        let least = if level == 0 { 1 } else { 2 };
        let node = &self.open[level];
        if node.entries() >= least && node.len_with(key, value) > self.node_size {
            let (first, child) = self.flush(level, out)?;
            if self.open.len() == level + 1 {
                self.open.push(NodeBuf::new());
            }
            self.push_at(level + 1, &first, &child.encode(), out)?;
        }
        self.open[level].push(key, value);
        Ok(())
    }

    /// Puts an open node away; its first key, and where it is.
    fn flush(
        &mut self,
        level: usize,
        out: &mut impl Shelve,
    ) -> Result<(Vec<u8>, Child), WriteError> {
        let node = &mut self.open[level];
        let child = out.shelve(level_of(level), node)?;
        let first = node.first().to_vec();
        node.clear(2 * self.node_size);
        Ok((first, child))
    }
}

fn level_of(level: usize) -> u8 {
    let level = u8::try_from(level).ok().filter(|level| *level <= LEVELS_MAX);
    assert!(level.is_some(), "levels end");
    level.unwrap_or(LEVELS_MAX)
}
