//! The faults of CONNECT, in their bytes, and the CONNACK that answers some of them.

mod common;

use common::{Row, V5, V31, V311, answer, check, hex, packet, read, refused};
use zzq_codec::{Answer, Connect, Decoder, Fault, Limits, Packet, Refusal, Sender};
use zzq_types::ReasonCode;

use ReasonCode::MalformedPacket;
use Sender::Client;

#[test]
fn names_and_levels_that_are_not_spoken_are_refused() {
    //= MQTT311-3.1.2-1
    //= MQTT311-3.1.2-2
    //= MQTT5-3.1.2-1
    //= MQTT5-3.1.2-2
    let v311 = [0x20, 2, 0, 1].as_slice();
    let v5 = [0x20, 3, 0, 0x84, 0].as_slice();
    for (text, want) in [
        ("10 0D 00 04 'MQTT' 03 02 00 00 00 01 'a'", v311),
        ("10 0D 00 04 'MQTT' 00 02 00 00 00 01 'a'", v311),
        ("10 0D 00 04 'MQTT' 06 02 00 00 00 01 'a'", v5),
        ("10 0F 00 06 'MQIsdp' 04 02 00 00 00 01 'a'", v311),
        ("10 0D 00 04 'MQTT' 86 02 00 00 00 01 'a'", v311),
        ("10 0D 00 04 'mqtt' 04 02 00 00 00 01 'a'", &[]),
        ("10 0D 00 04 'QTTM' 05 02 00 00 00 01 'a'", v5),
        ("10 07 00 04 'MQTT' 07", v5),
    ] {
        let error = refused(V311, Client, &hex(text));
        assert!(matches!(error.fault(), Fault::Refused(_)), "{error}");
        assert_eq!(error.reason_code(), ReasonCode::UnsupportedProtocolVersion);
        assert_eq!(answer(&error), want, "{text}");
    }
}

#[test]
fn bridges_are_accepted_where_that_is_asked_for() {
    let bytes = hex("10 0D 00 04 'MQTT' 84 02 00 00 00 01 'a'");
    let error = Decoder::of_clients(Limits::default()).decode(&bytes).unwrap_err();
    assert_eq!(error.fault(), Fault::Refused(Refusal::ProtocolLevel(0x84)));
}

#[test]
fn connect_flags_agree_with_each_other() {
    //= MQTT311-3.1.2-3
    //= MQTT311-3.1.2-11
    //= MQTT311-3.1.2-13
    //= MQTT311-3.1.2-14
    //= MQTT311-3.1.2-15
    //= MQTT311-3.1.2-22
    //= MQTT311-3.1.4-1
    //= MQTT5-3.1.2-3
    //= MQTT5-3.1.2-11
    //= MQTT5-3.1.2-12
    //= MQTT5-3.1.2-13
    //= MQTT5-3.1.4-1
    let mut rows: Vec<Row> =
        vec![(V311, Client, "10 10 00 04 'MQTT' 04 42 00 00 00 01 'a' 00 01 'p'", MalformedPacket)];
    for flags in ["03", "0A", "12", "1A", "22"] {
        for (version, rest) in [(V311, "00 01 'a'"), (V5, "00 00 01 'a'")] {
            let len = if version == V5 { "0E" } else { "0D" };
            let level = version.level();
            let text = format!("10 {len} 00 04 'MQTT' 0{level} {flags} 00 00 {rest}");
            rows.push((version, Client, text.leak(), MalformedPacket));
        }
    }
    rows.push((
        V311,
        Client,
        "10 13 00 04 'MQTT' 04 1E 00 00 00 01 'a' 00 01 't' 00 01 'w'",
        MalformedPacket,
    ));
    rows.push((
        V5,
        Client,
        "10 15 00 04 'MQTT' 05 1E 00 00 00 00 01 'a' 00 00 01 't' 00 01 'w'",
        MalformedPacket,
    ));
    rows.push((
        V31,
        Client,
        "10 15 00 06 'MQIsdp' 03 1E 00 00 00 01 'a' 00 01 't' 00 01 'w'",
        MalformedPacket,
    ));
    rows.push((
        V31,
        Client,
        "10 12 00 06 'MQIsdp' 03 42 00 00 00 01 'a' 00 01 'p'",
        MalformedPacket,
    ));
    check(&rows);
}

#[test]
fn fields_that_flags_announce_are_there_and_no_others() {
    //= MQTT311-3.1.2-9
    //= MQTT311-3.1.2-18
    //= MQTT311-3.1.2-19
    //= MQTT311-3.1.2-20
    //= MQTT311-3.1.2-21
    //= MQTT311-3.1.3-3
    //= MQTT5-3.1.2-9
    //= MQTT5-3.1.2-16
    //= MQTT5-3.1.2-17
    //= MQTT5-3.1.2-18
    //= MQTT5-3.1.2-19
    //= MQTT5-3.1.3-3
    check(&[
        (V311, Client, "10 0A 00 04 'MQTT' 04 02 00 00", MalformedPacket),
        (V311, Client, "10 0D 00 04 'MQTT' 04 06 00 00 00 01 'a'", MalformedPacket),
        (V311, Client, "10 10 00 04 'MQTT' 04 06 00 00 00 01 'a' 00 01 't'", MalformedPacket),
        (V311, Client, "10 0D 00 04 'MQTT' 04 82 00 00 00 01 'a'", MalformedPacket),
        (V311, Client, "10 10 00 04 'MQTT' 04 C2 00 00 00 01 'a' 00 01 'u'", MalformedPacket),
        (V311, Client, "10 10 00 04 'MQTT' 04 02 00 00 00 01 'a' 00 01 'u'", MalformedPacket),
        (
            V311,
            Client,
            "10 13 00 04 'MQTT' 04 82 00 00 00 01 'a' 00 01 'u' 00 01 'p'",
            MalformedPacket,
        ),
        (V5, Client, "10 0B 00 04 'MQTT' 05 02 00 00 00", MalformedPacket),
        (V5, Client, "10 0E 00 04 'MQTT' 05 06 00 00 00 00 01 'a'", MalformedPacket),
        (V5, Client, "10 0E 00 04 'MQTT' 05 42 00 00 00 00 01 'a'", MalformedPacket),
        (V5, Client, "10 0E 00 04 'MQTT' 05 82 00 00 00 00 01 'a'", MalformedPacket),
        (V5, Client, "10 11 00 04 'MQTT' 05 02 00 00 00 00 01 'a' 00 01 'u'", MalformedPacket),
        (
            V5,
            Client,
            "10 14 00 04 'MQTT' 05 06 00 00 00 00 01 'a' 00 00 01 '#' 00 00",
            MalformedPacket,
        ),
    ]);
    let cut = refused(V5, Client, &hex("10 04 00 04 'MQ'"));
    assert_eq!((cut.reason_code(), cut.answer()), (MalformedPacket, Answer::Close));
}

#[test]
fn version_3_1_lets_credentials_be_missing_and_ignores_what_no_will_uses() {
    for text in [
        "10 0F 00 06 'MQIsdp' 03 C2 00 00 00 01 'a'",
        "10 12 00 06 'MQIsdp' 03 C2 00 00 00 01 'a' 00 01 'u'",
        "10 0F 00 06 'MQIsdp' 03 3B 00 00 00 01 'a'",
    ] {
        read(V31, Client, text);
    }
}

#[test]
fn version_3_1_wants_1_to_23_characters() {
    for (characters, good) in [(0, false), (1, true), (23, true), (24, false)] {
        let id = "é".repeat(characters);
        let mut body = hex("00 06 'MQIsdp' 03 02 00 00");
        body.extend(u16::try_from(id.len()).unwrap().to_be_bytes());
        body.extend(id.as_bytes());
        let bytes = packet(0x10, &body);
        if good {
            assert!(Decoder::of_clients(Limits::default()).decode(&bytes).is_ok());
        } else {
            let error = refused(V31, Client, &bytes);
            assert_eq!(error.fault(), Fault::Refused(Refusal::ClientIdLength(characters)));
            assert_eq!(answer(&error), [0x20, 2, 0, 2]);
        }
    }
}

#[test]
fn plain_client_identifiers_are_accepted_in_every_version() {
    //= MQTT311-3.1.3-5
    //= MQTT5-3.1.3-5
    let all = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for version in common::VERSIONS {
        for id in (1..=23).map(|len| &all[..len]).chain([&all[39..]]) {
            let connect = Packet::Connect(Connect::new(version, id));
            let bytes = common::encode(version, &connect);
            let read = Decoder::of_clients(Limits::default()).decode(&bytes);
            assert_eq!(read, Ok(Some((connect, bytes.len()))));
        }
    }
}
