//! Connections that are not read because there is no room for the packet that they have begun
//! (`--max-input-total`): what their clients and the log are told of it.
//!
//! Does not know: who gets room, and when. The lane decides that.

use zzq_lanes::{ConnId, Millis};
use zzq_types::ReasonCode;
use zzq_wal::disk::Disk;

use super::link::Link;
use super::{Io, Shell};

impl<D: Disk> Shell<D> {
    /// A connection has had room for a packet for too long, and others wait for it.
    pub(super) fn overdue(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        self.counts.overdue_inputs += 1;
        let why = "its packet had room for 30 s and was not complete, or waited for clients, while \
                   others waited for room: --max-input-total";
        self.dismiss(io, conn, ReasonCode::QuotaExceeded, why);
    }

    /// One line, however many have to wait.
    pub(super) fn tell_short_of_room(&mut self, io: &Io<'_, D>) {
        self.counts.input_bytes = io.buffered().input_held as u64;
        let waits = io.counters().input_waits;
        let before = std::mem::replace(&mut self.counts.input_waits, waits);
        if waits > before
            && let Some(untold) = self.short_of_room_told.tell(self.now_ms)
        {
            tracing::warn!(
                waits = waits - before,
                untold,
                bytes = self.counts.input_bytes,
                "connections wait for room for the packets that they have begun: --max-input-total"
            );
        }
    }
}

impl Link {
    /// When something was heard of the client, or would have been: while its input waits for room
    /// its silence is ours.
    pub(super) fn heard<D: Disk>(&self, io: &Io<'_, D>, conn: ConnId) -> Millis {
        if io.waits_for_room(conn) {
            return io.now();
        }
        io.waited_for_room(conn).map_or(self.heard, |since| since.max(self.heard))
    }
}
