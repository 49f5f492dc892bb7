//! Files of others in the broker's directory: they are nobody's business but theirs.
//!
//! Owns: which there are, and that each death of the broker and the end of all find them as they
//! were. Does not know: what else is in the directory.

use zzq_wal::sim_disk::SimDisk;

use super::World;
use crate::history::Event;

/// Names that are none of the broker's, though some are like its own, with their sizes.
const STRANGERS: [(&str, usize); 6] = [
    ("notes.txt", 700),
    ("17.log", 5000),
    ("00000000000000000001.log.bak", 20_000),
    ("spare-x", 9000),
    ("image-1.bak", 4096),
    ("meta.old", 8192),
];

fn bytes_of(name: &str, size: usize) -> Vec<u8> {
    name.bytes().cycle().take(size).collect()
}

/// Puts them there before the first start.
pub(super) fn lay(disk: &SimDisk) {
    for (name, size) in STRANGERS {
        disk.insert(name, bytes_of(name, size));
    }
}

impl World {
    /// Notes those that are not as they were.
    pub(super) fn look_at_strangers(&mut self) {
        if !self.plan.has_strangers {
            return;
        }
        for (name, size) in STRANGERS {
            let found = self.node.device.disk.bytes(name);
            if found.is_ok_and(|bytes| bytes == bytes_of(name, size)) {
                continue;
            }
            self.note(Event::Touched { file: name.into() });
        }
    }
}
