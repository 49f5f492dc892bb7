//! Faults of the disk under a running broker, and under one that starts: no space, errors of reads,
//! writes, flushes, and of operations on names.
//!
//! A broker may refuse, close connections, or end; it may not acknowledge what it does not keep. It
//! starts again when all is well.

use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::io::Errno;

use super::{Injury, with_away};
use crate::broker::Start;
use crate::faulty::{Effect, Fault, Op};
use crate::run::Tally;
use crate::scene::{STORE_IO, Scene};
use zzq_wal::sim_disk::Random;

const WRITES: [Op; 2] = [Op::Write, Op::DurableWrite];
const FLUSHES: [Op; 2] = [Op::Sync, Op::DurableWrite];
/// What is done by name, or changes how long a file is.
const NAMES: [Op; 8] = [
    Op::Create,
    Op::Open,
    Op::Rename,
    Op::Remove,
    Op::List,
    Op::Allocate,
    Op::GiveBack,
    Op::Resize,
];
/// The longest that is waited for an operation that is not frequent.
const RARE: Duration = Duration::from_millis(700);
/// The longest that is waited for a broker that knows of a full disk.
const HEEDED: Duration = Duration::from_secs(10);
const EFFECTS: [Effect; 3] = [Effect::Nothing, Effect::Half, Effect::All];

pub(super) fn full(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    let control = scene.control()?;
    let before = scene.book().accounts().refused();
    control.set_full(true);
    // Who has asked what is free makes no file, which would fail, and refuses what is new.
    let until = scene.deadline.min(Instant::now() + HEEDED);
    scene.load_until(until, |accounts| control.has_failed() || accounts.refused() > before)?;
    let accounts = scene.book().accounts();
    if accounts.refused() > before {
        tally.refused_for_space(accounts);
    }
    ride_out(scene, random, tally)
}

pub(super) fn writes_fail(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    let fault = Fault {
        ops: WRITES.to_vec(),
        passing: random.below(60),
        failing: 1 + random.below(3),
        // No space is told by a write, too, where a file system gives it when it is needed.
        error: if random.one_in(3) { Errno::NOSPC } else { Errno::IO },
        effect: EFFECTS[random.index(EFFECTS.len())],
    };
    scene.control()?.fail(fault);
    ride_out(scene, random, tally)
}

/// Of images and what they need, of what is owed and has left memory.
pub(super) fn reads_fail(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    let fault = Fault {
        ops: vec![Op::Read],
        // There may be few; the first one is not to be missed.
        passing: if tally.has_met(Injury::ReadsFail) { random.below(12) } else { 0 },
        failing: 1 + random.below(3),
        error: Errno::IO,
        effect: Effect::Nothing,
    };
    fail_rarely(fault, scene)?;
    ride_out(scene, random, tally)
}

/// What is made, opened, renamed, removed or listed.
pub(super) fn names_fail(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    let is_first = !tally.has_met(Injury::NamesFail);
    let one = NAMES[random.index(NAMES.len())];
    let fault = Fault {
        // One of them: the frequent ones would hide the others. At first, whatever comes.
        ops: if is_first { NAMES.to_vec() } else { vec![one] },
        passing: if is_first { 0 } else { random.below(4) },
        failing: 1 + random.below(2),
        error: if random.one_in(3) { Errno::NOSPC } else { Errno::IO },
        effect: if random.one_in(2) { Effect::Nothing } else { Effect::All },
    };
    fail_rarely(fault, scene)?;
    ride_out(scene, random, tally)
}

/// Load until it has failed, or long enough.
fn fail_rarely(fault: Fault, scene: &mut Scene) -> Result<()> {
    scene.control()?.fail(fault);
    wait_for_failure(scene)
}

fn wait_for_failure(scene: &mut Scene) -> Result<()> {
    let control = scene.control()?;
    let end = Instant::now() + RARE;
    scene.load_while(|| {
        while !control.has_failed() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    })
}

/// What was written before is there or not; the next flush succeeds.
pub(super) fn flush_fails(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    let fault = Fault {
        ops: FLUSHES.to_vec(),
        passing: random.below(60),
        failing: 1,
        error: Errno::IO,
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
    match random.below(5) {
        0 => control.set_full(true),
        kind => control.fail(Fault {
            ops: match kind {
                1 => vec![Op::Read],
                2 => NAMES.to_vec(),
                _ => [&WRITES[..], &[Op::Sync]].concat(),
            },
            passing: random.below(12),
            failing: 1 + random.below(2),
            error: Errno::IO,
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
