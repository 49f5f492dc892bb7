//! What waits for the log: answers, kept until the record they depend on is committed.
//!
//! Owns: their order. Does not know what they are. A lane's records are committed in the order in
//! which it handed them over, so one queue and one count are enough.

use std::collections::VecDeque;

use crate::Handed;

/// See the file.
#[derive(Debug)]
pub struct Gate<T> {
    waiting: VecDeque<(Handed, T)>,
    committed: Handed,
}

impl<T> Gate<T> {
    /// One where nothing waits.
    pub const fn new() -> Self {
        Self { waiting: VecDeque::new(), committed: Handed::NONE }
    }

    /// Keeps `answer` until the record `handed` is committed. What waits for a record that
    /// already is, is released by the next [`Gate::release`], in its turn.
    ///
    /// # Panics
    /// If something that was put in before waits for a later record.
    pub fn push(&mut self, handed: Handed, answer: T) {
        assert!(
            self.waiting.back().is_none_or(|(last, _)| *last <= handed),
            "answers come in the order of their records"
        );
        self.waiting.push_back((handed, answer));
    }

    /// Gives out, in order, all that waits for records up to `committed`.
    ///
    /// # Panics
    /// If `committed` is below what it was: nothing committed is lost.
    pub fn release(&mut self, committed: Handed, mut leave: impl FnMut(T)) {
        assert!(committed >= self.committed, "the committed mark goes back");
        self.committed = committed;
        while let Some((_, answer)) = self.waiting.pop_front_if(|(handed, _)| *handed <= committed)
        {
            leave(answer);
        }
    }

    /// The record that the first one waits for.
    pub fn first(&self) -> Option<Handed> {
        self.waiting.front().map(|(handed, _)| *handed)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Forgets all that wait, never to be given out: the log is poisoned or leadership lost.
    pub fn abandon(&mut self) {
        self.waiting.clear();
    }
}

impl<T> Default for Gate<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn released(gate: &mut Gate<char>, committed: u64) -> String {
        let mut out = String::new();
        gate.release(Handed::new(committed), |answer| out.push(answer));
        out
    }

    #[test]
    fn answers_leave_in_order_once_their_record_is_committed() {
        let mut gate = Gate::new();
        for (handed, answer) in [(1, 'a'), (3, 'b'), (3, 'c'), (4, 'd')] {
            gate.push(Handed::new(handed), answer);
        }
        assert_eq!(released(&mut gate, 0), "");
        assert_eq!(released(&mut gate, 2), "a");
        assert_eq!((gate.first(), gate.len()), (Some(Handed::new(3)), 3));
        assert_eq!(released(&mut gate, 3), "bc");
        gate.push(Handed::new(4), 'e');
        assert_eq!(released(&mut gate, 9), "de");
        assert!(gate.is_empty());
    }

    #[test]
    fn what_is_committed_already_leaves_with_the_next_release() {
        let mut gate = Gate::new();
        assert_eq!(released(&mut gate, 7), "");
        gate.push(Handed::new(2), 'a');
        assert_eq!(released(&mut gate, 7), "a");
    }

    #[test]
    fn an_abandoned_gate_gives_nothing_out() {
        let mut gate = Gate::new();
        gate.push(Handed::new(1), 'a');
        gate.abandon();
        assert_eq!(released(&mut gate, 1), "");
    }

    #[test]
    #[should_panic(expected = "in the order of their records")]
    fn an_answer_does_not_overtake() {
        let mut gate = Gate::new();
        gate.push(Handed::new(2), 'a');
        gate.push(Handed::new(1), 'b');
    }

    #[test]
    #[should_panic(expected = "the committed mark goes back")]
    fn the_committed_mark_never_goes_back() {
        let mut gate = Gate::<char>::new();
        released(&mut gate, 2);
        released(&mut gate, 1);
    }
}
