//! Where a lane keeps its connections: dense places, each with the number of its current use.
//!
//! Assumes: nobody makes up a `ConnId`; a place serves 2^32 - 1 connections, then is given up.
use crate::id::ConnId;

pub(crate) struct Table<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
    len: usize,
}

struct Place<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<T> Table<T> {
    pub(crate) fn insert(&mut self, value: T) -> ConnId {
        self.len += 1;
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            assert!(place.value.is_none(), "place {index} was free");
            place.value = Some(value);
            return ConnId { index, generation: place.generation };
        }
        // By an eighth: doubling would leave an idle connection with twice its size.
        if self.places.len() == self.places.capacity() {
            self.places.reserve_exact((self.places.len() / 8).max(64));
        }
        let index = u32::try_from(self.places.len());
        assert!(index.is_ok(), "more connections than descriptors exist");
        let index = index.unwrap_or(u32::MAX);
        self.places.push(Place { generation: 1, value: Some(value) });
        ConnId { index, generation: 1 }
    }

    pub(crate) fn get(&self, id: ConnId) -> Option<&T> {
        let place = self.places.get(id.index())?;
        if place.generation == id.generation { place.value.as_ref() } else { None }
    }

    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut T> {
        let place = self.places.get_mut(id.index())?;
        if place.generation == id.generation { place.value.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, id: ConnId) -> Option<T> {
        let place = self.places.get_mut(id.index())?;
        if place.generation != id.generation {
            return None;
        }
        let value = place.value.take()?;
        self.len -= 1;
        if let Some(next) = place.generation.checked_add(1) {
            place.generation = next;
            self.free.push(id.index);
        }
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnId, &T)> {
        (0u32..).zip(&self.places).filter_map(|(index, place)| {
            let id = ConnId { index, generation: place.generation };
            place.value.as_ref().map(|value| (id, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_id_never_reaches_the_successor_in_its_place() {
        let mut table = Table::default();
        let first = table.insert('a');
        assert_eq!(table.remove(first), Some('a'));
        let second = table.insert('b');
        assert_eq!(second.index(), first.index());
        assert_eq!(table.get(first), None);
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get(second), Some(&'b'));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn a_place_whose_numbers_are_used_up_is_given_up() {
        let mut table = Table::default();
        let first = table.insert('a');
        table.places[0].generation = u32::MAX;
        let last = ConnId { generation: u32::MAX, ..first };
        assert_eq!(table.remove(last), Some('a'));
        assert_eq!(table.insert('b').index(), 1);
    }
}
