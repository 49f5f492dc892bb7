//! What a lane may have staged is bounded by bytes beside the room of its ring: a lane that waits
//! for either is called, and the count is right whoever packs meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire};

use loom::sync::atomic::AtomicU64;
use loom::thread;

use super::{Calls, Ring, explore, fails, needs};
use crate::log::wanted::{Published, Starved};
use crate::sync::Between;

/// A lane may have so many bytes staged, but for the last chunk. Each chunk has one.
const MOST: u64 = 1;

struct Lane {
    ring: Ring,
    bytes: AtomicU64,
    starved: Starved,
    calls: Calls,
}

impl Lane {
    fn new(staged: u64) -> Arc<Self> {
        Arc::new(Self {
            ring: Ring::new(4, staged),
            bytes: AtomicU64::new(staged),
            starved: Starved::new(),
            calls: Calls::new(),
        })
    }

    /// What `Core::gather` does, and `Core::pack` at its end. False: there was nothing.
    fn pack(&self) -> bool {
        let some = self.ring.pop();
        if some {
            let before = self.bytes.fetch_sub(1, AcqRel);
            assert!(before > 0, "what is taken was counted");
        }
        if self.starved.is_met(&Published::so_far()) {
            self.calls.wake();
        }
        some
    }

    /// What `Producer::push_backlog` does.
    fn push(&self) {
        self.bytes.fetch_add(1, AcqRel);
        assert!(self.ring.push());
    }

    fn sees_room(&self) -> bool {
        self.ring.has_room() && self.bytes.load(Acquire) < MOST
    }

    /// What `Producer::has_room` does.
    fn has_room(&self) -> bool {
        if self.sees_room() {
            return true;
        }
        self.starved.ask();
        let room = self.sees_room();
        if room {
            self.starved.take_back();
        }
        room
    }
}

#[test]
fn who_has_too_many_bytes_staged_is_called_when_there_are_fewer() {
    needs(&[Between::AskAndLook, Between::PublishAndLook], || {
        let lane = Lane::new(MOST);
        let leader = Arc::clone(&lane);
        let leader = thread::spawn(move || assert!(leader.pack()));
        let room = lane.has_room();
        leader.join().unwrap();
        let calls = lane.calls.hear();
        assert!(room || calls == 1, "{calls} calls");
        assert!(calls <= 1, "{calls} calls");
    });
}

#[test]
fn bytes_are_counted_before_whoever_packs_can_take_them() {
    fn packed_meanwhile(push: fn(&Lane)) {
        let lane = Lane::new(0);
        let leader = Arc::clone(&lane);
        let leader = thread::spawn(move || leader.pack());
        push(&lane);
        let left = u64::from(!leader.join().unwrap());
        assert_eq!(lane.bytes.load(Acquire), left);
    }
    explore(|| packed_meanwhile(Lane::push));
    fails("counted behind the push", || {
        packed_meanwhile(|lane| {
            assert!(lane.ring.push());
            lane.bytes.fetch_add(1, AcqRel);
        });
    });
}
