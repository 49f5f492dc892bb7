//! Every fault that the standard names, in its bytes, with the reason code that MQTT 5 has for it
//! and the last packet that answers it.

mod common;

use common::{Row, V5, V31, V311, VERSIONS, answer, check, hex, read, refused};
use zzq_codec::{Answer, Decoder, Fault, Field, Limits, Malformed, PacketType, Sender, Violation};
use zzq_types::{ReasonCode, TextError};

use ReasonCode::{MalformedPacket, ProtocolError, TopicAliasInvalid};
use Sender::{Client, Server};

#[test]
fn ill_formed_strings_close() {
    //= MQTT311-1.5.3-1
    //= MQTT311-3.1.3-4
    //= MQTT311-3.1.3-10
    //= MQTT311-3.1.3-11
    //= MQTT311-3.3.2-1
    //= MQTT311-3.8.3-1
    //= MQTT311-3.10.3-1
    //= MQTT5-1.5.4-1
    //= MQTT5-3.1.3-4
    //= MQTT5-3.1.3-11
    //= MQTT5-3.1.3-12
    //= MQTT5-3.3.2-1
    //= MQTT5-3.3.2-13
    //= MQTT5-3.3.2-19
    //= MQTT5-3.8.3-1
    //= MQTT5-3.10.3-1
    check(&[
        (V31, Client, "10 0F 00 06 'MQIsdp' 03 02 00 00 00 01 FF", MalformedPacket),
        (V311, Client, "10 0E 00 04 'MQTT' 04 02 00 00 00 02 FF FE", MalformedPacket),
        (
            V311,
            Client,
            "10 14 00 04 'MQTT' 04 06 00 00 00 01 'a' 00 02 C3 28 00 01 'w'",
            MalformedPacket,
        ),
        (V311, Client, "10 10 00 04 'MQTT' 04 82 00 00 00 01 'a' 00 01 C0", MalformedPacket),
        (V5, Client, "10 0E 00 04 'MQTT' 05 02 00 00 00 00 01 FF", MalformedPacket),
        (
            V5,
            Client,
            "10 14 00 04 'MQTT' 05 06 00 00 00 00 01 'a' 00 00 01 FF 00 00",
            MalformedPacket,
        ),
        (V5, Client, "10 11 00 04 'MQTT' 05 82 00 00 00 00 01 'a' 00 01 C0", MalformedPacket),
        (V311, Client, "30 05 00 03 ED A0 80", MalformedPacket),
        (V5, Client, "30 06 00 03 ED A0 80 00", MalformedPacket),
        (V5, Server, "30 06 00 03 F5 80 80 00", MalformedPacket),
        (V311, Client, "82 08 00 01 00 03 ED A0 80 00", MalformedPacket),
        (V5, Client, "82 09 00 01 00 00 03 ED A0 80 00", MalformedPacket),
        (V311, Client, "A2 05 00 01 00 01 FF", MalformedPacket),
        (V5, Client, "A2 06 00 01 00 00 01 FF", MalformedPacket),
        (V5, Client, "30 08 00 01 't' 04 08 00 01 FF", MalformedPacket),
        (V5, Client, "30 08 00 01 't' 04 03 00 01 FF", MalformedPacket),
        (V5, Server, "E0 06 80 04 1F 00 01 FF", MalformedPacket),
    ]);
    // Not what is behind the text.
    for (version, will) in [
        (V311, "10 14 00 04 'MQTT' 04 06 00 00 00 01 'a' 00 02 C3 28 00 01 'w'"),
        (V5, "10 14 00 04 'MQTT' 05 06 00 00 00 00 01 'a' 00 00 01 FF 00 00"),
    ] {
        let text = Malformed::Text(Field::WillTopic, TextError::IllFormed);
        assert_eq!(refused(version, Client, &hex(will)).fault(), Fault::Malformed(text), "{will}");
    }
}

#[test]
fn nul_in_strings_closes() {
    //= MQTT311-1.5.3-2
    //= MQTT311-4.7.3-2
    //= MQTT5-1.5.4-2
    //= MQTT5-4.7.3-2
    //= MQTT5-1.5.7-1
    check(&[
        (V31, Client, "10 0F 00 06 'MQIsdp' 03 02 00 00 00 01 00", MalformedPacket),
        (V311, Client, "30 05 00 03 'a' 00 'b'", MalformedPacket),
        (V5, Client, "30 06 00 03 'a' 00 'b' 00", MalformedPacket),
        (V311, Client, "82 08 00 01 00 03 'a' 00 'b' 00", MalformedPacket),
        (V5, Client, "A2 06 00 01 00 00 01 00", MalformedPacket),
        (V5, Client, "40 0B 00 01 00 07 26 00 01 00 00 01 'v'", MalformedPacket),
        (V5, Client, "40 0B 00 01 00 07 26 00 01 'k' 00 01 00", MalformedPacket),
    ]);
}

#[test]
fn lengths_are_in_their_shortest_form() {
    //= MQTT5-1.5.5-1
    check(&[
        (V5, Client, "C0 80 00", MalformedPacket),
        (V5, Client, "30 FF FF FF FF", MalformedPacket),
        (V5, Client, "30 05 00 01 't' 80 00", MalformedPacket),
        (V5, Client, "30 08 00 01 't' FF FF FF FF 01", MalformedPacket),
        (V5, Server, "30 07 00 01 't' 03 0B 81 00", MalformedPacket),
        (V5, Client, "82 08 00 01 80 00 00 01 'a' 00", MalformedPacket),
    ]);
}

#[test]
fn header_flags_close() {
    //= MQTT311-2.2.2-1
    //= MQTT311-2.2.2-2
    //= MQTT311-3.3.1-2
    //= MQTT311-3.3.1-4
    //= MQTT311-3.6.1-1
    //= MQTT311-3.8.1-1
    //= MQTT311-3.10.1-1
    //= MQTT311-3.14.1-1
    //= MQTT5-2.1.3-1
    //= MQTT5-3.3.1-2
    //= MQTT5-3.3.1-4
    //= MQTT5-3.6.1-1
    //= MQTT5-3.8.1-1
    //= MQTT5-3.10.1-1
    //= MQTT5-3.14.1-1
    //= MQTT5-3.15.1-1
    let mut rows: Vec<Row> = Vec::new();
    for version in VERSIONS {
        rows.extend([
            (version, Client, "36 05 00 01 't' 00 01", MalformedPacket),
            (version, Server, "38 03 00 01 't'", MalformedPacket),
            (version, Client, "60 02 00 01", MalformedPacket),
            (version, Client, "80 06 00 01 00 01 'a' 00", MalformedPacket),
            (version, Client, "A0 05 00 01 00 01 'a'", MalformedPacket),
            (version, Client, "E1 00", MalformedPacket),
            (version, Client, "C1 00", MalformedPacket),
            (version, Server, "D8 00", MalformedPacket),
            (version, Server, "21 02 00 00", MalformedPacket),
            (version, Client, "42 02 00 01", MalformedPacket),
        ]);
    }
    rows.push((V5, Client, "F1 00", MalformedPacket));
    rows.push((V311, Client, "8A 06 00 01 00 01 'a' 00", MalformedPacket));
    rows.push((V5, Client, "6A 02 00 01", MalformedPacket));
    check(&rows);
    let connect = refused(V5, Client, &hex("11 0D 00 04 'MQTT' 05 02 00 00 00 00 00"));
    assert_eq!((connect.reason_code(), connect.answer()), (MalformedPacket, Answer::Close));
}

#[test]
fn dup_is_allowed_where_version_3_1_allows_it() {
    for text in ["8A 06 00 01 00 01 'a' 00", "AA 05 00 01 00 01 'a'", "6A 02 00 01"] {
        read(V31, Client, text);
        refused(V311, Client, &hex(text));
    }
}

#[test]
fn types_come_from_their_side_and_after_connect() {
    //= MQTT311-3.1.0-1
    //= MQTT311-3.1.0-2
    //= MQTT5-3.1.0-1
    //= MQTT5-3.1.0-2
    let mut rows: Vec<Row> = Vec::new();
    for version in VERSIONS {
        for text in ["20 02 00 00", "90 03 00 01 00", "B0 02 00 01", "D0 00"] {
            rows.push((version, Client, text, ProtocolError));
        }
        for text in ["82 06 00 01 00 01 'a' 00", "A2 05 00 01 00 01 'a'", "C0 00"] {
            rows.push((version, Server, text, ProtocolError));
        }
        rows.push((version, Client, "00 00", MalformedPacket));
        rows.push((version, Server, "0F 00", MalformedPacket));
    }
    rows.push((V311, Client, "F0 00", MalformedPacket));
    rows.push((V31, Server, "F0 00", MalformedPacket));
    rows.push((V311, Server, "E0 00", ProtocolError));
    check(&rows);
    let connect = hex("10 0D 00 04 'MQTT' 05 02 00 00 00 00 00");
    let mut decoder = Decoder::of_clients(Limits::default());
    for packet in PacketType::ALL.into_iter().filter(|packet| *packet != PacketType::Connect) {
        let error = decoder.decode(&[packet.bits(), 0]).unwrap_err();
        assert_eq!(error.fault(), Fault::Violation(Violation::NotConnected));
        assert_eq!(error.answer(), Answer::Close);
    }
    assert!(decoder.decode(&connect).is_ok());
    decoder.connected(V5);
    let error = decoder.decode(&connect[..1]).unwrap_err();
    assert_eq!(error.fault(), Fault::Violation(Violation::ConnectedTwice));
    assert_eq!(answer(&error), [0xE0, 1, 0x82]);
    let from_server = refused_connect_of_server(&connect);
    assert_eq!(from_server, Fault::Violation(Violation::WrongSender));
}

fn refused_connect_of_server(connect: &[u8]) -> Fault {
    let decoder = Decoder::of_servers(V5, Limits::default());
    decoder.decode(connect).map_or_else(|error| error.fault(), |read| unreachable!("{read:?}"))
}

#[test]
fn packet_identifiers_are_not_0() {
    //= MQTT311-2.3.1-1
    //= MQTT5-2.2.1-3
    //= MQTT5-2.2.1-4
    let mut rows: Vec<Row> = Vec::new();
    for version in VERSIONS {
        rows.extend([
            (version, Client, "32 05 00 01 't' 00 00", ProtocolError),
            (version, Server, "34 05 00 01 't' 00 00", ProtocolError),
            (version, Client, "82 06 00 00 00 01 'a' 00", ProtocolError),
            (version, Client, "A2 05 00 00 00 01 'a'", ProtocolError),
            (version, Client, "40 02 00 00", ProtocolError),
            (version, Server, "62 02 00 00", ProtocolError),
            (version, Server, "B0 02 00 00", ProtocolError),
            (version, Server, "90 03 00 00 00", ProtocolError),
        ]);
    }
    check(&rows);
}

#[test]
fn publish_names_a_topic() {
    //= MQTT311-3.3.2-2
    //= MQTT311-4.7.1-1
    //= MQTT311-4.7.3-1
    //= MQTT5-3.3.2-2
    //= MQTT5-3.3.2-8
    //= MQTT5-4.7.0-1
    //= MQTT5-4.7.3-1
    check(&[
        (V31, Client, "30 02 00 00", MalformedPacket),
        (V311, Client, "30 02 00 00", MalformedPacket),
        (V5, Client, "30 03 00 00 00", ProtocolError),
        (V5, Server, "30 06 00 00 03 01 01 00", MalformedPacket),
        (V311, Client, "30 05 00 03 'a/+'", MalformedPacket),
        (V5, Client, "30 06 00 03 'a/#' 00", MalformedPacket),
        (V5, Client, "30 06 00 00 03 23 00 00", TopicAliasInvalid),
        (V5, Server, "30 07 00 01 't' 03 23 00 00", TopicAliasInvalid),
        (V5, Client, "30 0A 00 01 't' 06 23 00 01 23 00 01", ProtocolError),
        (V5, Client, "30 08 00 01 't' 04 08 00 01 '#'", ProtocolError),
        (V5, Client, "30 07 00 01 't' 03 08 00 00", ProtocolError),
    ]);
}

#[test]
fn publish_is_as_long_as_its_fields() {
    check(&[
        (V311, Client, "30 01 00", MalformedPacket),
        (V311, Client, "30 03 00 02 't'", MalformedPacket),
        (V311, Client, "32 04 00 01 't' 00", MalformedPacket),
        (V5, Client, "30 03 00 01 't'", MalformedPacket),
        (V5, Client, "30 05 00 01 't' 02 01", MalformedPacket),
        (V5, Client, "30 06 00 01 't' 02 01 02", ProtocolError),
        (V5, Client, "30 05 00 01 't' 01 01", MalformedPacket),
    ]);
}

#[test]
fn answers_are_as_long_as_their_fields_and_say_what_they_may() {
    //= MQTT5-3.4.2-1
    //= MQTT5-3.5.2-1
    //= MQTT5-3.6.2-1
    //= MQTT5-3.7.2-1
    let mut rows: Vec<Row> = Vec::new();
    for version in VERSIONS {
        rows.push((version, Client, "40 01 00", MalformedPacket));
        rows.push((version, Server, "50 00", MalformedPacket));
    }
    rows.extend([
        (V311, Client, "40 03 00 01 00", MalformedPacket),
        (V31, Server, "B0 03 00 01 00", MalformedPacket),
        (V5, Client, "40 03 00 01 03", MalformedPacket),
        (V5, Client, "40 03 00 01 92", ProtocolError),
        (V5, Server, "50 03 00 01 92", ProtocolError),
        (V5, Client, "62 03 00 01 10", ProtocolError),
        (V5, Server, "70 03 00 01 87", ProtocolError),
        (V5, Client, "40 04 00 01 00 01", MalformedPacket),
        (V5, Client, "40 05 00 01 00 00 00", MalformedPacket),
        (V5, Client, "40 06 00 01 00 02 01 01", MalformedPacket),
    ]);
    check(&rows);
}

#[test]
fn subscribe_lists_filters_with_options_that_exist() {
    //= MQTT311-3.8.3-3
    //= MQTT311-3.8.3-4
    //= MQTT311-3.10.3-2
    //= MQTT5-3.8.3-2
    //= MQTT5-3.8.3-5
    //= MQTT5-3.10.3-2
    check(&[
        (V31, Client, "82 02 00 01", ProtocolError),
        (V311, Client, "82 02 00 01", ProtocolError),
        (V5, Client, "82 03 00 01 00", ProtocolError),
        (V311, Client, "A2 02 00 01", ProtocolError),
        (V5, Client, "A2 03 00 01 00", ProtocolError),
        (V31, Client, "82 06 00 01 00 01 'a' 03", MalformedPacket),
        (V311, Client, "82 06 00 01 00 01 'a' 03", MalformedPacket),
        (V311, Client, "82 06 00 01 00 01 'a' 04", MalformedPacket),
        (V5, Client, "82 07 00 01 00 00 01 'a' 03", ProtocolError),
        (V5, Client, "82 07 00 01 00 00 01 'a' 30", ProtocolError),
        (V5, Client, "82 07 00 01 00 00 01 'a' 40", MalformedPacket),
        (V5, Client, "82 07 00 01 00 00 01 'a' 80", MalformedPacket),
        (V5, Client, "82 06 00 01 00 00 01 'a'", MalformedPacket),
        (V5, Client, "82 09 00 01 02 0B 00 00 01 'a' 00", ProtocolError),
        (V5, Client, "82 0B 00 01 04 0B 01 0B 02 00 01 'a' 00", ProtocolError),
        (V311, Client, "82 05 00 01 00 02 'a'", MalformedPacket),
        (V311, Client, "A2 06 00 01 00 01 'a' 00", MalformedPacket),
    ]);
}

#[test]
fn servers_answer_with_the_codes_of_their_version() {
    //= MQTT311-3.2.2-4
    //= MQTT311-3.9.3-2
    //= MQTT5-3.2.2-1
    //= MQTT5-3.2.2-6
    //= MQTT5-3.2.2-8
    //= MQTT5-3.9.3-2
    //= MQTT5-3.11.3-2
    check(&[
        (V311, Server, "20 02 02 00", MalformedPacket),
        (V311, Server, "20 02 00 06", MalformedPacket),
        (V311, Server, "20 02 01 05", ProtocolError),
        (V311, Server, "20 01 00", MalformedPacket),
        (V311, Server, "20 03 00 00 00", MalformedPacket),
        (V5, Server, "20 03 02 00 00", MalformedPacket),
        (V5, Server, "20 03 01 87 00", ProtocolError),
        (V5, Server, "20 03 00 01 00", ProtocolError),
        (V5, Server, "20 03 00 8E 00", ProtocolError),
        (V5, Server, "20 02 00 00", MalformedPacket),
        (V31, Server, "90 03 00 01 80", ProtocolError),
        (V311, Server, "90 03 00 01 87", ProtocolError),
        (V311, Server, "90 03 00 01 03", MalformedPacket),
        (V311, Server, "90 02 00 01", ProtocolError),
        (V5, Server, "90 03 00 01 00", ProtocolError),
        (V5, Server, "90 04 00 01 00 11", ProtocolError),
        (V5, Server, "B0 04 00 01 00 01", ProtocolError),
        (V5, Server, "B0 03 00 01 00", ProtocolError),
    ]);
}

#[test]
fn disconnect_and_auth_say_what_their_side_may() {
    //= MQTT5-3.14.2-1
    //= MQTT5-3.14.2-2
    //= MQTT5-3.15.2-1
    //= MQTT5-4.12.0-2
    //= MQTT5-4.12.0-3
    //= MQTT5-4.12.0-5
    check(&[
        (V31, Client, "E0 01 00", MalformedPacket),
        (V311, Client, "E0 01 00", MalformedPacket),
        (V5, Client, "E0 01 03", MalformedPacket),
        (V5, Client, "E0 01 8E", ProtocolError),
        (V5, Server, "E0 01 04", ProtocolError),
        (V5, Server, "E0 07 00 05 11 00 00 00 01", ProtocolError),
        (V5, Client, "E0 06 00 04 1C 00 01 's'", ProtocolError),
        (V5, Client, "E0 03 00 00 00", MalformedPacket),
        (V5, Client, "F0 00", ProtocolError),
        (V5, Client, "F0 01 18", MalformedPacket),
        (V5, Client, "F0 02 18 00", ProtocolError),
        (V5, Server, "F0 06 19 04 15 00 01 'm'", ProtocolError),
        (V5, Client, "F0 06 18 04 16 00 01 'd'", ProtocolError),
        (V5, Client, "F0 07 18 04 15 00 01 'm' 00", MalformedPacket),
    ]);
}

#[test]
fn sizes_above_the_limit_are_known_from_the_header() {
    //= MQTT5-3.2.2-15
    let limits = Limits { max_packet: 1000 };
    for version in VERSIONS {
        let mut decoder = Decoder::of_clients(limits);
        decoder.connected(version);
        let error = decoder.decode(&[0x30, 0xE6, 0x07]).unwrap_err();
        assert_eq!(error.fault(), Fault::TooLarge { size: 1001, limit: 1000 });
        assert_eq!(error.reason_code(), ReasonCode::PacketTooLarge);
        let want: &[u8] = if version == V5 { &[0xE0, 1, 0x95] } else { &[] };
        assert_eq!(answer(&error), want);
        assert_eq!(decoder.decode(&[0x30, 0xE5, 0x07]), Ok(None));
    }
    let error = Decoder::of_clients(limits).decode(&[0x10, 0xFF, 0xFF, 0x03]).unwrap_err();
    assert_eq!((error.reason_code(), error.answer()), (ReasonCode::PacketTooLarge, Answer::Close));
}

#[test]
fn a_connect_that_is_too_large_is_answered_where_it_has_named_version_5() {
    //= MQTT5-3.1.4-1
    let decoder = Decoder::of_clients(Limits { max_packet: 1000 });
    let five = hex("10 FF FF 03 00 04 'MQTT' 05 02");
    for len in 0..five.len() {
        let wanted: &[u8] = if len < 11 { &[] } else { &[0x20, 3, 0, 0x95, 0] };
        if let Err(error) = decoder.decode(&five[..len]) {
            assert_eq!(answer(&error), wanted, "{len} bytes");
        } else {
            assert!(len < 4, "{len} bytes");
        }
    }
    for old in
        ["10 FF FF 03 00 04 'MQTT' 04 02", "10 FF FF 03 00 04 'MQTX' 05 02", "10 FF FF 03 FF FF"]
    {
        let error = decoder.decode(&hex(old)).unwrap_err();
        assert_eq!(error.answer(), Answer::Close, "{old}");
    }
}

#[test]
fn packets_of_a_fixed_size_are_not_waited_for() {
    for version in VERSIONS {
        let mut decoder = Decoder::of_clients(Limits::default());
        decoder.connected(version);
        let error = decoder.decode(&[0xC0, 0xFF, 0xFF, 0x7F]).unwrap_err();
        assert_eq!(error.fault(), Fault::Malformed(Malformed::TrailingBytes(0x1F_FFFF)));
    }
}
