//! Any bytes as packets of every version and from both sides: what decodes encodes again, to no
//! more bytes, and to the same packet; what does not has a reason and an answer that is a packet.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zzq_codec::{Answer, DecodeError, Decoder, Encoder, Limits, Packet, Sender};
use zzq_types::ProtocolVersion;

const VERSIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V31, ProtocolVersion::V311, ProtocolVersion::V5];

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { max_packet: 1 << 20 };
    let awaiting = Decoder::of_clients(limits).with_bridges();
    check(awaiting, None, bytes);
    for version in VERSIONS {
        let mut of_client = Decoder::of_clients(limits);
        of_client.connected(version);
        check(of_client, Some(version), bytes);
        check(Decoder::of_servers(version, limits), Some(version), bytes);
    }
});

fn check(decoder: Decoder, version: Option<ProtocolVersion>, bytes: &[u8]) {
    let header = decoder.header(bytes);
    match decoder.decode(bytes) {
        Ok(Some((packet, size))) => {
            assert!(header.is_ok_and(|header| header.is_some_and(|it| it.total_len() == size)));
            check_packet(decoder, version, packet, &bytes[..size]);
        }
        Ok(None) => {
            let wanted = header.expect("what is incomplete has no fault yet");
            assert!(wanted.is_none_or(|header| header.total_len() > bytes.len()));
        }
        Err(error) => check_error(decoder.sender(), version, error),
    }
}

fn check_packet(
    decoder: Decoder,
    version: Option<ProtocolVersion>,
    packet: Packet<'_>,
    bytes: &[u8],
) {
    let version = match packet {
        Packet::Connect(connect) => connect.version,
        _ => version.expect("nothing comes before CONNECT"),
    };
    touch(&packet);
    let mut again = Vec::new();
    Encoder::new(version).encode(&packet, &mut again).expect("what was read can be written");
    assert!(again.len() <= bytes.len(), "{packet:?} grew");
    assert_eq!(decoder.decode(&again), Ok(Some((packet, again.len()))));
    for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        assert_eq!(decoder.decode(&bytes[..cut]), Ok(None), "{packet:?} ends early");
    }
    if let Packet::Publish(publish) = packet {
        let run = decoder.decode_run(&publish, bytes);
        assert_eq!(run, Ok(publish.topic.is_some().then_some((publish, bytes.len()))));
    }
}

/// Reads what is read lazily.
fn touch(packet: &Packet<'_>) {
    match packet {
        Packet::Subscribe(subscribe) => {
            assert!(subscribe.subscriptions.iter().count() > 0);
            let _ = subscribe.subscription_id();
        }
        Packet::Unsubscribe(unsubscribe) => assert!(unsubscribe.filters.iter().count() > 0),
        Packet::SubAck(ack) => assert_eq!(ack.codes.iter().count(), ack.codes.len()),
        Packet::UnsubAck(ack) => assert_eq!(ack.codes.iter().count(), ack.codes.len()),
        Packet::Publish(publish) => {
            assert!(publish.topic.is_some() || publish.topic_alias().is_some());
        }
        _ => {}
    }
}

fn check_error(sender: Sender, version: Option<ProtocolVersion>, error: DecodeError) {
    assert!(error.reason_code().is_failure());
    assert!(!error.to_string().is_empty());
    let mut answer = Vec::new();
    error.answer().encode(&mut answer);
    match error.answer() {
        Answer::Close => assert!(answer.is_empty()),
        Answer::ConnAck(of, _) => {
            assert!(version.is_none(), "a CONNACK answers CONNECT alone");
            let read = Decoder::of_servers(of, Limits::default()).decode(&answer);
            assert!(matches!(read, Ok(Some((Packet::ConnAck(_), _)))), "{error}");
        }
        Answer::Disconnect(_) => {
            assert_eq!(version, Some(ProtocolVersion::V5));
            let mut reader = Decoder::of_servers(ProtocolVersion::V5, Limits::default());
            if sender == Sender::Server {
                reader = Decoder::of_clients(Limits::default());
                reader.connected(ProtocolVersion::V5);
            }
            let read = reader.decode(&answer);
            assert!(matches!(read, Ok(Some((Packet::Disconnect(_), _)))), "{error}");
        }
    }
}
