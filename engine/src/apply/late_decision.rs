//! `LateDecision`: messages of earlier records enter a queue; orphans among them change place.

use zzq_types::Lsn;

use crate::counters::Ignored;
use crate::decision::Destination;
use crate::effect::Effects;
use crate::number::{SessionNumber, SubNumber};
use crate::record::{LateDecision, LateItem, Orphan};
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
            self.deliver_late(lsn, late.session, &item, item.pick, effects);
            if let Some(orphan) = item.orphan {
                self.close_orphan(orphan, effects);
            }
        }
    }

    /// Brings a message of an older record to a session, by the record `lsn`.
    pub(super) fn deliver_late(
        &mut self,
        lsn: Lsn,
        session: SessionNumber,
        item: &LateItem<'_>,
        pick: Option<SubNumber>,
        effects: &mut impl Effects,
    ) {
        let &LateItem { lsn: of, size, expires_ms, qos, retain, ids, .. } = item;
        let message = Message { lsn: of, size, expires_ms, late: Some(lsn) };
        let to = Destination { session, qos, retain, pick, ids };
        self.deliver(message, to, effects);
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
