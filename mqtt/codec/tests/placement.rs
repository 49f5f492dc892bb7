//! Which property stands where, and who sends it: the table of the standard, written down once more
//! and held against what is decoded.

mod common;

use common::{V5, behind_length, decoder, hex, packet, refused};
use zzq_codec::{PacketType, Sender};
use zzq_types::{PropertyId, ReasonCode};

use Sender::{Client, Server};

/// Where each property may stand, by the standard's table: packets by their first digit, `W` for
/// the will, `c` and `s` for DISCONNECT and PUBLISH of one side alone.
const PLACES: [(PropertyId, &str); 27] = [
    (PropertyId::PayloadFormat, "3 W"),
    (PropertyId::MessageExpiry, "3 W"),
    (PropertyId::ContentType, "3 W"),
    (PropertyId::ResponseTopic, "3 W"),
    (PropertyId::CorrelationData, "3 W"),
    (PropertyId::SubscriptionId, "3s 8"),
    (PropertyId::SessionExpiry, "1 2 Ec"),
    (PropertyId::AssignedClientId, "2"),
    (PropertyId::ServerKeepAlive, "2"),
    (PropertyId::AuthMethod, "1 2 F"),
    (PropertyId::AuthData, "1 2 F"),
    (PropertyId::RequestProblemInfo, "1"),
    (PropertyId::WillDelay, "W"),
    (PropertyId::RequestResponseInfo, "1"),
    (PropertyId::ResponseInfo, "2"),
    (PropertyId::ServerReference, "2 Es"),
    (PropertyId::ReasonString, "2 4 5 6 7 9 B E F"),
    (PropertyId::ReceiveMaximum, "1 2"),
    (PropertyId::TopicAliasMaximum, "1 2"),
    (PropertyId::TopicAlias, "3"),
    (PropertyId::MaximumQoS, "2"),
    (PropertyId::RetainAvailable, "2"),
    (PropertyId::UserProperty, "1 2 3 4 5 6 7 8 9 A B E F W"),
    (PropertyId::MaximumPacketSize, "1 2"),
    (PropertyId::WildcardAvailable, "2"),
    (PropertyId::SubscriptionIdAvailable, "2"),
    (PropertyId::SharedAvailable, "2"),
];

/// A property as it stands on the wire.
fn encoded(id: PropertyId) -> Vec<u8> {
    use zzq_types::PropertyKind as K;
    let mut out = vec![id.code()];
    match id.kind() {
        K::Byte | K::Varint => out.push(1),
        K::U16 => out.extend([0, 1]),
        K::U32 => out.extend([0, 0, 0, 1]),
        K::Text | K::Binary => out.extend([0, 1, b'x']),
        K::Pair => out.extend([0, 1, b'k', 0, 1, b'v']),
    }
    out
}

/// Packets around a block of properties.
fn around(place: char, block: &[u8]) -> Vec<u8> {
    let (first, head, tail) = match place {
        '1' => (0x10, "00 04 'MQTT' 05 02 00 00", "00 00"),
        'W' => (0x10, "00 04 'MQTT' 05 06 00 00 00 00 00", "00 01 't' 00 00"),
        '2' => (0x20, "00 00", ""),
        '3' => (0x30, "00 01 't'", ""),
        '4' => (0x40, "00 01 00", ""),
        '5' => (0x50, "00 01 00", ""),
        '6' => (0x62, "00 01 00", ""),
        '7' => (0x70, "00 01 00", ""),
        '8' => (0x82, "00 01", "00 01 'a' 00"),
        '9' => (0x90, "00 01", "00"),
        'A' => (0xA2, "00 01", "00 01 'a'"),
        'B' => (0xB0, "00 01", "00"),
        'E' => (0xE0, "00", ""),
        _ => (0xF0, "18", ""),
    };
    // What AUTH and authentication data do not go without.
    let needs = place == 'F' || block.contains(&0x16) && "12".contains(place);
    let method: &[u8] =
        if needs && block.first() != Some(&0x15) { &[0x15, 0, 1, b'm'] } else { &[] };
    let block = behind_length(&[method, block].concat());
    packet(first, &[hex(head), block, hex(tail)].concat())
}

#[test]
fn properties_stand_where_the_table_says_and_repeat_where_it_allows() {
    //= MQTT5-3.3.4-6
    //= MQTT5-3.14.2-2
    let mut seen = 0;
    for (id, places) in PLACES {
        for place in "123456789ABEFW".chars() {
            for sender in [Client, Server] {
                let kind = PacketType::from_first_byte(around(place, &[])[0]).unwrap();
                if !kind.sent_by(sender) {
                    continue;
                }
                let side = if sender == Client { 'c' } else { 's' };
                let good = places.split(' ').any(|at| {
                    at.starts_with(place) && at.chars().nth(1).is_none_or(|of| of == side)
                });
                let decoder = decoder(kind, sender, V5);
                let one = around(place, &encoded(id));
                let read = decoder.decode(&one);
                assert_eq!(read.is_ok(), good, "{id:?} in {place} from {sender:?}: {read:?}");
                let two = around(place, &[encoded(id), encoded(id)].concat());
                let twice = decoder.decode(&two);
                let many = id == PropertyId::UserProperty
                    || id == PropertyId::SubscriptionId && place == '3';
                assert_eq!(twice.is_ok(), good && many, "{id:?} twice in {place}");
                if let (true, Err(error)) = (good, twice) {
                    assert_eq!(error.reason_code(), ReasonCode::ProtocolError, "{error}");
                }
                seen += 1;
            }
        }
    }
    assert_eq!(seen, 27 * 21);
    let unknown = refused(V5, Client, &around('3', &[0x04, 0x00]));
    assert_eq!(unknown.reason_code(), ReasonCode::MalformedPacket);
}
