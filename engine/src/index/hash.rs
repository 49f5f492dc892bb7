//! Hashes of strings that peers choose, and of numbers that we choose.
//!
//! Strings go through `SipHash` with keys from outside, so that nobody can choose topics that fall
//! together. Numbers of our own need only be spread.

use std::hash::{DefaultHasher, Hasher};

/// The secret behind the hashes of peer-chosen strings: random where peers are not trusted, any
/// value where runs must repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HashSeed(pub u64, pub u64);

/// Hashes strings under one seed.
#[derive(Clone, Debug)]
pub(super) struct TextHasher(DefaultHasher);

impl TextHasher {
    pub(super) fn new(seed: HashSeed) -> Self {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(seed.0);
        hasher.write_u64(seed.1);
        Self(hasher)
    }

    /// The hash of a string.
    #[inline]
    pub(super) fn hash(&self, text: &str) -> u32 {
        let mut hasher = self.0.clone();
        hasher.write(text.as_bytes());
        high32(hasher.finish())
    }
}

/// Spreads a number of our own: sessions, nodes.
#[inline]
pub(super) const fn spread(number: u64) -> u32 {
    high32(number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// A number made of a key and a number of our own, as if by chance.
#[inline]
pub(super) const fn mix(key: u32, number: u64) -> u32 {
    let mut hash = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ key as u64;
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    high32(hash ^ (hash >> 31))
}

const fn high32(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_change_the_hash_of_a_string_and_nothing_else_does() {
        let one = TextHasher::new(HashSeed(1, 2));
        assert_eq!(one.hash("a/b"), TextHasher::new(HashSeed(1, 2)).hash("a/b"));
        assert_ne!(one.hash("a/b"), TextHasher::new(HashSeed(2, 2)).hash("a/b"));
        assert_ne!(one.hash("a/b"), TextHasher::new(HashSeed(1, 3)).hash("a/b"));
        assert_ne!(one.hash("a/b"), one.hash("a/c"));
    }

    #[test]
    fn neighbours_are_spread() {
        let low: std::collections::BTreeSet<_> = (0..256).map(|n| spread(n) & 0xFF).collect();
        assert!(low.len() > 128, "{}", low.len());
    }
}
