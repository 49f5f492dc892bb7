//! The sessions that subscribe: lane, flags, load and the entries they stand in.
//!
//! Owns: what a route must know of a session, 16 bytes each so that a wide fan-out reads them fast.
//! A session is here as long as it has a subscription.

use super::hash::spread;
use super::slab::Slab;
use super::table::IdTable;
use crate::SessionNumber;

/// What every lane knows of a session: announced by its lane as subscriptions are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionFlags(u8);

impl SessionFlags {
    /// Offline, volatile, with room.
    pub const NONE: Self = Self(0);
    /// Its connection is up.
    pub const CONNECTED: Self = Self(1);
    /// It outlives its connection.
    pub const PERSISTENT: Self = Self(2);
    /// What waits as output for its connection has passed the high water mark.
    pub const OVER_HIGH_WATER: Self = Self(4);
    /// It takes nothing more.
    pub const FULL: Self = Self(8);
    /// It was over its high water mark for so long that nobody is held for it any more.
    pub const SLOW: Self = Self(16);
    /// Its queue was over the high water mark and is not down to the low one: who publishes to it
    /// above QoS 0 waits.
    pub const LAGGING: Self = Self(32);

    /// Whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// These flags and those of `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of these flags that are in `other`.
    #[must_use]
    pub const fn only(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// These flags without those of `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// A session as a route sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) number: SessionNumber,
    /// When it came, for [`GroupStrategy::Sticky`](super::GroupStrategy).
    pub(crate) since: u32,
    /// How much it is owed, for [`GroupStrategy::LeastInflight`](super::GroupStrategy).
    pub(crate) load: u16,
    pub(crate) lane: u8,
    pub(crate) flags: SessionFlags,
}

const _: () = assert!(size_of::<Head>() == 16, "four sessions fit a cache line");

/// See the file.
#[derive(Debug)]
pub(super) struct Sessions {
    by_number: IdTable,
    heads: Vec<Head>,
    /// The entries of the session in the slot of the same number.
    standings: Slab<Standings>,
}

/// The entries that a session stands in, one for each subscription: few sessions have many.
#[derive(Debug)]
enum Standings {
    One(u32),
    #[expect(clippy::box_collection, reason = "halves what the many sessions with one take")]
    Many(Box<Vec<u32>>),
}

const _: () = assert!(size_of::<Standings>() == 16, "the slab costs nothing more");

impl Sessions {
    pub(super) const fn new() -> Self {
        Self { by_number: IdTable::new(), heads: Vec::new(), standings: Slab::new() }
    }

    pub(super) const fn len(&self) -> usize {
        self.standings.len()
    }

    /// What they take in memory, about, but for where they stand.
    pub(super) const fn memory(&self) -> usize {
        self.len() * (size_of::<Head>() + size_of::<Standings>() + IdTable::EACH)
    }

    /// The heads by slot.
    pub(super) fn heads(&self) -> &[Head] {
        &self.heads
    }

    pub(super) fn heads_mut(&mut self) -> &mut [Head] {
        &mut self.heads
    }

    pub(super) fn slot(&self, number: SessionNumber) -> Option<u32> {
        self.by_number.find(spread(number.get()), |slot| self.heads[slot as usize].number == number)
    }

    pub(super) fn head_mut(&mut self, number: SessionNumber) -> Option<&mut Head> {
        let slot = self.slot(number)?;
        Some(&mut self.heads[slot as usize])
    }

    /// Takes over what is new about a session that is known.
    pub(super) fn refresh(&mut self, slot: u32, head: Head) {
        let known = &mut self.heads[slot as usize];
        assert!(known.number == head.number, "a slot belongs to one session");
        *known = Head { load: known.load, ..head };
    }

    /// Notes that a session stands in an entry once more; gives its slot.
    pub(super) fn stand(&mut self, head: Head, entry: u32) -> u32 {
        let Some(slot) = self.slot(head.number) else {
            let slot = self.standings.insert(Standings::One(entry));
            match self.heads.get_mut(slot as usize) {
                Some(free) => *free = head,
                None => self.heads.push(head),
            }
            self.by_number.insert(spread(head.number.get()), slot);
            return slot;
        };
        self.refresh(slot, head);
        let standings = &mut self.standings[slot];
        match standings {
            Standings::One(first) => *standings = Standings::Many(Box::new(vec![*first, entry])),
            Standings::Many(entries) => entries.push(entry),
        }
        slot
    }

    /// Takes one standing in an entry away, and the session with its last.
    pub(super) fn leave(&mut self, slot: u32, entry: u32) {
        let standings = &mut self.standings[slot];
        if let Standings::Many(entries) = standings {
            let at = entries.iter().position(|&at| at == entry);
            let Some(at) = at else { unreachable!("a session leaves where it stands") };
            entries.swap_remove(at);
            if let [only] = entries[..] {
                *standings = Standings::One(only);
            }
            return;
        }
        assert!(
            matches!(standings, Standings::One(at) if *at == entry),
            "it leaves where it stood"
        );
        self.forget(slot);
    }

    /// Takes a session away; gives the entries it stood in, some perhaps more than once.
    pub(super) fn take(&mut self, slot: u32) -> Vec<u32> {
        match self.forget(slot) {
            Standings::One(entry) => vec![entry],
            Standings::Many(entries) => *entries,
        }
    }

    fn forget(&mut self, slot: u32) -> Standings {
        self.by_number.remove(spread(self.heads[slot as usize].number.get()), slot);
        self.standings.remove(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(number: u64) -> Head {
        let number = SessionNumber::new(number).unwrap();
        Head { number, since: 0, load: 0, lane: 0, flags: SessionFlags::NONE }
    }

    #[test]
    fn a_session_is_known_while_it_stands_somewhere() {
        let mut sessions = Sessions::new();
        let slot = sessions.stand(head(9), 1);
        assert_eq!((sessions.stand(head(9), 1), sessions.stand(head(9), 2)), (slot, slot));
        sessions.leave(slot, 1);
        sessions.leave(slot, 1);
        assert_eq!(sessions.slot(head(9).number), Some(slot));
        sessions.leave(slot, 2);
        assert_eq!((sessions.slot(head(9).number), sessions.len()), (None, 0));
    }

    #[test]
    fn a_freed_slot_serves_another_session() {
        let mut sessions = Sessions::new();
        let slot = sessions.stand(head(1), 4);
        sessions.stand(head(1), 5);
        assert_eq!(sessions.take(slot), [4, 5]);
        assert_eq!(sessions.stand(head(2), 6), slot);
        assert_eq!(sessions.heads()[slot as usize].number, head(2).number);
        assert!(sessions.slot(head(1).number).is_none());
    }

    #[test]
    fn flags_are_a_set() {
        let both = SessionFlags::CONNECTED.with(SessionFlags::FULL);
        assert!(both.contains(SessionFlags::FULL) && !both.contains(SessionFlags::PERSISTENT));
        assert_eq!(both.without(SessionFlags::FULL), SessionFlags::CONNECTED);
        assert_eq!(both.only(SessionFlags::FULL), SessionFlags::FULL);
    }
}
