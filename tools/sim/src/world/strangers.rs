//! Files of others in the broker's directory: they are nobody's business but theirs.
//!
//! Owns: which there are, and that each death of the broker and the end of all find them as they
//! were. Does not know: what else is in the directory.

use zzq_wal::sim_disk::SimDisk;

use zzq_wal::{read_facts, segment_name};

use super::World;
use crate::history::Event;

/// Names that are none of the broker's, though some are like its own, with their sizes. Of two
/// nothing but their age tells that they are no spares of the log: they are of zeroes.
const STRANGERS: [(&str, usize); 8] = [
    (SPARES[0], 32_768),
    (SPARES[1], 300_000),
    ("notes.txt", 700),
    ("17.log", 5000),
    ("00000000000000000001.log.bak", 20_000),
    ("spare-x", 9000),
    ("image-1.bak", 4096),
    ("meta.old", 8192),
];

const SPARES: [&str; 2] = ["spare-0", "spare-7"];

fn bytes_of(name: &str, size: usize) -> Vec<u8> {
    if SPARES.contains(&name) {
        return vec![0; size];
    }
    name.bytes().cycle().take(size).collect()
}

/// Puts them there before the first start.
pub(super) fn lay(disk: &SimDisk) {
    for (name, size) in STRANGERS {
        disk.insert(name, bytes_of(name, size));
    }
}

/// A name that the log had once, and has let go for good.
const TRIMMED: u64 = 1;
const TRIMMED_SIZE: usize = 6000;

impl World {
    /// Somebody else takes a name that the log has let go.
    pub(super) fn lay_where_trimmed(&mut self) {
        let disk = &self.node.device.disk;
        let name = segment_name(TRIMMED);
        let first = read_facts(disk).ok().and_then(|facts| Some(facts.segments()?.first));
        let is_free = first.is_some_and(|first| first > TRIMMED) && disk.bytes(&name).is_err();
        if self.plan.has_strangers && is_free {
            disk.insert(&name, bytes_of(&name, TRIMMED_SIZE));
            self.has_stranger_for_trimmed = true;
            self.coverage.hit("foreign file by a trimmed name");
        }
    }

    /// Notes those that are not as they were.
    pub(super) fn look_at_strangers(&mut self) {
        if !self.plan.has_strangers {
            return;
        }
        let later = self.has_stranger_for_trimmed.then(|| (segment_name(TRIMMED), TRIMMED_SIZE));
        let strangers = STRANGERS.into_iter().map(|(name, size)| (name.to_owned(), size));
        for (name, size) in strangers.chain(later) {
            let found = self.node.device.disk.bytes(&name);
            if !found.is_ok_and(|bytes| bytes == bytes_of(&name, size)) {
                self.note(Event::Touched { file: name });
            }
        }
    }
}
