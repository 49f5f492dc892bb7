//! What a client sends in one piece does what it does packet by packet.

use proptest::prelude::*;
use zzq_codec::{AckKind, Packet, Subscribe, SubscriptionsBuf};
use zzq_types::ProtocolVersion::V5;
use zzq_types::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};
use zzq_types::{PacketId, PropertiesBuf, Property, QoS, SubscribeOptions};

use super::harness::*;
use crate::metrics::Counts;
use crate::options::LogPolicy;
use crate::shell::run::{PIECES_MOST, QUEUED_MOST};

pub(super) const ALL_QOS: [QoS; 3] = [AtMostOnce, AtLeastOnce, ExactlyOnce];

/// What of a broker makes a difference to runs.
#[derive(Clone, Debug)]
struct Case {
    lanes: u16,
    log: LogPolicy,
    publisher: usize,
    window: u16,
    queued_most: usize,
    /// Publishers are held for receivers that fall behind.
    holds: bool,
    /// Texts, some to another topic, retained, repeated or under an identifier in use.
    stream: Vec<(u8, usize)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let log = prop_oneof![Just(LogPolicy::Needed), Just(LogPolicy::All)];
    let stream = prop::collection::vec((0..24_u8, 0..40_usize), 2..24);
    let limits = (prop_oneof![Just(3_u16), Just(1024)], prop_oneof![Just(7_usize), Just(1000)]);
    (1..3_u16, log, 0..2_usize, limits, stream).prop_map(
        |(lanes, log, publisher, limits, stream)| {
            let (window, queued_most) = limits;
            // Elsewhere a full queue is known a turn later: more enters of what comes together.
            let at_once = lanes == 1 && log == LogPolicy::Needed;
            let queued_most = if at_once { queued_most } else { 1000 };
            // So is who has fallen behind; and a record is applied later.
            Case { lanes, log, publisher, window, queued_most, holds: at_once, stream }
        },
    )
}

/// Messages of more than one piece, of two or three each, and of more pieces than may be under way
/// to queues of another lane.
fn long_cases() -> impl Strategy<Value = Case> {
    let stream = prop::collection::vec((4..24_u8, 1300..1900_usize), 40..56);
    (2..4_u16, 0..2_usize, stream).prop_map(|(lanes, publisher, stream)| {
        let log = LogPolicy::Needed;
        let (window, queued_most) = (1024, 1000);
        Case { lanes, log, publisher, window, queued_most, holds: false, stream }
    })
}

/// A broker with receivers of both versions and each QoS, one who is away, and a publisher who
/// subscribes as well.
struct Stage {
    world: World,
    publisher: Client,
    receivers: Vec<Client>,
    together: bool,
}

impl Stage {
    fn new(case: &Case, together: bool) -> Self {
        let mut setup = Setup { lanes: case.lanes, ..Setup::new(VERSIONS[case.publisher]) };
        setup.options.log = case.log;
        setup.options.limits.max_inflight = case.window;
        setup.options.limits.max_queued_messages = case.queued_most;
        if !case.holds {
            setup.options.limits.max_hold = std::time::Duration::ZERO;
        }
        let mut world = setup.start();
        let mut publisher = world.guest("publisher");
        world.subscribe(&mut publisher, "t", AtLeastOnce);
        let mut receivers = Vec::new();
        for version in VERSIONS {
            world.setup.version = version;
            for qos in ALL_QOS {
                let mut receiver = world.guest(&format!("{version:?} {qos:?}"));
                world.subscribe(&mut receiver, "t", qos);
                receivers.push(receiver);
            }
        }
        Self { world, publisher, receivers, together }
    }

    fn publish(&mut self, case: &Case, qos: QoS) {
        if self.together {
            self.publisher.gather();
        }
        for (n, &(kind, len)) in (1..).zip(&case.stream) {
            let text = "x".repeat(len);
            let id = if kind == 3 && n > 2 { n - 2 } else { n };
            let line = Line::new(if kind == 0 { "u" } else { "t" }, &text, qos, id);
            self.publisher.publish(match kind {
                // Where the log has only some, what it has may be overtaken.
                1 if case.log == LogPolicy::All => line.retained(),
                2 | 3 if qos != AtMostOnce => line.again(),
                _ => line,
            });
            self.step();
        }
        if self.together {
            self.publisher.flush();
        }
        self.world.pass(50);
    }

    /// Without it all that is sent goes together.
    fn step(&mut self) {
        if !self.together {
            self.world.settle();
        }
    }

    /// Everybody answers what has come, in one piece or not.
    fn answer(&mut self, got: &[Vec<String>]) {
        let everybody = self.receivers.iter_mut().chain([&mut self.publisher]);
        for (client, lines) in everybody.zip(got) {
            if self.together {
                client.gather();
            }
            for line in lines {
                if let Some((kind, id)) = answer_to(line) {
                    client.ack(kind, id);
                    if !self.together {
                        self.world.settle();
                    }
                }
            }
            if self.together {
                client.flush();
            }
            self.world.settle();
        }
        self.world.pass(50);
    }

    /// What has come for everybody, the publisher last.
    fn got(&mut self) -> Vec<Vec<String>> {
        self.receivers.iter_mut().chain([&mut self.publisher]).map(Client::got).collect()
    }

    /// Pieces that went to other lanes, and how often there were too many.
    fn crossed(&self, case: &Case) -> (usize, usize) {
        let lanes = (0..usize::from(case.lanes)).map(|lane| self.world.shell(lane).directs.seen);
        lanes.fold((0, 0), |(runs, refused), seen| (runs + seen.runs, refused + seen.refused))
    }

    fn counts(&self, case: &Case) -> Vec<Counts> {
        (0..usize::from(case.lanes)).map(|lane| self.world.shell(lane).counts).collect()
    }
}

fn answer_to(line: &str) -> Option<(AckKind, u16)> {
    let number = |text: &str| text.split([' ', '#']).next_back()?.parse().ok();
    if let Some(id) = line.strip_prefix("PUBREC ") {
        return Some((AckKind::PubRel, number(id)?));
    }
    if let Some(id) = line.strip_prefix("PUBREL ") {
        return Some((AckKind::PubComp, number(id)?));
    }
    let (_, id) = line.split_once('#')?;
    let id = id.split(' ').next()?.parse().ok()?;
    Some((if line.contains(" q2 ") { AckKind::PubRec } else { AckKind::PubAck }, id))
}

/// Records and groups are fewer where packets go together.
fn without_the_log(counts: &Counts) -> Counts {
    Counts { records: 0, groups: 0, commits_timed: 0, commit_ms: 0, commit_us: 0, ..*counts }
}

/// One order for what comes of two kinds to one client: messages and answers cross each other.
fn apart(lines: &[String]) -> (Vec<String>, Vec<String>) {
    lines.iter().cloned().partition(|line| line.contains('='))
}

/// What a broker gets in one piece comes out as what another one gets packet by packet.
fn compare(case: &Case, whole: &mut Stage, single: &mut Stage) -> Result<(), TestCaseError> {
    for round in 0.. {
        let (by_run, one_by_one) = (whole.got(), single.got());
        let ordered =
            |got: &[Vec<String>]| -> Vec<_> { got.iter().map(|lines| apart(lines)).collect() };
        prop_assert_eq!(ordered(&by_run), ordered(&one_by_one), "round {}", round);
        if by_run.iter().all(Vec::is_empty) {
            break;
        }
        whole.answer(&by_run);
        single.answer(&one_by_one);
    }
    let strip =
        |counts: Vec<Counts>| -> Vec<Counts> { counts.iter().map(without_the_log).collect() };
    prop_assert_eq!(strip(whole.counts(case)), strip(single.counts(case)));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_run_comes_out_as_its_packets_do_one_by_one(case in cases()) {
        //= MQTT311-4.3.2-2, MQTT5-4.3.2-4, MQTT5-4.3.3-8
        for qos in ALL_QOS {
            let mut whole = Stage::new(&case, true);
            let mut single = Stage::new(&case, false);
            whole.publish(&case, qos);
            single.publish(&case, qos);
            compare(&case, &mut whole, &mut single)?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn so_does_a_run_of_more_pieces_than_may_be_under_way(case in long_cases()) {
        for qos in ALL_QOS {
            let mut whole = Stage::new(&case, true);
            let mut single = Stage::new(&case, false);
            whole.publish(&case, qos);
            single.publish(&case, qos);
            let (pieces, refused) = whole.crossed(&case);
            prop_assert_eq!(single.crossed(&case), (0, 0));
            prop_assert!(pieces >= 8, "{}", pieces);
            prop_assert_eq!(refused > 0, qos != AtMostOnce);
            compare(&case, &mut whole, &mut single)?;
        }
    }
}

/// At QoS 0 many more may be.
#[test]
fn so_does_one_at_qos_0() {
    let messages = 2 * usize::try_from(PIECES_MOST).unwrap() + 50;
    let case = Case {
        lanes: 2,
        log: LogPolicy::Needed,
        publisher: 1,
        window: 1024,
        queued_most: 1000,
        holds: false,
        stream: vec![(4, 1900); messages],
    };
    let [mut whole, mut single] = [true, false].map(|together| Stage::new(&case, together));
    whole.publisher.gather();
    for _ in 0..messages {
        whole.publisher.publish(Line::new("t", &"x".repeat(1900), AtMostOnce, 1));
    }
    whole.publisher.flush();
    // The other lane rests meanwhile: each turn reads 64 KiB.
    for _ in 0..messages / 32 {
        whole.world.turn_of("publisher");
    }
    whole.world.pass(50);
    single.publish(&case, AtMostOnce);
    let (pieces, refused) = whole.crossed(&case);
    // Where what was read ends, one or two go by themselves.
    assert!((PIECES_MOST - 20..=PIECES_MOST).contains(&(pieces as u64)), "{pieces}");
    assert!(refused > 0);
    compare(&case, &mut whole, &mut single).unwrap();
}

/// Names of clients whose sessions are on this lane.
pub(super) fn names_on(world: &World, lane: u16, count: usize) -> Vec<String> {
    let names = (0..).map(|n| format!("client {n}"));
    names.filter(|name| world.shell(0).home(name).0 == lane).take(count).collect()
}

/// A session without a connection. Its place in a decision takes seven bytes.
fn away(world: &mut World, name: &str, topics: &[&str]) {
    let mut client = world.member(name);
    for topic in topics {
        let mut properties = PropertiesBuf::new();
        properties.push(Property::SubscriptionId(200_000_000)).unwrap();
        let mut list = SubscriptionsBuf::new();
        list.push(topic, SubscribeOptions::with_qos(AtLeastOnce)).unwrap();
        client.send(&Packet::Subscribe(Subscribe {
            packet_id: PacketId::new(9).unwrap(),
            properties: properties.as_properties(),
            subscriptions: list.subscriptions(),
        }));
        world.settle();
        assert_eq!(client.got(), ["SUBACK 9"]);
    }
    client.disconnect();
    world.settle();
}

/// Four messages of a piece.
fn piece(publisher: &mut Client, ids: std::ops::Range<u16>) {
    publisher.gather();
    for id in ids {
        publisher.publish(Line::new("t", &"x".repeat(1000), AtLeastOnce, id));
    }
    publisher.flush();
}

/// Messages that wait in a ring.
const BULK: usize = 20;
/// Of these, as many pieces of four as may be, then one by one; and what found no room.
const UNDER_WAY: usize = 3 * 8 + BULK + 1;
const _: () = assert!(QUEUED_MOST == 8);

/// A broker without a log, and with little room between its lanes.
fn narrow(lanes: u16) -> World {
    let mut setup = Setup { lanes, in_memory: true, ..Setup::new(V5) };
    setup.limits.ring = (BULK + 10, 10);
    setup.start()
}

/// Memory for a long decision is not kept to be used again, and so nobody counted what was under
/// way with one.
#[test]
fn pieces_with_long_decisions_are_bounded_too() {
    let mut world = narrow(2);
    for name in names_on(&world, 1, 700) {
        away(&mut world, &name, &["t"]);
    }
    let name = names_on(&world, 0, 1).remove(0);
    let mut publisher = world.guest(&name);
    piece(&mut publisher, 1..61);
    world.turn_of(&name);
    assert_eq!(publisher.got().len(), UNDER_WAY);
    world.settle();
    assert_eq!(publisher.got().len(), 60 - UNDER_WAY);
}

/// What one lane had let go of by then made room for more to another one that had not.
#[test]
fn a_lane_that_stalls_is_not_overshot_beside_a_quick_one() {
    let mut world = narrow(3);
    let names: Vec<_> = (0..3).map(|lane| names_on(&world, lane, 1).remove(0)).collect();
    away(&mut world, &names[1], &["t", "quick"]);
    away(&mut world, &names[2], &["t"]);
    let mut publisher = world.guest(&names[0]);
    let mut quick = 0;
    for n in 0..15 {
        piece(&mut publisher, 1 + 4 * n..5 + 4 * n);
        for id in 0..10 {
            publisher.publish(Line::new("quick", "x", AtLeastOnce, 100 + 10 * n + id));
            world.turn_of(&names[0]);
            world.turn_of(&names[1]);
        }
        let got = publisher.got();
        quick += got.iter().filter(|line| line.len() == "PUBACK 100".len()).count();
    }
    let queued = |lane: usize| world.shell(lane).state.queued();
    assert_eq!(queued(1) - quick, UNDER_WAY);
    world.settle();
    assert_eq!(world.shell(2).state.queued(), 60);
}

/// Receivers of both versions at both QoS on another lane than their publisher. A queue takes seven
/// messages.
fn across(publisher: usize) -> Stage {
    let mut setup = Setup { lanes: 2, ..Setup::new(VERSIONS[publisher]) };
    setup.options.limits.max_queued_messages = 7;
    setup.options.limits.max_hold = std::time::Duration::ZERO;
    setup.options.log = LogPolicy::Needed;
    let mut world = setup.start();
    let name = names_on(&world, 0, 1).remove(0);
    let publisher = world.guest(&name);
    let mut receivers = Vec::new();
    for (n, name) in names_on(&world, 1, 4).iter().enumerate() {
        world.setup.version = VERSIONS[n % 2];
        let mut receiver = world.guest(name);
        world.subscribe(&mut receiver, "t", ALL_QOS[1 + n / 2]);
        receivers.push(receiver);
    }
    Stage { world, publisher, receivers, together: true }
}

/// The text of a message.
fn text_of(line: &str) -> Option<&str> {
    line.strip_prefix("t=")?.split(' ').next()
}

/// What was taken, by a packet that says so.
fn taken_by(line: &str) -> Option<usize> {
    let id = line.strip_prefix("PUBACK ").or_else(|| line.strip_prefix("PUBREC "))?;
    id.parse().ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    /// A queue becomes full, of which the publisher's lane knows a turn later: what it took by then
    /// comes as well, and all that it took comes once and in order; nothing else does.
    #[test]
    fn what_was_taken_for_a_full_queue_on_another_lane_comes(
        publisher in 0..2_usize,
        qos in prop_oneof![Just(AtLeastOnce), Just(ExactlyOnce)],
        bursts in prop::collection::vec(
            prop::collection::vec(prop_oneof![3..40_usize, 1300..1900_usize], 20..40), 2..4,
        ),
    ) {
        let mut stage = across(publisher);
        let mut texts = Vec::new();
        for burst in bursts {
            stage.publisher.gather();
            for len in burst {
                texts.push(format!("{:0len$}", texts.len() + 1));
                let id = u16::try_from(texts.len()).unwrap();
                stage.publisher.publish(Line::new("t", &texts[texts.len() - 1], qos, id));
            }
            stage.publisher.flush();
            stage.world.pass(50);
        }
        let mut got = stage.got();
        let early = got[4].iter().filter_map(|line| taken_by(line)).count();
        prop_assert!((8..texts.len()).contains(&early), "{} of {} were taken", early, texts.len());
        prop_assert!(stage.world.shell(0).directs.seen.runs > 0);
        let mut lines = got.clone();
        while lines.iter().any(|lines| !lines.is_empty()) {
            stage.answer(&lines);
            lines = stage.got();
            for (got, lines) in got.iter_mut().zip(&lines) {
                got.extend_from_slice(lines);
            }
        }
        let mut taken: Vec<_> = got[4].iter().filter_map(|line| taken_by(line)).collect();
        taken.sort_unstable();
        taken.dedup();
        // MQTT 3 is held until there is room, MQTT 5 is told to try again.
        prop_assert_eq!(taken.len() == texts.len(), publisher == 0);
        let taken: Vec<_> = taken.iter().map(|id| texts[id - 1].as_str()).collect();
        for got in &got[..4] {
            let texts: Vec<_> = got.iter().filter_map(|line| text_of(line)).collect();
            prop_assert_eq!(&texts, &taken);
        }
    }
}
