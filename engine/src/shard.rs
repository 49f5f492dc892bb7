//! Which part of the state a lane owns.

/// The part of the state that a lane owns, by hashes of client identifiers and topics. How many
/// parts there are is no part of log or image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u32,
    count: u32,
}

impl Shard {
    /// All of it.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Part `index` (from 0) of `count`.
    ///
    /// # Panics
    /// If there is no such part.
    pub const fn new(index: u32, count: u32) -> Self {
        assert!(index < count, "no such shard");
        Self { index, count }
    }

    /// Whether it is all.
    pub const fn is_whole(self) -> bool {
        self.count == 1
    }

    /// Whether what has this key belongs here.
    pub fn owns(self, key: &[u8]) -> bool {
        self.is_whole() || Self::index_of(key, self.count) == self.index
    }

    /// The part of `count` that this key belongs to.
    pub fn index_of(key: &[u8], count: u32) -> u32 {
        let index = (u64::from(key_hash(key)) * u64::from(count)) >> 32;
        u32::try_from(index).unwrap_or(0)
    }
}

/// The hash of a key that is the same wherever it is made.
pub fn key_hash(key: &[u8]) -> u32 {
    u32::try_from(hash(key) >> 32).unwrap_or(0)
}

/// FNV-1a with a last mix: fixed, for all lanes of a process must agree.
fn hash(bytes: &[u8]) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for &byte in bytes {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    }
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash ^ (hash >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_one_owner_and_owners_share_evenly() {
        let mut owned = [0; 7];
        for n in 0..7000 {
            let key = format!("client-{n}");
            let owners: Vec<usize> = (0..7_u32)
                .filter(|&index| Shard::new(index, 7).owns(key.as_bytes()))
                .map(|index| usize::try_from(index).unwrap())
                .collect();
            assert_eq!(owners.len(), 1, "{key}");
            owned[owners[0]] += 1;
            assert!(Shard::WHOLE.owns(key.as_bytes()));
        }
        assert!(owned.iter().all(|&count| (850..1150).contains(&count)), "{owned:?}");
    }
}
