//! Messages that go from lane to lane past the log, one by one or a run of them.
//!
//! Owns: what is sent of them, how much of it is under way to each lane, and the memory of it,
//! which comes back: a lane keeps a hand on what it has sent, and writes the next message where all
//! others have let go.
//! Does not know: rings, receivers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zzq_codec::Run;
use zzq_engine::Decision;
use zzq_lanes::{LaneIndex, Millis};
use zzq_types::{Lsn, ProtocolVersion, QoS};

use super::live::Made;
use super::message::Head;
use super::run::Numbers;
use super::wire::Content;

/// So many are kept to be written again; what is under way beyond them is simply freed.
const KEPT_MOST: usize = 256;

/// Memory of longer ones is not kept.
const LENGTH_MOST: usize = 8192;

/// So many of those that are kept are looked at for one that nobody else has: a lane that stalls
/// holds what it was sent for long, while others have let go.
const TRIES: usize = 2;

/// What was not used for so long is the allocator's again.
const KEPT_FOR: Duration = Duration::from_secs(1);

/// A message that goes from lane to lane, or a run of them.
#[derive(Debug)]
pub(crate) struct Direct {
    what: What,
    decision_len: usize,
    /// The decision, then the message, or the packets of the run.
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Message(Manner, Head),
    Run(ProtocolVersion, Numbers),
}

/// How a message goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) number: Number,
    pub(super) qos: QoS,
    pub(super) retain: bool,
}

/// What another lane has sent.
#[derive(Debug)]
pub(super) enum Sent<'a> {
    Message(Manner, Content<'a>),
    /// As its publisher wrote it, in this version.
    Run(ProtocolVersion, Numbers, &'a [u8]),
}

/// What names a message that goes from lane to lane.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    /// It is in no log: its number on all lanes.
    Own(Lsn),
    /// Its record, which retains it.
    Record(Made),
}

impl Direct {
    fn empty() -> Self {
        let (number, qos) = (Number::Own(Lsn::ZERO), QoS::AtMostOnce);
        let what = What::Message(Manner { number, qos, retain: false }, Head::default());
        Self { what, decision_len: 0, bytes: Vec::new() }
    }

    /// Memory that it takes until all have let go of it.
    pub(super) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity()
    }

    /// Where it goes.
    pub(super) fn decision(&self) -> Decision<'_> {
        let decision = Decision::parse(&self.bytes[..self.decision_len]);
        assert!(decision.is_ok(), "a decision that a lane made: {decision:?}");
        decision.unwrap_or(Decision::NOBODY)
    }

    /// What is sent.
    pub(super) fn sent(&self) -> Sent<'_> {
        let bytes = &self.bytes[self.decision_len..];
        match self.what {
            What::Message(manner, head) => Sent::Message(manner, head.content(bytes)),
            What::Run(version, numbers) => Sent::Run(version, numbers, bytes),
        }
    }
}

/// What lanes have taken of what each other lane has sent them. Each counts for itself, so a count
/// is behind at most.
#[derive(Debug)]
pub(crate) struct Arrivals {
    lanes: usize,
    /// By sender and receiver.
    counts: Vec<Count>,
}

/// One lane writes it for each message, and another one reads it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Count(AtomicU64);

impl Arrivals {
    pub(crate) fn new(lanes: u16) -> Self {
        let lanes = usize::from(lanes);
        Self { lanes, counts: (0..lanes * lanes).map(|_| Count::default()).collect() }
    }

    /// `to` has taken one more.
    pub(super) fn add(&self, from: LaneIndex, to: LaneIndex) {
        let count = self.of(from, to);
        // Nobody else writes it.
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn get(&self, from: LaneIndex, to: LaneIndex) -> u64 {
        self.of(from, to).load(Ordering::Relaxed)
    }

    fn of(&self, from: LaneIndex, to: LaneIndex) -> &AtomicU64 {
        &self.counts[from.index() * self.lanes + to.index()].0
    }
}

/// What a lane has sent.
#[derive(Debug)]
pub(super) struct Directs {
    lane: LaneIndex,
    /// How many, to each lane.
    sent: Vec<u64>,
    /// Memory of them, about the oldest first.
    kept: VecDeque<Arc<Direct>>,
    /// How many were made since it was looked at last.
    made: usize,
    /// When it is looked at next.
    due: Option<Millis>,
    #[cfg(test)]
    pub(super) seen: Seen,
}

/// What tests want to have seen.
#[cfg(test)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) runs: usize,
    /// Found too many under way.
    pub(super) refused: usize,
}

impl Directs {
    pub(super) fn new(lane: LaneIndex, lanes: u16) -> Self {
        Self {
            lane,
            sent: vec![0; usize::from(lanes)],
            kept: VecDeque::new(),
            made: 0,
            due: None,
            #[cfg(test)]
            seen: Seen::default(),
        }
    }

    /// A message to be sent.
    pub(super) fn message(
        &mut self,
        manner: Manner,
        decision: Decision<'_>,
        content: Content<'_>,
    ) -> Arc<Direct> {
        self.make(decision, |out| What::Message(manner, Head::write(content, out)))
    }

    /// A run to be sent.
    pub(super) fn run(
        &mut self,
        decision: Decision<'_>,
        (run, numbers): (Run<'_>, Numbers),
    ) -> Arc<Direct> {
        #[cfg(test)]
        (self.seen.runs += 1);
        let version = if run.is_v5() { ProtocolVersion::V5 } else { ProtocolVersion::V311 };
        self.make(decision, |out| {
            out.extend_from_slice(run.as_bytes());
            What::Run(version, numbers)
        })
    }

    /// One goes to this lane.
    pub(super) fn sent_to(&mut self, lane: LaneIndex) {
        self.sent[lane.index()] += 1;
    }

    /// Whether fewer than so many are under way to each of these lanes.
    pub(super) fn are_fewer_than(&mut self, most: u64, lanes: u64, arrivals: &Arrivals) -> bool {
        let has_room = |(lane, &sent): (u16, &u64)| {
            let arrived = arrivals.get(self.lane, LaneIndex(lane));
            assert!(arrived <= sent, "{arrived} of {sent} have arrived");
            lanes & 1 << lane == 0 || sent - arrived < most
        };
        let are_fewer = (0..).zip(&self.sent).all(has_room);
        #[cfg(test)]
        (self.seen.refused += usize::from(!are_fewer));
        are_fewer
    }

    /// Frees memory that a while without use shows to be needless.
    pub(super) fn give_back(&mut self, now: Millis) {
        if self.due.is_some_and(|due| now < due) {
            return;
        }
        if self.due.is_some() {
            while self.kept.len() > self.made {
                self.kept.pop_front();
            }
        }
        self.made = 0;
        self.due = (!self.kept.is_empty()).then(|| now + KEPT_FOR);
    }

    /// When [`Directs::give_back`] is due.
    pub(super) const fn next(&self) -> Option<Millis> {
        self.due
    }

    fn make(
        &mut self,
        decision: Decision<'_>,
        write: impl FnOnce(&mut Vec<u8>) -> What,
    ) -> Arc<Direct> {
        let mut direct = self.take_back().unwrap_or_else(|| Arc::new(Direct::empty()));
        let Some(it) = Arc::get_mut(&mut direct) else { unreachable!("nobody else has it") };
        it.bytes.clear();
        it.bytes.extend_from_slice(decision.as_bytes());
        it.decision_len = it.bytes.len();
        it.what = write(&mut it.bytes);
        self.made += 1;
        if it.bytes.capacity() <= LENGTH_MOST {
            if self.kept.len() == KEPT_MOST {
                // It has been under way for longest.
                self.kept.pop_front();
            }
            self.kept.push_back(Arc::clone(&direct));
        }
        direct
    }

    /// One that all others have let go of.
    fn take_back(&mut self) -> Option<Arc<Direct>> {
        for _ in 0..TRIES.min(self.kept.len()) {
            let mut oldest = self.kept.pop_front()?;
            if Arc::get_mut(&mut oldest).is_some() {
                return Some(oldest);
            }
            self.kept.push_back(oldest);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use zzq_engine::{DecisionBuf, SessionNumber};
    use zzq_types::{Properties, TopicName};

    use super::*;

    fn make(directs: &mut Directs, payload: &[u8]) -> Arc<Direct> {
        let mut decision = DecisionBuf::new();
        decision.push_plain(SessionNumber::new(7).unwrap(), QoS::AtLeastOnce, false);
        let topic = TopicName::new("a/b").unwrap();
        let properties = Properties::EMPTY;
        let content =
            Content { topic, properties, payload, expires_ms: Some(3), time_ms: 9, place: None };
        let (number, qos) = (Number::Own(Lsn::new(5)), QoS::AtLeastOnce);
        let manner = Manner { number, qos, retain: false };
        directs.message(manner, decision.as_decision(), content)
    }

    fn content(direct: &Direct) -> Content<'_> {
        match direct.sent() {
            Sent::Message(_, content) => content,
            Sent::Run(..) => panic!("{direct:?}"),
        }
    }

    const OWN: LaneIndex = LaneIndex(0);

    fn directs() -> Directs {
        Directs::new(OWN, 3)
    }

    #[test]
    fn a_message_gives_back_what_it_was_made_of() {
        let mut directs = directs();
        drop(make(&mut directs, b"a longer one before"));
        let direct = make(&mut directs, b"p");
        let content = content(&direct);
        assert_eq!((content.topic.as_str(), content.payload), ("a/b", &b"p"[..]));
        assert_eq!((content.expires_ms, content.time_ms), (Some(3), 9));
        let to: Vec<u64> = direct.decision().iter().map(|to| to.session.get()).collect();
        assert_eq!(to, [7]);
    }

    #[test]
    fn memory_is_used_again_when_all_have_let_go() {
        let mut directs = directs();
        let first = make(&mut directs, b"1");
        let (also, place) = (Arc::clone(&first), Arc::as_ptr(&first));
        let second = make(&mut directs, b"2");
        assert_ne!(Arc::as_ptr(&second), place);
        drop(first);
        assert_ne!(Arc::as_ptr(&make(&mut directs, b"3")), place, "one holds it still");
        drop(also);
        assert_eq!(Arc::as_ptr(&make(&mut directs, b"4")), place);
        assert_eq!(content(&second).payload, b"2");
    }

    #[test]
    fn who_holds_one_for_long_holds_up_no_other() {
        let mut directs = directs();
        let held = make(&mut directs, b"held");
        let place = Arc::as_ptr(&make(&mut directs, b"1"));
        for _ in 0..2 * KEPT_MOST {
            assert_eq!(Arc::as_ptr(&make(&mut directs, b"2")), place);
        }
        assert_eq!((content(&held).payload, directs.kept.len()), (&b"held"[..], 2));
        let _held: Vec<_> = (0..2 * KEPT_MOST).map(|_| make(&mut directs, b"held")).collect();
        let place = Arc::as_ptr(&make(&mut directs, b"1"));
        let again = |_| Arc::as_ptr(&make(&mut directs, b"2")) == place;
        assert!((0..2 * KEPT_MOST).any(again), "all that are kept are held");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut directs = directs();
        drop(make(&mut directs, &[0; LENGTH_MOST]));
        assert!(directs.kept.is_empty(), "long ones are not kept");
        let under_way: Vec<_> = (0..2 * KEPT_MOST).map(|_| make(&mut directs, b"x")).collect();
        assert_eq!(directs.kept.len(), KEPT_MOST);
        drop(under_way);
        for _ in 0..2 * KEPT_MOST {
            make(&mut directs, b"x");
        }
        assert_eq!(directs.kept.len(), KEPT_MOST);
    }

    #[test]
    fn what_nobody_uses_is_given_back() {
        let (mut directs, mut now) = (directs(), Millis(5));
        let mut pass = |directs: &mut Directs| {
            now = now + KEPT_FOR;
            directs.give_back(now);
            (directs.kept.len(), directs.next().is_some())
        };
        assert_eq!(pass(&mut directs), (0, false), "nobody is woken for nothing");
        drop((0..9).map(|_| make(&mut directs, b"x")).collect::<Vec<_>>());
        assert_eq!(pass(&mut directs), (9, true), "it is noticed");
        for _ in 0..2 {
            make(&mut directs, b"x");
        }
        assert_eq!(pass(&mut directs), (2, true), "so many were used");
        assert_eq!(pass(&mut directs), (0, false));
    }

    /// A lane whose next turn is due since long never rests.
    #[test]
    fn a_time_that_has_come_is_not_due_for_ever() {
        let (mut directs, now) = (directs(), Millis(5));
        drop(make(&mut directs, b"x"));
        directs.give_back(now);
        assert_eq!(directs.next(), Some(now + KEPT_FOR));
        // What was kept is used for a long one, which is not kept.
        drop(make(&mut directs, &[0; LENGTH_MOST]));
        assert!(directs.kept.is_empty());
        directs.give_back(now + KEPT_FOR);
        assert_eq!(directs.next(), None);
    }

    /// What is kept to be used again says nothing of that: long ones are not kept, and one lane
    /// lets go of them sooner than another.
    #[test]
    fn what_is_under_way_is_counted_for_each_lane() {
        let (mut directs, arrivals) = (directs(), Arrivals::new(3));
        let (quick, slow) = (LaneIndex(1), LaneIndex(2));
        for _ in 0..3 {
            directs.sent_to(quick);
            directs.sent_to(slow);
            arrivals.add(OWN, quick);
        }
        assert!(directs.are_fewer_than(1, 0b010, &arrivals));
        assert!(!directs.are_fewer_than(3, 0b100, &arrivals));
        assert!(!directs.are_fewer_than(3, 0b110, &arrivals));
        arrivals.add(quick, slow);
        assert!(!directs.are_fewer_than(3, 0b100, &arrivals), "that was from another");
        arrivals.add(OWN, slow);
        assert!(directs.are_fewer_than(3, 0b110, &arrivals));
    }
}
