//! Bytes of a connection become packets, and packets find their handlers.

use zzq_codec::{
    Ack, AckKind, AckRun, Answer as LastWord, ConnAck, Connect, DecodeError, Decoder, Disconnect,
    Encoder, Fault, Packet, Publish,
};
use zzq_lanes::{Close, ConnId, Millis};
use zzq_types::{Properties, ReasonCode};
use zzq_wal::disk::Disk;

use super::link::Phase;
use super::packet_out::{write_acks, write_packet};
use super::why::reason_string;
use super::{Flow, Io, SILENCE, Shell};
use crate::hooks::Event;
use crate::options::Limits;
use crate::planted;

impl<D: Disk> Shell<D> {
    /// Handles all complete packets of `input`; returns how many bytes are done with.
    pub(super) fn packets(&mut self, io: &mut Io<'_, D>, conn: ConnId, input: &[u8]) -> usize {
        let Some(link) = self.links.get_mut(conn) else { return input.len() };
        link.heard = io.now();
        link.parked = false;
        if self.is_stuffed(io, conn) {
            return 0;
        }
        let mut reading = Reading { input, used: 0, is_metered: false, singly: 0, previous: None };
        while reading.used < input.len() {
            let Some(link) = self.links.get(conn) else { return input.len() };
            if reading.used > 0 && io.is_swollen() {
                io.offer_again(conn);
                break;
            }
            match link.phase {
                Phase::New | Phase::Up | Phase::Authenticating => {}
                Phase::Opening => {
                    io.pause(conn);
                    break;
                }
                Phase::Leaving => return input.len(),
            }
            // From its CONNECT on, which may lie in front of more.
            let (decoder, phase, is_metered) = (link.decoder, link.phase, link.rates.is_some());
            reading.is_metered = is_metered;
            if is_metered && self.is_throttled(io, conn) {
                break;
            }
            let is_plain = phase == Phase::Up && !is_metered;
            let step = match decoder.acks(reading.rest()).filter(|_| is_plain) {
                Some(acks) => self.read_acks(io, conn, acks, &mut reading),
                None if phase == Phase::Authenticating => {
                    self.read_authentication(io, conn, decoder, &mut reading)
                }
                None => self.read_packet(io, conn, decoder, &mut reading),
            };
            match step {
                Step::Further => {}
                Step::Rest => break,
                Step::End => return input.len(),
            }
        }
        self.go_on_answered(io, conn);
        reading.used
    }

    fn read_acks(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        acks: AckRun<'_>,
        reading: &mut Reading<'_>,
    ) -> Step {
        let (done, flow) = self.acks(io, conn, acks);
        self.counts.packets_in += done as u64;
        reading.previous = None;
        reading.used += AckRun::PACKET_LEN * done;
        match flow {
            Flow::Next | Flow::Hold => Step::Further,
            Flow::Again => Step::Rest,
            Flow::End => Step::End,
        }
    }

    /// Handles the packet at the front, or the run that it begins.
    fn read_packet(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        decoder: Decoder,
        reading: &mut Reading<'_>,
    ) -> Step {
        let rest = reading.rest();
        let (packet, size) = match self.next_whole(io, conn, decoder, reading) {
            Ok(next) => next,
            Err(step) => return step,
        };
        if self.leaves_behind_held(conn, &packet) {
            self.park(io, conn);
            return Step::Rest;
        }
        if let Packet::Publish(first) = &packet
            && reading.used >= reading.singly
            && !reading.is_metered
        {
            let run = self.publish_run(io, conn, first, rest);
            self.counts.packets_in += run.messages as u64;
            reading.used += run.bytes;
            reading.singly = reading.used + run.left;
            if run.messages > 0 {
                return Step::Further;
            }
        }
        let mut flow = Flow::Hold;
        if !self.is_behind_held(conn, &packet) {
            flow = self.packet(io, conn, &packet);
        }
        if flow == Flow::Hold
            && let Packet::Publish(publish) = &packet
        {
            flow = self.set_aside(io, conn, publish, &rest[..size]);
        }
        if flow == Flow::Again {
            return Step::Rest;
        }
        if reading.is_metered {
            self.count_rate(conn, matches!(packet, Packet::Publish(_)), size);
        }
        self.counts.packets_in += 1;
        reading.used += size;
        reading.previous = match packet {
            Packet::Publish(publish) if publish.topic.is_some() => Some(publish),
            _ => None,
        };
        if flow == Flow::End { Step::End } else { Step::Further }
    }

    /// The packet at the front, if all of it is there.
    pub(super) fn next_whole<'a>(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        decoder: Decoder,
        reading: &Reading<'a>,
    ) -> Result<(Packet<'a>, usize), Step> {
        let rest = reading.rest();
        match next_packet(decoder, reading.previous.as_ref(), rest) {
            Ok(Some(next)) => Ok(next),
            Ok(None) => {
                if let Ok(Some(header)) = decoder.header(rest) {
                    io.want(conn, header.total_len());
                }
                Err(Step::Rest)
            }
            Err(error) => {
                self.fault(io, conn, &error);
                Err(Step::End)
            }
        }
    }

    fn packet(&mut self, io: &mut Io<'_, D>, conn: ConnId, packet: &Packet<'_>) -> Flow {
        match packet {
            Packet::Connect(connect) => self.connect(io, conn, connect),
            Packet::Publish(publish) => self.publish(io, conn, publish),
            Packet::PubAck(ack) => self.pub_ack(io, conn, &planted::meant_by(conn, ack)),
            Packet::PubRec(ack) => self.pub_rec(io, conn, &planted::meant_by(conn, ack)),
            Packet::PubRel(ack) => self.pub_rel(io, conn, ack),
            Packet::PubComp(ack) => self.pub_comp(io, conn, &planted::meant_by(conn, ack)),
            Packet::Subscribe(subscribe) => self.subscribe(io, conn, subscribe),
            Packet::Unsubscribe(unsubscribe) => self.unsubscribe(io, conn, unsubscribe),
            Packet::PingReq => self.ping(io, conn),
            Packet::Disconnect(disconnect) => self.disconnect(io, conn, disconnect),
            Packet::Auth(auth) => self.auth(io, conn, auth),
            Packet::ConnAck(_) | Packet::SubAck(_) | Packet::UnsubAck(_) | Packet::PingResp => {
                // The decoder refuses what only servers send.
                self.refuse(io, conn, ReasonCode::ProtocolError, "a packet that only servers send")
            }
        }
    }

    //= MQTT311-3.12.4-1
    //= MQTT5-3.12.4-1
    fn ping(&mut self, io: &mut Io<'_, D>, conn: ConnId) -> Flow {
        write_packet(io, &mut self.counts, conn, |output| output.extend_from_slice(&[0xD0, 0x00]));
        Flow::Next
    }

    /// Ends a connection for bytes that are no packet, or none that may come.
    //= MQTT311-3.1.4-1
    //= MQTT311-4.8.0-1
    //= MQTT5-4.13.1-1
    fn fault(&mut self, io: &mut Io<'_, D>, conn: ConnId, error: &DecodeError) {
        self.counts.fault(error.reason_code());
        let Some(link) = self.links.get(conn) else { return };
        let why = fault_in_words(error, link.phase, &self.shared.options.limits);
        let is_in = link.phase == Phase::Up;
        let told = if is_in { Some(0) } else { self.strangers.faults.tell(self.now_ms) };
        if let Some(untold) = told {
            let (peer, client) = (link.peer, &link.client);
            tracing::info!(%peer, %client, why, untold, "connection closed");
        }
        let mut answer = error.answer();
        //= MQTT5-3.14.0-1
        if link.phase != Phase::Up && matches!(answer, LastWord::Disconnect(_)) {
            answer = LastWord::Close;
        }
        let encoder = link.encoder;
        write_packet(io, &mut self.counts, conn, |output| match answer {
            LastWord::Disconnect(reason) => {
                let properties = reason_string(&why);
                let properties = properties.as_properties();
                // An encoder that refuses has appended nothing.
                let _unsayable = encoder.disconnect(&Disconnect { reason, properties }, output);
            }
            // Of a CONNECT that is not understood, nobody knows what its client takes.
            LastWord::ConnAck(..) | LastWord::Close => answer.encode(output),
        });
        let reason = match answer {
            LastWord::Disconnect(reason) => Some(reason),
            LastWord::Close | LastWord::ConnAck(..) => None,
        };
        self.lost(io, conn, reason, "it broke the protocol");
        io.close(conn, Close::AfterFlush);
    }

    /// Ends a connection for a packet that is understood and not allowed.
    //= MQTT5-4.13.2-1
    pub(super) fn refuse(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        reason: ReasonCode,
        why: &str,
    ) -> Flow {
        self.counts.fault(reason);
        self.dismiss(io, conn, reason, why);
        Flow::End
    }

    /// Ends a connection with a last word, where its version has one, and tells its client why; the
    /// session goes down.
    //= MQTT5-3.14.4-2
    pub(super) fn dismiss(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        reason: ReasonCode,
        why: &str,
    ) {
        let properties = reason_string(why);
        let disconnect = Disconnect { reason, properties: properties.as_properties() };
        self.dismiss_with(io, conn, &disconnect, why);
    }

    /// [`Shell::dismiss`] in words of its own, as far as they fit; `why` is not for the client.
    pub(super) fn dismiss_with(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        disconnect: &Disconnect<'_>,
        why: &str,
    ) {
        let reason = disconnect.reason;
        let Some(link) = self.links.get(conn) else { return };
        if link.phase != Phase::Leaving {
            let (peer, client) = (link.peer, &link.client);
            tracing::info!(%peer, %client, %reason, why, "connection closed");
        }
        if link.phase == Phase::Up && link.encoder.version.is_v5() {
            let encoder = link.encoder;
            write_packet(io, &mut self.counts, conn, |output| {
                if encoder.disconnect(disconnect, output).is_ok() {
                    return;
                }
                let written = encoder.disconnect(&Disconnect::with_reason(reason), output);
                assert!(written.is_ok(), "a DISCONNECT of three bytes always fits: {written:?}");
            });
        }
        self.lost(io, conn, Some(reason), why);
        io.close(conn, Close::AfterFlush);
    }

    /// Refuses a CONNECT; `why` is not for the client.
    //= MQTT311-3.1.4-5
    //= MQTT311-3.2.2-4
    //= MQTT311-3.2.2-5
    //= MQTT5-3.1.4-2
    //= MQTT5-3.1.4-6
    //= MQTT5-3.2.2-6
    //= MQTT5-3.2.2-7
    //= MQTT5-4.12.0-4
    pub(super) fn refuse_connect_with(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        refused: &Refused<'_>,
        why: &str,
    ) -> Flow {
        let Refused { encoder, client, reason, properties } = *refused;
        self.counts.refused += 1;
        self.counts.refused_ids += u64::from(reason == ReasonCode::ClientIdentifierNotValid);
        if let Some(link) = self.links.get_mut(conn) {
            if let Some(untold) = self.strangers.refused.tell(self.now_ms) {
                tracing::info!(peer = %link.peer, client, %reason, why, untold, "CONNECT refused");
            }
            link.phase = Phase::Leaving;
        }
        if self.shared.hooks.events.is_some() {
            let (peer, client_id) = (self.peer(io, conn), client.into());
            self.tell_event(Event::Refused { peer, client_id, reason });
        }
        write_packet(io, &mut self.counts, conn, |output| {
            // MQTT 3 has no return code for some reasons: it is closed without a word.
            let ack = ConnAck { session_present: false, reason, properties };
            let _ = encoder.conn_ack(&ack, output);
        });
        io.close(conn, Close::AfterFlush);
        Flow::End
    }

    /// Refuses a CONNECT and tells its client why.
    pub(super) fn refuse_connect(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        connect: &Connect<'_>,
        reason: ReasonCode,
        why: &str,
    ) -> Flow {
        let (encoder, client) = (Encoder::for_client(connect), connect.client_id);
        let properties = reason_string(why);
        let refused = Refused { encoder, client, reason, properties: properties.as_properties() };
        self.refuse_connect_with(io, conn, &refused, why)
    }

    /// The keep alive, or the time for a CONNECT, is over, unless something was heard.
    //= MQTT311-3.1.2-24
    //= MQTT5-3.1.2-22
    pub(super) fn silent(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        let Some(link) = self.links.get(conn) else { return };
        let wait = self.shared.options.limits.connect_timeout;
        // From when its packet was given the room that it waited for, it has all of its time.
        let due = io.waited_for_room(conn).map_or(Millis(0), |since| since + wait);
        match link.phase {
            Phase::New | Phase::Authenticating | Phase::Up
                if link.parked || io.waits_for_room(conn) =>
            {
                // What the client says waits for us: its silence is ours.
                io.set_timer(conn, SILENCE, io.now() + wait);
            }
            Phase::New | Phase::Authenticating if due > io.now() => {
                io.set_timer(conn, SILENCE, due);
            }
            Phase::New | Phase::Authenticating => {
                self.counts.silent_connects += 1;
                if let Some(untold) = self.strangers.silent.tell(self.now_ms) {
                    tracing::info!(
                        peer = %link.peer,
                        untold,
                        "connection closed: no CONNECT or AUTH in time (--connect-timeout)"
                    );
                }
                io.close(conn, Close::Now);
            }
            Phase::Opening | Phase::Up if link.silence_ms > 0 => {
                let heard = link.heard(io, conn);
                let due = heard + std::time::Duration::from_millis(link.silence_ms);
                if due > io.now() || link.phase == Phase::Opening {
                    let next = due.max(io.now() + std::time::Duration::from_millis(1));
                    io.set_timer(conn, SILENCE, next);
                } else {
                    self.counts.silent_clients += 1;
                    let why = "nothing was heard for one and a half times the keep alive";
                    self.dismiss(io, conn, ReasonCode::KeepAliveTimeout, why);
                }
            }
            Phase::Opening | Phase::Up | Phase::Leaving => {}
        }
    }

    /// Writes an acknowledgement that waits for nothing.
    pub(super) fn write_ack(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        kind: AckKind,
        ack: Ack<'_>,
    ) {
        self.write_acks(io, conn, kind, [ack]);
    }

    /// Writes acknowledgements of one kind that wait for nothing.
    pub(super) fn write_acks<'a>(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        kind: AckKind,
        acks: impl IntoIterator<Item = Ack<'a>>,
    ) {
        let Some(link) = self.links.up_mut(conn) else { return };
        write_acks(io, &mut self.counts, conn, link.encoder, kind, acks);
    }
}

/// What is wrong with bytes, and the setting behind it.
fn fault_in_words(error: &DecodeError, phase: Phase, limits: &Limits) -> String {
    let is_in = !matches!(phase, Phase::New | Phase::Authenticating);
    match error.fault() {
        Fault::TooLarge { .. } if is_in || limits.max_packet_size <= limits.max_connect_size => {
            format!("{error}: --max-packet-size")
        }
        Fault::TooLarge { .. } => format!("{error}: --max-connect-size"),
        Fault::Malformed(_) | Fault::Violation(_) | Fault::Refused(_) => error.to_string(),
    }
}

/// A CONNECT that is refused, and what its client is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused<'a> {
    pub(super) encoder: Encoder,
    /// As the CONNECT names it.
    pub(super) client: &'a str,
    pub(super) reason: ReasonCode,
    pub(super) properties: Properties<'a>,
}

/// How far the input of a connection is read.
pub(super) struct Reading<'a> {
    input: &'a [u8],
    pub(super) used: usize,
    /// Each packet is counted against the rates of its client.
    is_metered: bool,
    /// Up to here publishes go one by one.
    singly: usize,
    /// The publish before, for it may begin a run.
    previous: Option<Publish<'a>>,
}

impl<'a> Reading<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.input[self.used..]
    }
}

/// Where reading goes on.
pub(super) enum Step {
    /// With what comes next.
    Further,
    /// Later, from here.
    Rest,
    /// Nowhere: the connection ends, and the rest is thrown away.
    End,
}

/// The packet at the front of `bytes`, with its size: of a run with the one before, if it is one.
fn next_packet<'a>(
    decoder: Decoder,
    previous: Option<&Publish<'a>>,
    bytes: &'a [u8],
) -> Result<Option<(Packet<'a>, usize)>, DecodeError> {
    if let Some(previous) = previous
        && let Some((publish, size)) = decoder.decode_run(previous, bytes)?
    {
        return Ok(Some((Packet::Publish(publish), size)));
    }
    decoder.decode(bytes)
}
