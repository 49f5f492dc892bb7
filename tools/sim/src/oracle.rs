//! The promises: one file for each, checked against what the clients saw.
//!
//! Owns: what a broken promise looks like. Each file has a test with a history that it must refuse:
//! an oracle that cannot fail is a defect.

mod copies;
mod cursors;
mod cut_off;
mod damaged;
mod delivered;
mod denied;
mod dropped;
mod exactly_once;
mod expiry;
mod folds;
mod groups;
mod healed;
mod let_go;
mod let_in;
mod limits;
mod order;
mod past;
mod presence;
mod protocol;
mod refused;
mod retained;
mod retention;
mod space;
mod strangers;
mod subscriptions;
mod wills;

use zzq_types::QoS;

use crate::history::{ClientId, Message, MessageId};
use crate::ledger::{At, Ledger, SessionFacts};

/// One promise.
#[derive(Clone, Copy, Debug)]
pub struct Promise {
    /// Its file.
    pub name: &'static str,
    /// What is promised.
    pub says: &'static str,
    /// All that breaks it.
    pub check: fn(&Ledger<'_>, &mut Vec<Broken>),
}

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which.
    pub promise: &'static str,
    /// How.
    pub what: String,
    /// What it is about.
    pub about: Vec<Subject>,
}

/// Something that events are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A message.
    Message(MessageId),
    /// A client with its connections.
    Client(ClientId),
}

/// All of them.
pub const PROMISES: [Promise; 26] = [
    delivered::PROMISE,
    exactly_once::PROMISE,
    order::PROMISE,
    past::PROMISE,
    cursors::PROMISE,
    retention::PROMISE,
    let_go::PROMISE,
    retained::PROMISE,
    subscriptions::PROMISE,
    groups::PROMISE,
    presence::PROMISE,
    expiry::PROMISE,
    wills::PROMISE,
    refused::PROMISE,
    dropped::PROMISE,
    denied::PROMISE,
    protocol::PROMISE,
    limits::PROMISE,
    space::PROMISE,
    folds::PROMISE,
    copies::PROMISE,
    damaged::PROMISE,
    strangers::PROMISE,
    cut_off::PROMISE,
    let_in::PROMISE,
    healed::PROMISE,
];

/// Everything that a history breaks.
pub fn check(ledger: &Ledger<'_>) -> Vec<Broken> {
    let mut broken = Vec::new();
    for promise in PROMISES {
        (promise.check)(ledger, &mut broken);
    }
    broken
}

/// Sessions that an acknowledged message is owed to and that did not get it. Where full queues may
/// lose some, [`limits`] compares how many.
fn missed<'l>(
    ledger: &'l Ledger<'_>,
    id: MessageId,
) -> impl Iterator<Item = &'l SessionFacts> + use<'l> {
    let none_may = !ledger.history.drops();
    without(ledger, id).filter(move |_| none_may)
}

/// Sessions that an acknowledged message is owed to and that did not get it.
fn without<'l>(
    ledger: &'l Ledger<'_>,
    id: MessageId,
) -> impl Iterator<Item = &'l SessionFacts> + use<'l> {
    let ended = !ledger.cut_short;
    let owed = ledger.lasting().filter(move |(_, session)| ended && is_owed(ledger, id, session));
    owed.map(|(_, session)| session).filter(move |session| !has(session, id))
}

/// Its publisher speaks MQTT 5, of which alone a message is refused and the next one taken.
fn can_be_refused(ledger: &Ledger<'_>, id: MessageId) -> bool {
    let conn = ledger.facts(id).conn.and_then(|conn| ledger.conns.get(&conn));
    conn.is_some_and(|conn| conn.hello.version.is_v5())
}

fn has(session: &SessionFacts, id: MessageId) -> bool {
    session.received.iter().any(|(_, _, received)| received.message == Some(id))
}

/// Whether a session was subscribed, for certain, from before the first PUBLISH until behind its
/// acknowledgement.
fn is_owed(ledger: &Ledger<'_>, id: MessageId, session: &SessionFacts) -> bool {
    let (message, facts) = (ledger.message(id), ledger.facts(id));
    let (Some(sent), Some(acked)) = (facts.sent, facts.acked) else { return false };
    if message.is_will || message.clears || ledger.may_have_expired(id, ledger.end_ms()) {
        return false;
    }
    is_subscribed(session, message, (sent, acked))
}

/// Whether a plain filter that matches was subscribed to, for certain, from before `from` until
/// behind `to`, with a QoS at which nothing is lost.
fn is_subscribed(session: &SessionFacts, message: &Message, (from, to): (At, At)) -> bool {
    let plain = || {
        let subs = session.subs.iter().filter(|sub| sub.group().is_none());
        subs.filter(|sub| sub.matches(&message.topic))
    };
    let own = message.client == session.client;
    plain().filter(|sub| sub.holds_filter(from, to)).any(|certain| {
        // Another one of the same filter may have been in its place, with other options.
        plain()
            .filter(|sub| sub.filter == certain.filter && sub.may_hold(from, to))
            .all(|sub| sub.qos_of(message.qos) != QoS::AtMostOnce && !(own && sub.options.no_local))
    })
}

impl Broken {
    fn new(promise: Promise, what: String, about: &[Subject]) -> Self {
        Self { promise: promise.name, what, about: about.to_vec() }
    }
}

/// What is missing, said in one way.
fn miss(promise: Promise, ledger: &Ledger<'_>, id: MessageId, session: &SessionFacts) -> Broken {
    let message = ledger.message(id);
    let what = format!(
        "{} never got {id:?}, which {} published to {} at {:?} and was told it was taken",
        ledger.name(session.client),
        ledger.name(message.client),
        message.topic,
        message.qos
    );
    Broken::new(promise, what, &[Subject::Message(id), Subject::Client(session.client)])
}
