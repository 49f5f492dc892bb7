//! The rules of property blocks, and that no bytes break a reader.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

fn sample(id: PropertyId) -> Property<'static> {
    let mut bytes = vec![id.code()];
    match id.kind() {
        crate::PropertyKind::Byte => bytes.push(1),
        crate::PropertyKind::U16 => bytes.extend([0, 9]),
        crate::PropertyKind::U32 => bytes.extend([0, 0, 0, 9]),
        crate::PropertyKind::Varint => bytes.extend([0x80, 0x01]),
        crate::PropertyKind::Text | crate::PropertyKind::Binary => bytes.extend([0, 1, b'x']),
        crate::PropertyKind::Pair => bytes.extend([0, 1, b'k', 0, 1, b'v']),
    }
    Cursor(bytes.leak()).property().unwrap()
}

const SCOPES: [PropertyScope; 14] = [
    PropertyScope::Connect,
    PropertyScope::Will,
    PropertyScope::ConnAck,
    PropertyScope::Publish,
    PropertyScope::PubAck,
    PropertyScope::PubRec,
    PropertyScope::PubRel,
    PropertyScope::PubComp,
    PropertyScope::Subscribe,
    PropertyScope::SubAck,
    PropertyScope::Unsubscribe,
    PropertyScope::UnsubAck,
    PropertyScope::Disconnect,
    PropertyScope::Auth,
];

#[test]
fn each_property_stands_only_where_its_table_says() {
    for id in PropertyId::ALL {
        for scope in SCOPES {
            let mut buf = PropertiesBuf::new();
            if id == PropertyId::AuthData && id.allowed_in(scope) {
                buf.push(Property::AuthMethod("m")).unwrap();
            }
            buf.push(sample(id)).unwrap();
            let parsed = Properties::parse(buf.as_properties().as_bytes(), scope);
            if id.allowed_in(scope) {
                assert_eq!(parsed.unwrap().find(id), Some(sample(id)), "{id:?} in {scope:?}");
            } else {
                assert_eq!(parsed, Err(PropertyError::Misplaced(id)));
            }
        }
    }
}

#[test]
fn repeated_properties_are_protocol_errors() {
    for id in PropertyId::ALL {
        for scope in SCOPES.into_iter().filter(|scope| id.allowed_in(*scope)) {
            let mut buf = PropertiesBuf::new();
            buf.push(sample(id)).unwrap();
            buf.push(sample(id)).unwrap();
            let parsed = Properties::parse(buf.as_properties().as_bytes(), scope);
            if id.repeatable_in(scope) {
                assert_eq!(parsed.unwrap().iter().count(), 2);
            } else {
                assert!(parsed.unwrap_err().is_protocol_error());
            }
        }
    }
}

#[test]
fn values_keep_their_ranges() {
    //= MQTT5-3.3.2-14
    //= MQTT5-3.3.2-13
    //= MQTT5-3.3.2-19
    let refused: [&[u8]; 8] = [
        &[0x01, 2],
        &[0x0B, 0],
        &[0x08, 0, 1, b'#'],
        &[0x08, 0, 0],
        &[0x08, 0, 1, 0xFF],
        &[0x03, 0, 1, 0xFF],
        &[0x26, 0, 1, 0, 0, 0],
        &[0x26, 0, 0, 0, 2, 0xED, 0xA0],
    ];
    for block in refused {
        assert!(Properties::parse(block, PropertyScope::Publish).is_err(), "{block:?}");
    }
    for block in [&[0x21, 0, 0][..], &[0x27, 0, 0, 0, 0], &[0x17, 2], &[0x19, 7]] {
        let error = Properties::parse(block, PropertyScope::Connect).unwrap_err();
        assert!(error.is_protocol_error(), "{error}");
    }
}

#[test]
fn both_halves_of_a_pair_are_strings() {
    //= MQTT5-1.5.7-1
    for block in [&[0x26, 0, 1, 0xFF, 0, 1, b'v'][..], &[0x26, 0, 1, b'k', 0, 1, 0xFF]] {
        let error = Properties::parse(block, PropertyScope::Connect).unwrap_err();
        assert_eq!(error, PropertyError::Text(PropertyId::UserProperty, TextError::IllFormed));
    }
}

#[test]
fn authentication_data_needs_its_method() {
    let block = [0x16, 0, 1, b'd'];
    let parsed = Properties::parse(&block, PropertyScope::Connect);
    assert_eq!(parsed, Err(PropertyError::DataWithoutMethod));
}

#[test]
fn unknown_identifiers_are_malformed() {
    let error = Properties::parse(&[0x04, 0], PropertyScope::Connect).unwrap_err();
    assert_eq!(error, PropertyError::Unknown(4));
    assert!(!error.is_protocol_error());
    let far = Properties::parse(&[0xFF, 0x7F], PropertyScope::Connect).unwrap_err();
    assert_eq!(far, PropertyError::Unknown(0x3FFF));
}

#[test]
fn what_is_too_long_leaves_no_trace() {
    let mut buf = PropertiesBuf::new();
    let long = "x".repeat(65_536);
    let refused = buf.push(Property::UserProperty("k", &long));
    assert_eq!(refused, Err(PropertyError::TooLong(PropertyId::UserProperty)));
    assert!(buf.as_properties().is_empty());
}

#[test]
fn encoded_slices_rebuild_the_block() {
    let mut buf = PropertiesBuf::new();
    for id in [PropertyId::ContentType, PropertyId::UserProperty, PropertyId::UserProperty] {
        buf.push(sample(id)).unwrap();
    }
    let mut copy = PropertiesBuf::new();
    for (_, encoded) in buf.as_properties().iter_encoded() {
        copy.push_encoded(encoded);
    }
    assert_eq!(copy, buf);
}

#[test]
fn a_visitor_sees_what_the_block_holds() {
    let mut buf = PropertiesBuf::new();
    for id in [PropertyId::TopicAlias, PropertyId::UserProperty, PropertyId::UserProperty] {
        buf.push(sample(id)).unwrap();
    }
    let mut seen = Vec::new();
    let block = buf.as_properties().as_bytes();
    let parsed = Properties::parse_each(block, PropertyScope::Publish, |p| seen.push(p)).unwrap();
    assert_eq!(seen, parsed.iter().collect::<Vec<_>>());
    assert_eq!(seen.len(), 3);
}

fn any_publish_property() -> impl Strategy<Value = Vec<(String, String)>> {
    proptest::collection::vec(("[a-z\u{FEFF}]{0,9}", ".{0,9}"), 0..9).prop_map(|pairs| {
        pairs.into_iter().map(|(key, value)| (key, value.replace('\0', ""))).collect()
    })
}

proptest! {
    #[test]
    fn user_properties_keep_their_order(pairs in any_publish_property()) {
        let mut buf = PropertiesBuf::new();
        for (key, value) in &pairs {
            buf.push(Property::UserProperty(key, value)).unwrap();
        }
        let parsed = Properties::parse(buf.0.as_slice(), PropertyScope::Publish).unwrap();
        let read: Vec<_> = parsed.iter().collect();
        let wrote: Vec<_> = pairs.iter().map(|(k, v)| Property::UserProperty(k, v)).collect();
        prop_assert_eq!(read, wrote);
    }

    #[test]
    fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        for scope in SCOPES {
            if let Ok(parsed) = Properties::parse(&bytes, scope) {
                let total: usize = parsed.iter_encoded().map(|(_, encoded)| encoded.len()).sum();
                prop_assert_eq!(total, bytes.len());
            }
        }
        let _ = Properties::from_checked(&bytes).iter().count();
    }
}
