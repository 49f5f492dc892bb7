//! Topic indexes: what was noted is read back, by topic; one that has changed is noticed; their
//! bytes stay as they are.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use std::ops::ControlFlow;

use common::IDENTITY;
use zzq_snapshot::{
    Listing, ReadError, TopicPlace, TopicsDraft, TopicsFile, at_full_speed, topics_name,
};
use zzq_wal::Lsn;
use zzq_wal::sim_disk::{SimDisk, SimFile};

const GOLDEN: &[u8] = include_bytes!("golden/topics-v1.bin");

const SEGMENT: u64 = 9;
const FIRST: u64 = 1000;
const LAST: u64 = 4000;

fn place(lsn: u64) -> TopicPlace {
    let (offset, time_ms) = (8192 + (lsn - FIRST) * 150, 1_700_000_000_000 + lsn / 7);
    TopicPlace { lsn: Lsn::new(lsn), offset, time_ms }
}

/// The topic of a record: a busy one, some that share a beginning, one of a single message. A
/// hundredth are no messages, two are in parts.
fn topic(lsn: u64) -> Option<String> {
    match lsn {
        _ if lsn % 100 == 3 => None,
        2000 => Some("once".to_owned()),
        _ if lsn.is_multiple_of(10) => Some(format!("site/{}/temperature", lsn / 10 % 40)),
        _ => Some("busy".to_owned()),
    }
}

fn is_in_parts(lsn: u64) -> bool {
    lsn == 1234 || lsn == LAST
}

fn make(disk: &SimDisk) -> TopicsFile<SimFile> {
    let mut draft = TopicsDraft::new(SEGMENT, Lsn::new(FIRST));
    for lsn in FIRST..=LAST {
        match topic(lsn) {
            _ if is_in_parts(lsn) => draft.in_parts(Lsn::new(lsn)),
            Some(topic) => draft.message(topic.as_bytes(), place(lsn)),
            None => {}
        }
    }
    let end = (Lsn::new(LAST), place(LAST).time_ms);
    draft.write(disk, IDENTITY, end, at_full_speed()).unwrap()
}

/// All topics with this beginning, each with its messages.
fn read(
    file: &TopicsFile<SimFile>,
    prefix: &str,
) -> Result<Vec<(String, Vec<TopicPlace>)>, ReadError> {
    let mut topics = Vec::new();
    file.topics(prefix.as_bytes(), |topic| {
        let name = String::from_utf8(topic.name.to_vec()).unwrap();
        topics.push((name, topic.rank, topic.messages));
        ControlFlow::Continue(())
    })?;
    let places = topics.into_iter().map(|(name, rank, messages)| {
        let mut places = Vec::new();
        file.places(rank, &mut places)?;
        assert_eq!(places.len(), usize::try_from(messages).unwrap(), "{name}");
        Ok((name, places))
    });
    places.collect()
}

fn expected(name: &str) -> Vec<TopicPlace> {
    let is_it = |lsn: &u64| topic(*lsn).as_deref() == Some(name) && !is_in_parts(*lsn);
    (FIRST..=LAST).filter(is_it).map(place).collect()
}

fn check(file: &TopicsFile<SimFile>) {
    assert_eq!((file.first(), file.last()), (Lsn::new(FIRST), Lsn::new(LAST)));
    assert_eq!(file.in_parts().unwrap(), [Lsn::new(1234), Lsn::new(LAST)]);
    let all = read(file, "").unwrap();
    assert_eq!(all.len(), 42);
    assert!(all.iter().all(|(name, places)| *places == expected(name)));
    let some: Vec<_> = read(file, "site/1").unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(some.len(), 11, "1, and 10 to 19: {some:?}");
    assert!(read(file, "site/41").unwrap().is_empty());
    let mut first = None;
    let visit = |topic: zzq_snapshot::TopicEntry<'_>| {
        first = Some(topic.rank);
        ControlFlow::Break(())
    };
    file.topics(b"once", visit).unwrap();
    assert_eq!(first, Some(1));
}

#[test]
fn what_was_noted_is_found_by_topic() {
    let disk = SimDisk::new();
    check(&make(&disk));
    assert_eq!(Listing::read(&disk).unwrap().topics(), [SEGMENT]);
    check(&TopicsFile::open(&disk, SEGMENT).unwrap());
}

#[test]
fn an_index_without_messages_is_one() {
    let disk = SimDisk::new();
    let end = (Lsn::new(7), 5);
    let draft = TopicsDraft::new(SEGMENT, Lsn::new(7));
    let file = draft.write(&disk, IDENTITY, end, at_full_speed()).unwrap();
    assert!(read(&file, "").unwrap().is_empty() && file.in_parts().unwrap().is_empty());
}

#[test]
fn indexes_of_version_1_keep_their_bytes_and_are_read() {
    let disk = SimDisk::new();
    let made = disk.bytes(make(&disk).volume().name()).unwrap();
    let first = made.iter().zip(GOLDEN).position(|(one, other)| one != other);
    assert_eq!((first, made.len()), (None, GOLDEN.len()), "the format changed");
    let disk = SimDisk::new();
    disk.insert(&topics_name(SEGMENT), GOLDEN.to_vec());
    check(&TopicsFile::open(&disk, SEGMENT).unwrap());
    disk.insert(&topics_name(SEGMENT + 1), GOLDEN.to_vec());
    assert!(TopicsFile::open(&disk, SEGMENT + 1).is_err(), "of another segment");
}

#[test]
fn a_byte_that_has_changed_changes_nothing_that_is_read() {
    let whole = read(&make(&SimDisk::new()), "site/").unwrap();
    let (mut found, step) = (0, 61);
    for at in (0..GOLDEN.len()).step_by(step) {
        let mut bytes = GOLDEN.to_vec();
        bytes[at] ^= 0x10;
        let disk = SimDisk::new();
        disk.insert(&topics_name(SEGMENT), bytes);
        match TopicsFile::open(&disk, SEGMENT).and_then(|file| read(&file, "site/")) {
            Ok(read) => assert_eq!(read, whole, "byte {at}"),
            Err(error) => {
                assert!(matches!(error, ReadError::Damage(_)), "{error}");
                found += 1;
            }
        }
    }
    assert!(found > 2 * 4096 / step, "the outer blocks at least");
}
