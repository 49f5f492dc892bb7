//! One seed from its plan to its verdict.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::coverage::Coverage;
use crate::history::{Conn, Entry, Event, History, MessageId};
use crate::ledger::Ledger;
use crate::oracle::{self, Broken, Subject};
use crate::plan::Plan;
use crate::world::{Outcome, World};

/// What became of a seed.
#[derive(Debug)]
pub struct Verdict {
    /// Which.
    pub seed: u64,
    /// Every promise that it broke; none: it is clean.
    pub broken: Vec<Broken>,
    /// The last events that concern the first of them, in words.
    pub events: Vec<String>,
    /// What it reached.
    pub coverage: Coverage,
    /// Client operations from each start of the broker to its next death.
    pub starts: Vec<u64>,
    /// Of everything that happened.
    pub hash: u64,
}

/// The name under which a panic is told: of the product, the world or an oracle.
pub const INVARIANTS: &str = "invariants";

/// Events that a failure shows.
const EVENTS_MAX: usize = 40;

impl Verdict {
    /// Of a seed that has nothing to show but this.
    pub fn cut_short(seed: u64, promise: &'static str, what: &str) -> Self {
        let broken = vec![Broken { promise, what: what.into(), about: Vec::new() }];
        let coverage = Coverage::default();
        Self { seed, broken, events: Vec::new(), coverage, starts: Vec::new(), hash: 0 }
    }
}

/// Runs a seed and holds every promise against it. `pulse` counts its steps.
pub fn run(seed: u64, lanes: Option<u16>, pulse: &Arc<AtomicU64>) -> Verdict {
    let world = World::new(seed, Plan::new(seed, lanes)).with_pulse(Arc::clone(pulse));
    let (outcome, panic) = live(world);
    judge(seed, outcome, panic)
}

/// Everything that happened in a seed, in words, and its verdict: of one that panics, what happened
/// before.
pub fn trace(seed: u64, lanes: Option<u16>) -> (Vec<String>, Verdict) {
    let (outcome, panic) = live(World::new(seed, Plan::new(seed, lanes)));
    let shown = outcome.history.entries.iter().map(show).collect();
    (shown, judge(seed, outcome, panic))
}

/// The text of the panic that ended it, if one did: of the product or of the world.
fn live(mut world: World) -> (Outcome, Option<String>) {
    let panic = catch_unwind(AssertUnwindSafe(|| world.run())).err();
    let outcome = world.outcome();
    // What a broker left half done may break another assertion when it goes.
    let gone = catch_unwind(AssertUnwindSafe(|| drop(world))).err();
    (outcome, panic.or(gone).map(|panic| text_of(&*panic)))
}

/// An assertion that broke is the verdict, whoever made it. What a run that it has ended says of
/// the promises is not asked: it owes what it had no time for.
fn judge(seed: u64, outcome: Outcome, panic: Option<String>) -> Verdict {
    let Outcome { history, mut coverage, starts, .. } = outcome;
    note_reached(&history, &mut coverage);
    let checked = panic
        .map_or_else(|| catch_unwind(|| check(&history)).map_err(|panic| text_of(&*panic)), Err);
    let (broken, events) = checked.unwrap_or_else(|text| {
        let broken = Broken { promise: INVARIANTS, what: text, about: Vec::new() };
        let last = history.entries.len().saturating_sub(EVENTS_MAX);
        (vec![broken], history.entries[last..].iter().map(show).collect())
    });
    Verdict { seed, broken, events, coverage, starts, hash: history.hash() }
}

fn check(history: &History) -> (Vec<Broken>, Vec<String>) {
    let ledger = Ledger::of(history);
    let broken = oracle::check(&ledger);
    let events = broken.first().map_or_else(Vec::new, |first| concerned(&ledger, first));
    (broken, events)
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").into()
}

/// What can be seen only from what happened.
fn note_reached(history: &History, coverage: &mut Coverage) {
    for entry in &history.entries {
        let Event::Received { received, .. } = &entry.event else { continue };
        let message = received.message.and_then(|id| history.message(id));
        if received.retain {
            coverage.hit("retained answered");
        }
        if message.is_some_and(|message| message.is_will) {
            coverage.hit("will delivered");
        }
        if message.is_some_and(|message| message.expiry_s.is_some()) {
            coverage.hit("expiring message delivered");
        }
    }
}

fn show(entry: &Entry) -> String {
    format!("{:>8} ms  {:?}", entry.at_ms, entry.event)
}

/// The last events about the same messages and clients, and those of the broker.
fn concerned(ledger: &Ledger<'_>, broken: &Broken) -> Vec<String> {
    let has_messages = broken.about.iter().any(|one| matches!(one, Subject::Message(_)));
    let entries = ledger.history.entries.iter().filter(|entry| {
        let Touches { conn, message, is_broker } = touches(&entry.event);
        let client = conn.and_then(|conn| ledger.conns.get(&conn)).map(|facts| facts.client);
        let named = |subject: &Subject| match subject {
            Subject::Message(id) => message == Some(*id),
            // Messages of the client that it is not about would hide the rest.
            Subject::Client(id) => client == Some(*id) && (message.is_none() || !has_messages),
        };
        is_broker || broken.about.is_empty() || broken.about.iter().any(named)
    });
    let shown: Vec<String> = entries.map(show).collect();
    shown[shown.len().saturating_sub(EVENTS_MAX)..].to_vec()
}

#[derive(Default)]
struct Touches {
    conn: Option<Conn>,
    message: Option<MessageId>,
    is_broker: bool,
}

fn touches(event: &Event) -> Touches {
    let of = |conn: &Conn| Touches { conn: Some(*conn), ..Touches::default() };
    match event {
        Event::Started { .. }
        | Event::Died { .. }
        | Event::StartFailed { .. }
        | Event::NotStarted { .. }
        | Event::Endless
        | Event::Unsettled { .. }
        | Event::WallSet { .. }
        | Event::ReadOnly
        | Event::Space { .. }
        | Event::Dropped { .. }
        | Event::EndedFull { .. }
        | Event::Healed
        | Event::Touched { .. }
        | Event::LetGo { .. }
        | Event::Folded { outcome: Err(_), .. }
        | Event::Imaged { outcome: Err(_) }
        | Event::Copied { outcome: Err(_) }
        | Event::Damaged { outcome: Err(_), .. } => {
            Touches { is_broker: true, ..Touches::default() }
        }
        Event::Dialed { conn, hello, .. } => {
            Touches { message: hello.will.map(|(will, _)| will), ..of(conn) }
        }
        Event::Published { conn, message, .. }
        | Event::Released { conn, message, .. }
        | Event::Answered { conn, message, .. } => Touches { message: Some(*message), ..of(conn) },
        Event::Received { conn, received } => Touches { message: received.message, ..of(conn) },
        Event::Forgotten { message } => Touches { message: Some(*message), ..Touches::default() },
        Event::Accepted { conn, .. }
        | Event::Dismissed { conn, .. }
        | Event::Refused { conn, .. }
        | Event::Cut { conn }
        | Event::Stalled { conn }
        | Event::Ended { conn, .. }
        | Event::Left { conn, .. }
        | Event::Subscribed { conn, .. }
        | Event::SubAcked { conn, .. }
        | Event::Unsubscribed { conn, .. }
        | Event::UnsubAcked { conn, .. }
        | Event::Took { conn, .. }
        | Event::Freed { conn, .. }
        | Event::Unfit { conn, .. } => of(conn),
        Event::Folded { .. }
        | Event::Imaged { .. }
        | Event::Copied { .. }
        | Event::Damaged { .. }
        | Event::AtRest
        | Event::ToldToStop
        | Event::Oldest { .. }
        | Event::Needless { .. }
        | Event::Waits { .. } => Touches::default(),
    }
}

#[cfg(test)]
mod tests {
    use zzq_codec::AckKind;
    use zzq_types::ReasonCode;

    use super::*;

    /// A history that the ledger has no place for: of a message that nobody has.
    fn unfit() -> Outcome {
        let mut history = History::default();
        let (conn, message) = (Conn(0), MessageId(9));
        let (kind, reason) = (AckKind::PubAck, ReasonCode::Success);
        history.note(1, Event::Answered { conn, message, kind, reason });
        Outcome { history, coverage: Coverage::default(), starts: vec![0], steps: 1 }
    }

    #[test]
    fn an_oracle_that_panics_is_the_verdict_of_its_seed() {
        let verdict = judge(7, unfit(), None);
        assert_eq!((verdict.seed, verdict.broken[0].promise), (7, INVARIANTS));
        assert!(verdict.broken[0].what.contains("index out of bounds"), "{verdict:?}");
    }

    #[test]
    fn a_run_that_panics_shows_what_happened_before() {
        let verdict = judge(7, unfit(), Some("durable is a prefix".into()));
        assert_eq!(verdict.broken.len(), 1);
        assert_eq!(verdict.broken[0].what, "durable is a prefix");
        assert!(verdict.events[0].contains("Answered"), "{verdict:?}");
        assert_ne!(verdict.hash, History::default().hash());
    }
}
