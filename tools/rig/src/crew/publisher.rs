//! A publisher's side of the protocol.
//!
//! Owns: what is sent, sent again, and what answers mean. Does not know: when it is connected.

use anyhow::{Result, bail};
use zzq_codec::{Ack, Delivery, Packet, Publish};
use zzq_types::{QoS, TopicName};

use super::line::Line;
use super::member::packet_id;
use crate::accounts::{Book, Entry, Open};
use crate::cast::PUBLISHERS;
use crate::payload;

/// Messages at QoS 0 that are sent in one turn.
const UNANSWERED: usize = 4;

/// Sends again what is open, in its order.
pub(super) fn resume(at: usize, line: &mut Line, book: &Book) -> Result<()> {
    let open: Vec<Open> = book.accounts().publisher(at).open().collect();
    for open in open {
        if open.received && PUBLISHERS[at].qos == QoS::ExactlyOnce {
            line.send(&Packet::PubRel(Ack::success(packet_id(open.id)?)))?;
        } else {
            send(at, open, true, line)?;
        }
    }
    Ok(())
}

/// Publishes as much as the window allows.
pub(super) fn go_on(at: usize, line: &mut Line, book: &mut Book) -> Result<()> {
    let qos = PUBLISHERS[at].qos;
    if qos == QoS::AtMostOnce {
        if !line.has_output() {
            (0..UNANSWERED).try_for_each(|_| next(at, qos, line, book))?;
        }
        return Ok(());
    }
    while book.accounts().publisher(at).has_room() {
        next(at, qos, line, book)?;
    }
    Ok(())
}

fn next(at: usize, qos: QoS, line: &mut Line, book: &mut Book) -> Result<()> {
    let publisher = book.accounts().publisher(at);
    let (seq, id) = (publisher.sent() + 1, publisher.free_id(qos));
    book.enter(Entry::Sent { by: at, seq, id });
    send(at, Open { seq, id, received: false }, false, line)
}

fn send(at: usize, open: Open, dup: bool, line: &mut Line) -> Result<()> {
    let publisher = PUBLISHERS[at];
    let delivery = match publisher.qos {
        QoS::AtMostOnce => Delivery::AtMostOnce,
        QoS::AtLeastOnce => Delivery::AtLeastOnce(packet_id(open.id)?),
        QoS::ExactlyOnce => Delivery::ExactlyOnce(packet_id(open.id)?),
    };
    let (topic, payload) = (publisher.topic(at, open.seq), payload::encode(at, open.seq));
    let publish = Publish::new(TopicName::new(&topic)?, delivery, &payload);
    line.send(&Packet::Publish(Publish { dup, retain: publisher.kept.is_some(), ..publish }))
}

/// What an answer means.
pub(super) fn packet(
    at: usize,
    packet: &Packet<'_>,
    line: &mut Line,
    book: &mut Book,
) -> Result<()> {
    let (Packet::PubAck(ack) | Packet::PubRec(ack) | Packet::PubComp(ack)) = packet else {
        bail!("{}: an unexpected packet: {packet:?}", PUBLISHERS[at].name);
    };
    let Some(open) = book.accounts().publisher(at).named(ack.packet_id.get()) else {
        bail!("{}: an answer to nothing: {packet:?}", PUBLISHERS[at].name);
    };
    let (by, seq) = (at, open.seq);
    match packet {
        Packet::PubAck(ack) | Packet::PubRec(ack) if ack.reason.is_failure() && !open.received => {
            book.enter(Entry::Refused { by, seq });
        }
        Packet::PubRec(ack) => {
            if !open.received {
                book.enter(Entry::Acked { by, seq });
            }
            line.send(&Packet::PubRel(Ack::success(ack.packet_id)))?;
        }
        Packet::PubAck(_) => {
            book.enter(Entry::Acked { by, seq });
            book.enter(Entry::Done { by, seq });
        }
        _ if open.received => book.enter(Entry::Done { by, seq }),
        _ => bail!("{}: PUBCOMP before PUBREC of message {seq}", PUBLISHERS[at].name),
    }
    Ok(())
}
