//! History that is being taken: the log keeps it until an image names what of it is owed.
//!
//! Nothing refers to a message of the past before the record that puts it into a queue is applied,
//! and no image names it before one covers that record. So who reads history holds it, from before
//! it reads until such an image is there. What was not taken yet is not held.
//!
//! Owns: the holds. Does not know: readers, images, how much of the log is there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zzq_types::Lsn;

/// See the file.
#[derive(Debug, Default)]
pub(crate) struct Holds(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    next: u64,
    /// The first record of each, and the record that an image has to cover for it to go.
    all: BTreeMap<u64, (Lsn, Option<Lsn>)>,
}

/// One hold; dropping it lets go what nobody has taken.
#[derive(Debug)]
pub(crate) struct Hold {
    holds: Arc<Holds>,
    key: u64,
    is_taken: bool,
}

impl Holds {
    /// Holds the log from this record on; returns where it begins, which may be later: `oldest` is
    /// asked what stays of the log, whatever was let go.
    pub(crate) fn take(self: &Arc<Self>, from: Lsn, oldest: impl FnOnce() -> Lsn) -> (Hold, Lsn) {
        let mut held = self.lock();
        // Under the lock: until the hold is there, no more is let go.
        let (key, from) = (held.next, from.max(oldest()));
        held.next += 1;
        held.all.insert(key, (from, None));
        (Hold { holds: Arc::clone(self), key, is_taken: false }, from)
    }

    /// Lets the log go in front of `below`, as far as nobody holds it once an image covers
    /// `covered`; `trim` is told how far.
    pub(crate) fn trim(&self, below: Lsn, covered: Lsn, trim: impl FnOnce(Lsn)) {
        let mut held = self.lock();
        held.all.retain(|_, (_, until)| until.is_none_or(|until| until > covered));
        let below = held.all.values().map(|(from, _)| *from).fold(below, Lsn::min);
        // Under the lock: whoever takes a hold from now on begins with what this leaves.
        trim(below);
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hold {
    /// What it holds was put into a queue by a record that is not behind this one: the next image
    /// that covers it ends the hold.
    pub(crate) fn until(mut self, taken_by: Lsn) {
        if let Some((_, until)) = self.holds.lock().all.get_mut(&self.key) {
            *until = Some(taken_by);
        }
        self.is_taken = true;
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if !self.is_taken {
            self.holds.lock().all.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trimmed(holds: &Holds, below: u64, covered: u64) -> u64 {
        let mut trimmed = 0;
        holds.trim(Lsn::new(below), Lsn::new(covered), |below| trimmed = below.get());
        trimmed
    }

    #[test]
    fn what_is_held_stays_until_an_image_covers_who_took_it() {
        let holds = Arc::new(Holds::default());
        let (reading, from) = holds.take(Lsn::new(5), || Lsn::new(1));
        assert_eq!((from.get(), trimmed(&holds, 20, 90)), (5, 5));
        reading.until(Lsn::new(100));
        assert_eq!(trimmed(&holds, 20, 99), 5);
        assert_eq!(trimmed(&holds, 20, 100), 20);
        assert_eq!(holds.take(Lsn::new(7), || Lsn::new(20)).1.get(), 20, "it is gone");
    }

    #[test]
    fn what_nobody_took_is_let_go() {
        let holds = Arc::new(Holds::default());
        drop(holds.take(Lsn::new(5), || Lsn::new(1)));
        assert_eq!(trimmed(&holds, 20, 1), 20);
    }
}
