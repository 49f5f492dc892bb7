//! Shared subscriptions: the groups of one filter, and who of a group gets a message.
//!
//! Owns: the members and the pick. A member that is connected and has room comes before one that
//! is over its high water mark, that before a full one, and all of them before those that are
//! offline. Who is offline is picked only for what waits for it.

use zzq_types::QoS;

use super::hash::spread;
use super::sessions::{Head, SessionFlags};
use super::subs::{Sub, place, take};
use crate::SessionNumber;

/// How a group chooses among members that are equally able.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupStrategy {
    /// One after the other.
    #[default]
    RoundRobin,
    /// Who has the least in flight, one after the other among equals.
    LeastInflight,
    /// The same one as long as it is able.
    Sticky,
    /// The same one for a publisher.
    HashClient,
    /// The same one for a topic.
    HashTopic,
}

/// What a pick depends on beside the members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    pub(crate) strategy: GroupStrategy,
    /// QoS of the message.
    pub(crate) qos: QoS,
    pub(crate) publisher: Option<SessionNumber>,
    pub(crate) topic_hash: u32,
}

/// The groups that share one filter, by name.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<Group>);

#[derive(Debug)]
struct Group {
    name: Box<str>,
    /// By session number.
    members: Vec<Sub>,
    /// Whose turn is next.
    turn: usize,
}

impl Groups {
    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a member or replaces its subscription; gives what was replaced.
    pub(super) fn put(&mut self, heads: &[Head], name: &str, sub: Sub) -> Option<Sub> {
        let at = self.place(name).unwrap_or_else(|at| {
            if self.0.is_empty() {
                self.0.reserve_exact(1);
            }
            self.0.insert(at, Group { name: name.into(), members: Vec::new(), turn: 0 });
            at
        });
        let group = &mut self.0[at];
        match place(heads, &group.members, heads[sub.slot as usize].number) {
            Ok(at) => Some(core::mem::replace(&mut group.members[at], sub)),
            Err(at) => {
                group.turn += usize::from(at < group.turn);
                if group.members.is_empty() {
                    group.members.reserve_exact(1);
                }
                group.members.insert(at, sub);
                None
            }
        }
    }

    /// The subscription of a member.
    pub(super) fn find(&self, heads: &[Head], name: &str, number: SessionNumber) -> Option<Sub> {
        let group = &self.0[self.place(name).ok()?];
        place(heads, &group.members, number).ok().map(|at| group.members[at])
    }

    /// Removes a member from one group; says whether it was one.
    pub(super) fn remove(&mut self, heads: &[Head], name: &str, number: SessionNumber) -> bool {
        let Ok(at) = self.place(name) else { return false };
        let removed = self.0[at].remove(heads, number);
        if self.0[at].members.is_empty() {
            self.0.remove(at);
        }
        removed
    }

    /// Removes a session from all groups; says from how many.
    pub(super) fn remove_everywhere(&mut self, heads: &[Head], number: SessionNumber) -> usize {
        let mut removed = 0;
        self.0.retain_mut(|group| {
            removed += usize::from(group.remove(heads, number));
            !group.members.is_empty()
        });
        removed
    }

    /// Picks a member of each group that has one to pick.
    pub(super) fn draw(&mut self, heads: &[Head], draw: Draw, mut picked: impl FnMut(Sub)) {
        for group in &mut self.0 {
            if let Some(sub) = group.draw(heads, draw) {
                picked(sub);
            }
        }
    }

    /// Picks a member of one group.
    pub(super) fn draw_one(&mut self, heads: &[Head], name: &str, draw: Draw) -> Option<Sub> {
        let at = self.place(name).ok()?;
        self.0[at].draw(heads, draw)
    }

    /// The members of one group.
    pub(super) fn members(&self, name: &str) -> &[Sub] {
        self.place(name).map_or(&[], |at| &self.0[at].members)
    }

    /// Whether a group of this name is there: one without members is not.
    pub(super) fn has_members(&self, name: &str) -> bool {
        self.place(name).is_ok()
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by_key(&name, |group| &group.name)
    }
}

impl Group {
    fn remove(&mut self, heads: &[Head], number: SessionNumber) -> bool {
        let removed = take(heads, &mut self.members, number);
        self.turn -= usize::from(removed.is_some_and(|at| at < self.turn));
        removed.is_some()
    }

    fn draw(&mut self, heads: &[Head], draw: Draw) -> Option<Sub> {
        let count = self.members.len();
        let start = match draw.strategy {
            GroupStrategy::RoundRobin | GroupStrategy::LeastInflight | GroupStrategy::Sticky => {
                self.turn
            }
            GroupStrategy::HashClient => {
                spread(draw.publisher.map_or(0, SessionNumber::get)) as usize
            }
            GroupStrategy::HashTopic => draw.topic_hash as usize,
        } % count;
        let mut best: Option<(usize, Ability)> = None;
        for at in (start..count).chain(0..start) {
            let sub = self.members[at];
            let head = &heads[sub.slot as usize];
            let Some(ability) = Ability::of(head, sub, draw) else { continue };
            if best.is_none_or(|(_, least)| ability < least) {
                best = Some((at, ability));
                if ability == Ability::BEST {
                    break;
                }
            }
        }
        let (at, _) = best?;
        self.turn = if draw.strategy == GroupStrategy::Sticky { at } else { (at + 1) % count };
        Some(self.members[at])
    }
}

/// How little a member can take a message now: the least is picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Ability {
    rank: u8,
    load: u32,
}

impl Ability {
    const BEST: Self = Self { rank: 0, load: 0 };

    /// `None` for a member that would lose the message.
    fn of(head: &Head, sub: Sub, draw: Draw) -> Option<Self> {
        let connected = head.flags.contains(SessionFlags::CONNECTED);
        let waits = draw.qos.min(sub.terms.qos()).is_acknowledged()
            && head.flags.contains(SessionFlags::PERSISTENT);
        if !connected && !waits {
            return None;
        }
        let want_of_room = if head.flags.contains(SessionFlags::FULL) {
            2
        } else {
            u8::from(head.flags.contains(SessionFlags::OVER_HIGH_WATER))
        };
        let load = if draw.strategy == GroupStrategy::LeastInflight { head.load } else { 0 };
        Some(Self { rank: if connected { want_of_room } else { 3 + want_of_room }, load })
    }
}

#[cfg(test)]
mod tests;
