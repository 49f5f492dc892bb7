//! Publishes that wait: for a receiver that lags or whose output is full, for a full queue or for
//! the total of all, or for a full disk. MQTT 3 cannot refuse one, and at QoS 0 nobody can, so they
//! are held: set aside in their order, while the connection is read for its other packets. Among
//! these are the acknowledgements that empty the client's own queue, which others may wait for.
//!
//! Owns: what is set aside, within the bounds of its connection and its lane. At a bound reading
//! stops. A client whose own queue is full meanwhile, or whose answers would make space on the
//! disk, or in the memory of all queues, may wait for itself in a circle, if there is something
//! that it was sent and has not answered, or not read: after `max_hold` its publishes are thrown
//! away unanswered and the rest is read, once more so long; then it is closed, and sends again what
//! was not answered.
//!
//! Does not know: which queue is full; the decision says so each time it is made.

use std::collections::VecDeque;

use zzq_codec::{Delivery, Packet, Publish};
use zzq_lanes::ConnId;
use zzq_types::{PacketId, ReasonCode, TopicName};
use zzq_wal::disk::Disk;

use super::hold::HOLD;
use super::link::Link;
use super::{Flow, Io, Shell};
use crate::planted::{self, Bug};

/// Connections that are tried in one turn.
const STEPS: usize = 256;

/// What one connection has set aside.
#[derive(Debug, Default)]
pub(super) struct Held {
    packets: VecDeque<Aside>,
    bytes: usize,
    stage: Stage,
}

/// A publish that was set aside.
#[derive(Debug)]
struct Aside {
    id: Option<PacketId>,
    /// Encoded, as it came.
    packet: Box<[u8]>,
    /// Its topic, if it has an alias: what that stands for may be another one when it goes on, for
    /// what comes meanwhile and does not wait defines aliases, too.
    topic: Option<Box<str>>,
}

impl Aside {
    fn bytes(&self) -> usize {
        bytes_of(&self.packet, self.topic.as_deref())
    }
}

/// What a publish takes that is set aside.
fn bytes_of(packet: &[u8], topic: Option<&str>) -> usize {
    packet.len() + topic.map_or(0, str::len)
}

/// How far a connection is that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// It is read.
    #[default]
    Reads,
    /// It has no room for another publish, and is not read.
    Stopped,
    /// It is read, and its publishes are thrown away.
    Sheds,
}

/// The connections of a lane that have set something aside.
#[derive(Debug, Default)]
pub(super) struct Holding {
    conns: VecDeque<ConnId>,
    bytes: usize,
    /// Some were freed: others may have room for more.
    has_freed: bool,
    /// What the index is like for which they are tried, and how many are still to be.
    tried: Option<u64>,
    left: usize,
    /// One of them waits for the log as well.
    wants_log: bool,
}

impl Held {
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Whether there is something among it that its client will not send again.
    fn has_qos_0(&self) -> bool {
        self.packets.iter().any(|aside| aside.id.is_none())
    }

    /// Whether a publish that comes now is set aside, or thrown away.
    fn stops_publishes(&self) -> bool {
        !self.is_empty() || self.stage == Stage::Sheds
    }
}

impl Link {
    /// See [`Held::stops_publishes`].
    #[inline]
    pub(super) fn stops_publishes(&self) -> bool {
        self.held.as_ref().is_some_and(|held| held.stops_publishes())
    }
}

impl Holding {
    /// Records were applied, or the log has room.
    pub(super) fn log_goes_on(&mut self) {
        if std::mem::take(&mut self.wants_log) {
            self.tried = None;
        }
    }

    /// Something else has changed that they may wait for.
    pub(super) fn look_again(&mut self) {
        self.tried = None;
    }

    fn free(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.has_freed |= bytes > 0;
    }
}

/// What was set aside first.
fn next<T>(packets: &mut VecDeque<T>) -> Option<T> {
    if planted::is(Bug::HeldLastFirst) { packets.pop_back() } else { packets.pop_front() }
}

impl<D: Disk> Shell<D> {
    /// Whether this publish waits for those before it. A repeat of one at QoS 2 that was taken does
    /// not: its PUBREL, which nothing holds, would make it another message.
    pub(super) fn is_behind_held(&self, conn: ConnId, packet: &Packet<'_>) -> bool {
        let Packet::Publish(publish) = packet else { return false };
        let Some(link) = self.links.get(conn) else { return false };
        if !link.stops_publishes() {
            return false;
        }
        match (publish.delivery, link.session) {
            (Delivery::ExactlyOnce(id), Some(session)) => !self.is_open(session, id),
            _ => true,
        }
    }

    /// Whether a DISCONNECT waits: what the client has published at QoS 0 goes before.
    pub(super) fn leaves_behind_held(&self, conn: ConnId, packet: &Packet<'_>) -> bool {
        matches!(packet, Packet::Disconnect(_)) && self.has_held_qos_0(conn)
    }

    fn has_held_qos_0(&self, conn: ConnId) -> bool {
        let held = self.links.get(conn).and_then(|link| link.held.as_ref());
        held.is_some_and(|held| held.has_qos_0())
    }

    /// Sets a publish aside, unless it repeats one that is: one answer is enough for both.
    pub(super) fn set_aside(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        publish: &Publish<'_>,
        packet: &[u8],
    ) -> Flow {
        let id = publish.delivery.packet_id();
        if self.journal.is_read_only() && id.is_some() {
            // Nothing will empty a queue.
            return self.refuse(io, conn, ReasonCode::UnspecifiedError, "the log is read-only");
        }
        let mut memory = String::new();
        let topic = match publish.topic_alias() {
            None => None,
            // Thrown away or not, it has its place among those that define aliases.
            Some(_) => match self.topic_of(io, conn, publish, &mut memory) {
                Ok(topic) => Some(topic.as_str()),
                Err(flow) => return flow,
            },
        };
        // It is copied when it is known to be kept: where there is no room it is offered again.
        let bytes = bytes_of(packet, topic);
        let most = self.shared.options.limits.max_held_bytes;
        let Some(link) = self.links.up_mut(conn) else { return Flow::End };
        let held = link.held.get_or_insert_default();
        if held.stage == Stage::Sheds {
            self.counts.shed += 1;
            return Flow::Next;
        }
        if publish.dup && held.packets.iter().any(|held| held.id == id) {
            return Flow::Next;
        }
        let fits = held.is_empty() || held.bytes + bytes <= most;
        if !fits || self.holding.bytes + bytes > self.shared.held_bytes() {
            if std::mem::replace(&mut held.stage, Stage::Stopped) == Stage::Reads {
                io.set_timer(conn, HOLD, io.now() + self.shared.options.limits.max_hold);
            }
            let flow = self.park_for_peers(io, conn);
            // Others may wait for the room that it has, and it for what they send behind that.
            io.pause_for_peers(conn);
            return flow;
        }
        if held.is_empty() {
            let (peer, client) = (link.peer, &link.client);
            tracing::debug!(%peer, %client, "held for a slow receiver, a full queue or disk");
            self.holding.conns.push_back(conn);
        }
        held.bytes += bytes;
        self.holding.bytes += bytes;
        held.packets.push_back(Aside { id, packet: packet.into(), topic: topic.map(Into::into) });
        Flow::Next
    }

    /// Bytes that this lane has set aside.
    pub(super) fn held_bytes(&self) -> usize {
        self.holding.bytes
    }

    /// Goes on with what was set aside, if something has changed since it was tried.
    pub(super) fn go_on_held(&mut self, io: &mut Io<'_, D>) {
        let generation = Some(self.index.generation());
        if self.holding.tried != generation {
            self.holding.tried = generation;
            self.holding.left = self.holding.conns.len();
        }
        let steps = self.holding.left.min(STEPS);
        self.holding.left -= steps;
        for _ in 0..steps {
            let Some(conn) = self.holding.conns.pop_front() else { break };
            if self.go_on_held_of(io, conn) {
                self.holding.conns.push_back(conn);
            }
        }
        if std::mem::take(&mut self.holding.has_freed) {
            self.unpark(io);
        }
    }

    /// Whether what was set aside is to be tried in another turn.
    pub(super) fn has_held_to_try(&self) -> bool {
        let holding = &self.holding;
        let is_new = holding.tried != Some(self.index.generation());
        holding.has_freed || !holding.conns.is_empty() && (is_new || holding.left > 0)
    }

    /// True: it still waits.
    fn go_on_held_of(&mut self, io: &mut Io<'_, D>, conn: ConnId) -> bool {
        loop {
            let Some(link) = self.links.up_mut(conn) else { return false };
            let Some(aside) = link.held.as_mut().and_then(|held| next(&mut held.packets)) else {
                break;
            };
            let publish = link.decoder.decode(&aside.packet);
            assert!(matches!(publish, Ok(Some((Packet::Publish(_), _)))), "it was decoded before");
            let Ok(Some((Packet::Publish(publish), _))) = publish else { continue };
            let named = aside.topic.as_deref().and_then(|topic| TopicName::new(topic).ok());
            let flow = self.publish_named(io, conn, &publish, named);
            let Some(link) = self.links.up_mut(conn) else { return false };
            let held = link.held.get_or_insert_default();
            if matches!(flow, Flow::Again | Flow::Hold) {
                held.packets.push_front(aside);
                self.holding.wants_log |= flow == Flow::Again;
                return true;
            }
            held.bytes -= aside.bytes();
            self.holding.free(aside.bytes());
        }
        // One that sheds ends all the same, for what it has lost must come again.
        if let Some(link) = self.links.up_mut(conn) {
            link.held = link.held.take().filter(|held| held.stage == Stage::Sheds);
        }
        false
    }

    /// A connection ends: what it has set aside was not answered.
    pub(super) fn drop_held(&mut self, conn: ConnId) {
        let Some(link) = self.links.get_mut(conn) else { return };
        let Some(held) = link.held.take() else { return };
        self.holding.free(held.bytes);
        self.counts.shed += held.packets.len() as u64;
    }

    /// The log has failed: nobody who waits will be answered.
    pub(super) fn dismiss_held(&mut self, io: &mut Io<'_, D>) {
        for conn in std::mem::take(&mut self.holding.conns) {
            self.dismiss(io, conn, ReasonCode::UnspecifiedError, "the log is read-only");
        }
    }

    /// A connection was stopped, or has shed, for as long as one is held.
    pub(super) fn stopped_long_enough(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        let Some(link) = self.links.up_mut(conn) else { return };
        let (session, is_v5) = (link.session, link.is_v5());
        let is_full = session.is_some_and(|session| self.full.has(session));
        let is_full = is_full || self.may_free_space(session);
        let Some(link) = self.links.up_mut(conn) else { return };
        // Else its queue waits for something else, as the log.
        let answers = link.out.get().is_some_and(|out| out.numbers.awaits_client());
        let is_awaited = is_full && (answers || io.queued_bytes(conn) > 0);
        let Some(held) = &mut link.held else { return };
        // MQTT 5 waits above QoS 0 for receivers that do not keep up, and for no full queue: that
        // ends in any case.
        let ends = is_v5 && held.packets.front().is_some_and(|aside| aside.id.is_some());
        match held.stage {
            Stage::Reads => return,
            Stage::Stopped if !link.parked => {
                held.stage = Stage::Reads;
                return;
            }
            Stage::Stopped if is_awaited && !ends => {
                held.stage = Stage::Sheds;
                io.resume(conn);
            }
            Stage::Stopped => {}
            Stage::Sheds => {
                let why = "it waits for a full queue or disk, and others for its own answers";
                self.dismiss(io, conn, ReasonCode::QuotaExceeded, why);
                return;
            }
        }
        io.set_timer(conn, HOLD, io.now() + self.shared.options.limits.max_hold);
    }
}
