//! Runs of acknowledgements: the same four bytes again and again, but for the identifier.

use zzq_types::PacketId;

use crate::{AckKind, Decoder};

/// One or more acknowledgements of one kind that say nothing but their identifiers.
#[derive(Clone, Copy, Debug)]
pub struct AckRun<'a> {
    kind: AckKind,
    packets: &'a [[u8; 4]],
}

impl Decoder {
    /// The plain acknowledgements at the front of `bytes` that are of one kind. `None` if there is
    /// none, or if it may not come now: what comes is for [`Decoder::decode`].
    #[inline]
    pub fn acks(self, bytes: &[u8]) -> Option<AckRun<'_>> {
        self.version()?;
        let &[first, 2, ..] = bytes else { return None };
        let kind = match first {
            0x40 => AckKind::PubAck,
            0x50 => AckKind::PubRec,
            0x62 => AckKind::PubRel,
            0x70 => AckKind::PubComp,
            _ => return None,
        };
        let (packets, _) = bytes.as_chunks::<4>();
        let same = |packet: &&[u8; 4]| packet[..2] == [first, 2] && packet[2..] != [0, 0];
        let count = packets.iter().take_while(same).count();
        (count > 0).then_some(AckRun { kind, packets: &packets[..count] })
    }
}

impl<'a> AckRun<'a> {
    /// How many bytes each takes.
    pub const PACKET_LEN: usize = 4;

    /// Of what kind they are.
    pub const fn kind(&self) -> AckKind {
        self.kind
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Their identifiers, in their order.
    pub fn ids(self) -> impl Iterator<Item = PacketId> + use<'a> {
        let ids = self.packets.iter().map(|&[_, _, high, low]| u16::from_be_bytes([high, low]));
        ids.filter_map(PacketId::new)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use proptest::prelude::*;
    use zzq_types::ProtocolVersion;

    use super::*;
    use crate::{Ack, Limits, Packet};

    fn decoder(version: ProtocolVersion) -> Decoder {
        let mut decoder = Decoder::of_clients(Limits::default());
        decoder.connected(version);
        decoder
    }

    fn kind_and_id(packet: &Packet<'_>) -> Option<(AckKind, PacketId)> {
        let plain = |kind, ack: &Ack<'_>| {
            (*ack == Ack::success(ack.packet_id)).then_some((kind, ack.packet_id))
        };
        match packet {
            Packet::PubAck(ack) => plain(AckKind::PubAck, ack),
            Packet::PubRec(ack) => plain(AckKind::PubRec, ack),
            Packet::PubRel(ack) => plain(AckKind::PubRel, ack),
            Packet::PubComp(ack) => plain(AckKind::PubComp, ack),
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn it_is_what_the_packets_are_one_by_one(
            v5 in any::<bool>(),
            kinds in prop::collection::vec((0..6_u8, 0..4_u8), 0..8),
            cut in 0..4_usize,
        ) {
            let first = [0x40, 0x50, 0x62, 0x70, 0x60, 0xC0];
            let mut bytes: Vec<u8> = Vec::new();
            for (kind, id) in kinds {
                bytes.extend([first[usize::from(kind)], if kind == 5 { 0 } else { 2 }]);
                bytes.extend((kind < 5).then_some([0, id]).into_iter().flatten());
            }
            bytes.truncate(bytes.len() - cut.min(bytes.len()));
            let decoder = decoder(if v5 { ProtocolVersion::V5 } else { ProtocolVersion::V311 });
            let run = decoder.acks(&bytes);
            let (mut at, mut wanted) = (0, Vec::new());
            while let Ok(Some((packet, size))) = decoder.decode(&bytes[at..]) {
                let Some((kind, id)) = kind_and_id(&packet) else { break };
                if wanted.first().is_some_and(|(first, _)| *first != kind) {
                    break;
                }
                wanted.push((kind, id));
                at += size;
            }
            prop_assert_eq!(run.map_or(0, |run| run.len() * AckRun::PACKET_LEN), at);
            let read = run.into_iter().flat_map(|run| run.ids().map(move |id| (run.kind(), id)));
            prop_assert!(read.eq(wanted));
        }
    }

    #[test]
    fn before_connect_there_is_none() {
        assert!(Decoder::of_clients(Limits::default()).acks(&[0x40, 2, 0, 1]).is_none());
    }

    #[test]
    fn what_has_a_reason_is_left_to_decode() {
        let decoder = decoder(ProtocolVersion::V5);
        assert!(decoder.acks(&[0x40, 3, 0, 1, 0x10]).is_none());
    }
}
