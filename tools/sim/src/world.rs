//! One seed: a broker, its disk, its network and its clients in one thread. Chance says who goes
//! next, time goes on when nobody wants to, and everything that happens is noted.
//!
//! Owns: the order of things, the faults, the two phases: first everything goes wrong, then nothing
//! does, and all must heal and be served.

mod copy;
mod damage;
mod faults;
mod full;
mod heal;
mod image;
mod kept;
mod lodger;
mod space;
mod strangers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zzq_broker::LogPolicy;
use zzq_lanes::driver::Rest;

use crate::chance::Chance;
use crate::client::{Act, Client, Desk};
use crate::clock::SimClock;
use crate::coverage::Coverage;
use crate::guard::{Given, Guard};
use crate::history::{ClientId, Conn, Death, Event, History};
use crate::network::{Arrival, Network, Toward};
use crate::node::{Broker, Fold, Node};
use crate::plan::{Faults, Plan};

/// See the file.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one run")]
pub struct World {
    plan: Plan,
    seed: u64,
    clock: SimClock,
    node: Node,
    network: Network,
    clients: Vec<Client>,
    /// The client at the other end of each connection that somebody still sends on.
    conns: BTreeMap<Conn, usize>,
    next_conn: u32,
    history: History,
    coverage: Coverage,
    order: Chance,
    chance: Chance,
    images: Chance,
    ahead: Chance,
    repeated: Chance,
    copies: Chance,
    damages: Chance,
    readers: Chance,
    /// A copy is being made.
    copying: bool,
    amid: Chance,
    /// An image is being made.
    imaging: bool,
    faults: Faults,
    /// Client operations that the faults have seen.
    counted: u64,
    calm: bool,
    /// A lane that gets no turn before.
    asleep: Option<(usize, u64)>,
    /// Where something may be to be done.
    helper_waits: bool,
    reader_waits: bool,
    log_waits: bool,
    stopping: bool,
    /// A death that comes in so many steps.
    dies_in: Option<(u64, Death)>,
    start_at: u64,
    /// The power may go with some operation to come.
    power_counts: bool,
    /// Somebody has told the disk to fail.
    disk_may_fail: bool,
    /// When the disk has space again, or takes changes.
    space_comes_at: Option<u64>,
    /// The broker says that its disk is full.
    is_full: bool,
    /// The first record of the log that readers can have.
    first_kept: u64,
    /// When space is looked after next.
    room_at: u64,
    room: Chance,
    told_read_only: bool,
    /// A file of others has a name that the log has let go.
    has_stranger_for_trimmed: bool,
    /// The first connection that comes to a log that has failed.
    unlogged_from: Conn,
    /// What the broker has counted of full queues since its start.
    full: full::Seen,
    /// A start has failed that nothing was wrong with.
    starts_no_more: bool,
    /// It was told that it does not come to rest.
    is_unsettled: bool,
    /// How much had happened when it was told that all is at rest.
    rested: usize,
    steps: u64,
    /// The same, for who watches from another thread.
    pulse: Arc<AtomicU64>,
    /// Client operations from each start of the broker to its next death.
    starts: Vec<u64>,
}

/// What a run has left.
pub struct Outcome {
    /// All that happened.
    pub history: History,
    /// What it reached.
    pub coverage: Coverage,
    /// Client operations from each start of the broker to its next death.
    pub starts: Vec<u64>,
    /// Steps of the executor.
    pub steps: u64,
}

/// Who can go next.
#[derive(Clone, Copy, Debug)]
enum Choice {
    Lane(usize),
    Helper,
    Log,
    Reader,
    Guard,
    Write(u64),
    Deliver(Conn, Toward),
    Client(usize),
    Start,
}

/// Steps before a run counts as one that never ends. One whose connections take a few bytes at once
/// has ended behind 1.7 million.
const STEPS_MAX: u64 = 4_000_000;

/// What a plan is for, before anything has happened.
fn covered_by(plan: &Plan) -> Coverage {
    let mut coverage = Coverage::default();
    coverage.hit(match plan.lanes {
        1 => "lanes 1",
        2 => "lanes 2",
        _ => "lanes 3",
    });
    let also = [
        (plan.drift != 0, "clock drift"),
        (plan.lanes > 1 && plan.ring.0 < 10, "small rings"),
        (plan.holds_up, "lanes held up"),
        (plan.disk_bytes.is_some(), "disk small"),
    ];
    let also = also.into_iter().filter_map(|(is_so, kind)| is_so.then_some(kind));
    also.chain(plan.modes()).for_each(|kind| coverage.hit(kind));
    coverage
}

impl World {
    /// The world of a seed before anything has happened.
    pub fn new(seed: u64, plan: Plan) -> Self {
        let clock = SimClock::default();
        clock.set_drift(plan.drift);
        let mut coverage = covered_by(&plan);
        let is_silent = plan.guard.is_some_and(|guard| guard.silent > 0);
        let mut history = History::default();
        history.may_refuse = plan.may_refuse() || is_silent;
        history.limits_queues = plan.is_limited() || is_silent;
        let limits = plan.options.limits;
        history.queue_full = limits.queue_full;
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        history.queue_grace_ms = millis(limits.queue_grace);
        history.max_hold_ms = millis(limits.max_hold);
        history.may_not_answer = is_silent;
        history.lacks_input = plan.lacks_input();
        history.input_patience_ms = millis(plan.input_patience());
        history.max_connect_size = limits.max_connect_size as usize;
        let sleeps = plan.lanes > 1 && plan.faults.lane_sleeps > 0;
        // One sleep may follow another.
        history.lanes_rest_ms = if sleeps { 3 * plan.faults.sleep_ms } else { 0 };
        history.in_memory = plan.in_memory;
        history.retain = plan.options.retain_log;
        history.logs_needed = !plan.in_memory && plan.options.log == LogPolicy::Needed;
        history.logs_everything = !plan.in_memory && plan.options.log == LogPolicy::Everything;
        history.disk_may_fail = plan.faults.step_fails > 0 || plan.faults.disk_read_only > 0;
        let clients = plan.clients.iter().zip(0_u16..).map(|(plan, at)| {
            let name = format!("client-{at}");
            history.names.push(name.clone());
            Client::new(ClientId(at), name, plan.clone(), seed)
        });
        let clients = clients.collect();
        let node = Node::new(&plan, clock.clone(), seed);
        if plan.has_strangers {
            strangers::lay(&node.device.disk);
            coverage.hit("foreign files");
        }
        Self {
            node,
            network: Network::new(plan.weather, Chance::new(seed, "network")),
            faults: plan.faults,
            plan,
            seed,
            clock,
            clients,
            conns: BTreeMap::new(),
            next_conn: 0,
            history,
            coverage,
            order: Chance::new(seed, "order"),
            chance: Chance::new(seed, "faults"),
            images: Chance::new(seed, "when to make images"),
            ahead: Chance::new(seed, "ahead of the disk"),
            repeated: Chance::new(seed, "behind a repeat"),
            copies: Chance::new(seed, "copies"),
            damages: Chance::new(seed, "damage"),
            readers: Chance::new(seed, "when readers rest"),
            copying: false,
            amid: Chance::new(seed, "amid an image"),
            imaging: false,
            counted: 0,
            calm: false,
            asleep: None,
            helper_waits: false,
            reader_waits: false,
            log_waits: false,
            stopping: false,
            dies_in: None,
            start_at: 0,
            power_counts: false,
            disk_may_fail: false,
            space_comes_at: None,
            is_full: false,
            first_kept: 0,
            room_at: 0,
            room: Chance::new(seed, "room"),
            told_read_only: false,
            has_stranger_for_trimmed: false,
            unlogged_from: Conn(0),
            full: full::Seen::default(),
            starts_no_more: false,
            is_unsettled: false,
            rested: 0,
            steps: 0,
            pulse: Arc::default(),
            starts: Vec::new(),
        }
    }

    /// Steps are counted here, too.
    #[must_use]
    pub fn with_pulse(self, pulse: Arc<AtomicU64>) -> Self {
        Self { pulse, ..self }
    }

    /// Runs to the end. What happened until a panic is there all the same.
    pub fn run(&mut self) {
        while self.coverage.operations() < self.plan.operations && !self.is_broken() {
            self.step();
        }
        self.heal();
    }

    /// Takes out what it has come to so far.
    pub fn outcome(&mut self) -> Outcome {
        Outcome {
            history: std::mem::take(&mut self.history),
            coverage: std::mem::take(&mut self.coverage),
            starts: std::mem::take(&mut self.starts),
            steps: self.steps,
        }
    }

    /// The broker does not start any more, for no reason that it should have, or nothing ends.
    fn is_broken(&self) -> bool {
        self.starts_no_more || self.history.is_over()
    }

    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn note(&mut self, event: Event) {
        self.history.note(self.clock.now(), event);
    }

    /// One of those who can goes on; if nobody can, time does.
    fn step(&mut self) {
        self.steps += 1;
        self.pulse.store(self.steps, Ordering::Relaxed);
        if self.steps == STEPS_MAX {
            self.note(Event::Endless);
            return;
        }
        let now = self.now();
        self.node.device.look(now, &mut self.coverage);
        let choices = self.choices(now);
        let slow = self.order.once_in(25);
        if choices.is_empty() {
            self.note_rest();
        }
        if choices.is_empty() || slow {
            return self.advance(if slow { Some(now + 1) } else { None });
        }
        match *self.order.pick(&choices) {
            Choice::Lane(lane) => self.turn(lane),
            Choice::Helper => self.helper_waits = self.with_broker(Broker::helper_step),
            Choice::Log => {
                self.log_waits = self.with_broker(Broker::log_step);
                self.helper_waits = true;
            }
            Choice::Reader => {
                self.reader_waits = self.with_broker(Broker::reader_step);
                if self.reader_waits {
                    self.coverage.hit("queue read back");
                }
            }
            Choice::Guard => self.answer(now),
            Choice::Write(token) => self.complete(token),
            Choice::Deliver(conn, toward) => self.deliver(conn, toward),
            Choice::Client(at) => self.act(at),
            Choice::Start => self.start(),
        }
        self.strike();
    }

    fn choices(&mut self, now: u64) -> Vec<Choice> {
        let mut choices = Vec::new();
        if let Some(broker) = &mut self.node.broker {
            let asleep = self.asleep.filter(|(_, until)| *until > now).map(|(lane, _)| lane);
            let awake = (0..broker.lanes()).filter(|lane| asleep != Some(*lane));
            let lanes = awake.filter(|lane| broker.rest(*lane) == Rest::Now);
            choices.extend(lanes.flat_map(|lane| [Choice::Lane(lane); 2]));
            choices.extend(self.helper_waits.then_some(Choice::Helper));
            choices.extend(self.reader_waits.then_some(Choice::Reader));
            let log_waits = self.log_waits && self.plan.options.log_thread;
            choices.extend(log_waits.then_some(Choice::Log));
            let guard = self.node.guard.as_ref().and_then(Guard::next_due);
            choices.extend(guard.filter(|due| *due <= now).map(|_| Choice::Guard));
        } else if self.start_at <= now {
            choices.push(Choice::Start);
        }
        choices.extend(self.node.device.due(now).into_iter().map(Choice::Write));
        let due = self.network.due(now).into_iter();
        choices.extend(due.map(|(conn, toward)| Choice::Deliver(conn, toward)));
        let due = self.clients.iter().enumerate().filter(|(_, client)| client.next_at() <= now);
        choices.extend(due.map(|(at, _)| Choice::Client(at)));
        choices
    }

    /// Time goes on to `to`, or to the next thing that is due.
    fn advance(&mut self, to: Option<u64>) {
        let now = self.now();
        let mut due: Vec<u64> = self.clients.iter().map(Client::next_at).collect();
        due.extend(self.network.next_due());
        due.extend(self.node.device.next_due());
        due.extend(self.space_comes_at);
        due.extend(self.node.guard.as_ref().and_then(Guard::next_due));
        due.extend(self.asleep.map(|(_, until)| until));
        match &mut self.node.broker {
            None => due.push(self.start_at),
            Some(broker) => {
                let booted = now - self.clock.reading().boot_ms;
                let rests = (0..broker.lanes()).filter_map(|lane| match broker.rest(lane) {
                    Rest::Until(at) => Some(at.0 + booted),
                    Rest::Now | Rest::Forever => None,
                });
                due.extend(rests);
            }
        }
        let next = due.into_iter().filter(|due| *due > now).min().unwrap_or(now + 1);
        // The helper marks a log that rests: its time is not told.
        let next = next.min(now + 50);
        self.clock.advance_to(to.unwrap_or(next));
        (self.helper_waits, self.log_waits) = (true, true);
        self.let_readers_rest();
        if self.space_comes_at.is_some_and(|at| at <= self.now()) {
            self.space_comes_at = None;
            self.node.device.heal(&mut self.coverage);
        }
    }

    /// Readers that nobody has asked for a while let go the places in the log that they keep.
    fn let_readers_rest(&mut self) {
        let rests = self.readers.once_in(self.plan.readers_rest);
        if let Some(broker) = self.node.broker.as_mut().filter(|_| rests) {
            broker.readers_rest();
        }
    }

    fn with_broker(&mut self, what: impl FnOnce(&mut Broker) -> bool) -> bool {
        self.node.broker.as_mut().is_some_and(what)
    }

    fn turn(&mut self, lane: usize) {
        let before = self.sessions_before(lane);
        self.with_broker(|broker| broker.turn(lane));
        self.note_full(lane, &before);
        (self.helper_waits, self.log_waits, self.reader_waits) = (true, true, true);
        self.network.pull(self.clock.now());
        if self.stopping && self.with_broker(|broker| broker.is_stopped()) {
            self.coverage.hit("stop in good order");
            self.die(Death::Stopped);
        }
    }

    /// The guard answers one question.
    fn answer(&mut self, now: u64) {
        let given = self.node.guard.as_ref().and_then(|guard| guard.give(now));
        match given {
            Some(Given::Answer) => self.coverage.hit("hook answers late"),
            Some(Given::Nothing) => self.coverage.hit("hook does not answer"),
            None => {}
        }
    }

    fn complete(&mut self, token: u64) {
        let fails = !self.calm && self.chance.once_in(self.faults.write_fails * 2);
        let fault = fails.then(|| self.node.device.draw_fault());
        self.disk_may_fail |= fails;
        self.node.device.release(token, fault, &mut self.coverage);
        (self.helper_waits, self.log_waits) = (true, true);
    }

    fn deliver(&mut self, conn: Conn, toward: Toward) {
        let arrival = self.network.deliver(conn, toward);
        for way in self.network.take_met() {
            self.coverage.hit(way);
        }
        let (Some(arrival), Some(&at)) = (arrival, self.conns.get(&conn)) else { return };
        let before = self.history.entries.len();
        let (client, desk) = self.client(at);
        match arrival {
            Arrival::Bytes(bytes, written_ms, stalled) => {
                if stalled {
                    desk.coverage.hit("net stalled receiver");
                }
                client.arrive(&mut { desk }, &bytes, written_ms, stalled);
                self.note_unlogged(before);
                self.strike_ahead(at, before);
                self.strike_behind_repeat(before);
            }
            Arrival::End(how, stalled) => {
                if stalled {
                    self.note(Event::Stalled { conn });
                }
                let (client, mut desk) = self.client(at);
                client.ended(&mut desk, how);
                self.conns.remove(&conn);
            }
        }
        self.send(at);
    }

    fn client(&mut self, at: usize) -> (&mut Client, Desk<'_>) {
        let desk = Desk {
            history: &mut self.history,
            coverage: &mut self.coverage,
            now: self.clock.now(),
            calm: self.calm,
            disk: Some(&self.node.device.disk),
        };
        (&mut self.clients[at], desk)
    }

    fn act(&mut self, at: usize) {
        let now = self.now();
        if let Some(old) = self.clients[at].waits_for() {
            if !self.network.is_over(old) {
                self.clients[at].rest_until(now + 20);
                return;
            }
            self.clients[at].waited();
        }
        let (client, mut desk) = self.client(at);
        let act = client.act(&mut desk);
        // What it said before comes first.
        self.send(at);
        match act {
            Act::Nothing => {}
            Act::Dial => self.dial(at),
            Act::TakeOver(old) => {
                let after = self.chance.within(0, 5000);
                self.network.leave(old, now, after);
                self.conns.remove(&old);
                self.dial(at);
            }
            Act::Finish(conn) => self.network.finish(conn, now),
            Act::Abandon(conn) => {
                let after = if self.calm { 0 } else { self.chance.within(0, 6000) };
                self.network.abandon(conn, now, after);
                self.conns.remove(&conn);
            }
            Act::Deafen(conn, millis) => self.network.deafen(conn, now + millis),
        }
        self.count();
    }

    fn dial(&mut self, at: usize) {
        let now = self.now();
        let accepts = self.node.broker.is_some() && !self.stopping;
        let Some(broker) = self.node.broker.as_mut().filter(|_| accepts) else {
            let pause = self.chance.within(20, 500);
            self.clients[at].rest_until(now + pause);
            return;
        };
        let lane = self.order.index(broker.lanes());
        let conn = Conn(self.next_conn);
        self.next_conn += 1;
        self.network.open(conn, broker.connect(lane));
        self.conns.insert(conn, at);
        let (client, mut desk) = self.client(at);
        client.dial(&mut desk, conn);
        self.send(at);
    }

    /// What a client has said goes to its connection.
    fn send(&mut self, at: usize) {
        let output = self.clients[at].take_output();
        if let Some(conn) = self.clients[at].conn()
            && !output.is_empty()
        {
            self.network.send(conn, &output, self.clock.now());
        }
    }

    fn die(&mut self, how: Death) {
        let now = self.now();
        if self.node.device.in_flight() > 0 && how != Death::Stopped {
            self.coverage.hit("crash with writes in flight");
        }
        match how {
            Death::Killed => self.coverage.hit("crash kill"),
            Death::PowerCut => self.coverage.hit("crash power cut"),
            Death::Stopped => {}
        }
        self.note_history();
        self.note_crowd();
        self.note_ending();
        self.node.device.note_failed(&mut self.coverage);
        let folds = self.node.die(how);
        self.note_folds(folds);
        self.note(Event::Died { how });
        self.look_at_strangers();
        self.lay_where_trimmed();
        self.damage_copies();
        if self.plan.in_memory {
            // Its sessions are gone with it.
            self.clients.iter_mut().for_each(Client::session_ended);
        }
        let all_lost = how == Death::PowerCut && self.chance.once_in(2);
        self.network.broker_died(now, all_lost);
        (self.stopping, self.power_counts, self.dies_in) = (false, false, None);
        (self.told_read_only, self.asleep) = (false, None);
        (self.full, self.is_full) = (full::Seen::default(), false);
        self.start_at = now + if self.calm { 1 } else { self.chance.within(1, 3000) };
    }

    /// How far those came who read history, as far as clients cannot tell.
    fn note_history(&mut self) {
        let Some(broker) = &self.node.broker else { return };
        let mut sessions = (0..broker.lanes()).flat_map(|lane| broker.state(lane).sessions());
        let is_over = sessions.any(|one| one.replays().any(|(_, replay)| replay.is_live));
        let by_places = broker.history_by_places() > 0;
        for (_, kind) in [(is_over, "history is over"), (by_places, "history read by places")]
            .into_iter()
            .filter(|(is_so, _)| *is_so)
        {
            self.coverage.hit(kind);
        }
    }

    /// Who is let in although the log has failed, of what was noted from `since` on.
    fn note_unlogged(&mut self, since: usize) {
        let from = self.unlogged_from;
        let comes_to_it = |event: &Event| match event {
            Event::Accepted { conn, .. } => *conn >= from,
            _ => false,
        };
        let new = &self.history.entries[since..];
        if self.told_read_only && new.iter().any(|entry| comes_to_it(&entry.event)) {
            self.coverage.hit("let in without a log");
        }
    }

    /// Whether clients have waited for room, which they cannot tell from a slow network.
    fn note_crowd(&mut self) {
        let waits = self.node.broker.as_ref().map_or(0, |broker| broker.counts().input_waits);
        if waits > 0 {
            self.coverage.hit("input waits for room");
        }
    }

    fn note_folds(&mut self, folds: Vec<Fold>) {
        for (lane, fold) in folds.into_iter().enumerate() {
            match fold {
                Fold::Short => self.coverage.hit("fold not comparable"),
                Fold::Compared(outcome) => {
                    self.coverage.hit("fold compared");
                    self.note(Event::Folded { lane, outcome });
                }
            }
        }
    }

    /// A cut of a connection that its client still uses.
    fn note_cut(&mut self, conn: Conn) {
        if self.conns.contains_key(&conn) {
            self.note(Event::Cut { conn });
        }
    }
}
