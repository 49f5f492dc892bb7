//! Mailboxes between lanes: a bounded ring for each pair, without locks, with one wake for a burst.
//!
//! Assumes: each end belongs to one lane. Nobody waits in a push: a full ring gives the item back,
//! and wakes its producer once there is room.
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering, fence},
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

/// The pushing end of a ring.
#[derive(Debug)]
pub struct Outlet<T> {
    ring: Producer<T>,
    reserved: usize,
    consumer: LaneWaker,
    starved: Arc<AtomicBool>,
    pushed: bool,
}

/// The popping end of a ring.
#[derive(Debug)]
pub struct Inlet<T> {
    ring: Consumer<T>,
    producer: LaneWaker,
    starved: Arc<AtomicBool>,
    popped: bool,
}

/// A ring of `capacity` slots, `reserved` of them for [`Class::Receipt`] alone, between the lane
/// that `producer` wakes and the one that `consumer` wakes.
///
/// # Panics
/// Nothing is left for [`Class::Bulk`].
pub fn ring<T>(
    capacity: usize,
    reserved: usize,
    producer: LaneWaker,
    consumer: LaneWaker,
) -> (Outlet<T>, Inlet<T>) {
    assert!(reserved < capacity, "{reserved} of {capacity} slots reserved");
    let (push, pop) = RingBuffer::new(capacity);
    let starved = Arc::new(AtomicBool::new(false));
    (
        Outlet { ring: push, reserved, consumer, starved: Arc::clone(&starved), pushed: false },
        Inlet { ring: pop, producer, starved, popped: false },
    )
}

impl<T> Outlet<T> {
    /// Appends `item`, or gives it back if its class has no room; the producing lane is woken once
    /// there is. The consumer sees it after [`Outlet::announce`].
    pub fn push(&mut self, item: T, class: Class) -> Result<(), T> {
        let Err(item) = self.try_push(item, class) else { return Ok(()) };
        // The consumer may sleep over what it has not been told of.
        self.announce();
        // Either the consumer sees the flag after its pops, or the second try sees its pops.
        self.starved.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.try_push(item, class)
    }

    fn try_push(&mut self, item: T, class: Class) -> Result<(), T> {
        let kept_free = if class == Class::Bulk { self.reserved } else { 0 };
        if self.ring.slots() <= kept_free {
            return Err(item);
        }
        self.ring.push(item).map_err(|PushError::Full(item)| item)?;
        self.pushed = true;
        Ok(())
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
        let item = self.ring.pop().ok()?;
        self.popped = true;
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
        if self.starved.load(Ordering::Relaxed) && self.starved.swap(false, Ordering::Relaxed) {
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
    pub(crate) fn group(wakers: &[LaneWaker], capacity: usize, reserved: usize) -> Vec<Self> {
        let empty = || Self { outlets: Vec::new(), inlets: Vec::new() };
        let mut meshes: Vec<Self> = wakers.iter().map(|_| empty()).collect();
        for (from, producer) in wakers.iter().enumerate() {
            for (to, consumer) in wakers.iter().enumerate() {
                let (mut outlet, mut inlet) = (None, None);
                if from != to {
                    let (push, pop) = ring(capacity, reserved, producer.clone(), consumer.clone());
                    (outlet, inlet) = (Some(push), Some(pop));
                }
                // Rows and columns are both walked in order, so each lands at its lane's index.
                meshes[from].outlets.push(outlet);
                meshes[to].inlets.push(inlet);
            }
        }
        meshes
    }

    pub(crate) fn push(&mut self, to: LaneIndex, item: T, class: Class) -> Result<(), T> {
        let outlet = self.outlets.get_mut(to.index()).and_then(Option::as_mut);
        assert!(outlet.is_some(), "no ring to {to}");
        match outlet {
            Some(outlet) => outlet.push(item, class),
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

    fn pair(capacity: usize, reserved: usize) -> (Outlet<u32>, Inlet<u32>, [LaneWaker; 2]) {
        let wakers = [LaneWaker::flag_only(), LaneWaker::flag_only()];
        let (push, pop) = ring(capacity, reserved, wakers[0].clone(), wakers[1].clone());
        (push, pop, wakers)
    }

    #[test]
    fn a_full_ring_gives_back_and_receipts_have_their_own_share() {
        let (mut push, mut pop, _) = pair(4, 2);
        assert_eq!(push.push(1, Class::Bulk), Ok(()));
        assert_eq!(push.push(2, Class::Bulk), Ok(()));
        assert_eq!(push.push(3, Class::Bulk), Err(3));
        assert_eq!(push.push(4, Class::Receipt), Ok(()));
        assert_eq!(push.push(5, Class::Receipt), Ok(()));
        assert_eq!(push.push(6, Class::Receipt), Err(6));
        assert_eq!(std::iter::from_fn(|| pop.pop()).collect::<Vec<_>>(), [1, 2, 4, 5]);
    }

    #[test]
    fn the_consumer_is_woken_once_for_a_burst() {
        let (mut push, _pop, [_, consumer]) = pair(8, 0);
        for n in 0..5 {
            push.push(n, Class::Bulk).unwrap();
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
        push.push(1, Class::Bulk).unwrap();
        assert_eq!(push.push(2, Class::Bulk), Err(2));
        assert!(consumer.take(), "it has to hear of what fills the ring");
        pop.freed();
        assert!(!producer.take(), "nothing was popped");
        pop.pop();
        pop.freed();
        assert!(producer.take());
        push.push(2, Class::Bulk).unwrap();
        pop.pop();
        pop.freed();
        assert!(!producer.take(), "it was not starved again");
    }

    #[test]
    fn two_threads_hand_over_everything_in_order() {
        let (mut push, mut pop, [producing, consuming]) = pair(8, 2);
        let producer = std::thread::spawn(move || {
            for n in 0..10_000 {
                let mut item = n;
                while let Err(back) = push.push(item, Class::Bulk) {
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
