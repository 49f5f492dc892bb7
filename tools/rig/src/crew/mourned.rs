//! Clients whose messages are wills, one for each connection.
//!
//! Owns: when a will is entrusted, owed, or taken back. Does not know: connections.

use anyhow::Result;
use zzq_types::{Properties, QoS, TopicName};

use crate::accounts::{Book, Entry};
use crate::cast::PUBLISHERS;
use crate::payload;

/// The will of a connection that is about to be made.
pub(super) struct Will {
    qos: QoS,
    topic: String,
    payload: Vec<u8>,
}

/// The next will. The connection before has ended, so its will is owed.
pub(super) fn make_will(at: usize, book: &mut Book) -> Option<Will> {
    let publisher = PUBLISHERS[at];
    if !publisher.is_mourned {
        return None;
    }
    if let Some(seq) = book.accounts().publisher(at).entrusted() {
        book.enter(Entry::Acked { by: at, seq });
    }
    let seq = book.accounts().publisher(at).sent() + 1;
    book.enter(Entry::Sent { by: at, seq, id: 0 });
    let (topic, payload) = (publisher.topic(at, seq), payload::encode(at, seq));
    Some(Will { qos: publisher.qos, topic, payload })
}

impl Will {
    pub(super) fn as_packet(&self) -> Result<zzq_codec::Will<'_>> {
        Ok(zzq_codec::Will {
            qos: self.qos,
            retain: false,
            properties: Properties::EMPTY,
            topic: TopicName::new(&self.topic)?,
            payload: &self.payload,
        })
    }
}

/// CONNACK has come: the broker has the will that was sent last.
pub(super) fn let_in(at: usize, book: &mut Book) {
    let seq = book.accounts().publisher(at).sent();
    book.enter(Entry::Entrusted { by: at, seq });
}

/// Whether the connection is to end without a word in this turn of it.
pub(super) fn is_lost(at: usize, turns: u64, book: &Book) -> bool {
    let seq = book.accounts().publisher(at).sent();
    turns > 5 + seq * 37 % 90
}

/// DISCONNECT is about to be sent.
pub(super) fn leave(at: usize, book: &mut Book) {
    let seq = book.accounts().publisher(at).sent();
    book.enter(Entry::Leaving { by: at, seq });
}

/// The broker has heard it: if this will comes, it should not.
pub(super) fn has_left(at: usize, book: &mut Book) {
    let publisher = book.accounts().publisher(at);
    let seq = publisher.sent();
    if publisher.entrusted().is_none() && !publisher.is_owed(seq) {
        book.enter(Entry::Refused { by: at, seq });
    }
}
