//! The tail in memory: groups as they are appended, before they are durable.
//!
//! Owns: `Group`, and the cursor by which a lane reads every group in LSN order.
//! Does not know: disk. The log stops packing while a cursor is behind, it never waits.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::chunk::Chunk;
use crate::format::record::Flags;
use crate::log::ProducerShared;
use crate::lsn::{Handed, Lsn};

/// The records of one group in memory. Whoever keeps the `Arc` keeps the log from reusing the
/// memory, and in the end from packing: read it and let go.
#[derive(Debug)]
pub struct Group {
    pub(crate) number: u64,
    pub(crate) first_lsn: Lsn,
    pub(crate) records: u32,
    pub(crate) time_ms: u64,
    pub(crate) lanes: u64,
    pub(crate) bytes: usize,
    pub(crate) chunks: Vec<Chunk>,
}

/// A record in the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailRecord<'a> {
    /// Its place in the log.
    pub lsn: Lsn,
    /// Log time of its group in ms.
    pub time_ms: u64,
    /// As staged.
    pub kind: u8,
    /// As staged.
    pub flags: Flags,
    /// As staged: bit n for the lane of producer n.
    pub lanes: u64,
    /// Who staged it.
    pub producer: u16,
    /// That producer's count with this record.
    pub handed: Handed,
    /// As staged, in one piece.
    pub body: &'a [u8],
}

impl Group {
    pub(crate) fn new() -> Self {
        Self {
            number: 0,
            first_lsn: Lsn::ZERO,
            records: 0,
            time_ms: 0,
            lanes: 0,
            bytes: 0,
            chunks: Vec::new(),
        }
    }

    /// Dense over the log, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// LSN of the first record.
    pub fn first_lsn(&self) -> Lsn {
        self.first_lsn
    }

    /// LSN of the last record; the one before `first_lsn` if the group completes none.
    pub fn last_lsn(&self) -> Lsn {
        Lsn::new(self.first_lsn.get() - 1 + u64::from(self.records))
    }

    /// Log time in ms.
    pub fn time_ms(&self) -> u64 {
        self.time_ms
    }

    /// The lanes that any of its records concerns.
    pub fn lanes(&self) -> u64 {
        self.lanes
    }

    /// All records in LSN order.
    pub fn records(&self) -> impl Iterator<Item = TailRecord<'_>> {
        self.records_for(u64::MAX)
    }

    /// The records in LSN order, without the chunks that concern none of `lanes`.
    pub fn records_for(&self, lanes: u64) -> impl Iterator<Item = TailRecord<'_>> {
        let mut before = self.first_lsn.get() - 1;
        self.chunks
            .iter()
            .map(move |chunk| {
                let lsn_before = before;
                before += u64::from(chunk.records());
                (chunk, lsn_before)
            })
            .filter(move |(chunk, _)| lanes == u64::MAX || chunk.lanes_all & lanes != 0)
            .flat_map(|(chunk, before)| self.chunk_records(chunk, before))
    }

    fn chunk_records<'a>(
        &'a self,
        chunk: &'a Chunk,
        before: u64,
    ) -> impl Iterator<Item = TailRecord<'a>> {
        (1..).zip(chunk.iter()).map(move |(nth, (record, lanes))| TailRecord {
            lsn: Lsn::new(before + nth),
            time_ms: self.time_ms,
            kind: record.kind,
            flags: record.flags,
            lanes,
            producer: chunk.producer,
            handed: Handed::new(chunk.handed_before + nth),
            body: record.body,
        })
    }
}

/// A lane's view of the tail: every group appended since it was made, in order.
///
/// Its lane drives the log after reading: the log may have stopped for it.
pub struct TailCursor {
    pub(crate) ring: rtrb::Consumer<Arc<Group>>,
    pub(crate) producer: Arc<ProducerShared>,
}

impl TailCursor {
    /// The next group, if one has been appended. After a truncation there is none any more: of
    /// those that were there before, some may have gone.
    pub fn next_group(&mut self) -> Option<Arc<Group>> {
        if self.is_ended() {
            return None;
        }
        self.ring.pop().ok()
    }

    /// The term of its producer has ended: the lane makes another producer, and reads what it has
    /// not seen with a [`Reader`](crate::Reader).
    pub fn is_ended(&self) -> bool {
        self.producer.ended.load(Ordering::Acquire)
    }
}

impl fmt::Debug for TailCursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TailCursor").field("ring", &self.ring).finish_non_exhaustive()
    }
}
