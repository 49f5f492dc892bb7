//! Every packet in every version, byte for byte, both ways.

mod common;

use common::{VERSIONS, decoder, encode, goldens};
use zzq_codec::{PacketType, Sender};

#[test]
fn goldens_decode_to_their_values() {
    //= MQTT5-2.2.2-1
    //= MQTT5-3.1.3-1
    //= MQTT5-3.1.3-3
    //= MQTT5-3.1.3-10
    //= MQTT5-3.3.2-1
    //= MQTT5-3.9.3-1
    //= MQTT5-3.11.3-1
    //= MQTT311-3.1.3-1
    //= MQTT311-3.1.3-3
    //= MQTT311-3.3.2-1
    //= MQTT311-3.9.3-1
    for golden in goldens() {
        let packet = golden.packet.packet_type();
        let read = decoder(packet, golden.sender, golden.version).decode(&golden.bytes);
        let (read, size) = read.unwrap().unwrap();
        assert_eq!((read, size), (golden.packet, golden.bytes.len()), "{:02X?}", golden.bytes);
    }
}

#[test]
fn goldens_encode_to_their_bytes() {
    //= MQTT5-2.2.2-1, MQTT5-3.1.2-16, MQTT5-3.1.2-17, MQTT5-3.1.2-18, MQTT5-3.1.2-19
    //= MQTT5-3.1.3-1, MQTT5-3.6.1-1, MQTT5-3.8.1-1, MQTT5-3.10.1-1
    //= MQTT311-3.1.2-11, MQTT311-3.1.2-18, MQTT311-3.1.2-19, MQTT311-3.1.2-20
    //= MQTT311-3.1.2-21, MQTT311-3.1.3-1, MQTT311-3.6.1-1, MQTT311-3.10.1-1
    for golden in goldens() {
        assert_eq!(encode(golden.version, &golden.packet), golden.bytes, "{:?}", golden.packet);
    }
}

#[test]
fn every_packet_of_every_version_is_golden() {
    let all = goldens();
    for version in VERSIONS {
        for packet in PacketType::ALL {
            for sender in [Sender::Client, Sender::Server] {
                let there = all.iter().any(|golden| {
                    (golden.version, golden.sender, golden.packet.packet_type())
                        == (version, sender, packet)
                });
                let v5_only = packet == PacketType::Auth
                    || packet == PacketType::Disconnect && sender == Sender::Server;
                let exists = packet.sent_by(sender) && (version.is_v5() || !v5_only);
                assert_eq!(there, exists, "{packet} {version:?} {sender:?}");
            }
        }
    }
}
