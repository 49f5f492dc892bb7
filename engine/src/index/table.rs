//! A hash table of numbers: eight bytes a slot, keys are kept elsewhere.
//!
//! Owns: where a number is found by the hash of its key. Does not know keys: who looks up says
//! whether a number is the one. Linear probing, at most three quarters full, removal closes gaps
//! (no tombstones). Nothing is ever listed in the order of the slots.

use super::slab::NONE;

/// See the file.
#[derive(Debug)]
pub(super) struct IdTable {
    slots: Vec<Slot>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u32,
    id: u32,
}

const EMPTY: Slot = Slot { hash: 0, id: NONE };
const SLOTS_MIN: usize = 8;

impl IdTable {
    /// What a number takes, with its part of what is free.
    pub(super) const EACH: usize = size_of::<Slot>() * 2;

    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), len: 0 }
    }

    /// The number with this hash that `is` the one.
    #[inline]
    pub(super) fn find(&self, hash: u32, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot.id == NONE {
                return None;
            }
            if slot.hash == hash && is(slot.id) {
                return Some(slot.id);
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds a number, which is not there.
    pub(super) fn insert(&mut self, hash: u32, id: u32) {
        assert!(id != NONE, "no number is not a number");
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.resize((self.slots.len() * 2).max(SLOTS_MIN));
        }
        self.put(Slot { hash, id });
        self.len += 1;
    }

    /// Removes a number, which is there.
    pub(super) fn remove(&mut self, hash: u32, id: u32) {
        let mut hole = self.place(hash, id);
        let mask = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.id == NONE {
                break;
            }
            // A slot may move back into the hole unless its home lies behind the hole.
            let from_home = at.wrapping_sub(slot.hash as usize) & mask;
            if from_home >= (at.wrapping_sub(hole) & mask) {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = EMPTY;
        self.len -= 1;
        if self.slots.len() > SLOTS_MIN && self.len * 8 < self.slots.len() {
            self.resize(self.slots.len() / 2);
        }
    }

    fn place(&self, hash: u32, id: u32) -> usize {
        assert!(self.len > 0, "what is removed was added");
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at].id != id {
            assert!(self.slots[at].id != NONE, "what is removed was added");
            at = (at + 1) & mask;
        }
        at
    }

    fn put(&mut self, new: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = new.hash as usize & mask;
        while self.slots[at].id != NONE {
            at = (at + 1) & mask;
        }
        self.slots[at] = new;
    }

    fn resize(&mut self, slots: usize) {
        assert!(slots.is_power_of_two() && self.len < slots, "a table has room");
        let old = core::mem::replace(&mut self.slots, vec![EMPTY; slots]);
        for slot in old {
            if slot.id != NONE {
                self.put(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Hashes of three bits and those that wrap around the end make long, shared chains.
        #[test]
        fn finds_what_is_in_it(ops in prop::collection::vec((0_u32..8, 0_u32..40), 1..400)) {
            let mut table = IdTable::new();
            let mut model = std::collections::BTreeMap::new();
            for (low, id) in ops {
                let hash = low.wrapping_sub(4);
                if let Some(hash) = model.remove(&id) {
                    table.remove(hash, id);
                } else {
                    table.insert(hash, id);
                    model.insert(id, hash);
                }
                for id in 0..40 {
                    let found = (0_u32..8)
                        .any(|low| table.find(low.wrapping_sub(4), |found| found == id).is_some());
                    prop_assert_eq!(found, model.contains_key(&id));
                }
            }
        }
    }

    #[test]
    fn a_table_shrinks_when_it_empties() {
        let mut table = IdTable::new();
        (0..1000).for_each(|id| table.insert(id * 7, id));
        let full = table.slots.len();
        (0..1000).for_each(|id| table.remove(id * 7, id));
        assert!(full >= 1024 && table.slots.len() == SLOTS_MIN);
    }
}
