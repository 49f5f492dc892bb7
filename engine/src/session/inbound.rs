//! The identifiers of QoS 2 messages that a client sent and has not released.
//!
//! Few are kept as a sorted list, many as a bitmap, so that a client that opens all of them
//! costs 8 KiB and no quadratic time.

use zzq_types::PacketId;

const FEW_MAX: usize = 256;
const WORDS: usize = 1024;

/// Open identifiers of one session.
#[derive(Clone, Debug)]
pub struct Inbound(Set);

#[derive(Clone, Debug)]
enum Set {
    Few(Vec<u16>),
    Many { bits: Box<[u64; WORDS]>, count: usize },
}

impl Default for Inbound {
    fn default() -> Self {
        Self(Set::Few(Vec::new()))
    }
}

impl Inbound {
    /// Whether a message with this identifier is under way: received and not released.
    pub fn contains(&self, id: PacketId) -> bool {
        match &self.0 {
            Set::Few(ids) => ids.binary_search(&id.get()).is_ok(),
            Set::Many { bits, .. } => {
                let (word, bit) = place(id.get());
                bits[word] & bit != 0
            }
        }
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        match &self.0 {
            Set::Few(ids) => ids.len(),
            Set::Many { count, .. } => *count,
        }
    }

    /// Whether none is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The open identifiers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = PacketId> {
        let (few, many) = match &self.0 {
            Set::Few(ids) => (Some(ids.iter().copied()), None),
            Set::Many { bits, .. } => {
                let set = |&id: &u16| {
                    let (word, bit) = place(id);
                    bits[word] & bit != 0
                };
                (None, Some((0..=u16::MAX).filter(set)))
            }
        };
        few.into_iter().flatten().chain(many.into_iter().flatten()).filter_map(PacketId::new)
    }

    /// Opens an identifier; `false` if it is open.
    //= MQTT5-4.3.3-10
    //= MQTT311-4.3.3-2
    pub(crate) fn open(&mut self, id: PacketId) -> bool {
        if let Set::Few(ids) = &mut self.0 {
            let Err(at) = ids.binary_search(&id.get()) else { return false };
            if ids.len() < FEW_MAX {
                ids.insert(at, id.get());
                return true;
            }
            self.spread();
        }
        let Set::Many { bits, count } = &mut self.0 else { return false };
        let (word, bit) = place(id.get());
        let new = bits[word] & bit == 0;
        bits[word] |= bit;
        *count += usize::from(new);
        new
    }

    /// Frees an identifier; `false` if it was not open.
    //= MQTT311-4.3.3-2
    //= MQTT5-4.3.3-12
    //= MQTT5-4.3.3-13
    pub(crate) fn release(&mut self, id: PacketId) -> bool {
        match &mut self.0 {
            Set::Few(ids) => match ids.binary_search(&id.get()) {
                Ok(at) => {
                    ids.remove(at);
                    true
                }
                Err(_) => false,
            },
            Set::Many { bits, count } => {
                let (word, bit) = place(id.get());
                let open = bits[word] & bit != 0;
                bits[word] &= !bit;
                *count -= usize::from(open);
                if *count == 0 {
                    *self = Self::default();
                }
                open
            }
        }
    }

    fn spread(&mut self) {
        let mut bits = Box::new([0; WORDS]);
        let mut count = 0;
        for id in self.iter() {
            let (word, bit) = place(id.get());
            bits[word] |= bit;
            count += 1;
        }
        self.0 = Set::Many { bits, count };
    }
}

const fn place(id: u16) -> (usize, u64) {
    ((id >> 6) as usize, 1 << (id & 63))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u16) -> PacketId {
        PacketId::new(n).unwrap()
    }

    #[test]
    fn every_identifier_opens_once_and_frees_once() {
        //= MQTT5-4.3.3-10
        //= MQTT5-4.3.3-12
        //= MQTT311-4.3.3-2
        let mut inbound = Inbound::default();
        for n in (1..=u16::MAX).rev() {
            assert!(!inbound.contains(id(n)) && inbound.open(id(n)), "{n}");
            assert!(inbound.contains(id(n)) && !inbound.open(id(n)), "{n}");
        }
        assert_eq!(inbound.len(), 65_535);
        assert!(inbound.iter().map(PacketId::get).eq(1..=u16::MAX));
        for n in 1..=u16::MAX {
            assert!(inbound.release(id(n)) && !inbound.release(id(n)), "{n}");
        }
        assert!(inbound.is_empty() && matches!(inbound.0, Set::Few(_)));
    }

    /// All sequences of up to six opens and frees of three identifiers, against a plain model.
    #[test]
    fn all_short_histories_agree_with_a_set() {
        //= MQTT5-4.3.3-10
        //= MQTT5-4.3.3-12
        for history in 0..6_u32.pow(6) {
            let mut inbound = Inbound::default();
            let mut model = std::collections::BTreeSet::new();
            let mut rest = history;
            for _ in 0..6 {
                let (op, n) = (rest % 2, u16::try_from(rest % 6 / 2).unwrap() + 1);
                rest /= 6;
                let agree = match op {
                    0 => inbound.open(id(n)) == model.insert(n),
                    _ => inbound.release(id(n)) == model.remove(&n),
                };
                assert!(agree, "history {history}");
            }
            assert!(inbound.iter().map(PacketId::get).eq(model.into_iter()));
        }
    }
}
