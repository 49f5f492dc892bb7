//! `LateDecision`: messages of earlier records enter a queue; orphans among them change place.

use zzq_types::Lsn;

use crate::counters::Ignored;
use crate::decision::Destination;
use crate::effect::Effects;
use crate::record::{LateDecision, Orphan};
use crate::state::State;

use super::publish::Message;
use super::release;

impl State {
    /// A reference is taken in the new place before the one in the old place ends.
    pub(super) fn late_decision(
        &mut self,
        lsn: Lsn,
        late: &LateDecision<'_>,
        effects: &mut impl Effects,
    ) {
        for item in late.items {
            let message = Message {
                lsn: item.lsn,
                size: item.size,
                expires_ms: item.expires_ms,
                late: Some(lsn),
            };
            let to = Destination {
                session: late.session,
                qos: item.qos,
                retain: item.retain,
                pick: item.pick,
                ids: item.ids,
            };
            self.deliver(message, to, effects);
            if let Some(orphan) = item.orphan {
                self.close_orphan(orphan, effects);
            }
        }
    }

    fn close_orphan(&mut self, orphan: Orphan, effects: &mut impl Effects) {
        let Some(ended) = self.ended.get_mut(&orphan.session) else {
            return self.count_unknown(false);
        };
        match ended.orphans.remove(&orphan.number.get()) {
            Some(message) => release(effects, message.lsn),
            None => self.counters.add(Ignored::UnknownOrphan, 1),
        }
    }
}
