//! Faults that other brokers and clients had, as far as bytes alone decide them.

mod common;

use common::{V5, V31, V311, answer, hex, read, refused};
use zzq_codec::{Answer, Decoder, Fault, Limits, Packet, Refusal, Sender};
use zzq_types::{ReasonCode, TopicFilter};

use Sender::{Client, Server};

#[test]
fn client_identifiers_with_nul_or_ill_formed_close_without_success() {
    //= B01
    let nul = "10 0F 00 04 'MQTT' 04 02 00 3C 00 03 61 00 62";
    let ill = "10 0E 00 04 'MQTT' 04 02 00 3C 00 02 FF FE";
    for text in [nul, ill] {
        assert_eq!(refused(V311, Client, &hex(text)).answer(), Answer::Close);
    }
    for text in [
        "10 10 00 04 'MQTT' 05 02 00 3C 00 00 03 61 00 62",
        "10 0F 00 04 'MQTT' 05 02 00 3C 00 00 02 FF FE",
    ] {
        assert_eq!(answer(&refused(V5, Client, &hex(text))), [0x20, 3, 0, 0x81, 0]);
    }
}

#[test]
fn subscribe_with_nul_or_a_surrogate_closes_and_a_byte_order_mark_stays() {
    //= B02
    //= B03
    //= MQTT311-1.5.3-3
    //= MQTT5-1.5.4-3
    for text in ["82 08 00 01 00 03 61 00 62 00", "82 08 00 01 00 03 ED A0 80 00"] {
        assert_eq!(refused(V311, Client, &hex(text)).answer(), Answer::Close);
        assert_eq!(refused(V31, Client, &hex(text)).answer(), Answer::Close);
    }
    let Packet::Publish(publish) = read(V311, Client, "30 06 00 04 EF BB BF 61") else {
        unreachable!()
    };
    let topic = publish.topic.unwrap();
    assert!(TopicFilter::new("\u{FEFF}a").unwrap().matches(topic));
    assert!(!TopicFilter::new("a").unwrap().matches(topic));
}

#[test]
fn no_client_identifier_and_clean_session_0_gets_code_2() {
    //= B04
    //= MQTT311-3.1.3-7
    //= MQTT311-3.1.3-8
    let error = refused(V311, Client, &hex("10 0C 00 04 4D 51 54 54 04 00 00 3C 00 00"));
    assert_eq!(error.fault(), Fault::Refused(Refusal::NoClientId));
    assert_eq!(answer(&error), [0x20, 2, 0, 2]);
    read(V311, Client, "10 0C 00 04 4D 51 54 54 04 02 00 3C 00 00");
    read(V5, Client, "10 0D 00 04 4D 51 54 54 05 00 00 3C 00 00 00");
}

#[test]
fn an_empty_user_name_is_there_and_a_cut_off_one_closes() {
    //= B06
    //= MQTT311-3.1.2-19
    //= MQTT5-3.1.2-17
    let text = "10 12 00 04 4D 51 54 54 04 C2 00 3C 00 01 61 00 00 00 01 70";
    let Packet::Connect(connect) = read(V311, Client, text) else { unreachable!() };
    assert_eq!((connect.user_name, connect.password), (Some(""), Some(&b"p"[..])));
    let error = refused(V311, Client, &hex("10 0D 00 04 4D 51 54 54 04 82 00 3C 00 01 61"));
    assert_eq!(error.answer(), Answer::Close);
}

#[test]
fn an_empty_topic_with_an_alias_is_for_the_session_to_resolve() {
    //= B16
    let Packet::Publish(publish) = read(V5, Client, "30 06 00 00 03 23 00 03") else {
        unreachable!()
    };
    assert_eq!(publish.topic, None);
    assert_eq!(publish.topic_alias().map(u16::from), Some(3));
    let none = refused(V5, Client, &hex("30 03 00 00 00"));
    assert_eq!(answer(&none), [0xE0, 1, 0x82]);
    let zero = refused(V5, Client, &hex("30 06 00 00 03 23 00 00"));
    assert_eq!(answer(&zero), [0xE0, 1, 0x94]);
}

#[test]
fn the_limit_counts_the_whole_packet() {
    //= B21
    let mut decoder = Decoder::of_clients(Limits { max_packet: 2_000_000 });
    decoder.connected(V5);
    let header = |size: u32| {
        let mut bytes = vec![0x30];
        zzq_types::write_varint(&mut bytes, size - 4);
        assert_eq!(bytes.len(), 4);
        bytes
    };
    let error = decoder.header(&header(2_000_001)).unwrap_err();
    assert_eq!(answer(&error), [0xE0, 1, 0x95]);
    let good = decoder.header(&header(2_000_000)).unwrap().unwrap();
    assert_eq!(good.total_len(), 2_000_000);
}

#[test]
fn clients_send_no_subscription_identifier_with_publish() {
    //= B23
    //= MQTT5-3.3.4-6
    let text = "30 06 00 01 61 02 0B 01";
    assert_eq!(answer(&refused(V5, Client, &hex(text))), [0xE0, 1, 0x82]);
    read(V5, Server, text);
}

#[test]
fn one_bad_filter_spoils_no_other() {
    //= B26
    let text = "82 15 00 01 00 00 01 'a' 00 00 08 '$share/g' 01 00 00 02";
    let Packet::Subscribe(subscribe) = read(V5, Client, text) else { unreachable!() };
    let good: Vec<bool> =
        subscribe.subscriptions.iter().map(|entry| entry.filter.is_ok()).collect();
    assert_eq!(good, [true, false, false]);
}

#[test]
fn no_local_in_a_shared_subscription_closes() {
    //= B33
    //= MQTT5-3.8.3-4
    let bytes = hex("82 10 00 01 00 00 0A 24 73 68 61 72 65 2F 67 2F 61 04");
    let error = refused(V5, Client, &bytes);
    assert_eq!(error.reason_code(), ReasonCode::ProtocolError);
    assert_eq!(answer(&error), [0xE0, 1, 0x82]);
}

#[test]
fn an_empty_payload_is_a_payload() {
    //= C14
    for version in [V31, V311] {
        let Packet::Publish(publish) = read(version, Server, "30 03 00 01 74") else {
            unreachable!()
        };
        assert_eq!(publish.payload, b"");
    }
    let Packet::Publish(publish) = read(V5, Server, "30 04 00 01 74 00") else { unreachable!() };
    assert_eq!(publish.payload, b"");
}
