//! Logs that are folded, with threads and without.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::TryRecvError;

use zzq_engine::record::{
    Closing, Connect, NumberRange, Publish, RangeSetsBuf, Receipt, Start, WillMessage,
};
use zzq_engine::{Decision, DecisionBuf, QueueNumber, SessionNumber, Shard};
use zzq_snapshot::at_full_speed;
use zzq_types::{Properties, QoS, TopicName};
use zzq_wal::Appender;
use zzq_wal::sim_disk::{SimDisk, SimFile};

use super::*;
use crate::images::{Images, Loaded, Replay, Target};

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

fn publish<'a>(topic: &'a str, payload: &'a [u8], decision: Decision<'a>) -> Publish<'a> {
    Publish {
        publisher: None,
        inbound: None,
        will_of: None,
        qos: QoS::AtLeastOnce,
        retain: false,
        decision,
        topic: TopicName::new(topic).unwrap(),
        properties: Properties::EMPTY,
        payload,
    }
}

fn retain(topic: &str, payload: &[u8]) -> Vec<u8> {
    body(&Record::Publish(Publish { retain: true, ..publish(topic, payload, Decision::NOBODY) }))
}

/// Appends to the log on `disk`.
fn write(disk: &SimDisk, append: impl FnOnce(&mut Appender<SimDisk>)) {
    let options = Options::from_os().unwrap();
    let (log, _) = Log::open(disk.clone(), options, 0, &mut |_| Ok(())).unwrap();
    let helper = log.spawn_helper().unwrap();
    let mut appender = Appender::new(&log).unwrap();
    append(&mut appender);
    drop((appender, helper, log));
}

/// A log of wills and retained messages; at the places `unknown` there are records of no kind.
fn filled(unknown: &[u64]) -> SimDisk {
    let disk = SimDisk::new();
    write(&disk, |appender| {
        appender.append_all(2, (1..=30).map(connect)).unwrap();
        for n in (1..=MANY / 1000).map(|n| n * 1000) {
            let bodies = (n..n + 1000).map(|n| retain(&format!("topic/{n}"), &[7; 100]));
            appender.append_all(3, bodies).unwrap();
            if unknown.contains(&n) {
                appender.append(200, b"?").unwrap();
            }
        }
    });
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

/// However long records are, and however far behind a lane is: what is read ahead of it is no more
/// than a few batches, or one record.
#[test]
fn bytes_are_under_way_and_not_batches() {
    for (len, count) in [(3 << 20, 8), (100, 40_000)] {
        let disk = SimDisk::new();
        let payload = vec![7; len];
        write(&disk, |appender| {
            let bodies = (0..count).map(|n| retain(&format!("topic/{n}"), &payload));
            appender.append_all(3, bodies).unwrap();
        });
        let longest = retain("topic/00000", &payload).len() + size_of::<Entry>();
        let most = most_under_way(&disk, count);
        assert!(most <= UNDER_WAY.max(longest), "{most} bytes of records of {len}");
        assert!(most > UNDER_WAY / 2, "only {most} bytes: nobody waited");
    }
}

/// The most bytes that a lane holds at once which lets go of none before it is waited for.
fn most_under_way(disk: &SimDisk, count: u64) -> usize {
    let window = Arc::new(Window::new(UNDER_WAY));
    let most = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (way, batches) = channel::<Arc<Batch>>();
        let (its_window, most) = (Arc::clone(&window), &most);
        let stalled = scope.spawn(move || {
            let mut held = Vec::new();
            loop {
                match batches.try_recv() {
                    Ok(batch) => held.push(batch),
                    Err(TryRecvError::Disconnected) => break,
                    Err(TryRecvError::Empty) if its_window.is_awaited() => held.clear(),
                    Err(TryRecvError::Empty) => thread::yield_now(),
                }
                let bytes = held.iter().map(|batch: &Arc<Batch>| batch.bodies.capacity()).sum();
                most.fetch_max(bytes, Ordering::Relaxed);
            }
            let state = State::new(Shard::WHOLE);
            Ok::<Part<'_, SimFile>, _>(Part { state, image: None, wills: FxHashMap::default() })
        });
        let ways = vec![Way::Apart(way, stalled)];
        let mut folding =
            Folding { next: Lsn::new(1), bytes: 0, batch: Batch::default(), window, ways };
        let options = Options::from_os().unwrap();
        Log::find(disk.clone(), options, &mut |record| folding.record(&record)).unwrap();
        folding.send();
        assert_eq!(folding.next, Lsn::new(count + 1));
        for way in folding.ways {
            way.end().unwrap();
        }
    });
    most.into_inner()
}

/// A client on this lane, whose session has the number behind the lane's.
fn client_of(lane: u32) -> String {
    let names = (0..).map(|n| format!("client {n}"));
    let mut own = names.filter(|name| Shard::new(lane, LANES).owns(name.as_bytes()));
    own.next().unwrap()
}

fn session_of(lane: u32) -> SessionNumber {
    SessionNumber::new(u64::from(lane) + 1).unwrap()
}

/// What comes behind the image.
#[derive(Clone, Copy, Debug)]
enum Behind {
    /// More than may be under way, of what is of no importance.
    Much,
    /// The client of a lane has taken its first message: its queue is to be read from the image.
    Touch(u32),
    /// A record of no kind.
    Unknown,
}

/// A client of each lane is away, and what waits for it is in the newest of two images; the one
/// before knows nothing of it.
fn with_queues_in_an_image(behind: &[Behind]) -> SimDisk {
    let disk = SimDisk::new();
    write(&disk, |appender| {
        for lane in 0..LANES {
            let connect = Connect {
                session: session_of(lane),
                client: &client_of(lane),
                expiry_s: u32::MAX,
                window: 1,
                joins: None,
                will: None,
            };
            append(appender, &Record::Connect(connect));
        }
        // They have gone.
        append(appender, &Record::Start(Start { jump: false }));
    });
    make_image(&disk);
    write(&disk, |appender| {
        let mut decision = DecisionBuf::new();
        for lane in 0..LANES {
            decision.push_plain(session_of(lane), QoS::AtLeastOnce, false);
        }
        for _ in 0..20 {
            append(appender, &Record::Publish(publish("t", b"x", decision.as_decision())));
        }
    });
    make_image(&disk);
    write(&disk, |appender| {
        for one in behind {
            match *one {
                Behind::Much => {
                    let bodies = (0..MANY).map(|n| retain(&format!("topic/{}", n % 10), &[7; 100]));
                    appender.append_all(3, bodies).unwrap();
                }
                Behind::Touch(lane) => {
                    let first = NumberRange::one(QueueNumber::new(1));
                    let mut sets = RangeSetsBuf::new();
                    sets.push_ranges(session_of(lane), Closing::Closed, [first]);
                    append(appender, &Record::Receipt(Receipt { sets: sets.as_list() }));
                }
                Behind::Unknown => drop(appender.append(200, b"?").unwrap()),
            }
        }
    });
    disk
}

fn append(appender: &mut Appender<SimDisk>, record: &Record<'_>) {
    appender.append(record.kind(), &body(record)).unwrap();
}

fn make_image(disk: &SimDisk) {
    let loaded = load(disk);
    let options = Options::from_os().unwrap();
    let (log, _) = Log::open(disk.clone(), options, 0, &mut |_| Ok(())).unwrap();
    let settled = Lsn::new(log.durable().get());
    let mut images = Images::new(log, loaded.shelf, loaded.cold, Replay::default());
    assert!(images.make(&settled.into(), at_full_speed()).unwrap().is_some());
}

/// All queues stay in the image.
fn load(disk: &SimDisk) -> Loaded<SimFile> {
    let lanes = u16::try_from(LANES).unwrap();
    images::load(disk, Target { lanes, leaves_from: 0 }, at_full_speed()).unwrap()
}

/// A start whose lanes look for their queues in this image of two.
fn fold_over(disk: &SimDisk, threads: usize, image: usize) -> Result<Folded<SimDisk>, FoldError> {
    let Loaded { shelf, states, covered, .. } = load(disk);
    let untouched = |lane: usize| states[lane].untouched(session_of(u32::try_from(lane).unwrap()));
    assert!((0..states.len()).all(|lane| untouched(lane).is_some_and(|front| front.len == 20)));
    let image = shelf.images().nth(image).cloned();
    let mut options = Options { recovery_threads: threads, ..Options::from_os().unwrap() };
    options.visit_from = zzq_wal::Lsn::new(covered.next().get());
    fold(disk.clone(), options, Base { states, covered, image })
}

/// Whose queue could not be read, or which record not be decoded.
fn told(error: FoldError) -> String {
    match error {
        FoldError::Touch(TouchError::Contents { session, .. }) => format!("session {session}"),
        FoldError::Open(OpenError::Refused { lsn, kind, .. }) => format!("kind {kind} at {lsn}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_wrong_first_in_the_log_is_told_whichever_lane_finds_it() {
    use Behind::{Much, Touch, Unknown};

    // Before: a connect for each lane, the start, twenty messages.
    let first = u64::from(LANES) + 1 + 20 + 1;
    let cases: [(&[Behind], String); 6] = [
        (&[Touch(2), Touch(1), Touch(0)], format!("session {}", session_of(2))),
        (&[Much, Touch(1), Much, Touch(0), Much, Touch(2)], format!("session {}", session_of(1))),
        (&[Touch(2), Much, Touch(0), Much], format!("session {}", session_of(2))),
        (&[Much, Touch(2), Unknown, Touch(0)], format!("session {}", session_of(2))),
        (&[Touch(1), Much, Much, Unknown], format!("session {}", session_of(1))),
        (&[Much, Unknown, Touch(0), Much], format!("kind 200 at @{}", first + MANY)),
    ];
    for (behind, expected) in cases {
        let disk = with_queues_in_an_image(behind);
        let before = disk.list().unwrap();
        for threads in WAYS {
            let Err(error) = fold_over(&disk, threads, 0) else { panic!("it is taken") };
            assert_eq!(told(error), expected, "{behind:?} with {threads} threads");
            assert_eq!(disk.list().unwrap(), before, "nothing was changed");
        }
    }
}

/// The image that has the queues gives them back, so it is that which makes the difference above.
#[test]
fn queues_come_back_from_their_image_when_a_record_touches_them() {
    let disk = with_queues_in_an_image(&[Behind::Much, Behind::Touch(1)]);
    for threads in WAYS {
        let Ok(folded) = fold_over(&disk, threads, 1) else { panic!("it is refused") };
        let fronts = (0_u32..)
            .zip(&folded.states)
            .map(|(lane, state)| (state.untouched(session_of(lane)).is_some(), state.queued()));
        assert_eq!(fronts.collect::<Vec<_>>(), [(true, 20), (false, 19), (true, 20)]);
    }
}
