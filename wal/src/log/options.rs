//! What the caller decides about a log.

use std::fmt;
use std::io::{self, Read};
use std::num::NonZero;
use std::thread;

use crate::format::group;
use crate::format::record::{HEADER_LEN, PART_MAX};
use crate::format::segment::{GROUPS_AT, Identity, LENGTH_MIN};
use crate::format::{Salt, index};
use crate::lsn::Lsn;
use crate::recover::OnProgress;

/// More threads found no use: one that visits is the slower half.
const RECOVERY_THREADS_MAX: usize = 4;

/// For all readers of a log together.
const READ_THREADS: usize = 2;

const MIB: u64 = 1024 * 1024;

/// Where salts and the log's id come from: 16 unpredictable bytes at each call.
pub type Entropy = Box<dyn FnMut() -> Salt + Send>;

/// Who says what is committed: may be acknowledged, and is never truncated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Commits {
    /// What is durable is committed: a node alone.
    #[default]
    WithDurable,
    /// The caller, by [`Log::commit`](crate::Log::commit): a replicator.
    ByCaller,
}

/// Options of a log; the sizes are in bytes.
pub struct Options {
    /// Whom the log belongs to; checked when there is one already. Its log id is ignored.
    pub identity: Identity,
    /// Leadership under which groups are made; 0 without a cluster. Terms never go back: below that
    /// of the newest group it counts for nothing, and that one goes on.
    pub term: u64,
    /// Segments grow from 1 MiB to this size.
    pub segment_size: u64,
    /// The longest group.
    pub group_size: usize,
    /// A producer's chunk is handed over when it is this long.
    pub chunk_size: usize,
    /// A longer body is split into parts of this length.
    pub part_size: usize,
    /// Chunks that wait in a producer's ring at most.
    pub ring_chunks: usize,
    /// Groups that a cursor of the tail may be behind.
    pub tail_groups: usize,
    /// Bytes in the tail that are still being read.
    pub tail_bytes: usize,
    /// Records that nobody waits for go to disk after this time in ms ...
    pub lazy_ms: u64,
    /// ... or when there are so many bytes of them.
    pub lazy_bytes: usize,
    /// The visitor sees records from this LSN on.
    pub visit_from: Lsn,
    /// Known to have been durable, from an image: a log that ends before is damaged.
    pub durable: Lsn,
    /// Threads that read and check segments ahead of the visitor, each with 1 MiB of memory; 0:
    /// the opening thread does it, in an order that never varies.
    pub recovery_threads: usize,
    /// Threads that read ahead for [`Reader`](crate::Reader)s that read on; 0: none does.
    pub read_threads: usize,
    /// While their waits are shorter than this in us, [`Writer`](crate::Writer)s that are several,
    /// and no more than there are processors, do not sleep: see there. 0: they always do.
    pub watch_us: u64,
    /// Who says what is committed.
    pub commits: Commits,
    /// Hears how far recovery is.
    pub progress: Option<OnProgress>,
    /// See [`Entropy`].
    pub entropy: Entropy,
}

impl Options {
    /// The defaults, with this source of salts, and without threads: what it does depends on its
    /// arguments only.
    pub fn new(entropy: Entropy) -> Self {
        Self {
            identity: Identity::default(),
            term: 0,
            segment_size: 128 * MIB,
            group_size: 1024 * 1024,
            chunk_size: 64 * 1024,
            part_size: PART_MAX,
            ring_chunks: 128,
            tail_groups: 256,
            tail_bytes: 16 * 1024 * 1024,
            lazy_ms: 5,
            lazy_bytes: 64 * 1024,
            visit_from: Lsn::FIRST,
            durable: Lsn::ZERO,
            recovery_threads: 0,
            read_threads: 0,
            watch_us: 1000,
            commits: Commits::WithDurable,
            progress: None,
            entropy,
        }
    }

    /// The defaults of a machine: salts from the operating system, and as many threads for
    /// recovery as it has processors, four at most.
    pub fn from_os() -> io::Result<Self> {
        let mut urandom = std::fs::File::open("/dev/urandom")?;
        urandom.read_exact(&mut Salt::default())?;
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let recovery_threads = processors.min(RECOVERY_THREADS_MAX);
        let entropy = Box::new(move || draw(&mut urandom));
        Ok(Self { recovery_threads, read_threads: READ_THREADS, ..Self::new(entropy) })
    }

    /// The length of the first segment.
    pub(crate) fn first_segment(&self) -> u64 {
        self.segment_size.min(MIB)
    }

    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.segment_size < LENGTH_MIN || !self.segment_size.is_multiple_of(GROUPS_AT) {
            return Err("segments are multiples of 4096 bytes and not below 64 KiB");
        }
        if self.segment_size.div_ceil(GROUPS_AT) > u64::from(u32::MAX) {
            return Err("segments are too long");
        }
        if self.part_size == 0 || self.part_size > PART_MAX {
            return Err("parts are at most 256 KiB");
        }
        let longest = group::HEADER_LEN + self.chunk_size + HEADER_LEN + self.part_size;
        if longest > self.group_size || self.group_size > group::LEN_MAX {
            return Err("a group holds a chunk and a part, and is at most 16 MiB");
        }
        if longest as u64 > room(self.first_segment(), GROUPS_AT, 0) {
            return Err("the first segment does not hold a chunk and a part");
        }
        if self.ring_chunks < 2 || self.tail_groups == 0 || self.tail_bytes == 0 {
            return Err("rings need room");
        }
        Ok(())
    }
}

fn draw(urandom: &mut std::fs::File) -> Salt {
    let mut salt = Salt::default();
    let read = urandom.read_exact(&mut salt);
    assert!(read.is_ok(), "the kernel's random bytes do not end");
    salt
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("identity", &self.identity)
            .field("segment_size", &self.segment_size)
            .field("group_size", &self.group_size)
            .field("visit_from", &self.visit_from)
            .finish_non_exhaustive()
    }
}

/// Bytes for one more group in a segment of this `length` whose `groups` end at `end`, so that
/// its index still fits behind.
pub(crate) fn room(length: u64, end: u64, groups: u64) -> u64 {
    length.saturating_sub(end).saturating_sub(index::reserve(groups + 1))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Salts that are all different and the same in each run.
    pub(crate) fn counted() -> Entropy {
        let mut count = 0_u128;
        Box::new(move || {
            count += 1;
            (count.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)).to_le_bytes()
        })
    }

    #[test]
    fn defaults_are_consistent() {
        assert_eq!(Options::new(counted()).check(), Ok(()));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let changes: [fn(&mut Options); 5] = [
            |options| options.segment_size = 4096,
            |options| options.segment_size += 1,
            |options| options.part_size = PART_MAX + 1,
            |options| options.group_size = 65_536,
            |options| options.segment_size = 256 * 1024,
        ];
        for change in changes {
            let mut options = Options::new(counted());
            change(&mut options);
            assert!(options.check().is_err());
        }
    }

    #[test]
    fn room_leaves_space_for_the_index() {
        assert_eq!(room(65_536, 4096, 0), 65_536 - 4096 - 8192);
        assert_eq!(room(65_536, 65_536 - 8192, 3), 0);
        assert_eq!(room(65_536, 65_536, 3), 0);
    }
}
