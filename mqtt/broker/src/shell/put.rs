//! Records that are made in several places, each built in one.

use zzq_engine::record::{
    Expire, ExpiredTopics, LateDecision, LateItem, LateItemsBuf, Orphan, RangeSetsBuf,
};
use zzq_engine::{Record, SessionNumber, SubNumber, SubscriptionIdsBuf};
use zzq_types::{Lsn, QoS, SubscriptionId};
use zzq_wal::disk::Disk;

use super::journal::How;
use super::{Io, Shell};

/// An older message for a session's queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Late {
    pub(super) lsn: Lsn,
    pub(super) qos: QoS,
    pub(super) retain: bool,
    pub(super) size: u32,
    pub(super) expires_ms: Option<u64>,
    /// The subscription that it was picked for, and whom it leaves for that.
    pub(super) moved: Option<(SubNumber, Orphan)>,
    pub(super) id: Option<SubscriptionId>,
}

impl<D: Disk> Shell<D> {
    /// Puts one older message into the queue of a session. False: the log has no room.
    pub(super) fn put_late(
        &mut self,
        io: &mut Io<'_, D>,
        session: SessionNumber,
        late: Late,
        logged: bool,
        how: How,
    ) -> bool {
        let mut ids = SubscriptionIdsBuf::new();
        if let Some(id) = late.id {
            ids.push(id);
        }
        let mut items = LateItemsBuf::new();
        items.push(&LateItem {
            lsn: late.lsn,
            qos: late.qos,
            retain: late.retain,
            size: late.size,
            expires_ms: late.expires_ms,
            pick: late.moved.map(|(pick, _)| pick),
            orphan: late.moved.map(|(_, orphan)| orphan),
            ids: ids.as_ids(),
        });
        let late = LateDecision { session, items: items.as_list() };
        self.put(io, &Record::LateDecision(late), logged, how)
    }

    /// Gives up messages of queues and retained ones. False: the log has no room.
    pub(super) fn put_expire(
        &mut self,
        io: &mut Io<'_, D>,
        sets: &RangeSetsBuf,
        topics: ExpiredTopics<'_>,
        logged: bool,
    ) -> bool {
        let expire = Expire { sets: sets.as_list(), topics };
        let how = How { waits: false, lanes: self.bit(), frees: true };
        self.put(io, &Record::Expire(expire), logged, how)
    }
}
