//! What may happen to a log, one thing after the other.
//!
//! Owns: the operations. Each one makes sense behind any others, so that any of them can be taken
//! out of a list: places are counted modulo what is there.

use zzq_wal::sim_disk::{Fault, Op, Survival};

/// A log's life, or several, from an empty disk on.
#[derive(Clone, Debug)]
pub struct History {
    pub seed: u64,
    pub segment_size: u64,
    /// Salts are the same at each use: the first negative control.
    pub salts: Salts,
    pub lies: Lies,
    /// Somebody else says what is committed, and may have the rest truncated.
    pub follows: bool,
    pub steps: Vec<Step>,
}

/// Where salts come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Salts {
    Fresh,
    /// Always [`KNOWN_SALT`].
    Constant,
}

/// Which flushes the disk only pretends to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lies {
    #[default]
    None,
    Writes,
    Files,
    Names,
}

/// What whoever forges a group believes to be the salt.
pub const KNOWN_SALT: [u8; 16] = *b"the same forever";

/// An operation, with the seed of all that is chosen at it.
#[derive(Clone, Debug)]
pub struct Step {
    pub seed: u64,
    pub operation: Operation,
}

#[derive(Clone, Debug)]
pub enum Operation {
    /// A producer stages a record.
    Stage { lane: usize, id: u32, body: Body, waits: bool, reserved: bool },
    /// A producer drives the log, some ms later.
    Drive { lane: usize, ms: u64 },
    /// It only takes completions.
    Reap { lane: usize },
    /// A write in flight comes back.
    Complete { nth: usize },
    /// A write in flight comes back with a fault.
    Miscomplete { nth: usize, fault: Fault },
    /// The helper works.
    Help { ms: u64 },
    /// A reader reads from somewhere (in 1024ths of what is kept) to the durable end.
    Read { from: u64 },
    /// Records are given up, up to somewhere (in 1024ths).
    Trim { below: u64 },
    /// All up to somewhere (in 1024ths of what is durable) is committed.
    Commit { upto: u64 },
    /// A newer term does not have what follows a group, chosen (in 1024ths) of those whose end may
    /// be the log's.
    Truncate { after: u64 },
    /// A producer goes; the first one, whose tail the model reads, stays.
    Leave { lane: usize },
    /// The durable mark is stated.
    Mark,
    /// A later operation of the disk will fail.
    Fail { op: Op, nth: u64, fault: Fault },
    /// The power will go with a later operation of the disk.
    CutPower { nth: u64 },
    /// The process ends, and the log is opened again.
    End { ending: Ending, start: Start },
}

/// How a process ends.
#[derive(Clone, Copy, Debug)]
pub enum Ending {
    Killed,
    PowerCut(Survival),
}

/// How a log is opened.
#[derive(Clone, Debug)]
pub struct Start {
    /// Of its salts.
    pub seed: u64,
    /// The visitor wants records from here on (in 1024ths of what was durable).
    pub visit_from: u64,
    /// An image says what was durable.
    pub by_image: bool,
    /// Writes stay in flight until an operation completes them.
    pub held: bool,
    /// Starts before it that do not come to their end.
    pub cut_off: Vec<Cut>,
}

/// What ends a start, and what becomes of the disk then.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    Power { nth: u64, survival: Survival },
    Fault { op: Op, nth: u64, ending: Ending },
}

/// What a record holds behind its number.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// So many bytes.
    Plain(usize),
    /// So many bytes of what lies on disk right now, from a block on.
    FromDisk(usize),
    /// Groups far ahead in the log, under the salt that everybody knows, so placed that they begin
    /// at blocks if the record is the first of its group.
    Forged,
}
