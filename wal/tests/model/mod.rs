//! What must survive, by a model: histories of a log as lists of operations, replayed on a
//! simulated disk, and for each moment of them many disks as a crash may leave them.
//!
//! Owns: the list of operations ([`operation`]), how chance makes one ([`generate`]), what a log
//! must show ([`expected`]), the replay of a list ([`replay`]), the check of one disk image
//! ([`image`], [`damage`]), and how a list that fails becomes a short one ([`shrink`]).
//!
//! A replay is a function of the list and the seeds in it: nothing else is random. What it checks:
//!
//! - the tail shows each producer's records in the order in which it staged them, unchanged;
//! - what a crash leaves holds, from the trimmed front on, a prefix of what the tail showed, not
//!   shorter than what was acknowledged: bodies, kinds, times, order;
//! - a start that is cut off by another crash, again and again, changes none of that;
//! - a second life goes on with the next LSN, and nothing of the lost rest comes back in it;
//! - readers show what recovery showed, trimming takes nothing from what is kept;
//! - a truncation leaves the log whole or cut, and once it has ended what was cut off never comes
//!   back, whatever takes its place: what is before it stays;
//! - bytes that were damaged, forged or exchanged on the medium are refused, unless all that can
//!   be proven is there: then the log is a true prefix.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "it is only part of tests")]

pub mod damage;
pub mod expected;
pub mod generate;
pub mod image;
pub mod operation;
pub mod replay;
pub mod shrink;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use self::generate::history;
pub use self::image::Images;
pub use self::operation::History;
use self::replay::Replay;

/// Which disks are looked at.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// At one step only, named by its seed: a failure is being shrunk.
    pub only_at: Option<u64>,
    /// Crashes tried for each state of the disk, besides those that take or leave everything.
    pub crashes: u64,
}

impl Plan {
    /// Looks at the disk behind each step.
    pub const EACH_STEP: Self = Self { only_at: None, crashes: 4 };
}

/// What is wrong, and where it came to light.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The step, counted from 0.
    pub at: usize,
    pub what: String,
}

/// What a history that kept its promises was made of.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub images: Images,
    /// Records that got an LSN, in all lives.
    pub records: u64,
    /// Those of more than one part.
    pub spanning: u64,
    /// Producers that got an LSN.
    pub producers: usize,
    pub rolls: u64,
    pub trimmed: u64,
    /// Truncations that came to their end.
    pub cuts: u64,
}

impl Report {
    /// It has what makes a history worth counting.
    pub fn is_full(&self) -> bool {
        self.records >= 200 && self.producers >= 4 && self.rolls >= 3 && self.spanning > 0
    }
}

/// Replays a history; an invariant that breaks in the log is a failure like others.
pub fn run(history: &History, plan: &Plan) -> Result<Report, Failure> {
    let mut replay = Replay::new(history, plan);
    let outcome = catch_unwind(AssertUnwindSafe(|| replay.run()));
    match outcome {
        Ok(Ok(())) => Ok(replay.into_report()),
        Ok(Err(what)) => Err(Failure { at: replay.at(), what }),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            let what = format!("panic: {}", text.unwrap_or_default());
            Err(Failure { at: replay.at(), what })
        }
    }
}
