//! All short lives of a session: every order of publishes, commits, sends, answers, crashes,
//! disconnects and resumes up to a depth; in some of them messages are given up or refused as well.
//! The client keeps QoS 2 as MQTT says; what a crash takes is published again, behind the rest.
//! At the end of each connection nothing may be given up for which the client waits. At the end of
//! each life everything heals, and then each message was delivered, at QoS 2 exactly once, and no
//! identifier ever named two.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zzq_types::{Lsn, PacketId, Properties, QoS};

use crate::decision::DecisionBuf;
use crate::effect::NoEffects;
use crate::invariant;
use crate::number::{QueueNumber, SessionNumber};
use crate::record::{
    Closing, Connect, Expire, ExpiredTopics, NumberRange, Publish, RangeSetsBuf, Receipt, Record,
    SessionDown, Start,
};
use crate::session::{Answered, Outbound, Outgoing, Progress, Received};
use crate::shard::Shard;
use crate::state::State;
use crate::testing::{Owned, lives, topic};

const SESSION: SessionNumber = SessionNumber::FIRST;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Publish,
    Commit,
    Send,
    Answer,
    Crash,
    Disconnect,
    Connect,
    /// The next message is not sent: it has expired.
    GiveUp,
    /// The client refuses a message at QoS 2.
    Refuse,
}

const EVENTS: [Event; 7] = [
    Event::Publish,
    Event::Commit,
    Event::Send,
    Event::Answer,
    Event::Crash,
    Event::Disconnect,
    Event::Connect,
];

#[derive(Clone, Copy, Debug)]
enum Answer {
    Ack(PacketId),
    Rec(PacketId),
    Comp(PacketId),
}

/// What a client keeps of a session, and what its application got.
#[derive(Debug, Default)]
struct Client {
    /// Identifiers of messages at QoS 2, received and not released.
    received: BTreeSet<PacketId>,
    /// How often each message was delivered.
    delivered: BTreeMap<usize, u32>,
    /// The last message that was delivered first at each QoS.
    last: [usize; 3],
    /// What each identifier named: none comes round in so short a life.
    named: BTreeMap<PacketId, usize>,
    /// Messages that were published again, out of their order.
    again: BTreeSet<usize>,
}

impl Client {
    fn publish(&mut self, message: usize, qos: QoS, id: PacketId) -> Answer {
        let named = *self.named.entry(id).or_insert(message);
        assert_eq!(named, message, "an identifier names another message");
        if qos == QoS::ExactlyOnce && !self.received.insert(id) {
            return Answer::Rec(id);
        }
        let times = self.delivered.entry(message).or_default();
        *times += 1;
        if *times == 1 {
            let last = &mut self.last[usize::from(qos.bits())];
            assert!(message > *last || self.again.contains(&message), "messages overtake");
            *last = message;
        }
        if qos == QoS::ExactlyOnce { Answer::Rec(id) } else { Answer::Ack(id) }
    }
}

#[derive(Debug)]
struct World {
    qos: Vec<QoS>,
    window: u16,
    log: Vec<Owned>,
    committed: usize,
    state: State,
    connection: Option<Outbound>,
    answers: Vec<Answer>,
    /// PUBRELs that wait for the commit of their receipt.
    releases: Vec<(Lsn, QueueNumber)>,
    /// The message of each record, and whether it was sent.
    messages: BTreeMap<Lsn, usize>,
    sent: BTreeSet<usize>,
    /// What is to be published, by position in `qos` from 1.
    unpublished: VecDeque<usize>,
    /// Messages that were given up or refused: they may come all the same.
    excused: BTreeSet<usize>,
    client: Client,
}

impl World {
    fn new(qos: &[QoS], window: u16) -> Self {
        let mut world = Self {
            qos: qos.to_vec(),
            window,
            log: Vec::new(),
            committed: 0,
            state: State::new(Shard::WHOLE),
            connection: None,
            answers: Vec::new(),
            releases: Vec::new(),
            messages: BTreeMap::new(),
            sent: BTreeSet::new(),
            unpublished: (1..=qos.len()).collect(),
            excused: BTreeSet::new(),
            client: Client::default(),
        };
        world.connect();
        world
    }

    fn record(&mut self, record: &Record<'_>) -> Lsn {
        self.log.push(Owned::of(record));
        let lsn = Lsn::new(u64::try_from(self.log.len()).unwrap());
        self.state.apply(lsn, 0, record, &mut NoEffects);
        lsn
    }

    fn committed(&self) -> Lsn {
        Lsn::new(u64::try_from(self.committed).unwrap())
    }

    /// Does it; `false` if it cannot happen now.
    fn step(&mut self, event: Event) -> bool {
        match event {
            Event::Publish => self.publish(),
            Event::Commit => self.commit(),
            Event::Send => self.send(),
            Event::Answer => self.answer(),
            Event::Crash => self.crash(),
            Event::Disconnect => self.disconnect(),
            Event::Connect => self.connection.is_none() && self.connect(),
            Event::GiveUp => self.give_up(),
            Event::Refuse => self.refuse(),
        }
    }

    fn publish(&mut self) -> bool {
        let Some(message) = self.unpublished.pop_front() else { return false };
        let qos = self.qos[message - 1];
        let mut decision = DecisionBuf::new();
        decision.push_plain(SESSION, qos, false);
        let lsn = self.record(&Record::Publish(Publish {
            publisher: None,
            inbound: None,
            will_of: None,
            qos,
            retain: false,
            decision: decision.as_decision(),
            topic: topic("t"),
            properties: Properties::EMPTY,
            payload: b"x",
        }));
        self.messages.insert(lsn, message);
        true
    }

    fn commit(&mut self) -> bool {
        let moves = self.committed < self.log.len();
        self.committed = self.log.len();
        moves
    }

    fn send(&mut self) -> bool {
        let (committed, applied) = (self.committed(), self.state.applied());
        let Some(out) = &mut self.connection else { return false };
        if let Some(at) = self.releases.iter().position(|(lsn, _)| *lsn <= committed) {
            let (_, number) = self.releases.remove(at);
            out.released(number);
            let id = number.packet_id().unwrap();
            self.client.received.remove(&id);
            self.answers.push(Answer::Comp(id));
            return true;
        }
        let queue = self.state.session(SESSION).unwrap().queue();
        let progress = Progress { applied, committed, unlogged: Lsn::new(u64::MAX) };
        let outgoing = out.next(queue, progress);
        match outgoing {
            Outgoing::Publish { waiting, id, dup, committed } => {
                let is_early = waiting.qos == QoS::ExactlyOnce && !committed;
                if is_early || out.waits_for_given_up(queue, &waiting, progress).is_some() {
                    return false;
                }
                let message = self.messages[&waiting.lsn];
                assert!(dup || self.sent.insert(message), "sent again without DUP");
                self.sent.insert(message);
                self.answers.push(self.client.publish(message, waiting.qos, id));
            }
            Outgoing::Release { id, .. } => {
                self.client.received.remove(&id);
                self.answers.push(Answer::Comp(id));
            }
            _ => return false,
        }
        out.sent(&outgoing);
        assert!(out.in_flight() <= self.window, "the window is kept");
        true
    }

    fn answer(&mut self) -> bool {
        if self.answers.is_empty() {
            return false;
        }
        let Some(out) = &mut self.connection else { return false };
        let (number, closing) = match self.answers.remove(0) {
            Answer::Ack(id) => (closed(out.acknowledged(id)), Closing::Closed),
            Answer::Comp(id) => (closed(out.completed(id)), Closing::Closed),
            Answer::Rec(id) => match out.received(id, false) {
                Received::Taken(number) => (number, Closing::Taken),
                other => panic!("{other:?} for a first PUBREC"),
            },
        };
        let mut sets = RangeSetsBuf::new();
        sets.push_ranges(SESSION, closing, [NumberRange::one(number)]);
        let lsn = self.record(&Record::Receipt(Receipt { sets: sets.as_list() }));
        if closing == Closing::Taken {
            self.releases.push((lsn, number));
        }
        true
    }

    fn give_up(&mut self) -> bool {
        let (committed, applied) = (self.committed(), self.state.applied());
        let Some(out) = &mut self.connection else { return false };
        let queue = self.state.session(SESSION).unwrap().queue();
        let progress = Progress { applied, committed, unlogged: Lsn::new(u64::MAX) };
        let Outgoing::Publish { waiting, dup: false, .. } = out.next(queue, progress) else {
            return false;
        };
        out.pass_over(&waiting);
        let message = self.messages[&waiting.lsn];
        self.excused.insert(message);
        // A crash may bring it back, behind others.
        self.client.again.insert(message);
        let mut sets = RangeSetsBuf::new();
        sets.push_ranges(SESSION, Closing::Expired, [NumberRange::one(waiting.number)]);
        let (sets, topics) = (sets.as_list(), ExpiredTopics::EMPTY);
        self.record(&Record::Expire(Expire { sets, topics }));
        true
    }

    fn refuse(&mut self) -> bool {
        let Some(&Answer::Rec(id)) = self.answers.first() else { return false };
        let Some(out) = &mut self.connection else { return false };
        let Received::Refused(number) = out.received(id, true) else { return false };
        self.answers.remove(0);
        self.client.received.remove(&id);
        let queue = self.state.session(SESSION).unwrap().queue();
        let refused = queue.get(number).map(|waiting| self.messages[&waiting.lsn]);
        self.excused.extend(refused);
        let mut sets = RangeSetsBuf::new();
        sets.push_ranges(SESSION, Closing::Closed, [NumberRange::one(number)]);
        self.record(&Record::Receipt(Receipt { sets: sets.as_list() }));
        true
    }

    /// What the client has begun to take at QoS 2 is not given up before it has all of it.
    fn check_begun(&self) {
        let queue = self.state.session(SESSION).unwrap().queue();
        for waiting in queue.iter().filter(|waiting| waiting.qos == QoS::ExactlyOnce) {
            let id = waiting.number.packet_id().unwrap();
            let begun = self.client.received.contains(&id);
            let stays = waiting.taken || waiting.number <= queue.doubtful();
            assert!(!begun || stays, "{} may be given up", waiting.number);
        }
    }

    fn crash(&mut self) -> bool {
        self.log.truncate(self.committed);
        self.state = State::new(Shard::WHOLE);
        for (at, owned) in self.log.iter().enumerate() {
            let lsn = Lsn::new(u64::try_from(at).unwrap() + 1);
            self.state.apply(lsn, 0, &owned.record(), &mut NoEffects);
        }
        let kept = self.committed();
        let lost = self.messages.split_off(&Lsn::new(kept.get() + 1));
        for message in lost.into_values() {
            self.sent.remove(&message);
            self.client.again.insert(message);
            self.unpublished.push_back(message);
        }
        self.drop_connection();
        self.record(&Record::Start(Start { jump: true }));
        self.check_begun();
        self.commit()
    }

    fn disconnect(&mut self) -> bool {
        let Some(out) = &self.connection else { return false };
        let sent = out.highest_sent();
        self.drop_connection();
        let down = SessionDown { session: SESSION, sent, drop_will: false, expiry_s: None };
        self.record(&Record::SessionDown(down));
        self.check_begun();
        true
    }

    fn drop_connection(&mut self) {
        self.connection = None;
        self.answers.clear();
        self.releases.clear();
    }

    /// Nothing behind a CONNECT is handled before its record is committed.
    fn connect(&mut self) -> bool {
        self.record(&Record::Connect(Connect {
            session: SESSION,
            client: "c",
            expiry_s: u32::MAX,
            window: self.window,
            joins: None,
            will: None,
        }));
        self.commit();
        let queue = self.state.session(SESSION).unwrap().queue();
        self.connection = Some(Outbound::new(queue, self.window));
        true
    }

    /// Faults end, and all that is owed is sent and answered.
    fn heal(&mut self) {
        self.commit();
        let _ = self.connection.is_some() || self.connect();
        while self.publish() || self.send() || self.answer() || self.commit() {}
    }

    fn check(&self) {
        assert_eq!(invariant::check(&self.state), Ok(()));
        assert!(self.state.session(SESSION).unwrap().queue().is_empty(), "all is answered");
        for (message, qos) in (1..).zip(&self.qos) {
            let times = self.client.delivered.get(&message).copied().unwrap_or(0);
            match qos {
                _ if self.excused.contains(&message) => {}
                QoS::ExactlyOnce => assert_eq!(times, 1, "message {message}"),
                _ => assert!(times >= 1, "message {message} is lost"),
            }
        }
    }
}

fn closed(answered: Answered) -> QueueNumber {
    match answered {
        Answered::Closed(number) => number,
        other => panic!("{other:?} for the answer that is due"),
    }
}

/// Runs all lives; returns how many there were.
fn all_lives(qos: &[QoS], window: u16, depth: usize) -> u64 {
    lives_of(&EVENTS, qos, window, &mut Vec::new(), depth)
}

/// Those that begin with `life`, and in which these events happen.
fn lives_of(
    events: &[Event],
    qos: &[QoS],
    window: u16,
    life: &mut Vec<Event>,
    depth: usize,
) -> u64 {
    lives::all_lives(events, &(qos, window), life, depth, &|life| {
        let mut world = World::new(qos, window);
        let can_be = life.iter().all(|&event| world.step(event));
        if can_be {
            world.heal();
            world.check();
        }
        can_be
    })
}

const Q1: QoS = QoS::AtLeastOnce;
const Q2: QoS = QoS::ExactlyOnce;

#[test]
fn one_message_survives_every_life() {
    //= MQTT5-4.3.3-3
    //= MQTT5-4.3.3-6
    //= MQTT5-4.4.0-1
    //= MQTT311-4.3.3-1
    //= MQTT311-4.4.0-1
    for qos in [Q1, Q2] {
        let lives = all_lives(&[qos], 1, 8);
        assert!(lives > 500, "{lives}");
    }
}

#[test]
fn two_messages_survive_every_life() {
    //= MQTT311-4.3.2-1
    //= MQTT5-4.3.2-3
    //= MQTT5-4.3.3-6
    //= MQTT5-4.4.0-1
    //= MQTT5-4.6.0-5
    //= MQTT311-4.6.0-6
    for qos in [[Q1, Q1], [Q2, Q2], [Q1, Q2], [Q2, Q1]] {
        for window in [1, 2] {
            all_lives(&qos, window, 6);
        }
    }
}

/// A crash may bring back what was given up in front of a message that was sent: the message must
/// be among those that may have been sent all the same.
#[test]
fn nothing_is_given_up_that_a_client_has_begun_to_take() {
    //= MQTT5-4.3.3-7
    //= MQTT5-4.8.2-5
    use Event::{Answer, Commit, Crash, Disconnect, GiveUp, Publish, Refuse, Send};
    let events = [Commit, Send, Answer, Crash, Disconnect, GiveUp, Refuse];
    for qos in [[Q2, Q2, Q2], [Q1, Q2, Q2], [Q2, Q1, Q2]] {
        for window in [1, 2] {
            let mut life = vec![Publish, Publish, Publish, Commit];
            let lives = lives_of(&events, &qos, window, &mut life, 7);
            assert!(lives > 300, "{lives}");
        }
    }
}
