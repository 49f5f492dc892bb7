//! `kill -9`: under load, and during the start behind it.

use std::time::Duration;

use anyhow::Result;

use super::with_away;
use crate::run::Tally;
use crate::scene::Scene;
use zzq_wal::sim_disk::Random;

/// The longest load in front of a kill.
const LOAD_US: u64 = 150_000;
/// Starts that are killed in a row, at most.
const STARTS: u64 = 4;

/// At a random moment under load.
pub(super) fn once(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    under_load(scene, random, tally)?;
    scene.recover(with_away(random), tally)
}

/// Under load, then during one start after the other.
pub(super) fn again(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    under_load(scene, random, tally)?;
    for _ in 0..=random.below(STARTS) {
        // Some are killed right away, some when they just serve.
        let span = random.below(tally.usual_recovery_us() * 5 / 4 + 1);
        let mut starting = scene.launch.spawn()?;
        std::thread::sleep(Duration::from_micros(span));
        starting.kill()?;
        starting.wait()?;
        tally.killed_in_start(scene.book().accounts());
    }
    scene.recover(with_away(random), tally)
}

fn under_load(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    scene.kill_after(Duration::from_micros(1000 + random.below(LOAD_US)), tally)
}
