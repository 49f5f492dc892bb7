//! The power goes at every step of an exchange. What was acknowledged is there, nothing that was
//! published at QoS 2 comes twice, and an identifier never names two messages.

use std::collections::{BTreeMap, BTreeSet};

use zzq_codec::AckKind;
use zzq_types::ProtocolVersion;
use zzq_types::QoS::{self, AtLeastOnce, ExactlyOnce};
use zzq_wal::sim_disk::Survival;

use super::harness::*;

/// How far a publisher is with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Published,
    /// PUBREC has come.
    Received,
    Done,
}

/// What a publisher and a subscriber know, over all their connections.
#[derive(Debug, Default)]
struct Knowledge {
    sent: BTreeMap<u16, Sent>,
    /// What the subscriber took, in order.
    taken: Vec<String>,
    /// Identifiers at QoS 2 for which it waits for PUBREL.
    open: BTreeSet<u16>,
    /// What each identifier named.
    named: BTreeMap<u16, String>,
}

struct Exchange {
    world: World,
    publisher: Client,
    subscriber: Client,
    qos: QoS,
    known: Knowledge,
}

impl Exchange {
    /// Publishes at `qos`, subscribes at `granted`.
    fn new(version: ProtocolVersion, lanes: u16, qos: QoS, granted: QoS) -> Self {
        let mut world = Setup { lanes, ..Setup::new(version) }.start();
        let mut subscriber = world.member("subscriber");
        world.subscribe(&mut subscriber, "t", granted);
        let publisher = world.member("publisher");
        world.pass(100);
        Self { world, publisher, subscriber, qos, known: Knowledge::default() }
    }

    fn publish(&mut self, id: u16) {
        self.known.sent.insert(id, Sent::Published);
        self.publisher.publish(Line::new("t", &id.to_string(), self.qos, id));
    }

    /// Both answer whatever comes, until nothing comes any more.
    fn go_on(&mut self) {
        loop {
            self.world.pass(10);
            let (answers, messages) = (self.publisher.got(), self.subscriber.got());
            if answers.is_empty() && messages.is_empty() {
                return;
            }
            for line in &answers {
                self.answered(line);
            }
            for line in &messages {
                self.came(line);
            }
        }
    }

    fn answered(&mut self, line: &str) {
        let Some((kind, id)) = line.split_once(' ') else { return };
        let Ok(id) = id.parse() else { return };
        match kind {
            "PUBACK" | "PUBCOMP" => _ = self.known.sent.insert(id, Sent::Done),
            "PUBREC" => {
                self.known.sent.insert(id, Sent::Received);
                self.publisher.ack(AckKind::PubRel, id);
            }
            _ => panic!("the publisher got {line}"),
        }
    }

    fn came(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["PUBREL", id] => {
                let id = id.parse().unwrap();
                self.known.open.remove(&id);
                self.subscriber.ack(AckKind::PubComp, id);
            }
            [message, qos, id, ..] if message.starts_with("t=") => {
                let id = id[1..].parse().unwrap();
                let named = self.known.named.entry(id).or_insert_with(|| message.into());
                assert_eq!(named, message, "identifier {id} names two messages");
                let exactly = qos == "q2";
                if !exactly || self.known.open.insert(id) {
                    self.known.taken.push(message.into());
                }
                let kind = if exactly { AckKind::PubRec } else { AckKind::PubAck };
                self.subscriber.ack(kind, id);
            }
            ["DISCONNECT" | "closed"] => {}
            _ => panic!("the subscriber got {line}"),
        }
    }

    /// The power goes and comes back, both connect again and send again what is not answered.
    fn crash(self, seed: u64) -> Self {
        let Self { world, qos, known, .. } = self;
        let mut world = world.crash(seed);
        let mut publisher = world.call(&Hello::member("publisher"));
        assert_eq!(publisher.got(), ["CONNACK present"]);
        let mut subscriber = world.call(&Hello::member("subscriber"));
        let got = subscriber.got();
        assert_eq!(got[0], "CONNACK present");
        for (id, sent) in &known.sent {
            match sent {
                Sent::Published => {
                    let text = id.to_string();
                    publisher.publish(Line::new("t", &text, qos, *id).again());
                }
                Sent::Received => publisher.ack(AckKind::PubRel, *id),
                Sent::Done => {}
            }
        }
        let mut next = Self { world, publisher, subscriber, qos, known };
        for line in &got[1..] {
            next.came(line);
        }
        next.go_on();
        next
    }

    fn done(&self) -> Vec<u16> {
        let done = self.known.sent.iter().filter(|(_, sent)| **sent == Sent::Done);
        done.map(|(id, _)| *id).collect()
    }
}

/// Crashes at the n-th step of the disk, each n in turn until there are no more.
fn at_every_step(qos: QoS, granted: QoS) {
    for version in VERSIONS {
        for lanes in [1, 2] {
            for seed in 1..5 {
                let mut step = 1;
                while crash_at(step, Exchange::new(version, lanes, qos, granted), granted, seed) {
                    step += 1;
                }
                assert!(step > 4, "only {step} steps: nothing was tried");
            }
        }
    }
}

/// False: the exchange has no such step.
fn crash_at(step: u64, mut exchange: Exchange, granted: QoS, seed: u64) -> bool {
    let what = format!("step {step}, seed {seed}, {:?}", exchange.world.setup.version);
    exchange.world.disk.cut_power(step);
    for id in 1..=3 {
        exchange.publish(id);
    }
    exchange.go_on();
    exchange.publish(4);
    exchange.go_on();
    let off = exchange.world.disk.is_off();
    assert!(off || exchange.done() == [1, 2, 3, 4], "{what}");
    let mut exchange = exchange.crash(seed);
    exchange.publish(5);
    exchange.go_on();
    let known = &exchange.known;
    assert_eq!(exchange.done(), [1, 2, 3, 4, 5], "{what}");
    let mut first = known.taken.clone();
    let mut told = BTreeSet::new();
    first.retain(|text| told.insert(text.clone()));
    assert_eq!(first, ["t=1", "t=2", "t=3", "t=4", "t=5"], "{what}: lost or out of order");
    if exchange.qos == ExactlyOnce && granted == ExactlyOnce {
        assert_eq!(known.taken, first, "{what}: twice");
    }
    assert!(known.open.is_empty(), "{what}: PUBREL is missing");
    off
}

#[test]
fn qos_1_survives_a_crash_at_every_step() {
    at_every_step(AtLeastOnce, AtLeastOnce);
}

#[test]
fn qos_2_survives_a_crash_at_every_step() {
    at_every_step(ExactlyOnce, ExactlyOnce);
}

#[test]
fn qos_2_to_a_receiver_at_qos_1_survives_a_crash_at_every_step() {
    at_every_step(ExactlyOnce, AtLeastOnce);
}

/// Messages go out early, and the crash takes them: what comes after has other identifiers.
#[test]
fn identifiers_of_messages_that_a_crash_took_name_no_others() {
    for version in VERSIONS {
        for seed in 1..20 {
            let mut exchange = Exchange::new(version, 1, AtLeastOnce, AtLeastOnce);
            exchange.publish(1);
            exchange.go_on();
            exchange.world.disk.hold();
            exchange.publish(2);
            exchange.publish(3);
            exchange.go_on();
            assert_eq!(exchange.done(), [1]);
            assert_eq!(exchange.known.taken, ["t=1", "t=2", "t=3"], "they went early");
            // The publisher is another one, which knows nothing of what was lost.
            exchange.known.sent.clear();
            let mut exchange = exchange.crash(seed);
            for id in 4..8 {
                exchange.publish(id);
            }
            exchange.go_on();
            assert_eq!(exchange.done(), [4, 5, 6, 7]);
        }
    }
}

/// What a client has been told before the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Session,
    Subscription,
    Retained,
    /// The will is to come if the client is lost.
    Will,
}

/// Connects, subscribes, leaves a retained message and a client with a will.
fn set_up(world: &mut World) -> Vec<Told> {
    let mut told = Vec::new();
    let mut expect = |world: &mut World, client: &mut Client, line: &str, what| {
        world.pass(10);
        if client.got() == [line] {
            told.push(what);
        }
    };
    let mut member = world.call(&Hello::member("member"));
    expect(world, &mut member, "CONNACK", Told::Session);
    member.subscribe(1, "t/#", AtLeastOnce);
    expect(world, &mut member, "SUBACK 1", Told::Subscription);
    member.publish(Line::new("r", "kept", AtLeastOnce, 2).retained());
    expect(world, &mut member, "PUBACK 2", Told::Retained);
    member.disconnect();
    let will = Some(("t/will", AtLeastOnce, false));
    let mut lost = world.call(&Hello { will, ..Hello::guest("lost") });
    expect(world, &mut lost, "CONNACK", Told::Will);
    told
}

#[test]
fn what_a_client_was_told_is_so_after_a_crash_at_every_step() {
    for version in VERSIONS {
        for lanes in [1, 2] {
            for seed in 1..5 {
                for step in 1.. {
                    let mut world = Setup { lanes, ..Setup::new(version) }.start();
                    world.disk.cut_power(step);
                    let told = set_up(&mut world);
                    let off = world.disk.is_off();
                    let mut world = world.crash(seed);
                    check_told(
                        &mut world,
                        &told,
                        &format!("{version:?}, {step}, {seed}: {told:?}"),
                    );
                    if !off {
                        assert!(step > 4, "only {step} steps: nothing was tried");
                        break;
                    }
                }
            }
        }
    }
}

fn check_told(world: &mut World, told: &[Told], what: &str) {
    let is = |what| told.contains(&what);
    let mut member = world.call(&Hello::member("member"));
    let got = member.got();
    assert!(!is(Told::Session) || got[0] == "CONNACK present", "{what}: {got:?}");
    let is_will = |line: &String| line.starts_with("t/will=gone");
    if is(Told::Subscription) && is(Told::Will) {
        assert!(got.iter().any(is_will), "{what}: {got:?}");
    }
    if is(Told::Subscription) {
        let mut publisher = world.guest("publisher");
        world.publish(&mut publisher, Line::new("t/live", "live", AtLeastOnce, 1));
        let got = member.got();
        assert!(got.iter().any(|line| line.starts_with("t/live=live q1")), "{what}: {got:?}");
    }
    if is(Told::Retained) {
        let mut late = world.guest("late");
        late.subscribe(1, "r", AtLeastOnce);
        world.settle();
        assert_eq!(late.got(), ["SUBACK 1", "r=kept q1 #1 retain"], "{what}");
    }
}

/// However many messages go out early, a crash skips more numbers than that.
#[test]
fn a_flood_of_early_identifiers_names_no_others_after_a_crash() {
    const MANY: u16 = 24_000;
    let mut setup = Setup::new(ProtocolVersion::V311);
    setup.group_size = 2 << 20;
    setup.options.limits.max_inflight = 32_767;
    let mut world = setup.start();
    let mut subscriber = world.member("subscriber");
    world.subscribe(&mut subscriber, "t", AtLeastOnce);
    let mut publishers: Vec<_> = (0..4).map(|at| world.guest(&format!("p{at}"))).collect();
    world.pass(100);
    world.disk.hold();
    let mut named = BTreeSet::new();
    // Two groups are in flight at most, each full of messages that the subscriber takes at once.
    for round in 0..2 {
        for publisher in &mut publishers {
            publisher.gather();
            for id in 1..=MANY / 4 {
                publisher.publish(Line::new("t", "", AtLeastOnce, id));
            }
            publisher.flush();
        }
        world.settle();
        subscriber.gather();
        for line in subscriber.got() {
            let (_, id) = line.split_once('#').unwrap();
            let id: u16 = id.parse().unwrap();
            assert!(named.insert(id), "identifier {id} in round {round}");
            subscriber.ack(AckKind::PubAck, id);
        }
        subscriber.flush();
        world.settle();
    }
    assert!(named.len() > usize::from(MANY), "they go out early: {}", named.len());
    let mut world = world.crash_with(Survival::Nothing);
    let mut subscriber = world.member("subscriber");
    let mut publisher = world.guest("publisher");
    world.publish(&mut publisher, Line::new("t", "new", AtLeastOnce, 1));
    let got = subscriber.got();
    let (_, id) = got[0].split_once('#').unwrap();
    assert!(!named.contains(&id.parse().unwrap()), "{got:?} of {}", named.len());
}
