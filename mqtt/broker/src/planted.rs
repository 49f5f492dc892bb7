//! Bugs that the simulator plants to see that it finds them.
//!
//! Owns: the bugs of this room, and which of them is planted on this thread: one at most. Without
//! the feature `planted-bugs` none ever is and the question costs nothing; there is no release
//! build with it. Each room has its own list: one that all shared would be an edge between them.

use zzq_codec::Ack;
use zzq_lanes::ConnId;
use zzq_types::PacketId;

#[cfg(all(feature = "planted-bugs", not(debug_assertions)))]
compile_error!("the feature planted-bugs breaks promises on purpose: it is for the simulator");

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "planted-bugs"),
    expect(unreachable_pub, reason = "the simulator reaches it with the feature")
)]
pub enum Bug {
    /// PUBACK leaves before its message is durable.
    AcknowledgedEarly,
    /// The receipt of a PUBREC is not handed to the log.
    ReceiptLost,
    /// PUBREL leaves before the receipt of its PUBREC is durable.
    PubrelUngated,
    /// A message gets its packet identifier from the connection that sends it.
    IdentifierAtSend,
    /// A repeated PUBLISH is answered before its first copy is durable.
    RepeatAnsweredAtOnce,
    /// What was published at QoS 2 goes out at QoS 0 before it is committed.
    EarlyAtQos0,
    /// A lane applies its own records first, not in the order of the log.
    ArrivalOrder,
    /// SUBACK waits for its record alone, not for the other lanes.
    SubackAtCommit,
    /// Retained messages are looked up before every lane has taken the subscription.
    RetainedBeforeFence,
    /// Retained messages that no log has are kept as they come, not as they were written.
    RetainedAsItComes,
    /// A push into a full ring waits for room.
    BlockingPush,
    /// What was handed over is refused when the log fails, or when its disk is nearly full.
    ErrorAfterHandOver,
    /// A message shows its offset before it is committed there.
    OffsetBeforeCommit,
    /// What a full queue loses is not counted.
    DropsUncounted,
    /// What a full queue has dropped and nobody else takes is acknowledged to who can be refused.
    DropsAcknowledged,
    /// A message that waited tells the expiry that it was published with.
    ExpiryNotLowered,
    /// Who may not receive a message is sent it.
    DeniedDelivered,
    /// An alias that a client defines stands for nothing.
    AliasForgotten,
    /// A CONNECT may be as large as any packet.
    ConnectSizeIgnored,
    /// The last of the publishes that were set aside goes on first.
    HeldLastFirst,
    /// Whoever reads history gets it from the oldest on, wherever it wanted to start.
    StartIgnored,
    /// History goes as if none were to be kept.
    RetentionIgnored,
    /// What a full disk was the reason to refuse is refused when it has space again, too.
    FullForGood,
    /// The log is let go behind an image before that is there.
    TrimmedBeforeMark,
    /// Nothing of the log is let go, nor are cold files.
    NothingLetGo,
    /// Where some of the log was let go, history begins behind the oldest that is there.
    HistoryBeginsLate,
    /// Nobody is let in when the log has failed.
    NobodyLetIn,
    /// What an ended member leaves to its group goes to nobody.
    OrphansKept,
    /// What waits for sessions that no image has is let go with the log.
    NeedsUnnamed,
}

#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn is(_: Bug) -> bool {
    false
}

#[cfg(feature = "planted-bugs")]
pub use self::switch::plant;
#[cfg(feature = "planted-bugs")]
pub(crate) use self::switch::{in_order, is};

/// The identifier under which a connection sends a message.
pub(crate) fn sent_as(conn: ConnId, id: PacketId) -> PacketId {
    if is(Bug::IdentifierAtSend) { id_after(id, conn.to_u64() >> 32) } else { id }
}

/// The message that a client's answer on this connection means.
pub(crate) fn meant_by<'a>(conn: ConnId, ack: &Ack<'a>) -> Ack<'a> {
    if !is(Bug::IdentifierAtSend) {
        return *ack;
    }
    let ids = u64::from(PacketId::COUNT);
    let back = ids - (conn.to_u64() >> 32) % ids;
    Ack { packet_id: id_after(ack.packet_id, back), ..*ack }
}

fn id_after(id: PacketId, by: u64) -> PacketId {
    PacketId::of_queue_number(u64::from(id.get()) + by)
}

/// The oldest record that history begins with, where the log goes from one to another.
pub(crate) fn oldest(first: u64, last: u64) -> u64 {
    if is(Bug::HistoryBeginsLate) && first > 1 { last.min(first + 200).max(first) } else { first }
}

/// How many messages are counted as lost of so many.
pub(crate) fn counted(lost: u64) -> u64 {
    if is(Bug::DropsUncounted) { 0 } else { lost }
}

/// Records of the tail, in the order of the log.
#[cfg(not(feature = "planted-bugs"))]
pub(crate) fn in_order<I>(_: Option<u16>, records: impl FnOnce() -> I) -> I {
    assert!(!is(Bug::ArrivalOrder), "no bug is planted");
    records()
}

/// Waits for what never comes: it is the caller who would make room.
pub(crate) fn block_if(bug: Bug) {
    while is(bug) {
        std::thread::park();
    }
}

#[cfg(feature = "planted-bugs")]
mod switch {
    use std::cell::Cell;

    use zzq_wal::TailRecord;

    use super::Bug;

    thread_local! {
        // A simulated broker lives on one thread, so seeds with and without a bug run side by side.
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug on this thread, in place of another, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    pub(crate) fn is(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }

    /// Records of the tail: in the order of the log, or those of the lane's own first.
    pub(crate) fn in_order<'a, I: Iterator<Item = TailRecord<'a>>>(
        own: Option<u16>,
        records: impl Fn() -> I,
    ) -> impl Iterator<Item = TailRecord<'a>> {
        let passes = 1 + u8::from(is(Bug::ArrivalOrder));
        (0..passes).flat_map(move |pass| {
            let is_own = pass == 0;
            let takes = move |producer| passes == 1 || (own == Some(producer)) == is_own;
            records().filter(move |record| takes(record.producer))
        })
    }
}
