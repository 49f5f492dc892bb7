//! Packets other than PUBLISH onto connections: written and counted in one place.
//!
//! Does not know: when a packet may leave.

use zzq_codec::{Ack, AckKind, Encoder};
use zzq_lanes::{ConnId, Handler, LaneIo};
use zzq_types::ReasonCode;

use crate::metrics::Counts;
use crate::planted;

/// Appends to the output of a connection what `encode` writes: one packet, or nothing. False: the
/// connection is absent.
pub(super) fn write_packet<H: Handler>(
    io: &mut LaneIo<'_, H>,
    counts: &mut Counts,
    conn: ConnId,
    encode: impl FnOnce(&mut Vec<u8>),
) -> bool {
    let Some(mut output) = io.output(conn) else { return false };
    let start = output.len();
    encode(&mut output);
    counts.packets_out += u64::from(output.len() > start);
    true
}

/// Appends an acknowledgement of some kind. False: the connection is absent.
pub(super) fn write_ack<H: Handler>(
    io: &mut LaneIo<'_, H>,
    counts: &mut Counts,
    conn: ConnId,
    encoder: Encoder,
    kind: AckKind,
    ack: Ack<'_>,
) -> bool {
    write_acks(io, counts, conn, encoder, kind, [ack])
}

/// Appends acknowledgements of one kind. False: the connection is absent.
pub(super) fn write_acks<'a, H: Handler>(
    io: &mut LaneIo<'_, H>,
    counts: &mut Counts,
    conn: ConnId,
    encoder: Encoder,
    kind: AckKind,
    acks: impl IntoIterator<Item = Ack<'a>>,
) -> bool {
    let Some(mut output) = io.output(conn) else { return false };
    for mut ack in acks {
        if kind == AckKind::PubRel {
            ack.packet_id = planted::sent_as(conn, ack.packet_id);
        }
        if !encoder.version.is_v5() {
            // There is no way to say anything but success.
            ack.reason = ReasonCode::Success;
        }
        let written = encoder.ack(kind, &ack, &mut output);
        assert!(written.is_ok(), "an acknowledgement of four bytes always fits: {written:?}");
        counts.packets_out += 1;
    }
    true
}
