//! Who waits, in the order in which they came to it. Whoever leaves is out of it at once, wherever
//! it stood: all that stand in it wait.
use std::collections::BTreeMap;

use crate::id::ConnId;

/// See the file.
#[derive(Debug, Default)]
pub(super) struct Line {
    order: BTreeMap<u64, ConnId>,
    places: BTreeMap<ConnId, u64>,
    /// The place behind all that were given so far.
    next: u64,
}

impl Line {
    /// Puts it behind the others.
    pub(super) fn push(&mut self, id: ConnId) {
        let before = self.places.insert(id, self.next);
        assert!(before.is_none(), "{id} stands in line already");
        self.order.insert(self.next, id);
        self.next += 1;
    }

    /// Takes it out. False: it was not there.
    pub(super) fn remove(&mut self, id: ConnId) -> bool {
        let place = self.places.remove(&id);
        place.is_some_and(|place| self.order.remove(&place).is_some())
    }

    pub(super) fn first(&self) -> Option<ConnId> {
        self.order.first_key_value().map(|(_, id)| *id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_leaves_is_out_of_it_and_the_others_keep_their_order() {
        let [a, b, c] = [3, 1, 2].map(|index| ConnId { index, generation: 1 });
        let mut line = Line::default();
        for id in [a, b, c] {
            line.push(id);
        }
        assert!(line.remove(b) && !line.remove(b));
        assert_eq!(line.first(), Some(a));
        assert!(line.remove(a));
        line.push(a);
        assert_eq!(line.first(), Some(c));
        assert!(line.remove(c) && line.remove(a));
        assert_eq!((line.first(), line.is_empty(), line.places.len()), (None, true, 0));
    }
}
