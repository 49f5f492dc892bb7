//! What is done to a running broker, a file for each kind.
//!
//! Owns: their list. Each leaves the broker serving and its accounts settled, or a promise broken.
//! Does not know: which comes when.

mod kill;

use anyhow::Result;

use crate::random::Random;
use crate::run::Tally;
use crate::scene::Scene;

/// A kind of injury.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Injury {
    /// SIGKILL at a random moment under load.
    Kill,
    /// SIGKILL under load, and again during the starts that follow.
    KillAgain,
}

impl Injury {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill -9",
            Self::KillAgain => "kill -9, again while it starts",
        }
    }

    /// Injures.
    pub fn inflict(self, scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
        match self {
            Self::Kill => kill::once(scene, random, tally),
            Self::KillAgain => kill::again(scene, random, tally),
        }
    }
}

/// Whether those who are away look in this time.
fn with_away(random: &mut Random) -> bool {
    random.one_in(6)
}
