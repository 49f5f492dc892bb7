//! Runs: what a publisher sends to one topic, packet after packet, is checked and routed once and
//! copied to each receiver in one piece.
//!
//! Owns: which runs go so. Whatever may stop a message on its way (a held receiver, a queue that
//! may become full, a repeated identifier, a pick) stops no run: its messages go one by one then.
//! So do those that are records of the log, each of its own.

use zzq_codec::{Ack, AckKind, Decoder, Limits, Packet, Publish, Run};
use zzq_engine::{Decision, Destination, Publication, SessionFlags, SessionNumber};
use zzq_lanes::ConnId;
use zzq_types::{Lsn, ProtocolVersion, QoS};
use zzq_wal::disk::Disk;

use super::message::Message;
use super::publish::outcome;
use super::rights::may_receive;
use super::wire::{Content, Ids, Receiver};
use super::{Io, Shell};
use crate::hooks::Answer;

/// Bytes that go to another lane in one piece.
const ACROSS_MOST: usize = 4096;

/// Pieces under way to a lane; what is beyond goes one by one.
pub(super) const PIECES_MOST: u64 = 256;

/// The same of those that enter queues: a lane learns that a queue is full when it has taken so
/// many more.
pub(super) const QUEUED_MOST: u64 = 8;

/// What names the messages of a run, which are in no log: the first, and how far each is from the
/// next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers {
    first: Lsn,
    step: u64,
}

/// What became of the run at the front of a connection's input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RunTaken {
    /// Messages that were taken, and their bytes.
    pub(super) messages: usize,
    pub(super) bytes: usize,
    /// Bytes of their payloads.
    payload: usize,
    /// Bytes behind them whose messages go one by one.
    pub(super) left: usize,
}

impl<D: Disk> Shell<D> {
    /// Takes as much as it can of the run that `first` begins, at the front of `input`.
    pub(super) fn publish_run(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        first: &Publish<'_>,
        input: &[u8],
    ) -> RunTaken {
        let mut taken = RunTaken::default();
        let Some(link) = self.links.up_mut(conn).filter(|link| !link.stops_publishes()) else {
            return taken;
        };
        let (decoder, session) = (link.decoder, link.session);
        let qos = first.delivery.qos();
        if self.is_for_the_log(qos, false) || self.not_offered(qos, false).is_some() {
            return taken;
        }
        let mut places = std::mem::take(&mut self.run_places);
        let run = decoder.run(first, input, &mut places);
        if let (Some(mut run), Some(session)) = (run, session) {
            // At QoS 2 identifiers that begin anew make another part.
            taken.left = loop {
                let Some(part) = self.take_run(io, conn, session, run) else {
                    break run.as_bytes().len();
                };
                taken.messages += part.len();
                taken.bytes += part.as_bytes().len();
                taken.payload += part.payload_bytes();
                run = run.split_at(part.len()).1;
                if io.is_swollen() {
                    // The rest is offered again, behind what is sent now.
                    break 0;
                }
            };
        }
        self.run_places = places;
        self.counts.publishes_in += taken.messages as u64;
        self.counts.payload_in += taken.payload as u64;
        taken
    }

    /// Takes the front of a run, if it may go as one; returns it.
    fn take_run<'a>(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        session: SessionNumber,
        run: Run<'a>,
    ) -> Option<Run<'a>> {
        let (run, _) = run.split_at(self.acceptable(conn, session, run));
        if run.is_empty()
            || self.unwelcome(run.topic()).is_some()
            || !self.may_publish_at_once(conn, run.topic(), run.qos())
        {
            return None;
        }
        let publication = Publication {
            topic: run.topic(),
            publisher: Some(session),
            client_hash: self.links.get(conn)?.client_hash,
            qos: run.qos(),
            retain: false,
        };
        let mut buffer = std::mem::take(&mut self.decision);
        let routed = self.router.route_same(&mut self.index, publication, &mut buffer);
        let decision = buffer.as_decision();
        let others = routed.lanes & !self.bit();
        let most = self.output_most().at_once(io, routed.destinations);
        let most = if others == 0 { most } else { most.min(ACROSS_MOST) };
        let is_long = run.as_bytes().len() > most;
        let (run, _) = if is_long { run.split_at(fit(run, most)) } else { (run, run) };
        let held = routed.own_full || routed.held != SessionFlags::NONE;
        let needed = routed.kept || run.qos() == QoS::ExactlyOnce && self.opens_in_log(conn);
        let goes = !run.is_empty()
            && (others == 0 || run.len() > 1 && self.may_cross(others, run.qos()))
            && !(held || self.is_for_the_log(run.qos(), needed))
            && self.nothing_stops(decision, run);
        if goes {
            let numbers = self.numbers_for(run);
            if others != 0 {
                self.send_run_direct(io, others, decision, (run, numbers));
            }
            self.spread_run(io, session, decision, (run, numbers));
            self.acknowledge_run(io, conn, run, routed.destinations);
        }
        self.decision = buffer;
        goes.then_some(run)
    }

    /// Whether so little is under way to these lanes that a piece may follow.
    fn may_cross(&mut self, lanes: u64, qos: QoS) -> bool {
        let most = if qos == QoS::AtMostOnce { PIECES_MOST } else { QUEUED_MOST };
        self.directs.are_fewer_than(most, lanes, &self.shared.arrivals)
    }

    /// Whether an identifier at QoS 2 that this client opens is in the log.
    fn opens_in_log(&self, conn: ConnId) -> bool {
        self.links.get(conn).is_some_and(|link| link.logged)
    }

    /// How many messages at the front of a run break no rule of their client's window and
    /// identifiers. A publish at QoS 1 has left the window when the next is looked at.
    fn acceptable(&mut self, conn: ConnId, session: SessionNumber, run: Run<'_>) -> usize {
        let Some(link) = self.links.up_mut(conn) else { return 0 };
        let room = link.inbound_most.saturating_sub(link.inbound) as usize;
        match run.qos() {
            QoS::AtMostOnce => run.len(),
            QoS::AtLeastOnce if room > 0 => run.len(),
            QoS::AtLeastOnce => 0,
            QoS::ExactlyOnce => {
                let Some(known) = self.state.session(session) else { return 0 };
                let mut last = 0;
                let fresh = run.ids().take_while(|id| {
                    let ascends = id.get() > last;
                    last = id.get();
                    let open = known.inbound().contains(*id);
                    ascends && !self.overlay.is_open(session, *id, open)
                });
                fresh.take(room).count()
            }
        }
    }

    /// Whether all messages of a run may take the same way at once.
    fn nothing_stops(&mut self, decision: Decision<'_>, run: Run<'_>) -> bool {
        if self.router.has_picked() || self.is_held_up() {
            return false;
        }
        if run.qos() == QoS::AtMostOnce {
            return true;
        }
        if !self.gives_at_once() || self.lacks_queue_total(run.qos(), decision) {
            return false;
        }
        let mut queues = decision.iter().filter(|to| to.qos != QoS::AtMostOnce);
        queues.all(|to| self.has_room_for(to.session, run.len(), run.as_bytes().len()))
    }

    /// At QoS 0 messages have no numbers.
    fn numbers_for(&mut self, run: Run<'_>) -> Numbers {
        let count = if run.qos() == QoS::AtMostOnce { 0 } else { run.len() };
        let (first, step) = self.journal.take_own_run(count);
        Numbers { first, step }
    }

    /// Brings the messages of a run, which are in no log, to their receivers on this lane.
    fn spread_run(
        &mut self,
        io: &mut Io<'_, D>,
        publisher: SessionNumber,
        decision: Decision<'_>,
        (run, numbers): (Run<'_>, Numbers),
    ) {
        if run.qos() == QoS::ExactlyOnce {
            self.state.open_run(publisher, run.ids());
        }
        self.receive_run(io, Some(publisher), decision, (run, numbers));
    }

    /// The same of a run that was published on this lane or on another.
    fn receive_run(
        &mut self,
        io: &mut Io<'_, D>,
        publisher: Option<SessionNumber>,
        decision: Decision<'_>,
        (run, numbers): (Run<'_>, Numbers),
    ) {
        self.wire.begin(1);
        if run.qos() == QoS::AtMostOnce {
            for to in decision {
                self.deliver_run0(io, publisher, to, run);
            }
        } else {
            self.queue_run(io, publisher, decision, (run, numbers));
        }
    }

    /// A run that a client of another lane has published.
    pub(super) fn take_run_direct(
        &mut self,
        io: &mut Io<'_, D>,
        decision: Decision<'_>,
        (version, numbers): (ProtocolVersion, Numbers),
        bytes: &[u8],
    ) {
        let mut decoder = Decoder::of_clients(Limits::default());
        decoder.connected(version);
        let mut places = std::mem::take(&mut self.run_places);
        let first = match decoder.decode(bytes) {
            Ok(Some((Packet::Publish(first), _))) => first,
            other => unreachable!("a run that a lane has sent: {other:?}"),
        };
        let run = decoder.run(&first, bytes, &mut places);
        let run = run.filter(|run| run.as_bytes().len() == bytes.len());
        let Some(run) = run else { unreachable!("a run that a lane has sent: {first:?}") };
        self.receive_run(io, None, decision, (run, numbers));
        self.run_places = places;
    }

    /// Sends a run at QoS 0 to one receiver.
    fn deliver_run0(
        &mut self,
        io: &mut Io<'_, D>,
        publisher: Option<SessionNumber>,
        to: Destination<'_>,
        run: Run<'_>,
    ) {
        let Some(&conn) = self.up.get(&to.session) else { return };
        let Some(link) = self.links.up_mut(conn) else { return };
        let authoriser = self.shared.hooks.authoriser.as_deref();
        let may = may_receive(authoriser, link.who.as_ref(), run.topic(), to.qos);
        if matches!(may, Answer::Now(false)) {
            self.counts.dropped_denied += run.len() as u64;
            return;
        }
        let waits = !matches!(may, Answer::Now(_)) || self.receiving.bytes(conn) > 0;
        let receiver = Receiver::of(conn, link);
        if waits || self.clogged.contains(conn) || !receiver.takes_as_is(&run, &to) {
            for content in contents(run) {
                let own = publisher == Some(to.session);
                self.deliver0(io, to.session, content, to.retain, Ids::Of(to.ids), own);
            }
            return;
        }
        if receiver.write_run(io, run, std::iter::empty()) {
            self.counts.sent_run(&run);
        }
        self.note_clogged(io, conn);
    }

    /// Puts a run into the queues of its receivers and sends what may go out at once.
    fn queue_run(
        &mut self,
        io: &mut Io<'_, D>,
        publisher: Option<SessionNumber>,
        decision: Decision<'_>,
        (run, Numbers { first, step }): (Run<'_>, Numbers),
    ) {
        let lsns = (0..run.len()).map(|n| Lsn::new(first.get() + step * n as u64));
        let progress = self.progress();
        let (mut references, mut kept_from, mut waits) = (0, run.len(), false);
        for to in decision {
            if to.qos == QoS::AtMostOnce {
                self.deliver_run0(io, publisher, to, run);
                continue;
            }
            let sizes = contents(run).map(Content::size);
            let Some(queued) = self.state.queue_run(to, lsns.clone().zip(sizes)) else { continue };
            let conn = self.up.get(&to.session).copied();
            let (queue, (run, _)) = (queued.first, run.split_at(queued.count));
            let sent = conn.map_or(0, |conn| self.send_run(io, conn, to, queue, run, progress));
            references += 1;
            waits |= conn.is_some() && sent < run.len();
            let needless = if self.is_fleeting(to.session, queue) { sent } else { 0 };
            kept_from = kept_from.min(needless);
            self.check_full(io, to.session);
        }
        if references > 0 {
            // What no log has is kept as long as anybody refers to it.
            for (lsn, content) in lsns.zip(contents(run)).skip(kept_from) {
                self.store.keep(lsn, Message::copy(content), references);
            }
        }
        if waits {
            for to in decision.iter().filter(|to| to.qos != QoS::AtMostOnce) {
                self.pump_session(io, to.session);
            }
        }
    }

    /// Acknowledges a run that was taken, none of whose answers has to wait.
    //= MQTT311-4.3.2-2
    //= MQTT5-4.3.2-4
    //= MQTT5-4.3.3-8
    fn acknowledge_run(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        run: Run<'_>,
        destinations: usize,
    ) {
        let kind = match run.qos() {
            QoS::AtMostOnce => return,
            QoS::AtLeastOnce => AckKind::PubAck,
            QoS::ExactlyOnce => AckKind::PubRec,
        };
        assert!(self.gives_at_once(), "an answer that may not leave");
        let Some(link) = self.links.up_mut(conn) else { return };
        if kind == AckKind::PubRec {
            link.inbound += u32::try_from(run.len()).unwrap_or(u32::MAX);
        }
        let reason = outcome(destinations);
        self.write_acks(io, conn, kind, run.ids().map(|id| Ack::with_reason(id, reason)));
    }
}

/// How many messages of a run go in one piece of so many bytes. None: one by one they are shared,
/// if they are large.
fn fit(run: Run<'_>, most: usize) -> usize {
    most / run.longest().max(1)
}

/// The messages of a run, each by itself.
fn contents(run: Run<'_>) -> impl ExactSizeIterator<Item = Content<'_>> {
    run.messages().map(move |message| Content::plain(run.topic(), message.payload))
}
