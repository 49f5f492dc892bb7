//! A vector of things named by small numbers, with the numbers of removed ones used again.
//!
//! Assumes that who holds a number knows that it is in use: a number that is not is a broken
//! invariant and stops the process.

/// No number: at most `u32::MAX - 1` things are held.
pub(super) const NONE: u32 = u32::MAX;

/// See the file.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: u32,
    len: usize,
}

#[derive(Debug)]
enum Slot<T> {
    Used(T),
    Free { next: u32 },
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new(), free: NONE, len: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Puts a thing in and gives its number: the one freed last, or the next new one.
    pub(super) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if self.free == NONE {
            let id = u32::try_from(self.slots.len()).unwrap_or(NONE);
            assert!(id != NONE, "more than 4 billion things in one index");
            self.slots.push(Slot::Used(value));
            return id;
        }
        let id = self.free;
        let slot = &mut self.slots[id as usize];
        let Slot::Free { next } = *slot else { unreachable!("the free list holds free slots") };
        self.free = next;
        *slot = Slot::Used(value);
        id
    }

    /// Takes a thing out; its number may be given again.
    pub(super) fn remove(&mut self, id: u32) -> T {
        let slot = &mut self.slots[id as usize];
        let Slot::Used(value) = core::mem::replace(slot, Slot::Free { next: self.free }) else {
            unreachable!("only what is held is removed");
        };
        self.free = id;
        self.len -= 1;
        value
    }

    /// All things, by their numbers.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| match slot {
            Slot::Used(value) => Some(value),
            Slot::Free { .. } => None,
        })
    }

    /// All things with their numbers, ascending.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.slots).filter_map(|(id, slot)| match slot {
            Slot::Used(value) => Some((id, value)),
            Slot::Free { .. } => None,
        })
    }
}

impl<T> core::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        match &self.slots[id as usize] {
            Slot::Used(value) => value,
            Slot::Free { .. } => unreachable!("only what is held is read"),
        }
    }
}

impl<T> core::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        match &mut self.slots[id as usize] {
            Slot::Used(value) => value,
            Slot::Free { .. } => unreachable!("only what is held is changed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_dense_and_used_again_last_first() {
        let mut slab = Slab::new();
        let ids = ["a", "b", "c"].map(|text| slab.insert(text));
        assert_eq!(ids, [0, 1, 2]);
        assert_eq!((slab.remove(0), slab.remove(1), slab.len()), ("a", "b", 1));
        assert_eq!((slab.insert("d"), slab.insert("e"), slab.insert("f")), (1, 0, 3));
        slab[1] = "g";
        assert_eq!(slab.iter().collect::<Vec<_>>(), [(0, &"e"), (1, &"g"), (2, &"c"), (3, &"f")]);
    }

    #[test]
    #[should_panic(expected = "only what is held is read")]
    fn a_freed_number_is_not_read() {
        let mut slab = Slab::new();
        let id = slab.insert(1);
        slab.remove(id);
        let _ = slab[id];
    }
}
