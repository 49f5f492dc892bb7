//! Shared subscriptions: the groups of one filter, and who of a group gets a message.
//!
//! Owns: the members and the pick. A member that is connected and has room comes before one that
//! lags or is over its high water mark, that before a full one, and all of them before those that
//! are offline. Who is offline is picked only for what waits for it.
//!
//! Each lane picks for itself. Among equally able members the lanes agree where agreement is what
//! the strategy is for: who came first, whom a hash names. Turns they take apart, each beginning
//! at another member. A pick counts when its message is taken: one that has to be offered again
//! would else use up a turn each time.

use std::collections::BTreeMap;

use zzq_types::QoS;

use super::hash::mix;
use super::sessions::{Head, SessionFlags};
use super::subs::{Sub, place, take};
use crate::SessionNumber;
use crate::weight::ALLOCATION;

/// How a group chooses among members that are equally able.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupStrategy {
    /// One after the other.
    #[default]
    RoundRobin,
    /// Who is owed the fewest QoS 1 and 2 messages, one after the other among equals.
    LeastInflight,
    /// The same one as long as it is able: who has been connected for longest.
    Sticky,
    /// The same one for a publishing client. When a member comes or goes, only the clients that
    /// fall to it change.
    HashClient,
    /// The same one for a topic, likewise.
    HashTopic,
}

/// How groups choose, by their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStrategies {
    /// Groups of these names, whatever their filters.
    pub named: BTreeMap<Box<str>, GroupStrategy>,
    /// All others.
    pub others: GroupStrategy,
}

impl GroupStrategies {
    /// How the groups of a name choose.
    pub fn of(&self, group: &str) -> GroupStrategy {
        self.named.get(group).copied().unwrap_or(self.others)
    }
}

/// What a pick depends on beside the members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw {
    /// QoS of the message.
    pub(crate) qos: QoS,
    /// What the hashing strategies choose by; `None` where that is not known: the members take
    /// turns then.
    pub(crate) hashes: Option<Hashes>,
}

/// Who publishes, and where to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hashes {
    pub(crate) client: u32,
    pub(crate) topic: u32,
}

/// The groups that share one filter, by name.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<Group>);

#[derive(Debug)]
struct Group {
    name: Box<str>,
    strategy: GroupStrategy,
    /// By session number.
    members: Vec<Sub>,
    /// Whose turn is next; counted on beyond the last.
    turn: usize,
    /// Who was drawn last, until that counts.
    drawn: Option<usize>,
}

impl Groups {
    /// What a member takes that is in a group by itself, beside the group's name.
    pub(super) const EACH: usize = size_of::<Group>() + ALLOCATION;

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a member or replaces its subscription; gives what was replaced.
    ///
    /// A new group is made with `new`: how it chooses, and whose turn is first.
    pub(super) fn put(
        &mut self,
        heads: &[Head],
        name: &str,
        sub: Sub,
        new: impl FnOnce() -> (GroupStrategy, usize),
    ) -> Option<Sub> {
        let at = self.place(name).unwrap_or_else(|at| {
            if self.0.is_empty() {
                self.0.reserve_exact(1);
            }
            let (strategy, turn) = new();
            let (name, members) = (name.into(), Vec::new());
            self.0.insert(at, Group { name, strategy, members, turn, drawn: None });
            at
        });
        let group = &mut self.0[at];
        group.drawn = None;
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

    /// Removes a session from all groups; says from how many, and what their names have together.
    pub(super) fn remove_everywhere(
        &mut self,
        heads: &[Head],
        number: SessionNumber,
    ) -> (usize, usize) {
        let (mut removed, mut name_bytes) = (0, 0);
        self.0.retain_mut(|group| {
            if group.remove(heads, number) {
                removed += 1;
                name_bytes += group.name.len();
            }
            !group.members.is_empty()
        });
        (removed, name_bytes)
    }

    /// Sets how all groups choose, and whose turn is first.
    pub(super) fn renew(&mut self, strategies: &GroupStrategies, turn: usize) {
        for group in &mut self.0 {
            group.strategy = strategies.of(&group.name);
            (group.turn, group.drawn) = (turn, None);
        }
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

    /// What was drawn last counts.
    pub(super) fn taken(&mut self, heads: &mut [Head], qos: QoS) {
        for group in &mut self.0 {
            group.taken(heads, qos);
        }
    }

    /// What was drawn last of one group counts.
    pub(super) fn taken_one(&mut self, heads: &mut [Head], name: &str, qos: QoS) {
        if let Ok(at) = self.place(name) {
            self.0[at].taken(heads, qos);
        }
    }

    /// The members of one group.
    pub(super) fn members(&self, name: &str) -> &[Sub] {
        self.place(name).map_or(&[], |at| &self.0[at].members)
    }

    /// Whether a group of this name is there: one without members is not.
    pub(super) fn has_members(&self, name: &str) -> bool {
        self.place(name).is_ok()
    }

    /// The name of its group, for each member.
    #[cfg(test)]
    pub(super) fn name_bytes(&self) -> usize {
        self.0.iter().map(|group| group.name.len() * group.members.len()).sum()
    }

    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by_key(&name, |group| &group.name)
    }
}

impl Group {
    fn remove(&mut self, heads: &[Head], number: SessionNumber) -> bool {
        let removed = take(heads, &mut self.members, number);
        self.drawn = None;
        self.turn -= usize::from(removed.is_some_and(|at| at < self.turn));
        removed.is_some()
    }

    fn draw(&mut self, heads: &[Head], draw: Draw) -> Option<Sub> {
        let count = self.members.len();
        let takes_turns = match self.strategy {
            GroupStrategy::RoundRobin | GroupStrategy::LeastInflight => true,
            GroupStrategy::Sticky => false,
            GroupStrategy::HashClient | GroupStrategy::HashTopic => draw.hashes.is_none(),
        };
        // Who of equals is first must be the same on all lanes unless they take turns.
        let start = if takes_turns { self.turn % count } else { 0 };
        let mut best: Option<(usize, Standing)> = None;
        for at in (start..count).chain(0..start) {
            let sub = self.members[at];
            let head = &heads[sub.slot as usize];
            let Some(want) = want_of_ability(head, sub, draw.qos) else { continue };
            let standing = Standing { want, behind: self.behind(head, draw.hashes) };
            if best.is_none_or(|(_, least)| standing < least) {
                best = Some((at, standing));
                if standing == Standing::BEST {
                    break;
                }
            }
        }
        let (at, _) = best?;
        self.drawn = Some(at);
        Some(self.members[at])
    }

    /// How far a member stands behind others that are as able.
    fn behind(&self, head: &Head, hashes: Option<Hashes>) -> u32 {
        // The least of what the key makes with each member (rendezvous hashing): members that come
        // and go move nothing between others.
        let by = |key: u32| mix(key, head.number.get());
        match (self.strategy, hashes) {
            (GroupStrategy::RoundRobin, _)
            | (GroupStrategy::HashClient | GroupStrategy::HashTopic, None) => 0,
            (GroupStrategy::LeastInflight, _) => u32::from(head.load),
            (GroupStrategy::Sticky, _) => head.since,
            (GroupStrategy::HashClient, Some(hashes)) => by(hashes.client),
            (GroupStrategy::HashTopic, Some(hashes)) => by(hashes.topic),
        }
    }

    fn taken(&mut self, heads: &mut [Head], qos: QoS) {
        let Some(at) = self.drawn.take() else { return };
        self.turn = at + 1;
        let sub = self.members[at];
        if qos.min(sub.terms.qos()).is_acknowledged() {
            // A guess until the member's lane says how much it is.
            let load = &mut heads[sub.slot as usize].load;
            *load = load.saturating_add(1);
        }
    }
}

/// How a member stands for a message: the least is picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Standing {
    want: u8,
    behind: u32,
}

impl Standing {
    const BEST: Self = Self { want: 0, behind: 0 };
}

/// How little a member can take a message now; `None` for one that would lose it.
fn want_of_ability(head: &Head, sub: Sub, qos: QoS) -> Option<u8> {
    let connected = head.flags.contains(SessionFlags::CONNECTED);
    let waits =
        qos.min(sub.terms.qos()).is_acknowledged() && head.flags.contains(SessionFlags::PERSISTENT);
    if !connected && !waits {
        return None;
    }
    let want_of_room = if head.flags.contains(SessionFlags::FULL) {
        2
    } else {
        let behind = SessionFlags::OVER_HIGH_WATER.with(SessionFlags::LAGGING);
        u8::from(head.flags.only(behind) != SessionFlags::NONE)
    };
    Some(if connected { want_of_room } else { 3 + want_of_room })
}

#[cfg(test)]
mod tests;
