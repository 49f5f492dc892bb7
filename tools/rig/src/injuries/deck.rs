//! Injuries in an order that chance makes, and that leaves none out for long.
//!
//! Owns: what comes next. Does not know: what an injury is.

use super::Injury;
use zzq_wal::sim_disk::Random;

/// Dealt to its end, and then again: of each deal, one of each kind comes first.
#[derive(Clone, Debug)]
pub struct Deck {
    all: &'static [Injury],
    /// Of this deal, the next one last.
    left: Vec<Injury>,
}

impl Deck {
    /// These, of which some may be there more than once.
    pub fn of(all: &'static [Injury]) -> Self {
        Self { all, left: Vec::new() }
    }

    /// The next one.
    ///
    /// # Panics
    ///
    /// If there is none at all.
    pub fn draw(&mut self, random: &mut Random) -> Injury {
        if let Some(next) = self.left.pop() {
            return next;
        }
        let mut shuffled = self.all.to_vec();
        for at in (1..shuffled.len()).rev() {
            shuffled.swap(at, random.index(at + 1));
        }
        let mut firsts = Vec::new();
        for injury in shuffled {
            if firsts.contains(&injury) { self.left.push(injury) } else { firsts.push(injury) }
        }
        self.left.append(&mut firsts);
        self.left.pop().unwrap_or(self.all[0])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_kind_is_in_a_deck() {
        let dealt = [Injury::ANYWHERE, Injury::SEEN_THROUGH].concat();
        let dealt: BTreeSet<_> = dealt.into_iter().collect();
        assert_eq!(dealt, Injury::ALL.into_iter().collect());
    }

    /// A kind drawn by chance alone may be left out of a run: with a probability of a third, one
    /// of seven does not come in twenty draws.
    #[test]
    fn each_kind_comes_before_any_comes_again_and_all_of_a_deal_come() {
        for all in [Injury::ANYWHERE, Injury::SEEN_THROUGH] {
            let kinds: BTreeSet<_> = all.iter().copied().collect();
            let mut orders = BTreeSet::new();
            for seed in 0..20 {
                let (mut deck, mut random) = (Deck::of(all), Random::new(seed));
                for _ in 0..3 {
                    let mut dealt: Vec<_> = all.iter().map(|_| deck.draw(&mut random)).collect();
                    let first: BTreeSet<_> = dealt[..kinds.len()].iter().copied().collect();
                    assert_eq!(first, kinds);
                    orders.insert(dealt.clone());
                    let mut whole = all.to_vec();
                    dealt.sort_unstable();
                    whole.sort_unstable();
                    assert_eq!(dealt, whole);
                }
            }
            assert!(orders.len() > 20, "{}", orders.len());
        }
    }
}
