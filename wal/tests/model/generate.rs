//! A history out of a seed.
//!
//! Owns: how often what happens. Does not know: what comes of it.

use std::io::ErrorKind;

use zzq_wal::sim_disk::{Fault, Op, Random, Survival};

use super::operation::{Body, Cut, Ending, History, Lies, Operation, Salts, Start, Step};

/// Producers in each life.
pub const LANES: usize = 4;
/// Records staged in a history.
const STAGED: u32 = 300;
/// Lives that end by chance are about as many, at most; others end because they came to nothing.
const LIVES_MAX: u64 = 4;

/// The history of a seed.
pub fn history(seed: u64) -> History {
    let mut random = Random::about(seed, 1);
    let segment_size = if random.one_in(4) { 128 << 10 } else { 64 << 10 };
    // Some histories let go of the past at once, some never.
    let trims = random.pick(&[0, 1, 6]);
    // On some disks nothing ever fails.
    let faults = random.pick(&[0, 1, 3]);
    let lives = 1 + random.below(LIVES_MAX);
    // By another stream: the histories of all others stay as they are.
    let follows = Random::about(seed, 4).one_in(2);
    let mut steps: Vec<Step> = Vec::new();
    let mut staged = 0;
    // Steps until a life that may have come to nothing is ended.
    let mut left = None;
    while staged < STAGED {
        left = left.map(|left: u64| left.saturating_sub(1));
        if left == Some(0) {
            left = None;
            steps.push(Step { seed: random.number(), operation: end(&mut random) });
        }
        let operation = match random.below(1000) {
            0..330 => {
                staged += 1;
                stage(&mut random, staged)
            }
            330..650 => drive(&mut random),
            650..830 => Operation::Complete { nth: random.index(4) },
            830..930 => Operation::Help { ms: random.pick(&[0, 0, 1, 200]) },
            930..950 => Operation::Read { from: random.below(1024) },
            950..955 => Operation::Mark,
            955..956 if random.one_in(2) => Operation::Leave { lane: 1 + random.index(LANES - 1) },
            956..960 if follows => Operation::Truncate { after: random.below(1024) },
            966..970 if follows => Operation::Commit { upto: random.below(512) },
            960..966 if trims > 0 => Operation::Trim { below: random.below(1 + 1024 * trims / 6) },
            970..977 if faults > random.below(3) => miscomplete(&mut random),
            980..985 if faults > random.below(3) => fail(&mut random),
            985..986 if faults > random.below(3) => {
                Operation::CutPower { nth: 1 + random.below(20) }
            }
            990..1000 if random.below(10) < lives => end(&mut random),
            _ => continue,
        };
        let doomed = match operation {
            Operation::CutPower { .. } => true,
            Operation::Fail { .. } | Operation::Miscomplete { .. } => random.one_in(2),
            _ => false,
        };
        if doomed && left.is_none() {
            left = Some(1 + random.below(50));
        }
        steps.push(Step { seed: random.number(), operation });
    }
    steps.push(Step { seed: random.number(), operation: end(&mut random) });
    History { seed, segment_size, salts: Salts::Fresh, lies: Lies::None, follows, steps }
}

fn stage(random: &mut Random, id: u32) -> Operation {
    let body = match random.below(100) {
        0..60 => Body::Plain(random.index(300)),
        60..82 => Body::Plain(random.index(1500)),
        82..88 => Body::Plain(random.index(6000)),
        // In more than one part.
        88..91 => Body::Plain(8192 + random.index(30_000)),
        91..95 => Body::FromDisk(random.index(12_000)),
        // Just as long as a block of a group, or two.
        95..97 => Body::Plain(4096 * random.pick(&[1, 2]) - 128 - 12 - 4),
        _ => Body::Forged,
    };
    let lane = random.index(LANES);
    Operation::Stage { lane, id, body, waits: !random.one_in(4), reserved: random.one_in(4) }
}

fn drive(random: &mut Random) -> Operation {
    let lane = random.index(LANES);
    if random.one_in(6) {
        Operation::Reap { lane }
    } else {
        Operation::Drive { lane, ms: random.pick(&[0, 0, 1, 2, 6]) }
    }
}

fn miscomplete(random: &mut Random) -> Operation {
    let fault = match random.below(3) {
        0 => Fault::Fail(ErrorKind::Other),
        1 => Fault::FailWritten(ErrorKind::Other),
        _ => Fault::Short(random.index(9000)),
    };
    Operation::Miscomplete { nth: random.index(4), fault }
}

fn fail(random: &mut Random) -> Operation {
    let op = random.pick(&STEPS);
    let kind = random.pick(&[ErrorKind::Other, ErrorKind::StorageFull, ErrorKind::WouldBlock]);
    let fault = match random.one_in(2) {
        true => Fault::Fail(kind),
        false if op == Op::SyncDir => Fault::ToldOthers,
        false => Fault::FailWritten(kind),
    };
    Operation::Fail { op, nth: 1 + random.below(4), fault }
}

/// What the disk is asked for besides the writes of groups.
const STEPS: [Op; 7] =
    [Op::Create, Op::Rename, Op::Remove, Op::SyncDir, Op::Write, Op::Sync, Op::Submit];

fn how_it_ends(random: &mut Random) -> Ending {
    if random.one_in(3) {
        Ending::Killed
    } else {
        Ending::PowerCut(Survival::Seeded(random.number()))
    }
}

fn end(random: &mut Random) -> Operation {
    let ending = how_it_ends(random);
    let mut cut_off = Vec::new();
    while random.one_in(3) {
        cut_off.push(if random.one_in(2) {
            let survival = Survival::Seeded(random.number());
            Cut::Power { nth: 1 + random.below(40), survival }
        } else {
            let (op, nth) = (random.pick(&STEPS), 1 + random.below(6));
            Cut::Fault { op, nth, ending: how_it_ends(random) }
        });
    }
    let start = Start {
        seed: random.number(),
        visit_from: if random.one_in(3) { random.below(1024) } else { 0 },
        by_image: random.one_in(8),
        held: !random.one_in(4),
        cut_off,
    };
    Operation::End { ending, start }
}
