//! Messages that go from lane to lane past the log, one by one or a run of them.
//!
//! Owns: what is sent of them, and the memory of it, which comes back: a lane keeps a hand on
//! what it has sent, and writes the next message where all others have let go.
//! Does not know: rings, receivers.

use std::collections::VecDeque;
use std::sync::Arc;

use zzq_codec::Run;
use zzq_engine::Decision;
use zzq_types::{Lsn, ProtocolVersion, QoS};

use super::live::Made;
use super::message::Head;
use super::run::Numbers;
use super::wire::Content;

/// So many are kept to be written again; what is under way beyond them is simply freed.
pub(super) const PIECES_MOST: usize = 256;

/// Memory of longer ones is not kept.
const LENGTH_MOST: usize = 8192;

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

/// What a lane has sent, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Directs(VecDeque<Arc<Direct>>);

impl Directs {
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
        let version = if run.is_v5() { ProtocolVersion::V5 } else { ProtocolVersion::V311 };
        self.make(decision, |out| {
            out.extend_from_slice(run.as_bytes());
            What::Run(version, numbers)
        })
    }

    /// Whether fewer than so many, at most [`PIECES_MOST`], are under way. Others let go of them in
    /// their order.
    pub(super) fn are_fewer_than(&mut self, most: usize) -> bool {
        let Some(at) = self.0.len().checked_sub(most) else { return true };
        self.0.get_mut(at).is_some_and(|it| Arc::get_mut(it).is_some())
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
        if it.bytes.capacity() <= LENGTH_MOST && self.0.len() < PIECES_MOST {
            self.0.push_back(Arc::clone(&direct));
        }
        direct
    }

    /// The oldest, if all others have let go of it.
    fn take_back(&mut self) -> Option<Arc<Direct>> {
        Arc::get_mut(self.0.front_mut()?)?;
        self.0.pop_front()
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

    #[test]
    fn a_message_gives_back_what_it_was_made_of() {
        let mut directs = Directs::default();
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
        let mut directs = Directs::default();
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
    fn what_is_kept_is_bounded() {
        let mut directs = Directs::default();
        drop(make(&mut directs, &[0; LENGTH_MOST]));
        assert!(directs.0.is_empty(), "long ones are not kept");
        let under_way: Vec<_> = (0..2 * PIECES_MOST).map(|_| make(&mut directs, b"x")).collect();
        assert_eq!(directs.0.len(), PIECES_MOST);
        assert!(!directs.are_fewer_than(PIECES_MOST));
        drop(under_way);
        assert!(directs.are_fewer_than(1));
        for _ in 0..2 * PIECES_MOST {
            make(&mut directs, b"x");
        }
        assert_eq!(directs.0.len(), PIECES_MOST);
    }
}
