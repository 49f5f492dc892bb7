//! A receiver that unsubscribes and subscribes again all the time: what it is owed, and what must
//! not come to it.
//!
//! Owed is what was sent for the first time and acknowledged while its subscription was in force,
//! for certain: behind SUBACK, and before UNSUBSCRIBE. What was sent and acknowledged behind
//! UNSUBACK, and before the next SUBSCRIBE, must not come. All else may come or not.
//! Does not know: connections.

use super::{Published, Runs};
use crate::cast::PUBLISHERS;

/// See the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Churn {
    stage: Stage,
    /// What each publisher had sent when it began; empty while nothing is certain.
    since: Vec<u64>,
    /// By publisher.
    owed: Vec<Runs>,
    unasked: Vec<Runs>,
}

/// How far it is with its subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// It has none.
    #[default]
    Out,
    /// SUBSCRIBE was sent.
    Asking,
    /// SUBACK has come.
    In,
    /// UNSUBSCRIBE was sent.
    Leaving,
}

impl Churn {
    pub(super) fn stage(&self) -> Stage {
        self.stage
    }

    /// It is somewhere else with its subscription now.
    pub(super) fn enter(&mut self, stage: Stage, publishers: &[Published]) {
        let is_certain = matches!(stage, Stage::In | Stage::Out);
        let sent = publishers.iter().map(Published::sent);
        self.since = if is_certain { sent.collect() } else { Vec::new() };
        self.owed.resize(publishers.len(), Runs::default());
        self.unasked.resize(publishers.len(), Runs::default());
        self.stage = stage;
    }

    /// A message was acknowledged. A will may be published long behind that.
    pub(super) fn acked(&mut self, by: usize, seq: u64) {
        let counts = PUBLISHERS[by].kept.is_none() && !PUBLISHERS[by].is_mourned;
        if !counts || self.since.get(by).is_none_or(|since| seq <= *since) {
            return;
        }
        let runs = if self.stage == Stage::In { &mut self.owed } else { &mut self.unasked };
        runs[by].insert(seq);
    }

    /// Whether it must not come.
    pub(super) fn is_unasked(&self, by: usize, seq: u64) -> bool {
        self.unasked.get(by).is_some_and(|runs| runs.contains(seq))
    }

    /// What it is owed of each publisher.
    pub(super) fn owed(&self) -> &[Runs] {
        &self.owed
    }
}
