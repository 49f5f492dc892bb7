//! What went wrong in runs, in words: what MQTT rules out, and what it allows at a QoS, apart.

use crate::results::Went;

/// Some runs of one broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    /// How many.
    rounds: u32,
    went: Went,
    /// Those with faults that are not told apart.
    untold: u32,
}

/// All of these together: of each, runs with faults, how they went, and how many there were.
pub(crate) fn sum(all: impl Iterator<Item = (u32, Went, u32)>) -> Runs {
    let mut runs = Runs::default();
    for (faulty, went, rounds) in all {
        runs.rounds += rounds;
        runs.went += went;
        runs.untold += if went == Went::default() { faulty } else { 0 };
    }
    runs
}

impl Runs {
    /// Whether every message of all of them came once, in order, and was answered.
    pub(crate) fn is_clean(&self) -> bool {
        self.untold == 0 && self.went == Went::default()
    }

    /// How many there were, and what happened in some of them.
    pub(crate) fn text(&self) -> String {
        let Went { lost, doubled, reordered, foreign, dropped, repeated, unanswered } = self.went;
        let said: Vec<String> = [
            ("lost", lost),
            ("doubled", doubled),
            ("reordered", reordered),
            ("made up", foreign),
            ("dropped, as QoS 0 allows,", dropped),
            ("repeated, as QoS 1 allows,", repeated),
            ("never acknowledged", unanswered),
            ("lost, doubled or reordered", self.untold),
        ]
        .into_iter()
        .filter(|(_, runs)| *runs > 0)
        .map(|(what, runs)| format!("{what} in {runs}"))
        .collect();
        format!("{} runs, messages were {}", self.rounds, said.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mqtt_allows_is_told_apart() {
        let none = Went::default();
        let lost = Went { lost: 1, ..none };
        let loose = Went { repeated: 2, dropped: 3, unanswered: 1, ..none };
        let runs = sum([(1, lost, 9), (0, loose, 9)].into_iter());
        let text = "18 runs, messages were lost in 1; dropped, as QoS 0 allows, in 3; repeated, \
                    as QoS 1 allows, in 2; never acknowledged in 1";
        assert_eq!(runs.text(), text);
        assert!(!runs.is_clean() && !sum([(0, loose, 9)].into_iter()).is_clean());
        assert!(sum([(0, none, 9)].into_iter()).is_clean());
        let runs = sum([(0, Went { reordered: 4, ..none }, 9)].into_iter());
        assert_eq!(runs.text(), "9 runs, messages were reordered in 4");
    }

    #[test]
    fn lines_that_do_not_say_how_runs_went_are_told_as_well() {
        let runs = sum([(2, Went::default(), 9)].into_iter());
        assert!(!runs.is_clean());
        assert_eq!(runs.text(), "9 runs, messages were lost, doubled or reordered in 2");
    }
}
