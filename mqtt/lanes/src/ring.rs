//! Mailboxes between lanes: a ring for each pair, bounded in items and in the bytes that they hold,
//! without locks, with one wake for a burst.
//!
//! Assumes: each end belongs to one lane. Nobody waits in a push: a full ring gives the item back,
//! and wakes its producer once there is room.
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering, fence},
};

use rtrb::{Consumer, Producer, PushError, RingBuffer};

use crate::{id::LaneIndex, waker::LaneWaker};

/// Which share of a ring an item may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// All but the reserved slots.
    Bulk,
    /// Every slot: for what frees memory elsewhere (receipts, answers) and so must not wait behind
    /// what takes it.
    Receipt,
}

/// How much a ring takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingCapacity {
    /// Items.
    pub slots: usize,
    /// Slots for [`Class::Receipt`] alone.
    pub reserved: usize,
    /// Bytes that the items in it hold together, of either class. One that holds more by itself
    /// passes when no other that holds any is in it.
    pub bytes: usize,
}

/// The pushing end of a ring.
#[derive(Debug)]
pub struct Outlet<T> {
    ring: Producer<Slot<T>>,
    capacity: RingCapacity,
    consumer: LaneWaker,
    shared: Arc<Shared>,
    pushed: bool,
    /// Bytes that were pushed so far.
    sent: u64,
    /// Of these, what had been popped when that was looked at last.
    taken: u64,
}

/// The popping end of a ring.
#[derive(Debug)]
pub struct Inlet<T> {
    ring: Consumer<Slot<T>>,
    producer: LaneWaker,
    shared: Arc<Shared>,
    popped: bool,
    /// Bytes that were popped so far.
    taken: u64,
}

/// An item, and the bytes that it holds.
#[derive(Debug)]
struct Slot<T> {
    item: T,
    bytes: u64,
}

/// What both ends see.
#[derive(Debug, Default)]
struct Shared {
    /// The producer has found no room.
    starved: AtomicBool,
    /// Bytes that were popped so far; the consumer alone writes it.
    taken: AtomicU64,
}

/// A ring between the lane that `producer` wakes and the one that `consumer` wakes.
///
/// # Panics
/// No slot is left for [`Class::Bulk`].
pub fn ring<T>(
    capacity: RingCapacity,
    producer: LaneWaker,
    consumer: LaneWaker,
) -> (Outlet<T>, Inlet<T>) {
    let RingCapacity { slots, reserved, .. } = capacity;
    assert!(reserved < slots, "{reserved} of {slots} slots reserved");
    let (push, pop) = RingBuffer::new(slots);
    let shared = Arc::<Shared>::default();
    let other = Arc::clone(&shared);
    (
        Outlet { ring: push, capacity, consumer, shared, pushed: false, sent: 0, taken: 0 },
        Inlet { ring: pop, producer, shared: other, popped: false, taken: 0 },
    )
}

impl<T> Outlet<T> {
    /// Appends `item`, which holds so many bytes beside its slot, or gives it back if there is no
    /// room for it; the producing lane is woken once there is. The consumer sees it after
    /// [`Outlet::announce`].
    pub fn push(&mut self, item: T, class: Class, bytes: usize) -> Result<(), T> {
        let Err(item) = self.try_push(item, class, bytes) else { return Ok(()) };
        // The consumer may sleep over what it has not been told of.
        self.announce();
        // Either the consumer sees the flag after its pops, or the second try sees its pops.
        self.shared.starved.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.try_push(item, class, bytes)
    }

    fn try_push(&mut self, item: T, class: Class, bytes: usize) -> Result<(), T> {
        let kept_free = if class == Class::Bulk { self.capacity.reserved } else { 0 };
        let bytes = bytes as u64;
        if self.ring.slots() <= kept_free || !self.has_room_for(bytes) {
            return Err(item);
        }
        let pushed = self.ring.push(Slot { item, bytes });
        pushed.map_err(|PushError::Full(Slot { item, .. })| item)?;
        self.sent += bytes;
        self.pushed = true;
        Ok(())
    }

    /// What the consumer has popped is looked at only if there is no room by what is known of it.
    fn has_room_for(&mut self, bytes: u64) -> bool {
        bytes == 0 || self.fits(bytes) || {
            self.taken = self.shared.taken.load(Ordering::Relaxed);
            self.fits(bytes)
        }
    }

    fn fits(&self, bytes: u64) -> bool {
        let under_way = self.sent - self.taken;
        under_way == 0 || under_way.saturating_add(bytes) <= self.capacity.bytes as u64
    }

    /// Wakes the consumer if anything was pushed since the last call.
    pub fn announce(&mut self) {
        if std::mem::take(&mut self.pushed) {
            self.consumer.wake();
        }
    }
}

impl<T> Inlet<T> {
    /// The oldest item.
    pub fn pop(&mut self) -> Option<T> {
        let Slot { item, bytes } = self.ring.pop().ok()?;
        self.popped = true;
        if bytes > 0 {
            self.taken += bytes;
            self.shared.taken.store(self.taken, Ordering::Relaxed);
        }
        Some(item)
    }

    /// Whether nothing is in the ring now.
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// After the pops of a turn: wakes a producer that found the ring full.
    pub fn freed(&mut self) {
        if !std::mem::take(&mut self.popped) {
            return;
        }
        fence(Ordering::SeqCst);
        let starved = &self.shared.starved;
        if starved.load(Ordering::Relaxed) && starved.swap(false, Ordering::Relaxed) {
            self.producer.wake();
        }
    }
}

/// A lane's ends of all rings of one kind; none to itself.
#[derive(Debug)]
pub(crate) struct Mesh<T> {
    pub(crate) outlets: Vec<Option<Outlet<T>>>,
    pub(crate) inlets: Vec<Option<Inlet<T>>>,
}

impl<T> Mesh<T> {
    /// Rings between all lanes, in the order of `wakers`.
    pub(crate) fn group(wakers: &[LaneWaker], capacity: RingCapacity) -> Vec<Self> {
        let empty = || Self { outlets: Vec::new(), inlets: Vec::new() };
        let mut meshes: Vec<Self> = wakers.iter().map(|_| empty()).collect();
        for (from, producer) in wakers.iter().enumerate() {
            for (to, consumer) in wakers.iter().enumerate() {
                let (mut outlet, mut inlet) = (None, None);
                if from != to {
                    let (push, pop) = ring(capacity, producer.clone(), consumer.clone());
                    (outlet, inlet) = (Some(push), Some(pop));
                }
                // Rows and columns are both walked in order, so each lands at its lane's index.
                meshes[from].outlets.push(outlet);
                meshes[to].inlets.push(inlet);
            }
        }
        meshes
    }

    pub(crate) fn push(
        &mut self,
        to: LaneIndex,
        item: T,
        class: Class,
        bytes: usize,
    ) -> Result<(), T> {
        let outlet = self.outlets.get_mut(to.index()).and_then(Option::as_mut);
        assert!(outlet.is_some(), "no ring to {to}");
        match outlet {
            Some(outlet) => outlet.push(item, class, bytes),
            None => Err(item),
        }
    }

    pub(crate) fn announce(&mut self) {
        self.outlets.iter_mut().flatten().for_each(Outlet::announce);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes for the items of a ring here.
    const BYTES: usize = 100;

    fn pair(slots: usize, reserved: usize) -> (Outlet<u32>, Inlet<u32>, [LaneWaker; 2]) {
        let wakers = [LaneWaker::flag_only(), LaneWaker::flag_only()];
        let capacity = RingCapacity { slots, reserved, bytes: BYTES };
        let (push, pop) = ring(capacity, wakers[0].clone(), wakers[1].clone());
        (push, pop, wakers)
    }

    #[test]
    fn a_full_ring_gives_back_and_receipts_have_their_own_share() {
        let (mut push, mut pop, _) = pair(4, 2);
        assert_eq!(push.push(1, Class::Bulk, 0), Ok(()));
        assert_eq!(push.push(2, Class::Bulk, 0), Ok(()));
        assert_eq!(push.push(3, Class::Bulk, 0), Err(3));
        assert_eq!(push.push(4, Class::Receipt, 0), Ok(()));
        assert_eq!(push.push(5, Class::Receipt, 0), Ok(()));
        assert_eq!(push.push(6, Class::Receipt, 0), Err(6));
        assert_eq!(std::iter::from_fn(|| pop.pop()).collect::<Vec<_>>(), [1, 2, 4, 5]);
    }

    #[test]
    fn the_consumer_is_woken_once_for_a_burst() {
        let (mut push, _pop, [_, consumer]) = pair(8, 0);
        for n in 0..5 {
            push.push(n, Class::Bulk, 0).unwrap();
        }
        assert!(!consumer.take(), "not before it is announced");
        push.announce();
        assert!(consumer.take());
        push.announce();
        assert!(!consumer.take(), "nothing new");
    }

    #[test]
    fn a_producer_that_found_it_full_is_woken_when_there_is_room() {
        let (mut push, mut pop, [producer, consumer]) = pair(1, 0);
        push.push(1, Class::Bulk, 0).unwrap();
        assert_eq!(push.push(2, Class::Bulk, 0), Err(2));
        assert!(consumer.take(), "it has to hear of what fills the ring");
        pop.freed();
        assert!(!producer.take(), "nothing was popped");
        pop.pop();
        pop.freed();
        assert!(producer.take());
        push.push(2, Class::Bulk, 0).unwrap();
        pop.pop();
        pop.freed();
        assert!(!producer.take(), "it was not starved again");
    }

    #[test]
    fn items_that_hold_bytes_are_bounded_by_these_whatever_their_class() {
        let (mut push, mut pop, [producer, _]) = pair(64, 32);
        assert_eq!(push.push(1, Class::Bulk, 60), Ok(()));
        assert_eq!(push.push(2, Class::Bulk, 41), Err(2));
        assert_eq!(push.push(2, Class::Receipt, 41), Err(2));
        assert_eq!(push.push(3, Class::Receipt, 0), Ok(()), "it holds nothing");
        assert_eq!(push.push(4, Class::Bulk, 40), Ok(()));
        assert_eq!(push.push(5, Class::Bulk, 1), Err(5));
        assert_eq!(pop.pop(), Some(1));
        pop.freed();
        assert!(producer.take(), "there is room");
        assert_eq!(push.push(5, Class::Bulk, 60), Ok(()));
        assert_eq!(push.push(6, Class::Bulk, 1), Err(6));
        assert_eq!(std::iter::from_fn(|| pop.pop()).collect::<Vec<_>>(), [3, 4, 5]);
    }

    #[test]
    fn one_that_holds_more_than_the_bound_passes_alone() {
        let (mut push, mut pop, [producer, _]) = pair(64, 0);
        assert_eq!(push.push(1, Class::Bulk, 1), Ok(()));
        assert_eq!(push.push(2, Class::Bulk, usize::MAX), Err(2));
        pop.pop();
        pop.freed();
        assert!(producer.take());
        assert_eq!(push.push(3, Class::Bulk, 0), Ok(()));
        assert_eq!(push.push(2, Class::Bulk, 5 * BYTES), Ok(()), "what is there holds nothing");
        assert_eq!(push.push(4, Class::Bulk, 1), Err(4));
        assert_eq!([pop.pop(), pop.pop()], [Some(3), Some(2)]);
        assert_eq!(push.push(4, Class::Bulk, 1), Ok(()));
    }

    #[test]
    fn two_threads_hand_over_everything_in_order() {
        let (mut push, mut pop, [producing, consuming]) = pair(8, 2);
        let producer = std::thread::spawn(move || {
            for n in 0..10_000 {
                let mut item = n;
                // Now slots are what there is too little of, now bytes.
                let bytes = if n / 100 % 2 == 0 { 1 } else { n as usize % (BYTES + 10) };
                while let Err(back) = push.push(item, Class::Bulk, bytes) {
                    item = back;
                    while !producing.take() {
                        std::thread::yield_now();
                    }
                }
                push.announce();
            }
        });
        let mut next = 0;
        while next < 10_000 {
            while !consuming.take() {
                std::thread::yield_now();
            }
            while let Some(n) = pop.pop() {
                assert_eq!(n, next);
                next += 1;
            }
            pop.freed();
        }
        producer.join().unwrap();
    }
}
