//! The subscriptions that share one filter, ordered by session number.
//!
//! Owns: one subscription in twelve bytes, and the list of them: in place for the most common
//! filter, which has one; a sorted vector; a tree for the filters that a great many share, where
//! closing a gap in a vector would cost more than the message it makes room for.

use std::collections::BTreeMap;

use zzq_types::{QoS, SubscribeOptions, SubscriptionId};

use super::sessions::Head;
use crate::{SessionNumber, SubNumber};

/// What a route must know of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sub {
    /// The session's slot.
    pub(crate) slot: u32,
    pub(crate) number: SubNumber,
    pub(crate) terms: Terms,
}

/// Subscription identifier (28 bits, 0 for none), Retain As Published, No Local, granted QoS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms(u32);

const QOS: u32 = 3;
const NO_LOCAL: u32 = 4;
const RETAIN_AS_PUBLISHED: u32 = 8;
const ID_SHIFT: u32 = 4;

const _: () = assert!(zzq_types::VARINT_MAX >> (32 - ID_SHIFT) == 0, "an identifier has 28 bits");

impl Terms {
    pub(crate) const fn new(options: SubscribeOptions, id: Option<SubscriptionId>) -> Self {
        let id = match id {
            Some(id) => id.get() << ID_SHIFT,
            None => 0,
        };
        let no_local = if options.no_local { NO_LOCAL } else { 0 };
        let retain = if options.retain_as_published { RETAIN_AS_PUBLISHED } else { 0 };
        Self(id | no_local | retain | options.qos as u32)
    }

    /// The most that is delivered.
    pub(crate) const fn qos(self) -> QoS {
        match self.0 & QOS {
            0 => QoS::AtMostOnce,
            1 => QoS::AtLeastOnce,
            _ => QoS::ExactlyOnce,
        }
    }

    pub(crate) const fn no_local(self) -> bool {
        self.0 & NO_LOCAL != 0
    }

    pub(crate) const fn retain_as_published(self) -> bool {
        self.0 & RETAIN_AS_PUBLISHED != 0
    }

    pub(crate) const fn id(self) -> Option<SubscriptionId> {
        SubscriptionId::new(self.0 >> ID_SHIFT)
    }
}

/// See the file.
#[derive(Debug, Default)]
pub(super) enum Subs {
    #[default]
    None,
    One(Sub),
    Flat(Vec<Sub>),
    #[expect(clippy::box_collection, reason = "keeps the list of one within 24 bytes")]
    Deep(Box<BTreeMap<SessionNumber, Sub>>),
}

const _: () = assert!(size_of::<Sub>() == 12 && size_of::<Subs>() == 24);

/// Above this a list becomes a tree, below half of it a list again.
const FLAT_MAX: usize = 4096;

impl Subs {
    pub(super) const fn is_empty(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Adds the subscription of a session or replaces it; gives what was replaced.
    pub(super) fn put(&mut self, heads: &[Head], sub: Sub) -> Option<Sub> {
        let number = heads[sub.slot as usize].number;
        match self {
            Self::None => *self = Self::One(sub),
            Self::One(only) if only.slot == sub.slot => return Some(core::mem::replace(only, sub)),
            Self::One(only) => {
                let ascending = heads[only.slot as usize].number < number;
                *self = Self::Flat(if ascending { vec![*only, sub] } else { vec![sub, *only] });
            }
            Self::Flat(list) => match place(heads, list, number) {
                Ok(at) => return Some(core::mem::replace(&mut list[at], sub)),
                Err(at) if list.len() < FLAT_MAX => list.insert(at, sub),
                Err(_) => {
                    let keyed = list.iter().map(|sub| (heads[sub.slot as usize].number, *sub));
                    let mut tree: BTreeMap<_, _> = keyed.collect();
                    tree.insert(number, sub);
                    *self = Self::Deep(Box::new(tree));
                }
            },
            Self::Deep(tree) => return tree.insert(number, sub),
        }
        None
    }

    /// The subscription of a session.
    pub(super) fn find(&self, heads: &[Head], number: SessionNumber) -> Option<Sub> {
        match self {
            Self::None => None,
            Self::One(only) => (heads[only.slot as usize].number == number).then_some(*only),
            Self::Flat(list) => place(heads, list, number).ok().map(|at| list[at]),
            Self::Deep(tree) => tree.get(&number).copied(),
        }
    }

    /// Removes the subscription of a session, if there is one.
    pub(super) fn remove(&mut self, heads: &[Head], number: SessionNumber) -> Option<Sub> {
        let found = self.find(heads, number)?;
        match self {
            Self::None | Self::One(_) => *self = Self::None,
            Self::Flat(list) => {
                take(heads, list, number);
                if let [only] = list[..] {
                    *self = Self::One(only);
                }
            }
            Self::Deep(tree) => {
                tree.remove(&number);
                if tree.len() < FLAT_MAX / 2 {
                    *self = Self::Flat(tree.values().copied().collect());
                }
            }
        }
        Some(found)
    }

    /// All subscriptions, by session number.
    #[inline]
    pub(super) fn for_each(&self, visit: impl FnMut(Sub)) {
        match self {
            Self::None => {}
            Self::One(only) => core::iter::once(*only).for_each(visit),
            Self::Flat(list) => list.iter().copied().for_each(visit),
            Self::Deep(tree) => tree.values().copied().for_each(visit),
        }
    }
}

/// Where a session's subscription is in a sorted list, or belongs. Most new sessions have the
/// highest number so far.
pub(super) fn place(heads: &[Head], list: &[Sub], number: SessionNumber) -> Result<usize, usize> {
    let number_of = |sub: &Sub| heads[sub.slot as usize].number;
    match list.last() {
        Some(highest) if number_of(highest) >= number => {
            list.binary_search_by_key(&number, number_of)
        }
        _ => Err(list.len()),
    }
}

/// Takes a session's subscription out of a sorted list; says where it was.
pub(super) fn take(heads: &[Head], list: &mut Vec<Sub>, number: SessionNumber) -> Option<usize> {
    let at = place(heads, list, number).ok()?;
    list.remove(at);
    if list.len() * 4 < list.capacity() {
        list.shrink_to(list.len() * 2);
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::super::sessions::SessionFlags;
    use super::*;
    use zzq_types::RetainHandling;

    fn number(n: u32) -> SessionNumber {
        SessionNumber::new(u64::from(n) + 1).unwrap()
    }

    fn heads(count: u32) -> Vec<Head> {
        let flags = SessionFlags::NONE;
        (0..count).map(|n| Head { number: number(n), since: 0, load: 0, lane: 0, flags }).collect()
    }

    fn sub(slot: u32, id: u32) -> Sub {
        let terms = Terms::new(SubscribeOptions::default(), SubscriptionId::new(id));
        Sub { slot, number: SubNumber::new(0), terms }
    }

    fn slots(subs: &Subs) -> Vec<u32> {
        let mut slots = Vec::new();
        subs.for_each(|sub| slots.push(sub.slot));
        slots
    }

    #[test]
    fn terms_hold_all_that_a_delivery_needs() {
        for byte in 0..=0x2F_u8 {
            let Ok(options) = SubscribeOptions::from_byte(byte) else { continue };
            for id in [0, 1, zzq_types::VARINT_MAX] {
                let terms = Terms::new(options, SubscriptionId::new(id));
                let handling = RetainHandling::Always;
                let back = SubscribeOptions {
                    qos: terms.qos(),
                    no_local: terms.no_local(),
                    retain_as_published: terms.retain_as_published(),
                    retain_handling: handling,
                };
                assert_eq!(back, SubscribeOptions { retain_handling: handling, ..options });
                assert_eq!(terms.id(), SubscriptionId::new(id));
            }
        }
    }

    #[test]
    fn a_session_that_comes_again_replaces_its_subscription() {
        let heads = heads(3);
        let mut subs = Subs::default();
        for slot in [1, 0, 2] {
            assert_eq!(subs.put(&heads, sub(slot, 1)), None);
            assert_eq!(subs.put(&heads, sub(slot, 2)), Some(sub(slot, 1)));
        }
        assert_eq!(slots(&subs), [0, 1, 2]);
        assert_eq!(subs.find(&heads, number(1)), Some(sub(1, 2)));
    }

    #[test]
    fn lists_stay_ordered_from_none_to_a_great_many_and_back() {
        let count = 2 * u32::try_from(FLAT_MAX).unwrap();
        let heads = heads(count);
        let mut subs = Subs::default();
        // Odd ones descending, then even ones ascending: every place of insertion.
        let order = (0..count).rev().step_by(2).chain((0..count).step_by(2));
        for slot in order.clone() {
            assert!(subs.put(&heads, sub(slot, 0)).is_none());
        }
        assert!(matches!(subs, Subs::Deep(_)));
        assert_eq!(slots(&subs), (0..count).collect::<Vec<_>>());
        let mut left: Vec<_> = (0..count).collect();
        for slot in order {
            assert_eq!(subs.remove(&heads, number(slot)), Some(sub(slot, 0)));
            assert_eq!(subs.remove(&heads, number(slot)), None);
            if slot % 97 == 0 {
                left.retain(|&at| subs.find(&heads, number(at)).is_some());
                assert_eq!(slots(&subs), left);
            }
        }
        assert!(subs.is_empty());
    }
}
