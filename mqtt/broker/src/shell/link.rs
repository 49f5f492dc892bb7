//! One client connection as the shell sees it: what was agreed at CONNECT, what is under way.
//!
//! Assumes: a link belongs to one lane and ends with its connection. What outlives the connection
//! is session state and stands in `zzq_engine::State`.

use std::net::SocketAddr;
use std::sync::Arc;

use zzq_codec::{Decoder, Encoder};
use zzq_engine::session::{Outbound as Numbers, Queue};
use zzq_engine::{QueueNumber, SessionNumber, SubNumber};
use zzq_lanes::Millis;

use super::alias::{Aliases, Given};
use super::exchange::Exchanging;
use super::held::Held;
use super::questions::{Publishable, Question};
use super::ranges::Ranges;
use super::rates::Rates;
use crate::hooks::Client;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// CONNECT has not come yet.
    New,
    /// CONNECT is there, and its client is to show who it is.
    Authenticating,
    /// CONNECT is accepted and its record not committed: nothing behind it is read.
    Opening,
    /// CONNACK has left.
    Up,
    /// It was closed or has handed its session over; what still comes is thrown away.
    Leaving,
}

/// A connection and what it has agreed on.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) peer: SocketAddr,
    pub(crate) phase: Phase,
    pub(crate) decoder: Decoder,
    pub(crate) encoder: Encoder,
    /// Empty before CONNECT; its session has the same text.
    pub(crate) client: Arc<str>,
    /// Who it is, if a hook has to know: from when it is let in.
    pub(crate) who: Option<Arc<Client>>,
    /// What is open about its next packet, and its next publish.
    pub(super) question: Question,
    pub(super) publishable: Publishable,
    /// Of a CONNECT with an authentication method.
    pub(super) exchanging: Option<Box<Exchanging>>,
    /// By which shared groups may choose.
    pub(crate) client_hash: u32,
    /// When it came up: see `Shell::since`.
    pub(crate) since: u32,
    pub(crate) session: Option<SessionNumber>,
    /// It is a bridge of mosquitto's, by the bit in its protocol level.
    pub(crate) is_bridge: bool,
    /// The session's records go to the log.
    pub(crate) logged: bool,
    /// The session has a will that a loss of the connection sends.
    pub(crate) has_will: bool,
    /// Expiry of the session as it stands, in seconds.
    pub(crate) expiry_s: u32,
    /// The next number for a subscription.
    pub(crate) next_sub: u32,
    pub(crate) staged: Option<Box<Staged>>,
    /// Its output was full longer than publishers are held for it.
    pub(crate) slow: bool,
    /// It is not read: its answers fill its output.
    pub(crate) stuffed: bool,
    /// Publishes that wait for a full queue.
    pub(super) held: Option<Box<Held>>,
    /// 1.5 times the keep alive, in ms; 0: none.
    pub(crate) silence_ms: u64,
    pub(crate) heard: Millis,
    /// Its input waits here, so nothing can be heard.
    pub(crate) parked: bool,
    /// What the client may still send, where that is bounded.
    pub(super) rates: Option<Box<Rates>>,
    /// Aliases that the client defined, if any.
    pub(crate) aliases: Option<Box<Aliases>>,
    /// Aliases that it was given.
    pub(crate) given: Option<Box<Given>>,
    /// QoS 1 and 2 publishes of the client whose last answer has not left.
    pub(crate) inbound: u32,
    pub(crate) inbound_most: u32,
    /// QoS 1 and 2 messages that may be under way to the client.
    pub(crate) window: u16,
    pub(crate) out: Out,
}

/// What waits for a record that is handed over.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    /// The encoded CONNACK, while its record is not committed.
    pub(crate) conn_ack: Vec<u8>,
    /// Subscriptions; forgotten when a change has its fence.
    pub(crate) subs: Vec<(Box<str>, SubNumber)>,
}

// Most connections are idle: what few of them have is boxed, and the rest counted.
const _: () = assert!(size_of::<Link>() <= 256, "what a connection takes");

/// What is on its way to the client above QoS 0. Most have never had anything of it, and their
/// numbers are as they were when they came.
#[derive(Debug)]
pub(crate) struct Out {
    /// The first number that was open then.
    first_open: QueueNumber,
    window: u16,
    made: Option<Box<Outbound>>,
}

/// See [`Out`].
#[derive(Debug)]
pub(crate) struct Outbound {
    /// Which numbers are under way, and what comes next.
    pub(crate) numbers: Numbers,
    /// Answered for good, or as if they were, and not handed over yet.
    pub(crate) fresh_taken: Ranges,
    /// Acknowledged by PUBREC and not handed over yet.
    pub(crate) fresh_received: Ranges,
    /// Passed over because they have expired, and not handed over yet.
    pub(crate) fresh_expired: Ranges,
    /// Messages are being read back for it.
    pub(crate) asks: bool,
    /// The highest number that was asked for, and the highest that was sent then. None: it gets
    /// what comes from memory.
    pub(crate) asked: QueueNumber,
    pub(crate) asked_from: QueueNumber,
    /// An answer has made room in the window: the pump goes on behind what else was read.
    pub(crate) answered: bool,
    /// It stands in the lane's list of links with fresh receipts.
    pub(crate) owes: bool,
    pub(crate) waits: Waits,
}

/// What the pump waits for beside the client's answers: it rests until that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    Nothing,
    /// Room for output: the lane says when the connection has drained.
    Output,
    /// A message that is not in memory: the reader answers every request.
    Message,
    /// A commit: the lane looks at it in each turn, and the log wakes the lane for it.
    Commit,
    /// A hook's answer: the lane is woken for it, and knows when it is overdue.
    Answer,
    /// The next identifier, which another message may have: looked at again when the turn has
    /// applied what it could, for it takes a receipt. Or the next message, which is being dropped,
    /// or before which others are being given up.
    Identifier,
}

impl Link {
    /// A connection that has just come in.
    pub(crate) fn new(peer: SocketAddr, decoder: Decoder, now: Millis) -> Self {
        Self {
            peer,
            phase: Phase::New,
            decoder,
            encoder: Encoder::new(zzq_types::ProtocolVersion::V311),
            client: Arc::default(),
            who: None,
            question: Question::default(),
            publishable: Publishable::default(),
            exchanging: None,
            client_hash: 0,
            since: 0,
            session: None,
            is_bridge: false,
            logged: false,
            has_will: false,
            expiry_s: 0,
            next_sub: 1,
            staged: None,
            slow: false,
            stuffed: false,
            held: None,
            silence_ms: 0,
            heard: now,
            parked: false,
            rates: None,
            aliases: None,
            given: None,
            inbound: 0,
            inbound_most: u32::MAX,
            window: 0,
            out: Out::new(QueueNumber::new(1), 0),
        }
    }
}

impl Link {
    /// Something waits for a hook's answer.
    pub(super) fn has_question(&self) -> bool {
        self.question.due().is_some() || self.publishable.due().is_some()
    }

    /// Something waits for one until then.
    pub(super) fn waits_until(&self, due: Millis) -> bool {
        [self.question.due(), self.publishable.due()].contains(&Some(due))
    }

    pub(super) fn is_v5(&self) -> bool {
        self.encoder.version.is_v5()
    }
}

impl Out {
    /// Of a client that takes `window` messages unacknowledged, whose queue has this as the first
    /// number that is open.
    pub(crate) const fn new(first_open: QueueNumber, window: u16) -> Self {
        Self { first_open, window, made: None }
    }

    /// What there is, if there was ever anything.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Outbound> {
        self.made.as_deref()
    }

    /// See [`Out::get`].
    #[inline]
    pub(crate) fn get_mut(&mut self) -> Option<&mut Outbound> {
        self.made.as_deref_mut()
    }

    /// The same, made if there was nothing.
    #[inline]
    pub(crate) fn make(&mut self) -> &mut Outbound {
        let Self { first_open, window, made } = self;
        made.get_or_insert_with(|| Box::new(Outbound::new(Numbers::from(*first_open, *window))))
    }

    /// See [`Numbers::cursor`].
    pub(crate) fn cursor(&self) -> QueueNumber {
        let before = || QueueNumber::new(self.first_open.get() - 1);
        self.get().map_or_else(before, |out| out.numbers.cursor())
    }

    /// See [`Numbers::owes_up_to`].
    pub(crate) fn owes_up_to(&self, queue: &Queue, number: QueueNumber) -> bool {
        let new = || Numbers::from(self.first_open, self.window).owes_up_to(queue, number);
        self.get().map_or_else(new, |out| out.numbers.owes_up_to(queue, number))
    }

    /// See [`Outbound::waits`].
    #[inline]
    pub(crate) fn waits(&self) -> Waits {
        self.get().map_or(Waits::Nothing, |out| out.waits)
    }
}

impl Outbound {
    /// Whether the log has yet to be told of something.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.fresh_taken.is_empty()
            || !self.fresh_received.is_empty()
            || !self.fresh_expired.is_empty()
    }
}

impl Outbound {
    fn new(numbers: Numbers) -> Self {
        Self {
            numbers,
            fresh_taken: Ranges::default(),
            fresh_received: Ranges::default(),
            fresh_expired: Ranges::default(),
            asks: false,
            asked: QueueNumber::ZERO,
            asked_from: QueueNumber::ZERO,
            answered: false,
            owes: false,
            waits: Waits::Nothing,
        }
    }
}
