//! A gate that threads pass on their way, and that somebody may shut for a moment.
//!
//! Owns: that nobody is inside while it is shut. Does not know: what they do there.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// See the file.
#[derive(Debug, Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_shut: bool,
    inside: usize,
}

/// Somebody is inside until this is dropped.
#[derive(Debug)]
pub struct Inside<'g>(&'g Gate);

/// It is shut until this is dropped.
#[derive(Debug)]
pub struct Shut<'g>(&'g Gate);

impl Gate {
    /// Waits until it is open, and goes in.
    pub fn enter(&self) -> Inside<'_> {
        let state = self.changed.wait_while(self.lock(), |state| state.is_shut);
        state.unwrap_or_else(PoisonError::into_inner).inside += 1;
        Inside(self)
    }

    /// Lets nobody in any more, and waits until all who are inside have left. One at a time.
    pub fn shut(&self) -> Shut<'_> {
        self.lock().is_shut = true;
        let shut = Shut(self);
        drop(self.changed.wait_while(self.lock(), |state| state.inside > 0));
        shut
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.lock().inside -= 1;
        self.0.changed.notify_all();
    }
}

impl Drop for Shut<'_> {
    fn drop(&mut self) {
        self.0.lock().is_shut = false;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn nobody_is_inside_while_it_is_shut() {
        let (gate, stop, inside) = (Gate::default(), AtomicBool::new(false), AtomicU32::new(0));
        let mut seen = 0;
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Acquire) {
                        let _inside = gate.enter();
                        inside.fetch_add(1, Ordering::AcqRel);
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::AcqRel);
                    }
                });
            }
            for _ in 0..100 {
                let _shut = gate.shut();
                for _ in 0..10 {
                    seen += inside.load(Ordering::Acquire);
                    thread::yield_now();
                }
            }
            stop.store(true, Ordering::Release);
        });
        assert_eq!(seen, 0);
    }
}
