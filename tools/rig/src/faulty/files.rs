//! The directory behind the file system: its files, each open for as long as the kernel knows it.
//!
//! Owns: names and numbers of files. Does not know: requests.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

use super::step::Kind;
use crate::fuse::wire::{Attributes, ROOT};

/// See the file.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
    nodes: BTreeMap<u64, Node>,
    names: BTreeMap<String, u64>,
    next: u64,
}

#[derive(Debug)]
struct Node {
    file: File,
    kind: Kind,
    /// How often the kernel was told of it.
    known: u64,
}

impl Files {
    pub(super) fn new(root: &Path) -> io::Result<Self> {
        let root = root.canonicalize()?;
        Ok(Self { root, nodes: BTreeMap::new(), names: BTreeMap::new(), next: ROOT + 1 })
    }

    /// Finds a name; the kernel is told of it.
    pub(super) fn look_up(&mut self, name: &str) -> io::Result<Attributes> {
        if !self.names.contains_key(name) {
            let file = File::options().read(true).write(true).open(self.root.join(name))?;
            self.add(name, file);
        }
        let node = self.names.get(name).copied().ok_or(Errno::NOENT)?;
        if let Some(node) = self.nodes.get_mut(&node) {
            node.known += 1;
        }
        self.attributes(node)
    }

    /// Makes a name, if it is not there.
    pub(super) fn create(&mut self, name: &str) -> io::Result<Attributes> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(self.root.join(name))?;
        if !self.names.contains_key(name) {
            self.add(name, file);
        }
        self.look_up(name)
    }

    fn add(&mut self, name: &str, file: File) {
        let node = self.next;
        self.next += 1;
        self.nodes.insert(node, Node { file, kind: Kind::of(name), known: 0 });
        self.names.insert(name.to_owned(), node);
    }

    /// The kernel knows it less.
    pub(super) fn forget(&mut self, node: u64, times: u64) {
        let Some(known) = self.nodes.get_mut(&node) else { return };
        known.known = known.known.saturating_sub(times);
        if known.known == 0 {
            self.nodes.remove(&node);
            self.names.retain(|_, named| *named != node);
        }
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.root.join(from), self.root.join(to))?;
        self.names.remove(to);
        if let Some(node) = self.names.remove(from) {
            self.names.insert(to.to_owned(), node);
            if let Some(node) = self.nodes.get_mut(&node) {
                node.kind = Kind::of(to);
            }
        }
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.root.join(name))?;
        self.names.remove(name);
        Ok(())
    }

    /// Names and, if the kernel knows them, numbers.
    pub(super) fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let mut list = Vec::new();
        for entry in std::fs::read_dir(&self.root)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let node = self.names.get(&name).copied().unwrap_or(u64::from(u32::MAX));
            list.push((name, node));
        }
        list.sort();
        Ok(list)
    }

    pub(super) fn sync_names(&self) -> io::Result<()> {
        File::open(&self.root)?.sync_all()
    }

    /// Blocks of 4096 bytes: all, and the free ones.
    pub(super) fn space(&self) -> io::Result<(u64, u64)> {
        let facts = statvfs(&self.root)?;
        let blocks = |count: u64| count.saturating_mul(facts.f_frsize) / 4096;
        Ok((blocks(facts.f_blocks), blocks(facts.f_bavail)))
    }

    pub(super) fn kind(&self, node: u64) -> Kind {
        if node == ROOT {
            return Kind::Directory;
        }
        self.nodes.get(&node).map_or(Kind::Other, |node| node.kind)
    }

    fn file(&self, node: u64) -> io::Result<&File> {
        Ok(&self.nodes.get(&node).ok_or(Errno::STALE)?.file)
    }

    pub(super) fn attributes(&self, node: u64) -> io::Result<Attributes> {
        if node == ROOT {
            return Ok(Attributes { node, is_directory: true, len: 0, blocks: 0 });
        }
        let facts = self.file(node)?.metadata()?;
        Ok(Attributes { node, is_directory: false, len: facts.len(), blocks: facts.blocks() })
    }

    pub(super) fn resize(&self, node: u64, len: u64) -> io::Result<()> {
        self.file(node)?.set_len(len)
    }

    /// Reads until the buffer is full or the file ends; returns how much.
    pub(super) fn read(&self, node: u64, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let file = self.file(node)?;
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], offset + filled as u64)? {
                0 => break,
                read => filled += read,
            }
        }
        Ok(filled)
    }

    pub(super) fn write(&self, node: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file(node)?.write_all_at(bytes, offset)
    }

    pub(super) fn sync(&self, node: u64) -> io::Result<()> {
        self.file(node)?.sync_data()
    }

    pub(super) fn allocate(&self, node: u64, mode: u32, offset: u64, len: u64) -> io::Result<()> {
        let flags = FallocateFlags::from_bits_retain(mode);
        Ok(fallocate(self.file(node)?, flags, offset, len)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_outlive_their_names_for_as_long_as_they_are_known() {
        let directory = tempfile::tempdir().unwrap();
        let mut files = Files::new(directory.path()).unwrap();
        let made = files.create("spare-1").unwrap().node;
        files.write(made, 0, b"abc").unwrap();
        assert_eq!(files.kind(made), Kind::Spare);
        files.rename("spare-1", "00000000000000000001.log").unwrap();
        assert_eq!(files.kind(made), Kind::Segment);
        assert_eq!(files.look_up("00000000000000000001.log").unwrap().node, made);
        files.remove("00000000000000000001.log").unwrap();
        assert!(files.look_up("00000000000000000001.log").is_err());
        let mut bytes = [0; 8];
        assert_eq!(files.read(made, 1, &mut bytes).unwrap(), 2);
        files.forget(made, 2);
        assert!(files.attributes(made).is_err());
        assert_eq!(files.list().unwrap(), []);
    }
}
