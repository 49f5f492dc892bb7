//! Fixed seeds, short: every change runs them. `.ci/run` runs many more, and fresh ones.

use std::sync::Arc;

use zzq_sim::ledger::Ledger;
use zzq_sim::oracle;
use zzq_sim::plan::Plan;
use zzq_sim::verdict;
use zzq_sim::world::{Outcome, World};

/// A short run of a seed: fewer operations, so more faults for each of them.
fn short(seed: u64) -> Outcome {
    let mut plan = Plan::new(seed, None);
    plan.operations = 80;
    plan.faults.kill = 30;
    let mut world = World::new(seed, plan);
    world.run();
    world.outcome()
}

#[test]
fn the_same_seed_is_the_same_run() {
    let hashes = [7, 7, 9].map(|seed| short(seed).history.hash());
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[0], hashes[2]);
}

#[test]
fn fixed_seeds_keep_every_promise() {
    for seed in 0..4 {
        let outcome = short(seed);
        let broken = oracle::check(&Ledger::of(&outcome.history));
        assert_eq!(broken, [], "seed {seed}");
        assert!(outcome.coverage.operations() >= 80, "seed {seed}");
    }
}

/// A big message is owed and has moved to a cold file, while the first segment that is kept begins
/// with its last part and is kept for the next big message: it is read where it moved to.
#[test]
fn a_moved_record_whose_end_is_still_in_the_log_is_delivered() {
    assert_eq!(verdict::run(42_296, None, &Arc::default()).broken, []);
}

/// In memory, by two clients on two lanes: what was acknowledged first was retained in the end.
#[test]
fn the_last_write_is_retained_whatever_lane_it_comes_from() {
    assert_eq!(verdict::run(4249, None, &Arc::default()).broken, []);
}
