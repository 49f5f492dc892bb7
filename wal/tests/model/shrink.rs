//! From a list of operations that fails to a short one that fails.
//!
//! Owns: taking operations out, and the report. Does not know: why a list fails.

use std::fmt::Write;
use std::panic;

use super::operation::{Body, History, Operation};
use super::{Failure, Plan, run};

/// Replays that one failure is worth.
const TRIES_MAX: usize = 1500;
/// Crashes tried at the step that failed: without some writes, the same seed is another crash.
const CRASHES: u64 = 24;

/// The shortest list found that fails, and how.
pub fn shrink(history: &History, failure: Failure) -> (History, Failure) {
    let mut best = (history.clone(), failure);
    best.0.steps.truncate(best.1.at + 1);
    let mut tries = 0;
    let mut size = best.0.steps.len() / 2;
    while size > 0 {
        let mut from = 0;
        let mut shorter = false;
        while from < best.0.steps.len() && tries < TRIES_MAX {
            tries += 1;
            match try_without(&best, from, size) {
                Some(found) => (best, shorter) = (found, true),
                None => from += size,
            }
        }
        if !(shorter && size == 1) {
            size /= 2;
        }
    }
    shrink_bodies(&mut best, tries);
    best
}

/// The list without `size` steps from `from` on, if it still fails.
fn try_without(best: &(History, Failure), from: usize, size: usize) -> Option<(History, Failure)> {
    let mut candidate = best.0.clone();
    let end = (from + size).min(candidate.steps.len());
    candidate.steps.drain(from..end);
    fails(&best.0, candidate)
}

fn fails(before: &History, mut candidate: History) -> Option<(History, Failure)> {
    let last = before.steps.last()?.seed;
    let plan = Plan { only_at: Some(last), crashes: CRASHES };
    let failure = run(&candidate, &plan).err()?;
    candidate.steps.truncate(failure.at + 1);
    Some((candidate, failure))
}

fn shrink_bodies(best: &mut (History, Failure), mut tries: usize) {
    for at in 0..best.0.steps.len() {
        let mut candidate = best.0.clone();
        let Some(step) = candidate.steps.get_mut(at) else { return };
        let Operation::Stage { body, .. } = &mut step.operation else { continue };
        if matches!(body, Body::Plain(1)) || tries >= TRIES_MAX {
            continue;
        }
        *body = Body::Plain(1);
        tries += 1;
        if let Some(found) = fails(&best.0, candidate) {
            *best = found;
        }
    }
}

/// What a person needs to go on: the seed, the command, the operations.
pub fn report(test: &str, history: &History, failure: &Failure) -> String {
    // An invariant that breaks would be told again at each try.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let (short, why) = shrink(history, failure.clone());
    panic::set_hook(hook);
    let mut lines = format!(
        "history {seed} fails at its step {at} of {steps}: {what}\n\
         replay: ZZQ_SEED={seed} cargo test -p zzq-wal --test {test} -- --nocapture\n\
         {count} of its steps are enough to fail, in segments of {segment} bytes: {why}\n",
        seed = history.seed,
        at = failure.at,
        steps = history.steps.len(),
        what = failure.what,
        count = short.steps.len(),
        segment = short.segment_size,
        why = why.what,
    );
    for step in &short.steps {
        let _ = writeln!(lines, "  {:?} with seed {:#x}", step.operation, step.seed);
    }
    lines
}
