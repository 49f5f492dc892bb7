//! `History`: a subscription that starts in the past goes on.

use zzq_types::Lsn;

use crate::counters::Ignored;
use crate::effect::Effects;
use crate::record::History;
use crate::state::State;

impl State {
    /// Its messages enter the queue if it goes on from where the subscription is: what another
    /// SUBSCRIBE has begun anew meanwhile, or an UNSUBSCRIBE has ended, takes none.
    pub(super) fn history(&mut self, lsn: Lsn, history: &History<'_>, effects: &mut impl Effects) {
        let Some(session) = self.sessions.get_mut(&history.session) else {
            return self.count_unknown(false);
        };
        let replay = session.replay_mut(history.sub);
        let fits = replay
            .is_some_and(|replay| replay.advance(history.from, history.next, history.may_be_all));
        if !fits {
            return self.counters.add(Ignored::StaleHistory, 1);
        }
        for item in history.items {
            self.deliver_late(lsn, history.session, &item, Some(history.sub), effects);
        }
    }
}
