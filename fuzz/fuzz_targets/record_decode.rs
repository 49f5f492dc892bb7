//! Any bytes as a record: its kind, then its body. What decodes has one encoding, and all that
//! is read lazily out of it ends.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zzq_engine::record::{LateItems, NumberRanges};
use zzq_engine::{QueueNumber, Record};

fuzz_target!(|bytes: &[u8]| {
    let Some((&kind, body)) = bytes.split_first() else { return };
    let Ok(record) = Record::decode(kind, body) else { return };
    assert_eq!(record.kind(), kind);
    assert!(Record::kind_name(kind).is_some());
    let mut again = Vec::new();
    record.encode_body(&mut again);
    assert_eq!(again, body, "{record:?}");
    read_all(&record);
});

fn read_all(record: &Record<'_>) {
    match record {
        Record::Publish(publish) => {
            let ascend = publish.decision.iter().is_sorted_by_key(|to| to.session);
            assert!(ascend, "destinations ascend");
            let ids = publish.decision.iter().flat_map(|to| to.ids);
            assert!(ids.count() <= publish.decision.as_bytes().len());
            let _ = (publish.size(), publish.expires_ms(u64::MAX));
        }
        Record::LateDecision(late) => check_items(late.items),
        Record::History(history) => check_items(history.items),
        Record::Receipt(receipt) => check_sets(receipt.sets.iter().map(|set| set.ranges)),
        Record::Expire(expire) => check_sets(expire.sets.iter().map(|set| set.ranges)),
        _ => {}
    }
}

/// What enters no queue is there for its group alone.
fn check_items(items: LateItems<'_>) {
    assert!(items.iter().all(|item| item.qos.is_acknowledged() || item.orphan.is_some()));
}

fn check_sets<'a>(sets: impl Iterator<Item = NumberRanges<'a>>) {
    for ranges in sets {
        let mut end = QueueNumber::ZERO;
        for range in ranges {
            assert!(end < range.first && range.first <= range.last, "ranges ascend");
            end = range.last;
        }
        assert!(end > QueueNumber::ZERO && end <= QueueNumber::MAX);
    }
}
