//! Looking at a simulated disk from outside, and damaging it there.
//!
//! Owns: what is done to the medium behind the back of whoever uses the disk: durable at once,
//! in every view. Does not know: faults of operations.

use std::io;
use std::ops::Range;

use crate::sim_disk::SimDisk;
use crate::sim_disk::faults::Op;
use crate::sim_disk::file::Contents;
use crate::sim_disk::names::{NameMap, Names};
use crate::sim_disk::random::mix;
use crate::sim_disk::state::{State, to_usize};

/// What a crash could take back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unsynced {
    /// Names were made, changed or removed since the directory was synced.
    pub names: bool,
    /// Files with bytes that a sync would make durable, sorted by name.
    pub files: Vec<String>,
}

impl SimDisk {
    /// All bytes of a file, as reads show them.
    pub fn bytes(&self, name: &str) -> io::Result<Vec<u8>> {
        let state = self.state();
        Ok(state.files[state.find(name)?].live().to_vec())
    }

    /// Makes a durable file of these bytes, in place of one that has the name.
    pub fn insert(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state();
        let file = state.add_file(Contents::durable(bytes));
        state.change_durably(|names| {
            names.insert(name.to_owned(), file);
        });
    }

    /// Removes a file for good.
    pub fn delete(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.find(name)?;
        state.change_durably(|names| {
            names.remove(name);
        });
        Ok(())
    }

    /// Exchanges the names of two files.
    pub fn swap(&self, one: &str, other: &str) -> io::Result<()> {
        let mut state = self.state();
        let (first, second) = (state.find(one)?, state.find(other)?);
        state.change_durably(|names| {
            names.insert(one.to_owned(), second);
            names.insert(other.to_owned(), first);
        });
        Ok(())
    }

    /// Inverts a bit, counted modulo 8, of the byte at `offset`.
    pub fn flip(&self, name: &str, offset: u64, bit: u8) -> io::Result<()> {
        self.damage(name, offset, 1, |_, byte| *byte ^= 1 << (bit % 8))
    }

    /// Replaces the bytes at `offset`; the file keeps its size.
    pub fn overwrite(&self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.damage(name, offset, bytes.len(), |at, byte| *byte = bytes[at])
    }

    /// Cuts a file to `len` bytes, if it is longer.
    pub fn cut(&self, name: &str, len: u64) -> io::Result<()> {
        let mut state = self.state();
        let file = state.find(name)?;
        state.files[file].cut(to_usize(len)?);
        Ok(())
    }

    /// Makes every read that touches these bytes of the file fail with EIO, after a crash too.
    pub fn break_bytes(&self, name: &str, bytes: Range<u64>) -> io::Result<()> {
        let mut state = self.state();
        let file = state.find(name)?;
        state.files[file].break_bytes(to_usize(bytes.start)?..to_usize(bytes.end)?);
        Ok(())
    }

    /// Operations of a kind so far, failed ones included.
    pub fn count(&self, op: Op) -> u64 {
        self.state().count(op)
    }

    /// What is not durable now, though nothing of it failed. Writes in flight are not counted.
    pub fn unsynced(&self) -> Unsynced {
        let state = self.state();
        let files = state.names.live().iter();
        let pending = files.filter(|(_, file)| state.files[**file].is_pending());
        Unsynced {
            names: state.names.is_pending(),
            files: pending.map(|(name, _)| name.clone()).collect(),
        }
    }

    /// A number for all names and bytes that reads show: equal disks have equal numbers.
    pub fn image_hash(&self) -> u64 {
        let state = self.state();
        state.names.live().iter().fold(0, |hash, (name, file)| {
            let bytes = state.files[*file].live();
            [name.as_bytes(), bytes].iter().fold(hash, |hash, part| {
                let checksum = u64::from(crc32fast::hash(part));
                mix(mix(hash ^ part.len() as u64) ^ checksum)
            })
        })
    }

    fn damage(
        &self,
        name: &str,
        offset: u64,
        len: usize,
        change: impl Fn(usize, &mut u8),
    ) -> io::Result<()> {
        let mut state = self.state();
        let file = state.find(name)?;
        let offset = to_usize(offset)?;
        let contents = &mut state.files[file];
        if contents.live().len() < offset.saturating_add(len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for at in 0..len {
            contents.damage(offset + at, |byte| change(at, byte));
        }
        Ok(())
    }
}

impl State {
    /// Changes names in a way that no crash takes back, and makes the others durable with them.
    fn change_durably(&mut self, change: impl FnOnce(&mut NameMap)) {
        let mut names = self.names.live().clone();
        change(&mut names);
        self.names = Names::durable(names);
    }
}
