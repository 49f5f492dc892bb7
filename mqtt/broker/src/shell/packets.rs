//! Bytes of a connection become packets, and packets find their handlers.

use zzq_codec::{
    Ack, AckKind, Answer as LastWord, ConnAck, DecodeError, Decoder, Disconnect, Packet, Publish,
};
use zzq_lanes::{Close, ConnId};
use zzq_types::ReasonCode;
use zzq_wal::disk::Disk;

use super::link::Phase;
use super::packet_out::{write_ack, write_packet};
use super::{Flow, Io, SILENCE, Shell};
use crate::planted;

impl<D: Disk> Shell<D> {
    /// Handles all complete packets of `input`; returns how many bytes are done with.
    pub(super) fn packets(&mut self, io: &mut Io<'_, D>, conn: ConnId, input: &[u8]) -> usize {
        let Some(link) = self.links.get_mut(conn) else { return input.len() };
        link.heard = io.now();
        link.parked = false;
        let mut used = 0;
        let mut previous: Option<Publish<'_>> = None;
        while used < input.len() {
            let rest = &input[used..];
            let Some(link) = self.links.get(conn) else { return input.len() };
            match link.phase {
                Phase::New | Phase::Up => {}
                Phase::Opening => {
                    io.pause(conn);
                    break;
                }
                Phase::Leaving => return input.len(),
            }
            let decoder = link.decoder;
            let (packet, size) = match next_packet(decoder, previous.as_ref(), rest) {
                Ok(Some(next)) => next,
                Ok(None) => {
                    if let Ok(Some(header)) = decoder.header(rest) {
                        io.want(conn, header.total_len());
                    }
                    break;
                }
                Err(error) => {
                    self.fault(io, conn, &error);
                    return input.len();
                }
            };
            let mut flow = Flow::Hold;
            if !self.is_behind_held(conn, &packet) {
                flow = self.packet(io, conn, &packet);
            }
            if flow == Flow::Hold
                && let Packet::Publish(publish) = &packet
            {
                flow = self.set_aside(io, conn, publish, &rest[..size]);
            }
            match flow {
                Flow::Next | Flow::Hold => {}
                Flow::Again => break,
                Flow::End => {
                    self.counts.packets_in += 1;
                    return input.len();
                }
            }
            previous = match packet {
                Packet::Publish(publish) if publish.topic.is_some() => Some(publish),
                _ => None,
            };
            used += size;
            self.counts.packets_in += 1;
        }
        used
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
            Packet::Auth(_) => {
                // No method was agreed at CONNECT, since none is supported.
                //= MQTT5-4.12.0-7
                self.refuse(io, conn, ReasonCode::ProtocolError, "AUTH without a method")
            }
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
        self.counts.peer_faults += 1;
        let Some(link) = self.links.get(conn) else { return };
        tracing::info!(peer = %link.peer, client = %link.client, %error, "connection closed");
        let mut answer = error.answer();
        //= MQTT5-3.14.0-1
        if link.phase != Phase::Up && matches!(answer, LastWord::Disconnect(_)) {
            answer = LastWord::Close;
        }
        write_packet(io, &mut self.counts, conn, |output| answer.encode(output));
        self.lost(io, conn, "it broke the protocol");
        io.close(conn, Close::AfterFlush);
    }

    /// Ends a connection for a packet that is understood and not allowed.
    //= MQTT5-4.13.2-1
    pub(super) fn refuse(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        reason: ReasonCode,
        why: &'static str,
    ) -> Flow {
        self.counts.peer_faults += 1;
        self.dismiss(io, conn, reason, why);
        Flow::End
    }

    /// Ends a connection with a last word, where its version has one; the session goes down.
    //= MQTT5-3.14.4-2
    pub(super) fn dismiss(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        reason: ReasonCode,
        why: &str,
    ) {
        let Some(link) = self.links.get(conn) else { return };
        if link.phase != Phase::Leaving {
            let (peer, client) = (link.peer, &link.client);
            tracing::info!(%peer, %client, %reason, why, "connection closed");
        }
        if link.phase == Phase::Up && link.encoder.version.is_v5() {
            let encoder = link.encoder;
            write_packet(io, &mut self.counts, conn, |output| {
                let written = encoder.disconnect(&Disconnect::with_reason(reason), output);
                assert!(written.is_ok(), "a DISCONNECT of four bytes always fits: {written:?}");
            });
        }
        self.lost(io, conn, why);
        io.close(conn, Close::AfterFlush);
    }

    /// Refuses a CONNECT.
    //= MQTT311-3.1.4-5
    //= MQTT311-3.2.2-4
    //= MQTT311-3.2.2-5
    //= MQTT5-3.1.4-2
    //= MQTT5-3.1.4-6
    //= MQTT5-3.2.2-6
    //= MQTT5-3.2.2-7
    pub(super) fn refuse_connect(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        encoder: zzq_codec::Encoder,
        reason: ReasonCode,
        why: &str,
    ) -> Flow {
        self.counts.refused += 1;
        if let Some(link) = self.links.get_mut(conn) {
            tracing::info!(peer = %link.peer, %reason, why, "CONNECT refused");
            link.phase = Phase::Leaving;
        }
        write_packet(io, &mut self.counts, conn, |output| {
            // MQTT 3 has no return code for some reasons: it is closed without a word.
            let _ = encoder.conn_ack(&ConnAck::refused(reason), output);
        });
        io.close(conn, Close::AfterFlush);
        Flow::End
    }

    /// The keep alive, or the time for a CONNECT, is over, unless something was heard.
    //= MQTT311-3.1.2-24
    //= MQTT5-3.1.2-22
    pub(super) fn silent(&mut self, io: &mut Io<'_, D>, conn: ConnId) {
        let Some(link) = self.links.get(conn) else { return };
        match link.phase {
            Phase::New | Phase::Up if link.parked => {
                // What the client says waits for us: its silence is ours.
                let wait = self.shared.options.limits.connect_timeout;
                io.set_timer(conn, SILENCE, io.now() + wait);
            }
            Phase::New => {
                tracing::info!(peer = %link.peer, "connection closed: no CONNECT in time");
                io.close(conn, Close::Now);
            }
            Phase::Opening | Phase::Up if link.silence_ms > 0 => {
                let due = link.heard + std::time::Duration::from_millis(link.silence_ms);
                if due > io.now() || link.phase == Phase::Opening {
                    let next = due.max(io.now() + std::time::Duration::from_millis(1));
                    io.set_timer(conn, SILENCE, next);
                } else {
                    self.dismiss(io, conn, ReasonCode::KeepAliveTimeout, "keep alive timeout");
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
        let Some(link) = self.links.up_mut(conn) else { return };
        write_ack(io, &mut self.counts, conn, link.encoder, kind, ack);
    }
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
