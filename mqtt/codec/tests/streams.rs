//! What must hold for any packet, any split of a stream and any bytes at all.

mod common;

use common::any::{any_case, any_packet, any_publish, any_side};
use common::{VERSIONS, decoder, encode, goldens};
use proptest::prelude::*;
use zzq_codec::{Decoder, Limits, Packet, PacketType, Publish, Sender};
use zzq_types::ProtocolVersion;

/// Whatever decodes encodes again to bytes that decode to the same; a run agrees with it.
fn check_bytes(decoder: Decoder, version: ProtocolVersion, bytes: &[u8]) {
    let Ok(Some((packet, size))) = decoder.decode(bytes) else { return };
    assert!(size <= bytes.len());
    let again = encode(version, &packet);
    assert!(again.len() <= size, "{packet:?} grew");
    assert_eq!(decoder.decode(&again), Ok(Some((packet, again.len()))));
    if let Packet::Publish(publish) = packet {
        let run = decoder.decode_run(&publish, bytes);
        let want = publish.topic.is_some().then_some((publish, size));
        assert_eq!(run, Ok(want));
    }
}

fn check_everywhere(bytes: &[u8]) {
    for version in VERSIONS {
        for sender in [Sender::Client, Sender::Server] {
            check_bytes(decoder(PacketType::PingReq, sender, version), version, bytes);
        }
    }
    let awaiting = Decoder::of_clients(Limits::default()).with_bridges();
    if let Ok(Some((Packet::Connect(connect), _))) = awaiting.decode(bytes) {
        check_bytes(awaiting, connect.version, bytes);
    }
}

/// Feeds a stream in pieces that end at `cuts`, as a connection's reads do.
fn feed(decoder: Decoder, stream: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
    let mut buffer = Vec::new();
    let mut found = Vec::new();
    let mut from = 0;
    for &cut in cuts.iter().chain([&stream.len()]) {
        buffer.extend_from_slice(&stream[from..cut]);
        from = cut;
        let mut read = 0;
        while let Ok(Some((_, size))) = decoder.decode(&buffer[read..]) {
            let header = decoder.header(&buffer[read..]);
            assert!(header.is_ok_and(|header| header.is_some_and(|it| it.total_len() == size)));
            found.push(buffer[read..read + size].to_vec());
            read += size;
        }
        buffer.drain(..read);
    }
    assert!(buffer.is_empty(), "every packet was found");
    found
}

proptest! {
    #[test]
    fn any_packet_round_trips((version, sender, packet) in any_case()) {
        let bytes = encode(version, &packet);
        let decoder = decoder(packet.packet_type(), sender, version);
        prop_assert_eq!(decoder.decode(&bytes), Ok(Some((packet, bytes.len()))));
        for cut in 0..bytes.len() {
            prop_assert_eq!(decoder.decode(&bytes[..cut]), Ok(None), "cut at {}", cut);
        }
    }

    #[test]
    fn any_split_of_a_stream_gives_the_same_packets(
        (version, sender, packets) in any_side().prop_flat_map(|(version, sender)| {
            let packets = proptest::collection::vec(any_packet(version, sender), 1..9);
            (Just(version), Just(sender), packets)
        }),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let frames: Vec<_> = packets.iter().map(|packet| encode(version, packet)).collect();
        let stream = frames.concat();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len())).collect();
        cuts.sort_unstable();
        let decoder = decoder(PacketType::PingReq, sender, version);
        prop_assert_eq!(feed(decoder, &stream, &cuts), frames);
    }

    #[test]
    fn runs_agree_with_decoding_one_by_one(
        (version, sender, first, payloads) in any_side().prop_flat_map(|(version, sender)| {
            let payloads = proptest::collection::vec(any::<u8>(), 1..9);
            (Just(version), Just(sender), any_publish(version, sender), payloads)
        }),
    ) {
        let encode_with = |payload: &[u8]| {
            encode(version, &Packet::Publish(Publish { payload, ..first }))
        };
        let frames: Vec<_> = payloads.iter().map(|byte| encode_with(&[*byte])).collect();
        let decoder = decoder(PacketType::PingReq, sender, version);
        let stream = frames.concat();
        let Ok(Some((Packet::Publish(mut previous), mut read))) = decoder.decode(&stream) else {
            return Err(TestCaseError::fail("the first is a PUBLISH"));
        };
        for byte in &payloads[1..] {
            let run = decoder.decode_run(&previous, &stream[read..]).unwrap();
            prop_assert_eq!(run.is_some(), first.topic.is_some());
            let Some((publish, size)) = run else { break };
            prop_assert_eq!(publish.payload, &[*byte]);
            let want = Some((Packet::Publish(publish), size));
            prop_assert_eq!(decoder.decode(&stream[read..]), Ok(want));
            (previous, read) = (publish, read + size);
        }
    }

    #[test]
    fn no_bytes_break_a_decoder(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        check_everywhere(&bytes);
    }

    #[test]
    fn no_body_breaks_a_decoder(
        first in any::<u8>(),
        body in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        check_everywhere(&common::packet(first, &body));
    }

    #[test]
    fn no_mutation_of_a_good_packet_breaks_a_decoder(
        golden in any::<prop::sample::Index>(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let all = goldens();
        let mut bytes = all[golden.index(all.len())].bytes.clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
            let body = bytes.get(2..).unwrap_or_default().to_vec();
            check_everywhere(&common::packet(bytes.first().copied().unwrap_or(0), &body));
        }
        check_everywhere(&bytes);
    }
}

#[test]
fn every_single_byte_change_of_a_golden_is_survived() {
    for golden in goldens() {
        for at in 0..golden.bytes.len() {
            for byte in [0, 1, 2, 0x7F, 0x80, 0xFF, golden.bytes[at] ^ 1, golden.bytes[at] ^ 0x10] {
                let mut bytes = golden.bytes.clone();
                bytes[at] = byte;
                check_everywhere(&bytes);
            }
        }
    }
}
