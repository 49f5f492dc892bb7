//! Several pieces of independent work at once, as many as the machine has cores.

use std::num::NonZero;
use std::sync::Mutex;
use std::thread;

/// How much is done at once.
pub(crate) fn width() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Calls `work` with each item, [`width`] of them at a time, and gives back what it answered in the
/// order of the items.
///
/// # Panics
/// If `work` does.
pub(crate) fn at_once<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let workers = width().min(items.len());
    let items = Mutex::new(items.into_iter().enumerate());
    let next = || items.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let mine = || {
            std::iter::from_fn(next).map(|(place, item)| (place, work(item))).collect::<Vec<_>>()
        };
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(mine)).collect();
        let joined = workers.into_iter().map(thread::ScopedJoinHandle::join);
        joined.flat_map(|mine| mine.unwrap_or_else(|why| std::panic::resume_unwind(why))).collect()
    });
    done.sort_unstable_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..100).collect();
        assert_eq!(at_once(items.clone(), |item| item), items);
        assert_eq!(at_once(Vec::new(), |item: usize| item), Vec::<usize>::new());
    }

    #[test]
    fn as_much_is_done_at_once_as_there_are_cores() {
        let together = std::sync::Barrier::new(width());
        let leaders = at_once(vec![(); width()], |()| together.wait().is_leader());
        assert_eq!(leaders.into_iter().filter(|leader| *leader).count(), 1);
    }
}
