//! Publishers and subscribers that lose their connections, a disk that answers late, fails, or
//! loses its power, all of it by chance. At the end everybody has what was acknowledged, in order,
//! and what was published at QoS 2 once.

use std::collections::{BTreeMap, BTreeSet};

use zzq_codec::AckKind;
use zzq_types::QoS::{self, AtLeastOnce, ExactlyOnce};

use super::harness::*;

/// `SplitMix64`.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap()
    }
}

/// How far a publisher is with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Published,
    Received,
    Done,
}

/// Odd identifiers at QoS 1, even ones at QoS 2; the text of a message is its identifier.
struct Publisher {
    name: String,
    client: Client,
    is_up: bool,
    sent: BTreeMap<u16, Sent>,
}

#[derive(Default)]
struct Taken {
    texts: Vec<String>,
    /// Identifiers at QoS 2 that wait for PUBREL.
    open: BTreeSet<u16>,
    named: BTreeMap<u16, String>,
}

struct Subscriber {
    name: String,
    client: Client,
    taken: Taken,
    /// Answers that it has not sent yet.
    owed: Vec<(AckKind, u16)>,
}

fn qos_of(id: u16) -> QoS {
    if id.is_multiple_of(2) { ExactlyOnce } else { AtLeastOnce }
}

fn text_of(publisher: &str, id: u16) -> String {
    format!("{publisher}={id}")
}

impl Publisher {
    fn send(&mut self, id: u16, again: bool) {
        let text = id.to_string();
        let line = Line::new(&self.name, &text, qos_of(id), id);
        self.client.publish(Line { dup: again, ..line });
    }

    fn publish(&mut self) {
        if self.is_up {
            let id = self.sent.len() as u64 + 1;
            let id = u16::try_from(id).unwrap();
            self.sent.insert(id, Sent::Published);
            self.send(id, false);
        }
    }

    fn read(&mut self) {
        for line in self.client.got() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["CONNACK", "present"] => self.resume(),
                ["PUBACK" | "PUBCOMP", id] => {
                    self.sent.insert(id.parse().unwrap(), Sent::Done);
                }
                ["PUBREC", id] => {
                    let id = id.parse().unwrap();
                    self.sent.insert(id, Sent::Received);
                    self.client.ack(AckKind::PubRel, id);
                }
                ["DISCONNECT" | "closed"] | ["CONNACK", "refused"] => self.is_up = false,
                _ => panic!("{} got {line}", self.name),
            }
        }
    }

    fn resume(&mut self) {
        self.is_up = true;
        for (id, sent) in self.sent.clone() {
            match sent {
                Sent::Published => self.send(id, true),
                Sent::Received => self.client.ack(AckKind::PubRel, id),
                Sent::Done => {}
            }
        }
    }
}

impl Subscriber {
    fn read(&mut self) {
        for line in self.client.got() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["CONNACK", "present" | "refused"] | ["DISCONNECT" | "closed"] => {}
                ["PUBREL", id] => {
                    let id = id.parse().unwrap();
                    self.taken.open.remove(&id);
                    self.owed.push((AckKind::PubComp, id));
                }
                [text, qos, id, ..] => {
                    let id = id[1..].parse().unwrap();
                    let answer = self.taken.message(text, qos == "q2", id);
                    self.owed.push((answer, id));
                }
                _ => panic!("{} got {line}", self.name),
            }
        }
    }

    fn answer(&mut self, most: usize) {
        for (kind, id) in self.owed.drain(..most.min(self.owed.len())) {
            self.client.ack(kind, id);
        }
    }
}

impl Taken {
    fn message(&mut self, text: &str, exactly: bool, id: u16) -> AckKind {
        let named = self.named.entry(id).or_insert_with(|| text.into());
        assert_eq!(named, text, "identifier {id} names two messages");
        if !exactly || self.open.insert(id) {
            self.texts.push(text.into());
        }
        if exactly { AckKind::PubRec } else { AckKind::PubAck }
    }
}

struct Play {
    world: World,
    publishers: Vec<Publisher>,
    subscribers: Vec<Subscriber>,
    chance: Chance,
    crashed: bool,
}

impl Play {
    fn new(setup: Setup, seed: u64) -> Self {
        let mut world = setup.start();
        let subscribers = (0..2).map(|at| {
            let name = format!("s{at}");
            let mut client = world.member(&name);
            world.subscribe(&mut client, "+", ExactlyOnce);
            Subscriber { name, client, taken: Taken::default(), owed: Vec::new() }
        });
        let subscribers = subscribers.collect();
        let publishers = (0..2).map(|at| {
            let name = format!("p{at}");
            let client = world.member(&name);
            Publisher { name, client, is_up: true, sent: BTreeMap::new() }
        });
        let publishers = publishers.collect();
        world.pass(100);
        Self { world, publishers, subscribers, chance: Chance(seed), crashed: false }
    }

    fn act(&mut self) {
        let (one, other) = (self.chance.index(2), self.chance.index(2));
        match self.chance.below(40) {
            0..12 => self.publishers[one].publish(),
            12..20 => self.subscribers[one].answer(1 + other * 100),
            20..23 => self.world.pass(1 + self.chance.below(20)),
            23..26 => self.world.disk.hold(),
            26..32 => _ = self.world.disk.release_next(),
            32..35 => self.world.disk.release_all(),
            35 => self.reconnect_publisher(one),
            36..38 => self.reconnect_subscriber(one),
            38 if !self.crashed => self.crash(),
            39 => self.fail_a_write(),
            _ => {}
        }
        if self.chance.below(3) > 0 {
            self.world.settle();
        }
        self.read();
        self.crash_if_failed();
    }

    /// A broker whose log has failed is started again.
    fn crash_if_failed(&mut self) {
        if self.world.is_read_only() {
            self.crash();
        }
    }

    /// The log moves what was in flight elsewhere, and is read-only if it fails there too.
    fn fail_a_write(&mut self) {
        if let Some(token) = self.world.disk.in_flight().first() {
            self.world.disk.release_with(*token, FAIL);
        }
    }

    fn read(&mut self) {
        self.publishers.iter_mut().for_each(Publisher::read);
        self.subscribers.iter_mut().for_each(Subscriber::read);
    }

    fn reconnect_publisher(&mut self, at: usize) {
        let publisher = &mut self.publishers[at];
        publisher.client.reset();
        publisher.is_up = false;
        publisher.client = self.world.open();
        publisher.client.connect(&Hello::member(&publisher.name));
    }

    fn reconnect_subscriber(&mut self, at: usize) {
        // Of two CONNECTs under way between lanes nobody knows which takes over which.
        self.world.settle();
        let subscriber = &mut self.subscribers[at];
        // A connection that is not closed is taken over.
        if self.chance.below(2) == 0 {
            subscriber.client.reset();
        }
        subscriber.owed.clear();
        subscriber.client = self.world.open();
        subscriber.client.connect(&Hello { window: Some(3), ..Hello::member(&subscriber.name) });
    }

    fn crash(&mut self) {
        if self.crashed {
            // Numbers skip half of the identifiers with each crash: here they come round.
            for subscriber in &mut self.subscribers {
                subscriber.taken.named.clear();
            }
        }
        self.crashed = true;
        let seed = self.chance.below(u64::MAX);
        self.world.crash_in_place(seed);
        self.reconnect_all();
    }

    fn reconnect_all(&mut self) {
        for at in 0..2 {
            self.reconnect_publisher(at);
            self.reconnect_subscriber(at);
        }
    }

    /// Everything comes to its end.
    fn finish(&mut self) {
        self.world.disk.release_all();
        self.world.settle();
        self.read();
        self.crash_if_failed();
        self.reconnect_all();
        let mut quiet = 0;
        while quiet < 10 {
            self.world.pass(10);
            self.read();
            let mut owed = self.subscribers.iter().map(|one| one.owed.len());
            quiet = if owed.any(|owed| owed > 0) { 0 } else { quiet + 1 };
            for subscriber in &mut self.subscribers {
                subscriber.answer(usize::MAX);
            }
        }
    }

    fn check(&self, what: &str) {
        let sent: usize = self.publishers.iter().map(|one| one.sent.len()).sum();
        assert!(sent > 10, "{what}: only {sent} messages: nothing was tried");
        for publisher in &self.publishers {
            let is_done = publisher.sent.values().all(|sent| *sent == Sent::Done);
            assert!(is_done, "{what}: {}: {:?}", publisher.name, publisher.sent);
            for subscriber in &self.subscribers {
                check_taken(publisher, &subscriber.taken, what);
            }
        }
        for subscriber in &self.subscribers {
            assert!(subscriber.taken.open.is_empty(), "{what}: PUBREL is missing");
            assert!(self.world.owes_nothing(&subscriber.name), "{what}: {}", subscriber.name);
        }
    }
}

/// All are there, those of one QoS in order, at QoS 2 once.
fn check_taken(publisher: &Publisher, taken: &Taken, what: &str) {
    for qos in [AtLeastOnce, ExactlyOnce] {
        let ids = publisher.sent.keys().filter(|id| qos_of(**id) == qos);
        let wanted: Vec<_> = ids.map(|id| text_of(&publisher.name, *id)).collect();
        let mut texts: Vec<_> =
            taken.texts.iter().filter(|text| wanted.contains(text)).cloned().collect();
        if qos == AtLeastOnce {
            let mut told = BTreeSet::new();
            texts.retain(|text| told.insert(text.clone()));
        }
        assert_eq!(texts, wanted, "{what}: at {qos:?}");
    }
}

#[test]
fn whatever_happens_nothing_acknowledged_is_lost_and_nothing_at_qos_2_comes_twice() {
    for version in VERSIONS {
        for lanes in [1, 2] {
            for seed in 0..30 {
                let mut setup = Setup { lanes, ..Setup::new(version) };
                setup.options.limits.max_inflight = 4;
                let what = format!("{version:?}, {lanes} lanes, seed {seed}");
                let mut play = Play::new(setup, seed);
                for _ in 0..150 {
                    play.act();
                }
                play.finish();
                play.check(&what);
            }
        }
    }
}
