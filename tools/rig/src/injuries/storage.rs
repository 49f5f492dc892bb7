//! Faults of the disk under a running broker, and under one that starts: no space, errors of reads,
//! writes and flushes.
//!
//! A broker may refuse, close connections, or end; it may not acknowledge what it does not keep. It
//! starts again when all is well.

use std::time::Duration;

use anyhow::Result;

use super::with_away;
use crate::broker::Start;
use crate::faulty::{Effect, Fault, Op};
use crate::run::Tally;
use crate::scene::{STORE_IO, Scene};
use zzq_wal::sim_disk::Random;

const WRITES: [Op; 2] = [Op::Write, Op::DurableWrite];
const FLUSHES: [Op; 2] = [Op::Sync, Op::DurableWrite];
const EFFECTS: [Effect; 3] = [Effect::Nothing, Effect::Half, Effect::All];

pub(super) fn full(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    scene.control()?.set_full(true);
    ride_out(scene, random, tally)
}

pub(super) fn writes_fail(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    let fault = Fault {
        ops: WRITES.to_vec(),
        passing: random.below(60),
        failing: 1 + random.below(3),
        effect: EFFECTS[random.index(EFFECTS.len())],
    };
    scene.control()?.fail(fault);
    ride_out(scene, random, tally)
}

/// What was written before is there or not; the next flush succeeds.
pub(super) fn flush_fails(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    let fault = Fault {
        ops: FLUSHES.to_vec(),
        passing: random.below(60),
        failing: 1,
        effect: EFFECTS[random.index(EFFECTS.len())],
    };
    scene.control()?.fail(fault);
    ride_out(scene, random, tally)
}

/// Load while it is bad, and while it is good again; then a new start.
fn ride_out(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    scene.load(Duration::from_millis(50 + random.below(400)))?;
    let failed = scene.control()?.heal();
    scene.load(Duration::from_millis(random.below(60)))?;
    let is_killed = scene.bury_after_faults()?;
    tally.failed(&failed, scene.book().accounts());
    if is_killed {
        tally.killed(scene.book().accounts());
    }
    scene.recover(with_away(random), tally)
}

/// A start may fail then, as a store that cannot be read or written; it damages nothing.
pub(super) fn start_fails(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    scene.kill_after(Duration::from_micros(1000 + random.below(60_000)), tally)?;
    let control = scene.control()?;
    match random.below(4) {
        0 => control.set_full(true),
        kind => control.fail(Fault {
            ops: if kind == 1 { vec![Op::Read] } else { [&WRITES[..], &[Op::Sync]].concat() },
            passing: random.below(12),
            failing: 1 + random.below(2),
            effect: EFFECTS[random.index(EFFECTS.len())],
        }),
    }
    let start = scene.launch.start(|_| ())?;
    tally.failed(&control.heal(), scene.book().accounts());
    match start {
        // What failed was not needed, or not reached.
        Start::Up(broker) => broker.kill(),
        Start::Ended(status) if status.code() == Some(STORE_IO) => {}
        Start::Ended(status) => {
            scene.accuse_start(&format!("meets an error of the disk and ends with {status}"));
        }
        Start::Hung => scene.accuse_start("meets an error of the disk and hangs"),
    }
    scene.recover(with_away(random), tally)
}
