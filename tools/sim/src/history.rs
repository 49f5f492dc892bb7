//! What happened, as the clients and the one who runs the broker saw it, in one order.
//!
//! Owns: the events, the messages they are about, the hash of it all. Nothing here was read from
//! inside the broker.

use std::fmt;

use zzq_broker::{QueueFull, Retention};
use zzq_codec::AckKind;
use zzq_types::{ProtocolVersion, QoS, ReasonCode, SubscribeOptions};

use crate::client::quote::Quote;

/// One message of the whole run; every message says its number in its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(pub u32);

/// One client, by its place among the clients of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u16);

/// One connection of the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conn(pub u32);

/// What a message is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one message")]
pub struct Message {
    /// Who publishes it, or whose will it is.
    pub client: ClientId,
    /// Where.
    pub topic: String,
    /// As published.
    pub qos: QoS,
    /// As published.
    pub retain: bool,
    /// It takes a retained message away: its payload is empty, so nobody can tell who sent it.
    pub clears: bool,
    /// In seconds.
    pub expiry_s: Option<u32>,
    /// A will, not a PUBLISH.
    pub is_will: bool,
    /// Of the last phase, in which nothing goes wrong.
    pub is_probe: bool,
    /// Bytes of its payload.
    pub size: usize,
    /// What it quotes of the log, if it does.
    pub quote: Option<Quote>,
}

/// What a CONNECT says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Which MQTT.
    pub version: ProtocolVersion,
    /// Clean Start, Clean Session.
    pub clean: bool,
    /// 0: the session ends with the connection; `u32::MAX`: never.
    pub expiry_s: u32,
    /// Its will and the delay of it in seconds.
    pub will: Option<(MessageId, u32)>,
    /// How many messages it takes at once.
    pub window: u16,
    /// In seconds; 0: none.
    pub keep_alive: u16,
    /// Bytes of the packet.
    pub size: usize,
}

/// How a connection ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The broker closed it, in order.
    Closed,
    /// It broke.
    Broken,
    /// The client gave it up.
    GivenUp,
}

/// How the broker ended, to be started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// `kill -9`.
    Killed,
    /// The power went.
    PowerCut,
    /// It was told to stop, and did.
    Stopped,
}

/// What a client received as PUBLISH.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one delivery")]
pub struct Received {
    /// By its payload.
    pub message: Option<MessageId>,
    /// Where it was published.
    pub topic: String,
    /// Of this delivery.
    pub qos: QoS,
    /// Of this delivery.
    pub packet_id: Option<u16>,
    /// As it says.
    pub dup: bool,
    /// As it says.
    pub retain: bool,
    /// To the client it is new: at QoS 2 its identifier was not open.
    pub fresh: bool,
    /// The client refuses it: it is not open, and may come again until that is heard.
    pub refused: bool,
    /// When it left the broker.
    pub written_ms: u64,
    /// Its Message Expiry Interval in seconds.
    pub expiry_s: Option<u32>,
    /// Its place in the log, if it says so.
    pub offset: Option<u64>,
    /// The connection has waited for its receiver: what left the broker may be older than it seems.
    pub stalled: bool,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields by their names; what happened is said of each event")]
pub enum Event {
    /// The broker serves, and its wall clock shows this.
    Started { wall_ms: u64 },
    /// It does not any more.
    Died { how: Death },
    /// A start that the power or a fault of the disk has ended.
    StartFailed { why: String },
    /// A broker that was told to start did not, and said this.
    NotStarted { why: String },
    /// So many steps were made, or so much was noted, that nobody can believe in an end. Nothing
    /// is noted behind it.
    Endless,
    /// Nothing went wrong for a long time, and it did not come to rest: this was still going on.
    Unsettled { what: String },
    /// Somebody set the wall clock.
    WallSet { by_ms: i64 },
    /// The broker was told to stop.
    ToldToStop,
    /// The broker says that its log takes nothing more.
    ReadOnly,
    /// The broker says that its disk is full, or that it has space again.
    Space { full: bool },
    /// The broker counts so many messages more that full queues have lost.
    Dropped { messages: u64 },
    /// The broker has ended a session for its full queue, or, where that is not certain, for
    /// another reason in the same turn, or had begun to when it died.
    EndedFull { client: ClientId, certain: bool },
    /// Nobody who is connected waits for anything, nothing is on its way, and the disk has taken
    /// all there is: what the broker does by itself is done.
    AtRest,
    /// From now on nothing goes wrong.
    Healed,
    /// CONNECT was sent.
    Dialed { conn: Conn, client: ClientId, hello: Hello },
    /// CONNACK came; MQTT 3.1 does not say whether a session is present.
    Accepted { conn: Conn, present: Option<bool> },
    /// DISCONNECT came from the broker.
    Dismissed { conn: Conn, reason: ReasonCode },
    /// CONNACK refused.
    Refused { conn: Conn, reason: ReasonCode },
    /// The network will carry nothing more, whether its ends know it or not.
    Cut { conn: Conn },
    /// It has had no room for what the broker sent, or little: what the broker says last there may
    /// be lost. Noted when the client hears of its end.
    Stalled { conn: Conn },
    /// The client knows that it is over.
    Ended { conn: Conn, how: Ending },
    /// DISCONNECT was sent. What comes behind that is not noted, but DISCONNECT from the broker.
    Left { conn: Conn, keeps_will: bool },
    /// SUBSCRIBE was sent.
    Subscribed { conn: Conn, request: u16, filter: String, options: SubscribeOptions },
    /// SUBACK came.
    SubAcked { conn: Conn, request: u16, filter: String, reason: ReasonCode },
    /// UNSUBSCRIBE was sent.
    Unsubscribed { conn: Conn, request: u16, filter: String },
    /// UNSUBACK came.
    UnsubAcked { conn: Conn, request: u16, filter: String },
    /// PUBLISH was sent.
    Published { conn: Conn, message: MessageId, packet_id: Option<u16>, dup: bool },
    /// PUBREL was sent for the first time, or again.
    Released { conn: Conn, message: MessageId, again: bool },
    /// PUBACK, PUBREC or PUBCOMP came for a message under way.
    Answered { conn: Conn, message: MessageId, kind: AckKind, reason: ReasonCode },
    /// The client has lost its memory of a message under way: it will not send it again.
    Forgotten { message: MessageId },
    /// PUBLISH came.
    Received { conn: Conn, received: Received },
    /// PUBACK, PUBREC or PUBCOMP was sent.
    Took { conn: Conn, kind: AckKind, packet_id: u16 },
    /// PUBREL came.
    Freed { conn: Conn, packet_id: u16 },
    /// Something came that the protocol does not allow.
    Unfit { conn: Conn, what: String },
    /// The fold of the log was compared with the live state of a lane; `Err` says how they differ.
    Folded { lane: usize, outcome: Result<(), String> },
    /// An image was made and compared with the fold of the whole log; `Err` says how they differ.
    Imaged { outcome: Result<(), String> },
    /// The log was copied while the broker served, and the copy compared with it; `Err` says how
    /// they differ.
    Copied { outcome: Result<(), String> },
    /// A start was tried on a copy of the disk with this damage; `Err` says what it should not
    /// have done.
    Damaged { what: String, outcome: Result<(), String> },
    /// The log begins with a later record than before, and has so many bytes from there on.
    LetGo { first: u64, left: u64 },
    /// Nothing goes wrong, and this is the oldest record that who begins to read history gets.
    Oldest { first: u64 },
    /// All is at rest, and images were made: so many segments of the log, and cold files, are there
    /// that nothing needs and nobody wants to keep.
    Needless { segments: u64, cold: u64 },
    /// A file of somebody else in the broker's directory is not as it was.
    Touched { file: String },
    /// At the very end: somebody still waits, for this.
    Waits { client: ClientId, what: String },
}

/// An event and when it was.
#[derive(Clone, Debug)]
pub struct Entry {
    /// True time in ms.
    pub at_ms: u64,
    /// What.
    pub event: Event,
}

/// All of it.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one run")]
pub struct History {
    /// In order.
    pub entries: Vec<Entry>,
    /// By their numbers.
    pub messages: Vec<Message>,
    /// Of the clients, by their numbers.
    pub names: Vec<String>,
    /// The broker may refuse a message now and take it later: queues are limited, or space ends.
    pub may_refuse: bool,
    /// Queues may become full, or nobody says whether a message may be published.
    pub limits_queues: bool,
    /// What the broker does about full queues.
    pub queue_full: QueueFull,
    /// In ms; see [`zzq_broker::Limits::queue_grace`].
    pub queue_grace_ms: u64,
    /// In ms; see [`zzq_broker::Limits::max_hold`].
    pub max_hold_ms: u64,
    /// For so long in ms a lane may have no turn, whatever waits for it.
    pub lanes_rest_ms: u64,
    /// Nobody may say whether a client that authenticates again is still who it was.
    pub may_not_answer: bool,
    /// How much of the log is kept for who reads it.
    pub retain: Retention,
    /// There is no log: nothing outlives the broker's process.
    pub in_memory: bool,
    /// What no session that outlives its connection needs is not in the log.
    pub logs_needed: bool,
    /// All that is published is in the log, also what nobody keeps.
    pub logs_everything: bool,
    /// The disk may not give what is on it.
    pub disk_may_fail: bool,
    /// All packets that have come in part may have too little room together.
    pub lacks_input: bool,
    /// For so long in ms one of them may have room that others wait for.
    pub input_patience_ms: u64,
    /// In bytes; see [`zzq_broker::Limits::max_connect_size`].
    pub max_connect_size: usize,
    hash: Hash,
}

/// Events of one run at most: a hundred megabytes or so. A run that ends has some thousands.
pub const ENTRIES_MAX: usize = 500_000;

impl History {
    /// Notes what happens, as long as there is room for it.
    pub fn note(&mut self, at_ms: u64, event: Event) {
        if self.is_over() {
            return;
        }
        let event = if self.entries.len() < ENTRIES_MAX { event } else { Event::Endless };
        self.hash.take(at_ms, &event);
        self.entries.push(Entry { at_ms, event });
    }

    /// The run has shown that it does not end.
    pub fn is_over(&self) -> bool {
        self.entries.last().is_some_and(|last| last.event == Event::Endless)
    }

    /// Whether something has come since then that comes once, and of which no answer tells.
    pub fn has_come_for_good(&self, since: usize) -> bool {
        self.entries[since..].iter().any(|entry| {
            let Event::Received { received, .. } = &entry.event else { return false };
            let message = received.message.and_then(|id| self.message(id));
            received.qos == QoS::AtMostOnce
                && message.is_some_and(|message| message.qos == QoS::ExactlyOnce)
        })
    }

    /// Whether a PUBREC has come since then for what was sent more than once.
    pub fn has_repeat_been_answered(&self, since: usize) -> bool {
        let (before, new) = self.entries.split_at(since);
        new.iter().any(|entry| {
            let Event::Answered { conn, message, kind: AckKind::PubRec, .. } = entry.event else {
                return false;
            };
            let last = before.iter().rev().find_map(|entry| match entry.event {
                Event::Published { conn: on, message: sent, dup, .. } => {
                    ((on, sent) == (conn, message)).then_some(dup)
                }
                _ => None,
            });
            last == Some(true)
        })
    }

    /// Whether the broker may lose what it has acknowledged, because a queue is full.
    pub fn drops(&self) -> bool {
        matches!(self.queue_full, QueueFull::DropOldest | QueueFull::DropNewest)
    }

    /// Whether all of the log is kept, as far as is known.
    pub fn keeps_all(&self) -> bool {
        let is_bounded = |bytes: u64| bytes < u64::MAX;
        !self.retain.bytes.is_some_and(is_bounded) && self.retain.age.is_none()
    }

    /// A number for a message.
    pub fn add_message(&mut self, message: Message) -> MessageId {
        self.messages.push(message);
        MessageId(u32::try_from(self.messages.len() - 1).unwrap_or(u32::MAX))
    }

    /// The message of a number.
    pub fn message(&self, id: MessageId) -> Option<&Message> {
        self.messages.get(id.0 as usize)
    }

    /// Of every event so far, in order.
    pub fn hash(&self) -> u64 {
        self.hash.0
    }
}

/// FNV-1a over the text of the events: no addresses, no order of hash maps.
#[derive(Clone, Copy, Debug)]
struct Hash(u64);

impl Default for Hash {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Hash {
    fn take(&mut self, at_ms: u64, event: &Event) {
        use fmt::Write;
        // Writing to a hash does not fail.
        let _ = writeln!(self, "{at_ms} {event:?}");
    }
}

impl fmt::Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_without_an_end_has_one() {
        let mut history = History::default();
        for at in 0..ENTRIES_MAX as u64 {
            history.note(at, Event::Healed);
        }
        assert!(!history.is_over());
        for at in 0..3 {
            history.note(ENTRIES_MAX as u64 + at, Event::Healed);
        }
        assert!(history.is_over());
        assert_eq!(history.entries.len(), ENTRIES_MAX + 1);
    }

    #[test]
    fn the_hash_tells_histories_apart_by_order_and_time() {
        let of = |events: &[(u64, Event)]| {
            let mut history = History::default();
            for (at, event) in events {
                history.note(*at, event.clone());
            }
            history.hash()
        };
        let (one, other) = (Event::Healed, Event::Died { how: Death::Killed });
        let in_order = of(&[(1, one.clone()), (1, other.clone())]);
        assert_eq!(in_order, of(&[(1, one.clone()), (1, other.clone())]));
        assert_ne!(in_order, of(&[(1, other.clone()), (1, one.clone())]));
        assert_ne!(in_order, of(&[(1, one), (2, other)]));
    }
}
