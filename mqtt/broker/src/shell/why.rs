//! What clients of MQTT 5 are told beside a code, and the log of the broker: which rule it was, and
//! which setting is behind it.
//!
//! Owns: the texts of what is refused packet by packet, and when they are left out. Texts of what
//! ends a connection stand where that is decided. Does not know: the codec, which leaves out what
//! the client did not ask for, or has no room for.
//! Assumes: all of it is seldom, and nothing of it is secret.

use std::borrow::Cow;

use zzq_codec::{Ack, AckKind};
use zzq_lanes::ConnId;
use zzq_types::{PacketId, Properties, PropertiesBuf, Property, ReasonCode};
use zzq_wal::disk::Disk;

use super::{Io, Shell};
use crate::options::Limits;

/// A client that does not read the answers it has gets no texts with further ones: of small packets
/// they would make large ones.
const UNREAD_MOST: usize = 16 << 10;

/// So many different texts go with one SUBACK.
const TEXTS_MOST: usize = 8;

/// Why a message, or a will, is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// Its topic is the broker's own.
    OwnTopic,
    TopicLevels,
    TopicLength,
    NoText,
    NotPermitted,
    /// Nobody says whether it may be published.
    Unanswered,
    QueueFull,
    QueuesFull,
    DiskFull,
    RetainedFull,
    LogEnded,
}

impl Denied {
    pub(super) const fn code(self) -> ReasonCode {
        match self {
            Self::OwnTopic | Self::NotPermitted => ReasonCode::NotAuthorized,
            Self::TopicLevels | Self::TopicLength => ReasonCode::TopicNameInvalid,
            Self::NoText => ReasonCode::PayloadFormatInvalid,
            Self::Unanswered => ReasonCode::UnspecifiedError,
            Self::QueueFull
            | Self::QueuesFull
            | Self::DiskFull
            | Self::RetainedFull
            | Self::LogEnded => ReasonCode::QuotaExceeded,
        }
    }

    /// In words; empty where the code says it all.
    pub(super) fn why(self, limits: &Limits) -> Cow<'static, str> {
        match self {
            Self::OwnTopic => "topics below $SYS/ are the broker's own".into(),
            Self::TopicLevels => {
                let most = limits.max_topic_levels;
                format!("a topic has at most {most} levels: --max-topic-levels").into()
            }
            Self::TopicLength => {
                let most = limits.max_topic_length;
                format!("a topic has at most {most} bytes: --max-topic-length").into()
            }
            Self::NoText => "it says that it is UTF-8, and is not: --check-payload-format".into(),
            Self::NotPermitted => "".into(),
            Self::Unanswered => "nobody says whether it may be published".into(),
            Self::QueueFull => {
                "the queue of a receiver is full: --max-queued-messages, --max-queued-bytes, \
                 --queue-full"
                    .into()
            }
            Self::QueuesFull => {
                "the queues of all sessions take as much memory as they may: --max-queued-total"
                    .into()
            }
            Self::DiskFull => "the disk of --data-dir is full but for --disk-reserve".into(),
            Self::RetainedFull => {
                "no more is retained: --max-retained, --max-retained-bytes".into()
            }
            Self::LogEnded => "the log takes no more, or nothing as large".into(),
        }
    }
}

/// What goes with the codes of a SUBACK: each text once.
#[derive(Debug, Default)]
pub(super) struct Texts(Vec<Cow<'static, str>>);

impl Texts {
    pub(super) fn add(&mut self, text: Cow<'static, str>) {
        if self.0.len() < TEXTS_MOST && !text.is_empty() && !self.0.contains(&text) {
            self.0.push(text);
        }
    }

    pub(super) fn joined(&self) -> String {
        self.0.join("; ")
    }
}

/// PUBREL or PUBREC for an identifier that names nothing.
pub(super) const UNKNOWN: &str = "no message with this identifier is under way";

/// The same as a Reason String.
pub(super) const UNKNOWN_PROPERTY: Properties<'static> =
    Properties::from_checked(b"\x1F\x00\x2Cno message with this identifier is under way");

/// Whether a client is told more than codes.
pub(super) fn takes_texts<D: Disk>(io: &Io<'_, D>, conn: ConnId) -> bool {
    io.queued_bytes(conn) <= UNREAD_MOST
}

/// A Reason String for a client that is told more than codes.
pub(super) fn reason_for<D: Disk>(io: &Io<'_, D>, conn: ConnId, text: &str) -> PropertiesBuf {
    reason_string(if takes_texts(io, conn) { text } else { "" })
}

/// A Reason String, unless there is nothing to say.
pub(super) fn reason_string(text: &str) -> PropertiesBuf {
    let mut properties = PropertiesBuf::new();
    put_reason(&mut properties, text);
    properties
}

/// Appends a Reason String, unless there is nothing to say, or more than a string has.
pub(super) fn put_reason(properties: &mut PropertiesBuf, text: &str) {
    if !text.is_empty() {
        // One that is too long is left out, and nothing appended.
        let _too_long = properties.push(Property::ReasonString(text));
    }
}

impl<D: Disk> Shell<D> {
    /// PUBACK or PUBREC of a message that was not taken.
    pub(super) fn give_denied(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        kind: AckKind,
        id: PacketId,
        denied: Denied,
    ) {
        let Some(link) = self.links.up_mut(conn) else { return };
        link.inbound = link.inbound.saturating_sub(1);
        let why = denied.why(&self.shared.options.limits);
        self.write_refusal(io, conn, kind, Ack::with_reason(id, denied.code()), &why);
    }

    /// PUBCOMP for a PUBREL that names nothing.
    pub(super) fn give_unknown(&mut self, io: &mut Io<'_, D>, conn: ConnId, id: PacketId) {
        let Some(link) = self.links.up_mut(conn) else { return };
        // As its client counts: whatever PUBCOMP says, one more may be sent.
        link.inbound = link.inbound.saturating_sub(1);
        let ack = Ack::with_reason(id, ReasonCode::PacketIdentifierNotFound);
        self.write_refusal(io, conn, AckKind::PubComp, ack, UNKNOWN);
    }

    /// One line for messages that are not taken, of which there may be many: the version may know
    /// no way to tell their client.
    pub(super) fn tell_turned_down(&mut self, conn: ConnId, denied: Denied) {
        let Some(link) = self.links.get(conn) else { return };
        if let Some(untold) = self.denied_told.tell(self.now_ms) {
            let (peer, client, reason) = (link.peer, &link.client, denied.code());
            let why = denied.why(&self.shared.options.limits);
            tracing::info!(%peer, %client, %reason, %why, untold, "a message is refused");
        }
    }

    /// Writes an acknowledgement that says no, and why.
    pub(super) fn write_refusal(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        kind: AckKind,
        ack: Ack<'_>,
        why: &str,
    ) {
        let properties = reason_for(io, conn, why);
        let ack = Ack { properties: properties.as_properties(), ..ack };
        self.write_ack(io, conn, kind, ack);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_few_and_each_stands_once() {
        let mut texts = Texts::default();
        for text in ["a", "", "b", "a"] {
            texts.add(text.into());
        }
        assert_eq!(texts.joined(), "a; b");
        for number in 0..100 {
            texts.add(number.to_string().into());
        }
        assert_eq!(texts.joined(), "a; b; 0; 1; 2; 3; 4; 5");
    }

    #[test]
    fn the_property_that_is_written_out_says_the_same() {
        assert_eq!(reason_string(UNKNOWN).as_properties(), UNKNOWN_PROPERTY);
    }

    #[test]
    fn a_text_that_no_string_holds_is_left_out() {
        let long = "x".repeat(65_536);
        assert!(reason_string(&long).as_properties().is_empty());
        assert!(reason_string("").as_properties().is_empty());
        assert!(!reason_string(&long[1..]).as_properties().is_empty());
    }
}
