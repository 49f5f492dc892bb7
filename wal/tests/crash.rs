//! Random histories, and at each of their moments disks as a crash may leave them, against a
//! model: nothing acknowledged is lost, nothing reordered, nothing forged, nothing comes back.
//!
//! - One history, by its seed: `ZZQ_SEED=n cargo test -p zzq-wal --test crash`.
//! - Until so many distinct disks have been opened, from seed 0 or `ZZQ_SEED` on:
//!   `ZZQ_IMAGES=1000000 cargo test --release -p zzq-wal --test crash -- --nocapture`.
//!
//! A history that fails is reported with its seed, the command, and the shortest list of
//! operations found that fails, too.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]
#![allow(clippy::print_stderr, reason = "a run of minutes says how far it is")]

mod model;

use std::collections::HashSet;
use std::time::Instant;

use model::shrink::report;
use model::{Plan, Report, run};

/// Distinct disks that `cargo test` opens.
const IMAGES: usize = 3000;

/// Distinct disks of histories that are long enough to count, and what else was seen.
#[derive(Default)]
struct Sum {
    images: HashSet<u64>,
    /// The last one.
    seed: u64,
    histories: u64,
    short: u64,
    seen: Report,
    cut_starts: u64,
    second_lives: u64,
    damaged: u64,
    refused: u64,
}

impl Sum {
    fn add(&mut self, seed: u64) {
        self.seed = seed;
        let report = &history(seed);
        if !report.is_full() {
            self.short += 1;
            return;
        }
        self.histories += 1;
        self.images.extend(report.images.hashes());
        self.seen.records += report.records;
        self.seen.spanning += report.spanning;
        self.seen.rolls += report.rolls;
        self.seen.trimmed += report.trimmed;
        self.seen.cuts += report.cuts;
        self.cut_starts += report.images.cut_starts;
        self.second_lives += report.images.second_lives;
        self.damaged += report.images.damaged;
        self.refused += report.images.refused;
    }

    fn say(&self, start: Instant) {
        let Self { images, histories, short, seen, cut_starts, .. } = self;
        eprintln!(
            "{} distinct disks of {histories} histories ({short} too short), up to seed {}, \
             in {:.0} s: \
             {} records, {} of several parts, {} trimmed, {} rolls, {} truncations, {cut_starts} \
             starts cut off, {} second lives, {} damaged disks, {} of them refused",
            images.len(),
            self.seed,
            start.elapsed().as_secs_f64(),
            seen.records,
            seen.spanning,
            seen.trimmed,
            seen.rolls,
            seen.cuts,
            self.second_lives,
            self.damaged,
            self.refused,
        );
    }
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|value| value.parse().unwrap())
}

fn history(seed: u64) -> Report {
    let history = model::history(seed);
    match run(&history, &Plan::EACH_STEP) {
        Ok(report) => report,
        Err(failure) => panic!("{}", report("crash", &history, &failure)),
    }
}

#[test]
fn any_crash_leaves_what_was_acknowledged_and_nothing_else() {
    let (seed, wanted) = (number("ZZQ_SEED"), number("ZZQ_IMAGES"));
    let (start, mut sum) = (Instant::now(), Sum::default());
    if let (Some(seed), None) = (seed, wanted) {
        sum.add(seed);
        sum.say(start);
        return;
    }
    let wanted = wanted.map_or(IMAGES, |wanted| usize::try_from(wanted).unwrap());
    for seed in seed.unwrap_or(0).. {
        sum.add(seed);
        if seed % 50 == 49 {
            sum.say(start);
        }
        if sum.images.len() >= wanted {
            break;
        }
    }
    sum.say(start);
    assert!(sum.short <= 1 + sum.histories / 5, "{} histories say little", sum.short);
    let images = sum.images.len() as u64;
    assert!(sum.cut_starts > images / 20, "a start in ten is cut off: {}", sum.cut_starts);
    assert!(sum.seen.cuts > 0, "no history is truncated");
    assert!(sum.second_lives > 0 && sum.seen.trimmed > 0, "the histories say little");
    assert!(sum.refused > 0 && sum.refused < sum.damaged, "damage is found, and not everywhere");
}
