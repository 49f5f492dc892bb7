//! All short lives of a publisher at QoS 2: every order of what it says and says again, of what the
//! lane handles, applies and sees committed, of answers, crashes and new connections, up to a
//! depth. A lane decides from State and the overlay, as the broker does. At the end of each life
//! everything heals, and then the log has each message once, and no identifier is open.

use std::collections::VecDeque;

use zzq_types::{Lsn, PacketId, Properties, QoS};

use super::Overlay;
use crate::decision::DecisionBuf;
use crate::effect::NoEffects;
use crate::number::SessionNumber;
use crate::record::{Connect, Publish, Record, Release, Start};
use crate::shard::Shard;
use crate::state::State;
use crate::testing::lives::all_lives;
use crate::testing::{Owned, topic};
use crate::{Handed, invariant};

const SESSION: SessionNumber = SessionNumber::FIRST;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// The client publishes its next message, if that has an identifier.
    Say,
    /// It says again what was not answered, as MQTT 3.1 lets it on the same connection.
    Repeat,
    /// The lane handles a packet.
    Handle,
    /// State shows one record more.
    Apply,
    /// One record more is committed.
    Commit,
    /// The client hears an answer.
    Hear,
    Crash,
    /// The connection ends, and there is a new one.
    Resume,
}

const EVENTS: [Event; 8] = [
    Event::Say,
    Event::Repeat,
    Event::Handle,
    Event::Apply,
    Event::Commit,
    Event::Hear,
    Event::Crash,
    Event::Resume,
];

#[derive(Clone, Copy, Debug)]
enum Packet {
    Publish(usize),
    Release(PacketId),
}

/// How far the client is with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Unsaid,
    Said,
    Received,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Rec(PacketId),
    Comp(PacketId),
}

#[derive(Debug)]
struct World {
    /// The identifier of each message.
    ids: Vec<PacketId>,
    stages: Vec<Stage>,
    /// On their way to the lane.
    packets: VecDeque<Packet>,
    /// Answers in their order, each with the record that must be committed first.
    answers: VecDeque<(Answer, Option<Handed>)>,
    /// PUBRECs to come of repeats: they tell of the message before, not of a later one.
    repeats: usize,
    log: Vec<Owned>,
    /// Records that the log had when this lane began.
    before: usize,
    applied: usize,
    committed: usize,
    state: State,
    overlay: Overlay,
}

impl World {
    fn new(ids: &[u16]) -> Self {
        let ids: Vec<_> = ids.iter().map(|id| PacketId::new(*id).unwrap()).collect();
        let mut world = Self {
            stages: vec![Stage::Unsaid; ids.len()],
            ids,
            packets: VecDeque::new(),
            answers: VecDeque::new(),
            repeats: 0,
            log: Vec::new(),
            before: 0,
            applied: 0,
            committed: 0,
            state: State::new(Shard::WHOLE),
            overlay: Overlay::new(),
        };
        world.connect();
        world
    }

    /// Does it; `false` if it cannot happen now.
    fn step(&mut self, event: Event) -> bool {
        match event {
            Event::Say => self.say(),
            Event::Repeat => self.repeat(),
            Event::Handle => self.handle(),
            Event::Apply => self.apply(),
            Event::Commit => self.commit(),
            Event::Hear => self.hear(),
            Event::Crash => self.crash(),
            Event::Resume => self.resume(),
        }
    }

    fn handed(&self) -> Handed {
        Handed::new(u64::try_from(self.log.len() - self.before).unwrap())
    }

    fn hand_over(&mut self, record: &Record<'_>) {
        self.log.push(Owned::of(record));
    }

    fn apply(&mut self) -> bool {
        let Some(owned) = self.log.get(self.applied) else { return false };
        self.applied += 1;
        let lsn = Lsn::new(u64::try_from(self.applied).unwrap());
        self.state.apply(lsn, 0, &owned.record(), &mut NoEffects);
        if let Some(own) = self.applied.checked_sub(self.before) {
            self.overlay.seen_applied(Handed::new(u64::try_from(own).unwrap()));
        }
        true
    }

    fn commit(&mut self) -> bool {
        if self.committed == self.log.len() {
            return false;
        }
        self.committed += 1;
        if let Some(own) = self.committed.checked_sub(self.before) {
            self.overlay.seen_committed(Handed::new(u64::try_from(own).unwrap()));
        }
        true
    }

    /// The next message, in order; its identifier is free when who had it is done.
    fn say(&mut self) -> bool {
        let Some(next) = self.stages.iter().position(|stage| *stage == Stage::Unsaid) else {
            return false;
        };
        let mut others = self.ids.iter().zip(&self.stages);
        let under_way = |stage: &Stage| matches!(stage, Stage::Said | Stage::Received);
        if others.any(|(id, stage)| *id == self.ids[next] && under_way(stage)) {
            return false;
        }
        self.stages[next] = Stage::Said;
        self.packets.push_back(Packet::Publish(next));
        true
    }

    fn repeat(&mut self) -> bool {
        let Some(said) = self.stages.iter().position(|stage| *stage == Stage::Said) else {
            return false;
        };
        self.repeats += 1;
        self.packets.push_back(Packet::Publish(said));
        true
    }

    fn handle(&mut self) -> bool {
        let Some(packet) = self.packets.pop_front() else { return false };
        let id = match packet {
            Packet::Publish(message) => self.ids[message],
            Packet::Release(id) => id,
        };
        let in_state = self.state.session(SESSION).unwrap().inbound().contains(id);
        let is_open = self.overlay.is_open(SESSION, id, in_state);
        match packet {
            Packet::Publish(message) if !is_open => {
                let payload = [u8::try_from(message).unwrap()];
                self.hand_over(&Record::Publish(Publish {
                    publisher: Some(SESSION),
                    inbound: Some(id),
                    will_of: None,
                    qos: QoS::ExactlyOnce,
                    retain: false,
                    decision: DecisionBuf::new().as_decision(),
                    topic: topic("t"),
                    properties: Properties::EMPTY,
                    payload: &payload,
                }));
                self.overlay.opened(SESSION, id, self.handed());
            }
            Packet::Release(_) if is_open => {
                self.hand_over(&Record::Release(Release { session: SESSION, id }));
                self.overlay.released(SESSION, id, self.handed());
            }
            Packet::Publish(_) | Packet::Release(_) => {}
        }
        let answer = match packet {
            Packet::Publish(_) => Answer::Rec(id),
            Packet::Release(_) => Answer::Comp(id),
        };
        self.answers.push_back((answer, self.overlay.last_record(SESSION)));
        true
    }

    fn hear(&mut self) -> bool {
        let committed = self.committed.saturating_sub(self.before);
        let is_committed = |waits: &Option<Handed>| {
            waits.is_none_or(|waits| waits.get() <= u64::try_from(committed).unwrap())
        };
        let heard = self.answers.pop_front_if(|(_, waits)| is_committed(waits));
        let Some((answer, _)) = heard else { return false };
        match answer {
            Answer::Rec(id) => {
                let Some(at) = self.at(id, Stage::Said) else {
                    self.repeats = self.repeats.checked_sub(1).expect("PUBREC for nothing");
                    return true;
                };
                assert_eq!(self.published(self.committed, at), 1, "answered and not in the log");
                self.stages[at] = Stage::Received;
                self.packets.push_back(Packet::Release(id));
            }
            Answer::Comp(id) => {
                let at = self.at(id, Stage::Received).expect("PUBCOMP for nothing");
                self.stages[at] = Stage::Done;
            }
        }
        true
    }

    fn at(&self, id: PacketId, stage: Stage) -> Option<usize> {
        (0..self.ids.len()).find(|at| self.ids[*at] == id && self.stages[*at] == stage)
    }

    /// What is committed stays, and a new lane folds it.
    fn crash(&mut self) -> bool {
        self.log.truncate(self.committed);
        (self.applied, self.before) = (0, self.log.len());
        (self.state, self.overlay) = (State::new(Shard::WHOLE), Overlay::new());
        while self.apply() {}
        self.hand_over(&Record::Start(Start { jump: true }));
        self.overlay.noted(SESSION, self.handed());
        self.resume()
    }

    /// The client goes on with what is under way, in its order.
    fn resume(&mut self) -> bool {
        self.packets.clear();
        self.answers.clear();
        self.repeats = 0;
        self.connect();
        for at in 0..self.ids.len() {
            match self.stages[at] {
                Stage::Said => self.packets.push_back(Packet::Publish(at)),
                Stage::Received => self.packets.push_back(Packet::Release(self.ids[at])),
                Stage::Unsaid | Stage::Done => {}
            }
        }
        true
    }

    /// Nothing behind a CONNECT is handled before its record is committed and applied.
    fn connect(&mut self) {
        self.hand_over(&Record::Connect(Connect {
            session: SESSION,
            client: "c",
            expiry_s: u32::MAX,
            window: 1,
            joins: None,
            will: None,
        }));
        self.overlay.began(SESSION, self.handed());
        while self.commit() || self.apply() {}
    }

    /// Faults end, and all that is under way comes to its end.
    fn heal(&mut self) {
        while self.handle() || self.apply() || self.commit() || self.hear() || self.say() {}
    }

    /// How often a message is in the log up to a place.
    fn published(&self, until: usize, message: usize) -> usize {
        let is_it = |owned: &&Owned| match owned.record() {
            Record::Publish(publish) => publish.payload == [u8::try_from(message).unwrap()],
            _ => false,
        };
        self.log[..until].iter().filter(is_it).count()
    }

    fn check(&self) {
        assert_eq!(invariant::check(&self.state), Ok(()));
        assert!(self.stages.iter().all(|stage| *stage == Stage::Done), "{:?}", self.stages);
        for message in 0..self.ids.len() {
            assert_eq!(self.published(self.log.len(), message), 1, "message {message}");
        }
        assert!(self.state.session(SESSION).unwrap().inbound().is_empty(), "all is released");
        assert!(self.overlay.is_empty(), "State alone has the word");
    }
}

/// Whether these events can happen in this order. What was begun then comes to its end.
fn live(ids: &[u16], life: &[Event]) -> bool {
    let mut world = World::new(ids);
    let can_be = life.iter().all(|&event| world.step(event));
    if can_be {
        world.heal();
        world.check();
    }
    can_be
}

/// One message, two with one identifier after each other, two at the same time.
#[test]
fn what_is_published_at_qos_2_is_in_the_log_once_after_every_life() {
    //= MQTT5-4.3.3-10
    //= MQTT5-4.3.3-12
    //= MQTT5-4.4.0-1
    //= MQTT311-4.3.3-2
    //= MQTT311-4.4.0-1
    for (ids, depth) in [(&[1][..], 7), (&[1, 1], 6), (&[1, 2], 6)] {
        let lives = all_lives(&EVENTS, &ids, &mut Vec::new(), depth, &|life| live(ids, life));
        assert!(lives > 3000, "{lives}");
    }
}
