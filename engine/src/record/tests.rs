//! What holds for all kinds: one encoding each way, and no panic on any bytes.

use proptest::prelude::*;

use super::*;
use crate::testing::{self, Owned};

proptest! {
    #[test]
    fn records_round_trip(owned in testing::record()) {
        let record = owned.record();
        prop_assert_eq!(Owned::of(&record), owned.clone());
        prop_assert!(Record::kind_name(owned.kind).is_some());
        // Every shorter body is another record or an error, and never a panic.
        for len in 0..owned.body.len() {
            let _ = Record::decode(owned.kind, &owned.body[..len]);
        }
    }

    #[test]
    fn any_bytes_are_a_record_or_an_error(
        kind in 0_u8..20,
        body in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        if let Ok(record) = Record::decode(kind, &body) {
            prop_assert_eq!(Owned::of(&record), Owned { kind, body: body.clone() });
        }
    }

    #[test]
    fn damaged_records_are_records_or_errors(
        owned in testing::record(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut body = owned.body;
        if !body.is_empty() {
            let at = at.index(body.len());
            body[at] = byte;
        }
        if let Ok(record) = Record::decode(owned.kind, &body) {
            prop_assert_eq!(Owned::of(&record).body, body);
        }
    }
}

#[test]
fn kinds_are_numbered_without_gaps_from_one() {
    let named: Vec<u8> = (0..=u8::MAX).filter(|&kind| Record::kind_name(kind).is_some()).collect();
    assert_eq!(named, (1..=18).collect::<Vec<u8>>());
    assert_eq!(Record::decode(0, &[]), Err(RecordError::Kind(0)));
    assert_eq!(Record::decode(19, &[]), Err(RecordError::Kind(19)));
}

#[test]
fn another_version_of_the_encoding_is_refused() {
    assert_eq!(Record::decode(1, &[1, 1]), Ok(Record::Start(Start { jump: true })));
    assert_eq!(Record::decode(1, &[2, 1]), Err(RecordError::Version { found: 2 }));
}

#[test]
fn fields_that_contradict_each_other_are_refused() {
    // A packet identifier at QoS 1, and one without a publisher.
    assert!(Record::decode(3, &[0x19, 1, 1, 0, 1, b't', 0]).is_err());
    assert!(Record::decode(3, &[0x12, 1, 0, 1, b't', 0]).is_err());
    assert!(Record::decode(3, &[0x1A, 1, 1, 0, 1, b't', 0]).is_ok());
    // A wildcard in a topic, a filter that is none, a window of 0, a receipt that expires.
    assert!(Record::decode(3, &[0x01, 0, 1, b'#', 0]).is_err());
    assert!(Record::decode(9, &[1, 2, b'#', b'/']).is_err());
    assert!(Record::decode(2, &[1, 0, 1, b'a', 0, 0]).is_err());
    assert!(Record::decode(11, &[1 << 2 | 2, 0, 0]).is_err());
    assert!(Record::decode(11, &[1 << 2 | 1, 0, 0]).is_ok());
    assert!(Record::decode(12, &[3, 1 << 2 | 1, 0, 0]).is_err());
    assert!(Record::decode(12, &[3, 1 << 2 | 2, 0, 0]).is_ok());
}

#[test]
fn numbers_that_would_overflow_are_refused() {
    let mut set = vec![1 << 2];
    crate::wire::put(&mut set, u64::MAX - 1);
    set.push(2);
    assert!(Record::decode(11, &set).is_err());
    let mut set = vec![1 << 2, 0];
    crate::wire::put(&mut set, u64::MAX - 3);
    assert!(Record::decode(11, &set).is_ok(), "up to the highest number a record may name");
    let mut down = vec![1];
    crate::wire::put(&mut down, 1 << 63);
    down.push(0);
    assert!(Record::decode(6, &down).is_err());
}
