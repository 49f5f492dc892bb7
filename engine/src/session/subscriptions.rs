//! The subscriptions of one session, by filter: one in place, a short list, or a tree once there
//! are many.

use std::collections::BTreeMap;

use zzq_types::{SubscribeOptions, SubscriptionId};

use crate::number::SubNumber;

const FEW_MAX: usize = 16;

/// What a session subscribes to under one filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription {
    /// Its number within the session.
    pub number: SubNumber,
    /// The granted options.
    pub options: SubscribeOptions,
    /// The identifier that is sent along.
    pub id: Option<SubscriptionId>,
}

/// The subscriptions of a session.
#[derive(Clone, Debug)]
pub struct Subscriptions(Map);

#[derive(Clone, Debug)]
enum Map {
    /// As most sessions have it.
    One((Box<str>, Subscription)),
    /// Sorted by filter; none, perhaps. A tree's node holds eleven.
    Few(Vec<(Box<str>, Subscription)>),
    Many(BTreeMap<Box<str>, Subscription>),
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self(Map::Few(Vec::new()))
    }
}

impl Subscriptions {
    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Map::One(_) => 1,
            Map::Few(list) => list.len(),
            Map::Many(tree) => tree.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The subscription under exactly this filter.
    //= MQTT5-3.10.4-1
    //= MQTT311-3.10.4-1
    pub fn get(&self, filter: &str) -> Option<&Subscription> {
        match &self.0 {
            Map::One((known, sub)) => (**known == *filter).then_some(sub),
            Map::Few(list) => Some(&list[find(list, filter).ok()?].1),
            Map::Many(tree) => tree.get(filter),
        }
    }

    /// All with their filters, sorted by filter.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Subscription)> {
        let (few, many) = match &self.0 {
            Map::One(one) => (std::slice::from_ref(one), None),
            Map::Few(list) => (&list[..], None),
            Map::Many(tree) => (&[][..], Some(tree)),
        };
        let many = many.into_iter().flatten().map(|(filter, sub)| (&**filter, sub));
        few.iter().map(|(filter, sub)| (&**filter, sub)).chain(many)
    }

    /// The filter under this number. Looks at each: only for rare events.
    pub fn filter_of(&self, number: SubNumber) -> Option<&str> {
        self.iter().find(|(_, sub)| sub.number == number).map(|(filter, _)| filter)
    }

    /// Sets or replaces; returns what was there.
    //= MQTT5-3.8.4-3
    //= MQTT311-3.8.4-3
    pub(crate) fn set(&mut self, filter: &str, sub: Subscription) -> Option<Subscription> {
        if let Map::One((known, before)) = &mut self.0 {
            if **known == *filter {
                return Some(core::mem::replace(before, sub));
            }
            let one = (core::mem::take(known), *before);
            self.0 = Map::Few(vec![one]);
        }
        if let Map::Few(list) = &mut self.0 {
            match find(list, filter) {
                Ok(at) => return Some(core::mem::replace(&mut list[at].1, sub)),
                Err(_) if list.is_empty() => {
                    self.0 = Map::One((filter.into(), sub));
                    return None;
                }
                Err(at) if list.len() < FEW_MAX => {
                    list.reserve_exact(1);
                    list.insert(at, (filter.into(), sub));
                    return None;
                }
                Err(_) => self.0 = Map::Many(core::mem::take(list).into_iter().collect()),
            }
        }
        match &mut self.0 {
            Map::Many(tree) => tree.insert(filter.into(), sub),
            Map::One(_) | Map::Few(_) => None,
        }
    }

    /// Removes; returns the filter's text with what was there.
    //= MQTT5-3.10.4-1
    //= MQTT311-3.10.4-1
    pub(crate) fn remove(&mut self, filter: &str) -> Option<(Box<str>, Subscription)> {
        match &mut self.0 {
            Map::One((known, _)) if **known != *filter => None,
            Map::One((known, sub)) => {
                let one = (core::mem::take(known), *sub);
                self.0 = Map::Few(Vec::new());
                Some(one)
            }
            Map::Few(list) => {
                let at = find(list, filter).ok()?;
                Some(list.remove(at))
            }
            Map::Many(tree) => tree.remove_entry(filter),
        }
    }
}

fn find(list: &[(Box<str>, Subscription)], filter: &str) -> Result<usize, usize> {
    list.binary_search_by(|(known, _)| (**known).cmp(filter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sub(n: u32) -> Subscription {
        Subscription { number: SubNumber::new(n), options: SubscribeOptions::default(), id: None }
    }

    #[test]
    fn a_filter_has_one_subscription_however_many_there_are() {
        //= MQTT5-3.8.4-3
        //= MQTT5-3.10.4-1
        //= MQTT311-3.8.4-3
        //= MQTT311-3.10.4-1
        for count in [1, 16, 17, 100] {
            let mut subs = Subscriptions::default();
            for n in (0..count).rev() {
                assert_eq!(subs.set(&format!("f/{n:03}"), sub(n)), None);
            }
            assert_eq!(subs.set("f/000", sub(1000)), Some(sub(0)));
            assert_eq!(subs.len(), usize::try_from(count).unwrap());
            assert!(subs.iter().map(|(filter, _)| filter).is_sorted());
            assert_eq!(subs.filter_of(SubNumber::new(1000)), Some("f/000"));
            assert_eq!(subs.remove("F/000"), None);
            assert_eq!(subs.remove("f/000"), Some(("f/000".into(), sub(1000))));
            assert_eq!(subs.get("f/000"), None);
        }
    }
}
