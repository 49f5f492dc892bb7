//! Chance from one seed: a stream of numbers for each purpose, so that a further draw in one place
//! does not shift what happens in the others.

/// A stream of numbers (SplitMix64): small, fast, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// The stream of a seed for one purpose.
    pub fn new(seed: u64, purpose: &str) -> Self {
        let salt = purpose.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |salt, byte| {
            (salt ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        let mut chance = Self(seed ^ salt);
        // Seeds that follow each other begin far apart.
        chance.0 = chance.draw();
        chance
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`.
    ///
    /// # Panics
    /// If there is none.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "no number is below 0");
        self.draw() % end
    }

    /// A number from `first` to `last`, both possible.
    pub fn within(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// An index into something of this length.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// True once in `of` times; never for 0.
    pub fn once_in(&mut self, of: u64) -> bool {
        of > 0 && self.below(of) == 0
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    /// An index, chosen by weight.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut left = self.below(weights.iter().sum::<u64>().max(1));
        for (at, weight) in weights.iter().enumerate() {
            if left < *weight {
                return at;
            }
            left -= weight;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ_by_seed_and_purpose() {
        let draw = |seed, purpose| {
            let mut chance = Chance::new(seed, purpose);
            [chance.draw(), chance.draw()]
        };
        assert_eq!(draw(1, "network"), draw(1, "network"));
        assert_ne!(draw(1, "network"), draw(2, "network"));
        assert_ne!(draw(1, "network"), draw(1, "disk"));
    }

    #[test]
    fn weights_are_kept_and_nothing_of_weight_0_is_chosen() {
        let mut chance = Chance::new(3, "weights");
        let mut counts = [0; 3];
        for _ in 0..3000 {
            counts[chance.weighted(&[1, 0, 2])] += 1;
        }
        assert!(counts[1] == 0 && (800..1200).contains(&counts[0]), "{counts:?}");
        assert!(!chance.once_in(0));
    }
}
