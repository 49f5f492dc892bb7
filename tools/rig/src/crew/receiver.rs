//! A receiver's side of the protocol.
//!
//! Owns: its subscription, and the answers to what comes. Does not know: when it is connected.

use anyhow::{Result, bail};
use zzq_codec::{Ack, Packet, Publish, Subscribe, SubscriptionsBuf, Unsubscribe};
use zzq_types::{PacketId, Properties, SubscribeOptions};

use super::line::Line;
use super::member::packet_id;
use crate::accounts::{Book, Entry, Stage};
use crate::cast::{PUBLISHERS, RECEIVERS};
use crate::payload;

/// Subscribes if that was not acknowledged before: a subscription is not repeated, it has to stay.
/// What was asked and not answered is asked again.
pub(super) fn resume(at: usize, line: &mut Line, book: &mut Book) -> Result<()> {
    if RECEIVERS[at].comes_and_goes {
        return match book.accounts().stage() {
            Stage::Asking => ask(at, line),
            Stage::Leaving => leave(at, line),
            Stage::In | Stage::Out => Ok(()),
        };
    }
    if book.accounts().subscribed(at) {
        return Ok(());
    }
    ask(at, line)
}

/// Turns between two changes of who comes and goes.
const STAYS: u64 = 25;

/// Subscribes or unsubscribes if it has done so long enough ago.
pub(super) fn go_on(at: usize, turns: &mut u64, line: &mut Line, book: &mut Book) -> Result<()> {
    *turns += 1;
    if *turns < STAYS {
        return Ok(());
    }
    match book.accounts().stage() {
        Stage::Out => {
            book.enter(Entry::Subscribing { who: at });
            ask(at, line)?;
        }
        Stage::In => {
            book.enter(Entry::Unsubscribing { who: at });
            leave(at, line)?;
        }
        Stage::Asking | Stage::Leaving => return Ok(()),
    }
    *turns = 0;
    Ok(())
}

fn ask(at: usize, line: &mut Line) -> Result<()> {
    subscribe(RECEIVERS[at].filter, SubscribeOptions::with_qos(RECEIVERS[at].qos), line)
}

fn leave(at: usize, line: &mut Line) -> Result<()> {
    let mut filters = SubscriptionsBuf::new();
    filters.push(RECEIVERS[at].filter, SubscribeOptions::default())?;
    line.send(&Packet::Unsubscribe(Unsubscribe {
        packet_id: packet_id(1)?,
        properties: Properties::EMPTY,
        filters: filters.filters(),
    }))
}

/// Asks for a subscription by an identifier that nothing else of a receiver has.
pub(super) fn subscribe(filter: &str, options: SubscribeOptions, line: &mut Line) -> Result<()> {
    let mut subscriptions = SubscriptionsBuf::new();
    subscriptions.push(filter, options)?;
    line.send(&Packet::Subscribe(Subscribe {
        packet_id: packet_id(1)?,
        properties: Properties::EMPTY,
        subscriptions: subscriptions.subscriptions(),
    }))
}

/// What comes is taken down, and answered.
pub(super) fn packet(
    at: usize,
    packet: &Packet<'_>,
    line: &mut Line,
    book: &mut Book,
) -> Result<()> {
    let name = RECEIVERS[at].name;
    match packet {
        Packet::SubAck(_) => {
            book.enter(Entry::Subscribed { who: at });
            Ok(())
        }
        Packet::UnsubAck(_) => {
            book.enter(Entry::Unsubscribed { who: at });
            Ok(())
        }
        Packet::Publish(publish) => {
            let id = publish.delivery.packet_id();
            let qos = publish.delivery.qos().bits();
            let number = id.map_or(0, PacketId::get);
            if qos < 2 || !book.accounts().is_taken(at, number) {
                take(at, publish, number, book);
            }
            match (id, qos) {
                (Some(id), 1) => line.send(&Packet::PubAck(Ack::success(id))),
                (Some(id), _) => line.send(&Packet::PubRec(Ack::success(id))),
                (None, _) => Ok(()),
            }
        }
        Packet::PubRel(ack) => {
            let id = ack.packet_id.get();
            if book.accounts().is_taken(at, id) {
                book.enter(Entry::Released { who: at, id });
            }
            line.send(&Packet::PubComp(Ack::success(ack.packet_id)))
        }
        _ => bail!("{name}: an unexpected packet: {packet:?}"),
    }
}

fn take(at: usize, publish: &Publish<'_>, id: u16, book: &mut Book) {
    let topic = publish.topic.map(zzq_types::TopicName::as_str).unwrap_or_default();
    let Some((by, seq)) = whose(topic, publish.payload) else {
        let head = String::from_utf8_lossy(&publish.payload[..publish.payload.len().min(24)]);
        let what = format!("{}: on {topic} came {head:?}...", RECEIVERS[at].name);
        return book.accuse("whole and unchanged", what);
    };
    let qos = publish.delivery.qos().bits();
    book.enter(Entry::Took { who: at, id, qos, by, seq });
}

/// Whose message it is, if it is whole and on its topic.
pub(crate) fn whose(topic: &str, payload: &[u8]) -> Option<(usize, u64)> {
    let (by, seq) = payload::decode(payload)?;
    let publisher = PUBLISHERS.get(by)?;
    (publisher.topic(by, seq) == topic).then_some((by, seq))
}
