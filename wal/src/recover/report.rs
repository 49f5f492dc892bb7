//! What recovery tells: each record, how far it is, and what it found.
//!
//! Owns: the types that a caller sees, and when it hears of progress.
//! Does not know: how anything is found.

use crate::format::record::Flags;
use crate::lsn::Lsn;

/// A record as recovery finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredRecord<'a> {
    /// Its place in the log.
    pub lsn: Lsn,
    /// Log time of its group in ms.
    pub time_ms: u64,
    /// As staged.
    pub kind: u8,
    /// As staged.
    pub flags: Flags,
    /// As staged, in one piece.
    pub body: &'a [u8],
}

/// Sees each record in LSN order; an error refuses the log.
pub type Visit<'v> =
    dyn FnMut(RecoveredRecord<'_>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + 'v;

/// What was found when the log was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Each segment that counts, in order.
    pub segments: Vec<SegmentReport>,
    /// The last LSN.
    pub last_lsn: Lsn,
    /// Log time of the last group in ms.
    pub last_time_ms: u64,
    /// How often the log has been opened, with this time.
    pub epoch: u64,
    /// Big records of which only some parts are there; they are void.
    pub unfinished: usize,
    /// What was read and that nothing proves to have been durable: this start has written it anew,
    /// so that it is now. Nothing where the log was only looked at.
    pub renewed: Option<Renewed>,
    /// Whole files, or their unused ends, that this start takes back: nothing in them counts.
    /// Empty where the log was only looked at.
    pub cleared: Vec<Cleared>,
    /// Files that have a name as the log gives it, and are not the log's: they are left alone.
    pub foreign: Vec<String>,
}

/// The last groups of a log whose process was killed, in a segment of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// Name of the segment's file.
    pub file: String,
    /// How many groups.
    pub groups: usize,
    /// LSN of the first record that they complete.
    pub first: Lsn,
    /// LSN of the last one; below `first` if they complete none.
    pub last: Lsn,
}

/// Space that a start takes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleared {
    /// Name of the file, before it was made a spare or removed.
    pub file: String,
    /// Byte offset from which on it is taken back.
    pub offset: u64,
    /// How many bytes from there.
    pub bytes: u64,
    /// Why nothing there counts.
    pub why: Why,
}

/// Why bytes do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A break lies in front of it, or no group was ever written to it.
    Void,
    /// All of it had been trimmed before the last stop; the file was still there.
    Trimmed,
    /// The end of a segment in which nothing was written, and nothing is any more.
    Unused,
}

/// One segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentReport {
    /// Name of its file.
    pub file: String,
    /// Its number.
    pub number: u64,
    /// Groups read.
    pub groups: u64,
    /// Records that they complete.
    pub records: u64,
    /// Last LSN in it, or before it.
    pub last_lsn: Lsn,
    /// How its groups end.
    pub end: End,
    /// What the end is torn by, if it is.
    pub void: Option<Void>,
}

/// What lies behind the last good group of a torn log. Nothing proves that any of it was durable,
/// so none of it was ever acknowledged; it does not count from now on, whatever it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Void {
    /// Byte offset in the segment's file.
    pub offset: u64,
    /// LSN of the first record that does not count.
    pub first: Lsn,
    /// The last LSN that an intact header there names; below `first` where none is intact.
    pub last: Lsn,
    /// What is wrong with the bytes at the offset.
    pub reason: &'static str,
}

impl SegmentReport {
    pub(super) fn new(file: String, number: u64, end: End) -> Self {
        let last_lsn = Lsn::ZERO;
        Self { file, number, groups: 0, records: 0, last_lsn, end, void: None }
    }
}

/// How the groups of a segment end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Not read: the visitor wanted nothing of it, and its end is known.
    Skipped,
    /// The next segment goes on from here.
    Continued {
        /// Byte offset behind its last group.
        offset: u64,
    },
    /// The log ends here, and nothing was being written.
    Clean {
        /// Byte offset behind its last group.
        offset: u64,
    },
    /// The log ends here in a write that was never acknowledged: it is void.
    Torn {
        /// Byte offset from which on all is void.
        offset: u64,
    },
    /// Nothing in it counts: it follows a torn end, or was made ahead and not yet used.
    Void,
}

/// How far recovery is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of segments that have been read and visited, or were found not to be needed.
    pub bytes_done: u64,
    /// Bytes of segments that may have to be read.
    pub bytes_all: u64,
    /// Segments done.
    pub segments_done: usize,
    /// Segments that may have to be read.
    pub segments_all: usize,
    /// The last record so far.
    pub last_lsn: Lsn,
}

/// Hears of progress, on the thread that opens the log: each time when at least
/// [`PROGRESS_STEP`] bytes have been read since the last time, and at the end.
pub type OnProgress = Box<dyn Fn(&Progress) + Send>;

/// Bytes between two calls of [`OnProgress`]; a group may add its length.
pub const PROGRESS_STEP: u64 = 8 * 1024 * 1024;

/// Counts bytes, and tells of them now and then.
pub(super) struct Meter<'o> {
    on: Option<&'o OnProgress>,
    progress: Progress,
    told: u64,
    /// Bytes done where the current segment ends.
    segment_end: u64,
}

impl<'o> Meter<'o> {
    /// For segments of this many bytes and this number.
    pub(super) fn new(on: Option<&'o OnProgress>, bytes: u64, segments: usize) -> Self {
        let progress = Progress { bytes_all: bytes, segments_all: segments, ..Progress::default() };
        Self { on, progress, told: 0, segment_end: 0 }
    }

    pub(super) fn begin_segment(&mut self, bytes: u64) {
        self.segment_end = self.progress.bytes_done + bytes;
    }

    /// A group of the segment has been visited.
    pub(super) fn group(&mut self, bytes: usize, last: Lsn) {
        self.progress.last_lsn = last;
        self.advance(self.progress.bytes_done + bytes as u64);
    }

    /// The rest of the segment needs no reading.
    pub(super) fn end_segment(&mut self) {
        self.progress.segments_done += 1;
        self.advance(self.segment_end);
    }

    fn advance(&mut self, to: u64) {
        let done = &mut self.progress.bytes_done;
        *done = to.clamp(*done, self.progress.bytes_all);
        if *done - self.told >= PROGRESS_STEP {
            self.told = *done;
            self.tell();
        }
    }

    /// All that was to be read has been.
    pub(super) fn finish(&mut self) {
        self.progress.bytes_done = self.progress.bytes_all;
        self.progress.segments_done = self.progress.segments_all;
        self.tell();
    }

    fn tell(&self) {
        if let Some(on) = self.on {
            on(&self.progress);
        }
    }
}
