//! What is done to a running broker, a file for each kind.
//!
//! Owns: their list. Each leaves the broker serving and its accounts settled, or a promise broken.
//! Does not know: which comes when.

mod damage;
mod deck;
mod kill;
mod pause;
mod step;
mod storage;

use anyhow::Result;

pub use self::deck::Deck;
pub use self::step::{Phase, Point, Steps};
use crate::run::{Hit, Tally};
use crate::scene::Scene;
use zzq_wal::sim_disk::Random;

/// A kind of injury.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Injury {
    /// SIGKILL at a random moment under load.
    Kill,
    /// SIGKILL under load, and again during the starts that follow.
    KillAgain,
    /// SIGSTOP for some seconds.
    Pause,
    /// SIGKILL, and changed bytes in copies of what is left.
    Damage,
    /// SIGKILL at one step of what a broker does to its data directory.
    KillAtStep,
    /// No space for a while.
    Full,
    /// Writes fail.
    WritesFail,
    /// A flush fails, once.
    FlushFails,
    /// Reads fail.
    ReadsFail,
    /// Operations on names fail.
    NamesFail,
    /// A start meets an error.
    StartFails,
}

impl Injury {
    /// All kinds.
    pub const ALL: [Self; 11] = [
        Self::Kill,
        Self::KillAgain,
        Self::Pause,
        Self::Damage,
        Self::KillAtStep,
        Self::Full,
        Self::WritesFail,
        Self::FlushFails,
        Self::ReadsFail,
        Self::NamesFail,
        Self::StartFails,
    ];

    /// Those that any data directory takes, the frequent ones more than once.
    pub const ANYWHERE: &[Self] = &[
        Self::Kill,
        Self::Kill,
        Self::Kill,
        Self::Kill,
        Self::KillAgain,
        Self::KillAgain,
        Self::KillAgain,
        Self::Pause,
        Self::Damage,
    ];

    /// Those that take a file system of ours.
    pub const SEEN_THROUGH: &[Self] = &[
        Self::KillAtStep,
        Self::KillAtStep,
        Self::KillAtStep,
        Self::KillAtStep,
        Self::KillAtStep,
        Self::Full,
        Self::WritesFail,
        Self::FlushFails,
        Self::ReadsFail,
        Self::NamesFail,
        Self::NamesFail,
        Self::StartFails,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::KillAgain => "kill -9, again while it starts",
            Self::Pause => "SIGSTOP, SIGCONT",
            Self::Damage => "damaged files",
            Self::KillAtStep => "kill -9 at a step",
            Self::Full => "disk full",
            Self::WritesFail => "writes fail",
            Self::FlushFails => "a flush fails once",
            Self::ReadsFail => "reads fail",
            Self::NamesFail => "names fail",
            Self::StartFails => "an error during the start",
        }
    }

    /// What has happened where it has come to a broker, and not only been tried.
    pub fn hit(self) -> Hit {
        match self {
            Self::Kill | Self::KillAgain | Self::KillAtStep => Hit::Kill,
            Self::Pause => Hit::Pause,
            Self::Damage => Hit::Damage,
            Self::Full
            | Self::WritesFail
            | Self::FlushFails
            | Self::ReadsFail
            | Self::NamesFail
            | Self::StartFails => Hit::Fault,
        }
    }

    /// Injures.
    pub fn inflict(self, scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
        match self {
            Self::Kill => kill::once(scene, random, tally),
            Self::KillAgain => kill::again(scene, random, tally),
            Self::Pause => pause::pause(scene, random, tally),
            Self::Damage => damage::damage(scene, random, tally),
            Self::KillAtStep => step::kill(scene, random, tally),
            Self::Full => storage::full(scene, random, tally),
            Self::WritesFail => storage::writes_fail(scene, random, tally),
            Self::FlushFails => storage::flush_fails(scene, random, tally),
            Self::ReadsFail => storage::reads_fail(scene, random, tally),
            Self::NamesFail => storage::names_fail(scene, random, tally),
            Self::StartFails => storage::start_fails(scene, random, tally),
        }
    }
}

/// Whether those who are away look in this time.
fn with_away(random: &mut Random) -> bool {
    random.one_in(6)
}
