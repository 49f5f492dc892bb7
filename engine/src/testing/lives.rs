//! All short lives of something: every order of what may happen to it, up to a depth.

use std::fmt::Debug;

/// Runs `run` on all sequences of `events` that begin with `life` and can be, with so many more of
/// them at most; returns how many there were. `run` says whether its sequence can be; one that it
/// breaks on is told with `of`.
pub(crate) fn all_lives<E: Copy + Debug>(
    events: &[E],
    of: &dyn Debug,
    life: &mut Vec<E>,
    depth: usize,
    run: &impl Fn(&[E]) -> bool,
) -> u64 {
    let mut lives = 0;
    for &event in events {
        life.push(event);
        let told = std::panic::AssertUnwindSafe(|| run(life));
        let can_be = std::panic::catch_unwind(told).unwrap_or_else(|broken| {
            eprintln!("{of:?}: {life:?}");
            std::panic::resume_unwind(broken)
        });
        if can_be {
            lives += 1;
            if depth > 1 {
                lives += all_lives(events, of, life, depth - 1, run);
            }
        }
        life.pop();
    }
    lives
}
