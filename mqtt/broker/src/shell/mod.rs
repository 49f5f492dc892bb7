//! The shell of one lane: connections and sessions joined to the log and the state.
//!
//! Owns: the order of things in a turn, and what of the protocol concerns more than one packet.
//! Each file holds one noun: [`connect`], [`publish`], [`receipts`], [`subscribe`], [`follow`] (the
//! log's tail becomes state and deliveries), [`pump`] (queues become packets), [`leave`].
//!
//! Assumes: one lane calls it, one call at a time. It reads no clock but the one it is given, holds
//! no socket and no file: with a memory driver and a simulated disk it is deterministic.

mod admit;
mod alias;
mod answers;
mod changes;
mod connack;
mod connect;
mod direct;
mod due;
mod exchange;
mod fetched;
mod follow;
mod full;
mod held;
mod hold;
mod input_room;
mod journal;
mod lagging;
mod leave;
mod link;
mod links;
mod live;
mod log_turn;
mod message;
mod naming;
mod notes;
mod orphans;
mod owed;
mod packet_out;
mod packets;
mod publish;
mod pump;
mod put;
mod questions;
mod queue_total;
mod ranges;
mod rates;
mod receipts;
mod receiving;
mod replay;
mod retained;
mod rights;
mod run;
mod session_total;
mod settled;
mod space;
mod subscribe;
mod sys_topics;
#[cfg(test)]
mod tests;
mod told;
mod why;
mod wills;
mod wire;
mod writes;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use zzq_codec::{Decoder, Limits as PacketLimits, RunPlaces};
use zzq_engine::record::{Orphan, RangeSetsBuf, UnsubscribeItemsBuf};
use zzq_engine::{DecisionBuf, Due, Gate, Handed, Index, Overlay, Router, SessionNumber, State};
use zzq_lanes::{
    Class, CloseReason, ConnId, Handler, LaneIndex, LaneIo, Millis, PeerInfo, TimerSlot,
};
use zzq_types::{Lsn, PropertiesBuf, ReasonCode};
use zzq_wal::LogClock;
use zzq_wal::disk::Disk;

pub(crate) use self::alias::AliasRoom;
pub(crate) use self::direct::Arrivals;
pub(crate) use self::journal::{Journal, RETAINED, Seat};
pub(crate) use self::message::Message;
pub(crate) use self::notes::{Carried, Note};
pub(crate) use self::wills::{HeldWill, Wills};
pub(crate) use self::wire::Content;

use self::answers::Answer;
use self::changes::Changes;
use self::direct::Directs;
use self::fetched::QueueReads;
use self::follow::{Gathered, Later};
use self::full::Full;
use self::held::Holding;
use self::hold::Clogged;
use self::lagging::Lagging;
use self::leave::Farewell;
use self::link::{Link, Waits};
use self::links::Links;
use self::live::Live;
use self::log_turn::{LogTurn, Turned};
use self::message::Store;
use self::orphans::{GivenOn, GoingOn};
use self::owed::Owed;
use self::questions::Questions;
use self::queue_total::QueueShare;
use self::rates::Throttled;
use self::receiving::Receiving;
use self::replay::Replaying;
use self::retained::{Granting, Query, SubAcks};
use self::session_total::SessionShare;
use self::sys_topics::{Renewal, Timed};
use self::told::Told;
use self::wire::Wire;
use self::writes::Writes;
use crate::clock::Clock;
use crate::fetch::FetchSeat;
use crate::hooks::AskSeat;
use crate::metrics::Counts;
use crate::planted::{self, Bug};
use crate::replay::ReplaySeat;
use crate::seldom::Seldom;
use crate::shared::Shared;
use crate::sys::StoreState;

pub(crate) type Io<'a, D> = LaneIo<'a, Shell<D>>;

/// The timer of a connection that watches for silence: before CONNECT for the CONNECT itself.
const SILENCE: TimerSlot = TimerSlot::A;

/// Lines about connections that are not let in: anybody can cause any number of them.
#[derive(Debug, Default)]
struct StrangersTold {
    silent: Seldom,
    faults: Seldom,
    refused: Seldom,
}

/// What a lane starts with.
pub(crate) struct Seed<D: Disk> {
    pub(crate) lane: LaneIndex,
    pub(crate) shared: Arc<Shared>,
    pub(crate) clock: Box<dyn Clock>,
    /// Follows the newest time in the log.
    pub(crate) log_clock: LogClock,
    pub(crate) journal: Journal<D>,
    /// Reads back what left memory; with a log.
    pub(crate) fetch: Option<FetchSeat>,
    /// Reads history; with a log.
    pub(crate) replay: Option<ReplaySeat>,
    /// Asks hooks; with any.
    pub(crate) asks: Option<AskSeat>,
    /// This lane's shard.
    pub(crate) state: State,
    /// The messages of its wills.
    pub(crate) wills: Wills,
    /// A full copy.
    pub(crate) index: Index,
    /// The first session number of this lane; the next is `lanes` further on.
    pub(crate) first_number: SessionNumber,
    /// For client identifiers that the broker makes.
    pub(crate) random: u64,
}

/// See the file.
pub(crate) struct Shell<D: Disk> {
    lane: LaneIndex,
    lanes: u16,
    shared: Arc<Shared>,
    clock: Box<dyn Clock>,
    log_clock: LogClock,
    /// Log time of this turn, and the turn it was read in.
    now_ms: u64,
    ticked: Option<Millis>,
    journal: Journal<D>,
    pub(crate) state: State,
    index: Index,
    router: Router,
    overlay: Overlay,
    gate: Gate<Answer>,
    links: Links,
    /// The connections of sessions that are up.
    up: FxHashMap<SessionNumber, ConnId>,
    /// Volatile sessions without one, whose end was handed over.
    ending: FxHashSet<SessionNumber>,
    /// Client identifiers whose Connect is handed over and not yet applied.
    opening: FxHashMap<Box<str>, ConnId>,
    /// Connections whose input waits for something: offered again when anything was applied.
    parked: Vec<ConnId>,
    changes: Changes,
    owed: Owed,
    live: Live,
    writes: Writes,
    store: Store,
    wills: Wills,
    fetch: Option<FetchSeat>,
    replaying: Replaying,
    questions: Questions,
    told: Told,
    /// Messages that no queue holds and that are being read back, and those that were: retained
    /// ones, and orphans that go on at QoS 0.
    wanted: FxHashSet<Lsn>,
    fetched: FxHashMap<Lsn, Message>,
    queue_reads: QueueReads,
    /// Wishes for retained messages that are being granted.
    granting: BTreeMap<u64, Granting>,
    next_granting: u64,
    /// SUBACKs that wait until the first of these messages are found.
    sub_acks: SubAcks,
    /// Questions of other lanes for retained messages.
    queries: Vec<(LaneIndex, Query)>,
    /// Notes that found their ring full.
    kept_notes: VecDeque<(LaneIndex, Note, Class)>,
    /// Messages that went to other lanes.
    directs: Directs,
    clogged: Clogged,
    receiving: Receiving,
    throttled: Throttled,
    full: Full,
    lagging: Lagging,
    queue_share: QueueShare,
    session_share: SessionShare,
    refused_filters_told: Seldom,
    strangers: StrangersTold,
    denied_told: Seldom,
    unretained_told: Seldom,
    short_of_room_told: Seldom,
    /// Connections whose publishes wait.
    holding: Holding,
    /// Sessions that are down and whose record of it found no room.
    farewells: Vec<Farewell>,
    /// What is due and handed over.
    pending: BTreeMap<Due, Handed>,
    /// Ended sessions whose messages wait for another member, and those to be forgotten.
    orphaned: Vec<SessionNumber>,
    forgettable: Vec<SessionNumber>,
    given_on: FxHashMap<Orphan, GivenOn>,
    going_on: GoingOn,
    settling: settled::Settling,
    /// How far the tail was followed.
    pub(crate) followed: Lsn,
    applied: Handed,
    committed: Handed,
    timed: Option<Timed>,
    gathered: Gathered,
    sets: RangeSetsBuf,
    /// Deliveries that wait for a commit.
    later: Later,
    wire: Wire,
    /// Links with receipts that were not handed over, in the order of their first.
    owing: Vec<ConnId>,
    /// Links whose next identifier another message may have.
    crowded: Vec<ConnId>,
    next_number: u64,
    random: u64,
    counts: Counts,
    /// When timers of the state were last looked at, and are to be next.
    due_ms: u64,
    /// What is due and found no room, of each kind.
    rests: [due::Rest; 2],
    sys: Renewal,
    stopping: bool,
    log_turn: LogTurn,
    /// A record was not taken because the log had no room.
    wants_room: bool,
    /// The fault of the log was told.
    told_read_only: bool,
    /// How the store was when that was told.
    store_was: StoreState,
    run_places: RunPlaces,
    decision: DecisionBuf,
    properties: PropertiesBuf,
    filters: UnsubscribeItemsBuf,
    topic: String,
    ready_answers: Vec<Answer>,
}

/// How the handling of input goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// With the next packet.
    Next,
    /// This packet is offered again later.
    Again,
    /// This publish is set aside, and the next packet follows.
    Hold,
    /// The connection ends: what else was read is thrown away.
    End,
}

impl<D: Disk> Shell<D> {
    /// A shell that has not started.
    pub(crate) fn new(mut seed: Seed<D>) -> Self {
        let lanes = seed.shared.lanes();
        let strategies = seed.shared.options.shared.clone();
        seed.index.set_strategies(strategies, seed.lane.index());
        Self {
            lane: seed.lane,
            lanes,
            clock: seed.clock,
            log_clock: seed.log_clock,
            now_ms: 0,
            ticked: None,
            journal: seed.journal,
            index: seed.index,
            router: Router::new(),
            overlay: Overlay::default(),
            gate: Gate::new(),
            links: Links::default(),
            up: FxHashMap::default(),
            ending: FxHashSet::default(),
            opening: FxHashMap::default(),
            parked: Vec::new(),
            changes: Changes::default(),
            owed: Owed::default(),
            live: Live::new(lanes),
            writes: Writes::new(lanes),
            store: Store::new(seed.shared.store_bytes()),
            wills: seed.wills,
            fetch: seed.fetch,
            replaying: Replaying::new(seed.replay),
            questions: Questions::new(seed.asks, seed.shared.hooks.answer_within),
            told: Told::default(),
            wanted: FxHashSet::default(),
            fetched: FxHashMap::default(),
            queue_reads: QueueReads::default(),
            granting: BTreeMap::new(),
            next_granting: 0,
            sub_acks: SubAcks::default(),
            queries: Vec::new(),
            kept_notes: VecDeque::new(),
            directs: Directs::new(seed.lane, lanes),
            clogged: Clogged::default(),
            receiving: Receiving::default(),
            throttled: Throttled::default(),
            full: Full::default(),
            lagging: Lagging::default(),
            queue_share: QueueShare::default(),
            session_share: SessionShare::default(),
            refused_filters_told: Seldom::default(),
            strangers: StrangersTold::default(),
            denied_told: Seldom::default(),
            unretained_told: Seldom::default(),
            short_of_room_told: Seldom::default(),
            holding: Holding::default(),
            farewells: Vec::new(),
            pending: BTreeMap::new(),
            orphaned: Vec::new(),
            forgettable: Vec::new(),
            given_on: FxHashMap::default(),
            going_on: GoingOn::default(),
            settling: settled::Settling::default(),
            followed: seed.state.applied(),
            applied: Handed::NONE,
            committed: Handed::NONE,
            timed: None,
            gathered: Gathered::default(),
            sets: RangeSetsBuf::new(),
            later: Later::default(),
            wire: Wire::default(),
            owing: Vec::new(),
            crowded: Vec::new(),
            next_number: seed.first_number.get(),
            state: seed.state,
            random: seed.random,
            counts: Counts::default(),
            due_ms: 0,
            rests: [due::Rest::default(); 2],
            sys: Renewal::default(),
            stopping: false,
            log_turn: LogTurn::default(),
            wants_room: false,
            told_read_only: false,
            store_was: StoreState::Writable,
            run_places: RunPlaces::default(),
            decision: DecisionBuf::new(),
            properties: PropertiesBuf::new(),
            filters: UnsubscribeItemsBuf::new(),
            topic: String::new(),
            ready_answers: Vec::new(),
            shared: seed.shared,
        }
    }

    /// Reads a client from its CONNECT on, until it is let in.
    fn decoder(&self) -> Decoder {
        let limits = &self.shared.options.limits;
        let is_any = planted::is(Bug::ConnectSizeIgnored);
        let most = if is_any { u32::MAX } else { limits.max_connect_size };
        let max_packet = most.min(limits.max_packet_size);
        Decoder::of_clients(PacketLimits { max_packet }).with_bridges()
    }

    /// The bit of this lane in masks.
    fn bit(&self) -> u64 {
        1 << self.lane.0
    }

    /// All lanes but this one.
    fn other_lanes(&self) -> impl Iterator<Item = LaneIndex> + use<D> {
        let own = self.lane;
        (0..self.lanes).map(LaneIndex).filter(move |lane| *lane != own)
    }

    fn tick(&mut self) {
        let reading = self.clock.read();
        self.now_ms = self.log_clock.now(reading.boot_ms, reading.wall_ms);
    }

    /// The time of this turn, before the first thing that is done in it.
    fn tick_once(&mut self, io: &Io<'_, D>) {
        if self.ticked != Some(io.now()) {
            self.ticked = Some(io.now());
            self.tick();
        }
    }

    /// A session number that was never used.
    fn take_number(&mut self) -> SessionNumber {
        let number = SessionNumber::new(self.next_number);
        self.next_number += u64::from(self.lanes);
        assert!(number.is_some(), "session numbers start at 1");
        number.unwrap_or(SessionNumber::FIRST)
    }

    /// Input of this connection is offered again when something was applied.
    fn park(&mut self, io: &mut Io<'_, D>, conn: ConnId) -> Flow {
        if self.journal.is_read_only() {
            self.dismiss(io, conn, ReasonCode::UnspecifiedError, "the log is read-only");
            return Flow::End;
        }
        self.park_for_peers(io, conn)
    }

    /// The same where it waits for other lanes or clients, whatever has become of the log.
    fn park_for_peers(&mut self, io: &mut Io<'_, D>, conn: ConnId) -> Flow {
        io.pause(conn);
        self.parked.push(conn);
        if let Some(link) = self.links.get_mut(conn) {
            link.parked = true;
        }
        Flow::Again
    }

    fn unpark(&mut self, io: &mut Io<'_, D>) {
        self.holding.log_goes_on();
        for conn in self.parked.drain(..) {
            io.resume(conn);
        }
    }
}

impl<D: Disk> Handler for Shell<D> {
    type Message = Note;
    type Carried = Carried;

    fn started(&mut self, io: &mut Io<'_, D>) {
        self.tick();
        io.limit_output(self.shared.output_bytes());
        io.limit_handshake(self.shared.options.limits.connect_timeout);
        io.limit_input(self.shared.input_bytes(), Some(self.shared.connect_bytes()));
        self.sys.due = io.now();
        // The record of this start is there: it ends what was up before, nothing that comes now.
        self.follow(io);
        self.find_full_queues(io);
        self.note_members();
        self.note_retained();
    }

    fn accepted(&mut self, io: &mut Io<'_, D>, conn: ConnId, peer: &PeerInfo) {
        self.counts.accepted += 1;
        self.links.insert(conn, Link::new(peer.addr, self.decoder(), io.now()));
        // A handshake has taken its part of that.
        let spent = peer.tls.as_ref().map_or(std::time::Duration::ZERO, |tls| tls.handshake);
        let left = self.shared.options.limits.connect_timeout.saturating_sub(spent);
        io.set_timer(conn, SILENCE, io.now() + left);
        tracing::debug!(peer = %peer.addr, "connection accepted");
    }

    fn adopted(&mut self, io: &mut Io<'_, D>, conn: ConnId, peer: &PeerInfo, _: Carried) {
        // It comes with its CONNECT unread, so it starts as it did where it was accepted.
        self.accepted(io, conn, peer);
        self.counts.accepted -= 1;
    }

    fn bytes(&mut self, io: &mut Io<'_, D>, conn: ConnId, input: &[u8]) -> usize {
        self.tick_once(io);
        self.packets(io, conn, input)
    }

    fn ended(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        self.tick_once(io);
        // Behind DISCONNECT it is closed when what that says is committed: see `disconnect`.
        let leaves = self.links.get(conn).is_some_and(|link| link.phase == link::Phase::Leaving);
        self.lost(io, conn, None, "the peer closed it");
        if !leaves {
            io.close(conn, zzq_lanes::Close::AfterFlush);
        }
    }

    fn input_overdue(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        self.tick_once(io);
        self.overdue(io, conn);
    }

    fn drained(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        self.tick_once(io);
        self.unclogged(io, conn);
        self.has_come(io, conn, Waits::Output);
        // This comes behind the end of a turn, which is where others go on who have waited for it.
        io.turn_again();
    }

    fn closed(&mut self, io: &mut Io<'_, D>, conn: ConnId, why: CloseReason) {
        self.tick_once(io);
        self.counts.closed(why);
        self.lost(io, conn, None, &leave::cause(why));
        self.receiving.forget(conn);
        self.unclogged(io, conn);
        self.queue_reads.has_failed(conn);
        self.links.remove(conn);
    }

    fn timer(&mut self, io: &mut Io<'_, D>, conn: ConnId, slot: TimerSlot) {
        self.tick_once(io);
        if slot == SILENCE {
            self.silent(io, conn);
        } else {
            self.stopped_long_enough(io, conn);
        }
    }

    fn woken(&mut self, io: &mut Io<'_, D>) {
        self.tick_once(io);
        self.unpark(io);
        self.take_fetched(io);
        self.take_stretches(io);
        self.take_answers(io);
        self.retry_notes(io);
    }

    fn message(&mut self, io: &mut Io<'_, D>, from: LaneIndex, note: Note) {
        self.tick_once(io);
        self.note(io, from, note);
    }

    /// First what has completed, then the next write, then what it delivers.
    fn turn_end(&mut self, io: &mut Io<'_, D>) -> Option<Millis> {
        self.tick();
        self.journal.reap(self.now_ms);
        self.time_commits(io.now());
        self.heed_space(io);
        self.give_committed(io);
        self.send_later(io);
        self.go_on_at_qos_0(io);
        self.say_farewells(io);
        self.go_on_granting(io);
        self.forget_unwanted();
        self.forget_traceless();
        self.go_on_replaying(io);
        self.look_after_due(io);
        self.relieve_queues(io);
        self.relieve_queue_total(io);
        self.renew_sys(io);
        self.hand_over_receipts(io);
        self.go_on_held(io);
        let turned = self.turn_the_log(io);
        self.check_full_queues(io);
        self.end_holds_for_lagging(io);
        self.tire_of_clogged(io);
        self.tire_of_questions(io);
        self.go_on_throttled(io);
        self.tell_owed(io);
        self.go_on_crowded(io);
        self.receiving.end_turn();
        // They may have waited for what was followed just now.
        self.answer_queries(io);
        self.settle();
        self.directs.give_back(io.now());
        self.tell_sessions();
        self.publish_counts(io);
        match turned {
            Turned::Driven { again } => self.next_turn(io, again),
            Turned::Sealed => None,
        }
    }

    fn sent(&mut self, io: &mut Io<'_, D>) -> Option<Millis> {
        self.drive_behind_output(io)
    }

    fn stopping(&mut self, io: &mut Io<'_, D>) {
        self.stopping = true;
        for conn in io.connections() {
            self.send_on(io, conn);
        }
        self.hand_over_receipts(io);
    }

    fn may_stop(&self) -> bool {
        self.journal.is_committed(self.journal.handed()) || self.journal.is_read_only()
    }
}

impl<D: Disk> Shell<D> {
    /// When the next turn is due if nothing happens before.
    fn next_turn(&mut self, io: &mut Io<'_, D>, again: Option<u64>) -> Option<Millis> {
        self.heed_queue_total(io);
        // Asks for a wake-up, whoever waits: answers, and input that goes on behind the last record
        // of its session. What is committed by now needs none.
        let ready = self.gate.first().is_some_and(|first| self.journal.is_committed(first));
        let more = self.journal.committed() > self.committed;
        let waits = self.committed < self.journal.handed() && !self.journal.is_read_only();
        if ready || more || waits && self.journal.wants_more() {
            io.turn_again();
        }
        let first = self.first_awaited();
        if first.is_some() && !self.journal.is_read_only() && self.journal.wants_lsn(first) {
            io.turn_again();
        }
        let done = |handed: &Handed| *handed <= self.applied;
        if self.has_held_to_try() {
            io.turn_again();
        }
        if self.pending.values().any(done) && !self.journal.is_read_only() {
            // What is due next is looked up when what was due is done.
            io.turn_again();
        }
        let wait = |at_ms: u64| {
            io.now() + std::time::Duration::from_millis(at_ms.saturating_sub(self.now_ms))
        };
        let log = again.map(wait);
        let due = (self.due_ms != u64::MAX).then(|| wait(self.due_ms));
        let sys = (self.lane.0 == 0 && !self.shared.options.sys_interval.is_zero())
            .then_some(self.sys.due);
        let full = [self.full.next_ms(), self.queue_share.next_ms()].into_iter().flatten().min();
        let full = full.filter(|_| !self.journal.is_read_only()).map(wait);
        let waits = [
            self.clogged.next(),
            self.lagging.next(),
            self.throttled.next(),
            self.questions.next(),
            self.directs.next(),
        ];
        [log, due, full, sys].into_iter().chain(waits).flatten().min()
    }

    /// The first record whose commit deliveries wait for.
    fn first_awaited(&self) -> Option<Lsn> {
        let committed = self.journal.committed_lsn();
        // What is committed and goes on at QoS 0 waits to be read back.
        let going_on = self.going_on.first().filter(|given| *given > committed);
        [self.later.first(), going_on].into_iter().flatten().min()
    }

    fn publish_counts(&mut self, io: &Io<'_, D>) {
        let lane = io.counters();
        self.counts.bytes_in = lane.bytes_in;
        self.counts.bytes_out = lane.bytes_queued;
        self.counts.connections = self.links.len() as u64;
        self.counts.clients = self.up.len() as u64;
        self.counts.sessions = self.state.session_count() as u64;
        self.counts.session_memory = self.session_share.memory();
        self.counts.retained = self.state.retained().len() as u64;
        self.counts.retained_bytes = self.state.retained().bytes();
        self.counts.queued = self.state.queued() as u64;
        self.counts.queued_bytes = self.state.queued_bytes();
        self.counts.queue_memory = self.queue_memory();
        self.counts.held_answers = self.gate.len() as u64;
        self.counts.held_bytes = self.held_bytes() as u64;
        self.tell_short_of_room(io);
        // Each lane knows all of them: one tells.
        let tells = self.lane.0 == 0;
        let told = |count: usize| if tells { count as u64 } else { 0 };
        self.counts.subscriptions = told(self.index.subscriptions());
        self.counts.shared_subscriptions = told(self.index.shared_subscriptions());
        self.counts.alias_bytes = told(self.shared.alias_room.bytes());
        self.tell_dropped();
        self.shared.metrics[self.lane.index()].publish(&self.counts);
    }

    fn tell_read_only(&self) {
        let reason = self.journal.fault().unwrap_or_default();
        tracing::error!(
            reason,
            "the log is read-only: nothing more is acknowledged; free or replace the disk of \
             --data-dir and restart"
        );
    }
}
