//! SIGSTOP for some seconds: whoever is cut off meanwhile comes back and has lost nothing.

use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::{Signal, kill_process};

use super::with_away;
use crate::run::Tally;
use crate::scene::Scene;
use zzq_wal::sim_disk::Random;

/// Longer than the shorter keep alive lasts.
const LONGEST_MS: u64 = 4000;

pub(super) fn pause(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    let pid = scene.broker()?.pid();
    let before = Duration::from_millis(random.below(50));
    let longest = if random.one_in(3) { LONGEST_MS } else { LONGEST_MS / 10 };
    let paused = Duration::from_millis(random.below(longest));
    let stopped = scene.load_while(move || -> Result<Instant> {
        std::thread::sleep(before);
        kill_process(pid, Signal::STOP)?;
        let stopped = Instant::now();
        std::thread::sleep(paused);
        kill_process(pid, Signal::CONT)?;
        std::thread::sleep(before);
        Ok(stopped)
    })??;
    tally.paused(stopped, scene.book().accounts());
    let with_away = with_away(random);
    scene.settle(with_away)?;
    tally.settled(scene.book().accounts(), with_away);
    Ok(())
}
