//! Reading history of a log: what comes of it is the same whatever indexes there are, and who wants
//! little of what has one reads little.

use std::sync::Arc;

use zzq_engine::record::Publish;
use zzq_engine::{Decision, Record};
use zzq_lanes::LaneWaker;
use zzq_snapshot::{Listing, topics_name};
use zzq_types::{Properties, TopicFilter, TopicName};
use zzq_wal::sim_disk::{Fault, Op, Random, SimDisk};
use zzq_wal::{Producer, Reserve, Space, StageError, Staging};

use super::topics::DENSE;
use super::*;
use crate::small_log::small_log;

/// A message as it was published.
struct Published {
    topic: String,
    time_ms: u64,
}

struct World {
    log: Log<SimDisk>,
    lane: Producer<SimDisk>,
    archive: Archive<SimDisk>,
    seat: ReplaySeat,
    /// By LSN, from 1.
    published: Vec<Published>,
    now_ms: u64,
}

impl World {
    fn new() -> Self {
        let (log, lane) = small_log();
        let (replayer, archive) = archive(log.clone(), Arc::default());
        let seat = replayer.seat(LaneWaker::flag_only());
        Self { log, lane, archive, seat, published: Vec::new(), now_ms: 1_000 }
    }

    fn turn(&mut self) {
        self.lane.drive(self.now_ms);
        self.log.helper_step(0);
    }

    fn publish(&mut self, topic: &str, qos: QoS, payload: usize) {
        let record = Record::Publish(Publish {
            publisher: None,
            inbound: None,
            will_of: None,
            qos,
            retain: false,
            decision: Decision::NOBODY,
            topic: TopicName::new(topic).unwrap(),
            properties: Properties::EMPTY,
            payload: &vec![b'x'; payload],
        });
        let how = Staging { kind: record.kind(), waits: true, ..Staging::default() };
        while let Err(error) = self.lane.stage(&how, |out| record.encode_body(out)) {
            assert!(matches!(error, StageError::Full), "{error}");
            self.turn();
        }
        self.published.push(Published { topic: topic.to_owned(), time_ms: 0 });
    }

    /// All is durable, and its times are known.
    fn settle(&mut self) {
        while self.lane.durable() < self.lane.handed() {
            self.turn();
        }
        while self.log.helper_step(0) {}
        let mut reader = self.log.reader(zzq_wal::Lsn::FIRST).unwrap();
        for published in &mut self.published {
            published.time_ms = reader.next_record().unwrap().unwrap().time_ms;
        }
    }

    /// As a start over the same log: nothing is known but what is written down.
    fn restart(&mut self, looks_ahead: bool) {
        let (replayer, archive) = archive(self.log.clone(), Arc::default());
        self.seat = replayer.seat(LaneWaker::flag_only());
        self.archive = archive.looking_ahead(looks_ahead);
    }

    /// Segments that have an index.
    fn indexed(&self) -> Vec<u64> {
        Listing::read(&**self.log.disk()).unwrap().topics().to_vec()
    }

    /// Segments that are closed.
    fn closed(&self) -> Vec<u64> {
        let segments = topics::closed(&self.log);
        segments.iter().map(|segment| segment.number).collect()
    }

    fn bytes(&self) -> u64 {
        self.log.segments().iter().map(|segment| segment.bytes).sum()
    }

    /// One message in a thousand is of `rare`.
    fn publish_few_among_many(&mut self) {
        for n in 0..30_000_u32 {
            let topic =
                if n % 1000 == 500 { "rare".to_owned() } else { format!("busy/{}", n % 50) };
            self.publish(&topic, QoS::AtLeastOnce, 150);
        }
        self.settle();
    }

    /// The offsets that a subscription gets, and how many bytes were read for them.
    fn replay(&mut self, filter: &str, from: u64, since_ms: u64, most: usize) -> (Vec<u64>, u64) {
        let (mut next, mut offsets) = (Lsn::new(from), Vec::new());
        let before = self.archive.read;
        loop {
            self.seat.request(Wanted {
                session: SessionNumber::FIRST,
                sub: SubNumber::new(1),
                ticket: 1,
                from: next,
                since_ms,
                filter: filter.into(),
                qos: QoS::ExactlyOnce,
                retain_as_published: false,
                most,
                most_bytes: u64::MAX,
                alone: true,
                most_memory: 512 << 10,
                now_ms: self.now_ms,
            });
            assert!(self.archive.step());
            let stretch = self.seat.take().pop().unwrap();
            assert_eq!(stretch.error, None);
            let fleeting = |past: &PastMessage| past.qos == QoS::AtMostOnce;
            let first = stretch.messages.first().map(fleeting);
            assert!(stretch.messages.iter().all(|past| Some(fleeting(past)) == first));
            offsets.extend(stretch.messages.iter().map(|past| past.lsn.get()));
            next = stretch.next;
            if stretch.is_end {
                return (offsets, self.archive.read - before);
            }
        }
    }

    fn expected(&self, filter: &str, from: u64, since_ms: u64) -> Vec<u64> {
        let filter = TopicFilter::new(filter).unwrap();
        let is_wanted = |(lsn, published): &(u64, &Published)| {
            let topic = TopicName::new(&published.topic).unwrap();
            *lsn >= from && published.time_ms >= since_ms && filter.matches(topic)
        };
        (1..).zip(&self.published).filter(is_wanted).map(|(lsn, _)| lsn).collect()
    }
}

#[test]
fn one_message_in_a_thousand_costs_a_twentieth_of_the_log_once_it_is_known() {
    let mut world = World::new();
    world.publish_few_among_many();
    let bytes = world.bytes();
    let expected = world.expected("rare", 1, 0);
    let (first, all) = world.replay("rare", 1, 0, 1000);
    assert_eq!((&first, first.len()), (&expected, 30));
    assert!(all > bytes / 2, "{all} of {bytes} for the first");
    let (second, few) = world.replay("rare", 1, 0, 1000);
    assert_eq!(second, expected);
    println!("{few} of {bytes} bytes, {} per mille", few * 1000 / bytes);
    assert!(few <= bytes / 20, "{few} of {bytes}");
    let (none, nothing) = world.replay("no/such", 1, 0, 1000);
    assert!(none.is_empty() && nothing < few);
    // It is written down.
    world.restart(false);
    assert_eq!(world.replay("rare", 1, 0, 1000), (expected, few));
    // What comes later is read when it is asked for.
    for _ in 0..5000 {
        world.publish("busy/1", QoS::AtLeastOnce, 150);
    }
    world.publish("rare", QoS::AtLeastOnce, 150);
    world.settle();
    assert_eq!(world.replay("rare", 1, 0, 1000).0, world.expected("rare", 1, 0));
}

#[test]
fn indexes_are_made_before_anybody_asks() {
    let mut world = World::new();
    world.publish_few_among_many();
    assert!(!world.archive.step(), "nobody wants history here");
    assert!(world.indexed().is_empty());
    world.restart(true);
    while world.archive.step() {}
    assert_eq!(world.indexed(), world.closed());
    let (found, few) = world.replay("rare", 1, 0, 1000);
    assert_eq!(found, world.expected("rare", 1, 0));
    assert!(few <= world.bytes() / 20, "{few}");
}

#[test]
fn an_index_that_is_no_good_is_made_anew() {
    let mut world = World::new();
    world.publish_few_among_many();
    world.restart(true);
    while world.archive.step() {}
    let all = world.indexed();
    let disk = Arc::clone(world.log.disk());
    let index = |number| disk.bytes(&topics_name(number)).unwrap();
    // Of another segment; damaged; cut short; gone.
    disk.insert(&topics_name(all[1]), index(all[2]));
    let mut damaged = index(all[3]);
    damaged[5000] ^= 1;
    disk.insert(&topics_name(all[3]), damaged);
    disk.insert(&topics_name(all[4]), index(all[4])[..4096].to_vec());
    disk.remove(&topics_name(all[5])).unwrap();
    let expected = world.expected("rare", 1, 0);
    for (looks_ahead, most) in [(false, 1), (true, 1000)] {
        world.restart(looks_ahead);
        assert_eq!(world.replay("rare", 1, 0, most).0, expected);
    }
    assert_eq!(world.indexed(), all);
    let (_, few) = world.replay("rare", 1, 0, 1000);
    assert!(few <= world.bytes() / 20, "{few}");
}

#[test]
fn history_is_read_also_where_no_index_can_be_written() {
    let mut world = World::new();
    world.publish_few_among_many();
    world.log.disk().fail(Op::Create, 1, Fault::Fail(std::io::ErrorKind::StorageFull));
    world.restart(true);
    while world.archive.step() {}
    assert_eq!(world.indexed(), world.closed()[1..], "it is not tried again and again");
    assert_eq!(world.replay("rare", 1, 0, 1000).0, world.expected("rare", 1, 0));
}

/// What was closed while space was low had no index until the next start.
#[test]
fn what_is_closed_while_space_is_low_has_its_index_when_there_is_space_again() {
    let mut world = World::new();
    world.restart(true);
    // Notes are begun in good time.
    world.publish("busy/1", QoS::AtLeastOnce, 150);
    world.settle();
    assert!(!world.archive.step());
    world.log.keep_free(Reserve { low: 1 << 50, ..Reserve::default() });
    world.publish_few_among_many();
    assert_eq!(world.log.space(), Space::Low);
    while world.archive.step() {}
    assert!(world.indexed().is_empty(), "others need the space");
    world.log.keep_free(Reserve::default());
    world.log.helper_step(0);
    while world.archive.step() {}
    assert_eq!(world.indexed(), world.closed());
    assert_eq!(world.replay("rare", 1, 0, 1000).0, world.expected("rare", 1, 0));
}

/// The first segment may be there for a record that begins in it, while those that it begins with
/// have lost their beginning: who asked for all that there is was refused, again and again.
#[test]
fn history_begins_with_what_is_whole() {
    let mut world = World::new();
    for n in 0..12 {
        world.now_ms += 10;
        world.publish("big", QoS::AtLeastOnce, 200_000 + 1000 * n);
        world.publish("small", QoS::AtLeastOnce, 100);
        world.settle();
    }
    let (last, mut without_beginning) = (world.published.len() as u64, 0);
    for below in 1..=last {
        world.log.trim(zzq_wal::Lsn::new(below));
        while world.log.helper_step(0) {}
        let kept = world.log.segments()[0].first.get();
        let whole = world.log.first_whole().get();
        if kept == whole {
            continue;
        }
        without_beginning += 1;
        world.restart(false);
        assert_eq!(world.replay("#", 1, 0, 50).0, world.expected("#", whole, 0));
        for back in 0..3 {
            let time_ms = world.published[usize::try_from(below).unwrap() - 1].time_ms - 10 * back;
            let expected = world.expected("big", whole, time_ms);
            assert_eq!(world.replay("big", kept, time_ms, 50).0, expected);
        }
        world.restart(true);
        while world.archive.step() {}
        let segments = topics::closed(&world.log);
        let mut readable =
            segments.iter().filter(|one| one.first.get() >= whole && one.first <= one.last);
        assert!(readable.all(|one| world.indexed().contains(&one.number)), "below {below}");
    }
    assert!(without_beginning > 3, "{without_beginning}");
}

#[test]
fn what_comes_is_the_same_whatever_was_read_before() {
    for seed in 0..4 {
        let (mut world, mut random) = (World::new(), Random::new(seed));
        world.archive.dense = if seed % 2 == 0 { DENSE } else { 1 };
        let topics = ["a", "a/b", "a/b/c", "a/bc", "b", "b/b", "$x/b", "ü/b"];
        for n in 0..6000_u64 {
            world.now_ms += u64::from(n % 7 == 0);
            let is_busy = random.index(20) > 0;
            let topic = if is_busy { "busy" } else { random.pick(&topics) };
            let qos = random.pick(&[QoS::AtLeastOnce, QoS::ExactlyOnce, QoS::AtMostOnce]);
            // Some are in parts.
            let payload = if random.index(300) == 0 { 20_000 } else { random.pick(&[0, 100, 900]) };
            world.publish(topic, qos, payload);
            if random.index(40) == 0 {
                world.turn();
            }
        }
        world.settle();
        let last = world.published.len();
        for nth in 0..24 {
            let filter = random.pick(&[
                "a", "a/#", "a/b", "+/b", "+/+/c", "#", "busy", "none", "$x/#", "b/+", "ü/#",
            ]);
            let from = if random.index(3) == 0 { 1 } else { 1 + random.index(last) as u64 };
            let since_ms =
                if random.index(3) == 0 { world.published[random.index(last)].time_ms } else { 0 };
            let most = random.pick(&[1, 7, 100, 1024]);
            // One at a time takes long where nearly all match.
            let most = if matches!(filter, "#" | "busy") { most.max(100) } else { most };
            let (got, _) = world.replay(filter, from, since_ms, most);
            let expected = world.expected(filter, from, since_ms);
            assert!(got == expected, "seed {seed}, {nth}: {filter} from {from}, {since_ms}");
        }
        // The log goes at its front, and all that is known of it.
        let below = zzq_wal::Lsn::new(last as u64 / 2);
        world.log.trim(below);
        while world.log.helper_step(0) {}
        let first = world.log.first_whole().get();
        assert!(first > 1);
        assert_eq!(world.replay("+/b", 1, 0, 50).0, world.expected("+/b", first, 0));
        world.archive.let_go();
        while world.archive.step() {}
        assert_eq!(world.indexed(), world.closed(), "those of what is gone are, too");
    }
}
