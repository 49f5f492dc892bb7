//! Logs that are folded, with threads and without.

use zzq_engine::record::{Connect, Publish, WillMessage};
use zzq_engine::{Decision, SessionNumber, Shard};
use zzq_types::{Properties, QoS, TopicName};
use zzq_wal::Appender;
use zzq_wal::sim_disk::SimDisk;

use super::*;

const LANES: u32 = 3;

/// So many records of one kind are more than may be under way.
const MANY: u64 = 20_000;

fn body(record: &Record<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    record.encode_body(&mut body);
    body
}

/// A client with a will.
fn connect(number: u64) -> Vec<u8> {
    let will = WillMessage {
        topic: TopicName::new("will").unwrap(),
        qos: QoS::AtLeastOnce,
        retain: false,
        delay_s: 0,
        properties: Properties::EMPTY,
        payload: b"gone",
    };
    body(&Record::Connect(Connect {
        session: SessionNumber::new(number).unwrap(),
        client: &format!("client {number}"),
        expiry_s: u32::MAX,
        window: 1,
        joins: None,
        will: Some(will),
    }))
}

fn retain(topic: &str) -> Vec<u8> {
    body(&Record::Publish(Publish {
        publisher: None,
        inbound: None,
        will_of: None,
        qos: QoS::AtLeastOnce,
        retain: true,
        decision: Decision::NOBODY,
        topic: TopicName::new(topic).unwrap(),
        properties: Properties::EMPTY,
        payload: &[7; 100],
    }))
}

/// A log of wills and retained messages; at the places `unknown` there are records of no kind.
fn filled(unknown: &[u64]) -> SimDisk {
    let disk = SimDisk::new();
    let options = Options::from_os().unwrap();
    let (log, _) = Log::open(disk.clone(), options, 0, &mut |_| Ok(())).unwrap();
    let helper = log.spawn_helper().unwrap();
    let mut appender = Appender::new(&log).unwrap();
    appender.append_all(2, (1..=30).map(connect)).unwrap();
    for n in (1..=MANY / 1000).map(|n| n * 1000) {
        appender.append_all(3, (n..n + 1000).map(|n| retain(&format!("topic/{n}")))).unwrap();
        if unknown.contains(&n) {
            appender.append(200, b"?").unwrap();
        }
    }
    drop((appender, helper, log));
    disk
}

fn fold_with(threads: usize, disk: &SimDisk) -> Result<Folded<SimDisk>, FoldError> {
    let options = Options { recovery_threads: threads, ..Options::from_os().unwrap() };
    let states = (0..LANES).map(|lane| State::new(Shard::new(lane, LANES))).collect();
    fold(disk.clone(), options, Base { states, covered: Lsn::ZERO, image: None })
}

/// The threads, and none of them.
const WAYS: [usize; 2] = [2, 0];

#[test]
fn each_lane_gets_what_it_owns_with_threads_and_without() {
    let disk = filled(&[]);
    let folds = WAYS.map(|threads| {
        let Ok(folded) = fold_with(threads, &disk) else { panic!("it is refused") };
        assert_eq!(folded.records, 30 + MANY);
        let mut wills: Vec<_> = folded.wills.keys().copied().collect();
        wills.sort_unstable();
        assert_eq!(wills, (1..=30).map(Lsn::new).collect::<Vec<_>>());
        let references: Vec<_> = folded.states.iter().map(State::references).collect();
        assert!(references.iter().all(|part| !part.is_empty()), "each has something");
        let all: usize = references.iter().map(std::collections::BTreeMap::len).sum();
        assert_eq!(all as u64, 30 + MANY, "nobody has what another one has");
        (references, folded.bytes)
    });
    assert_eq!(folds[0], folds[1]);
}

#[test]
fn the_first_record_of_no_kind_refuses_the_log_and_nothing_is_changed() {
    let disk = filled(&[2000, 3000, MANY]);
    let before = disk.list().unwrap();
    for threads in WAYS {
        let Err(FoldError::Open(error)) = fold_with(threads, &disk) else { panic!("it is taken") };
        let OpenError::Refused { lsn, kind, .. } = error else { panic!("{error}") };
        assert_eq!((lsn.get(), kind), (30 + 2000 + 1, 200));
        assert_eq!(disk.list().unwrap(), before);
    }
}
