//! A short way to write logs by hand and to read what they do.

use zzq_types::{
    Lsn, PacketId, Properties, PropertiesBuf, Property, QoS, SubscribeOptions, SubscriptionId,
};

use crate::decision::{Decision, DecisionBuf, SubscriptionIds};
use crate::effect::Effect;
use crate::invariant;
use crate::number::{QueueNumber, SessionNumber, SubNumber};
use crate::record::{
    Closing, Connect, Expire, ExpiredTopic, ExpiredTopicsBuf, LateDecision, LateItem, LateItemsBuf,
    NumberRange, Orphan, Publish, RangeSetsBuf, Receipt, Record, Release, SessionDown, SessionEnd,
    Start, Subscribe, SubscribeItem, SubscribeItemsBuf, Unsubscribe, UnsubscribeItemsBuf,
    WillMessage, WillSet,
};
use crate::session::{NEVER, Session};
use crate::shard::Shard;
use crate::state::State;
use crate::testing::{session, topic};

pub(super) const Q0: QoS = QoS::AtMostOnce;
pub(super) const Q1: QoS = QoS::AtLeastOnce;
pub(super) const Q2: QoS = QoS::ExactlyOnce;

/// A state and how far it is. Each call applies one record and gives its effects as text:
/// `s1` a session, `q1` a queue number, `@1` a record, `f1` a subscription.
pub(super) struct Fold {
    pub(super) state: State,
    pub(super) lsn: Lsn,
    pub(super) time_ms: u64,
    is_logged: bool,
}

/// A message to be published, plain until told otherwise.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    pub(super) from: Option<(u64, Option<u16>)>,
    pub(super) will_of: Option<u64>,
    pub(super) qos: QoS,
    pub(super) retain: bool,
    pub(super) topic: &'a str,
    pub(super) expiry_s: Option<u32>,
    pub(super) payload: &'a [u8],
}

pub(super) const MESSAGE: Message<'static> = Message {
    from: None,
    will_of: None,
    qos: Q2,
    retain: false,
    topic: "t",
    expiry_s: None,
    payload: b"x",
};

pub(super) fn will(delay_s: u32) -> WillMessage<'static> {
    WillMessage {
        topic: topic("w"),
        qos: Q1,
        retain: false,
        delay_s,
        properties: Properties::EMPTY,
        payload: b"gone",
    }
}

impl Fold {
    pub(super) fn new() -> Self {
        Self { state: State::new(Shard::WHOLE), lsn: Lsn::ZERO, time_ms: 0, is_logged: true }
    }

    pub(super) fn apply(&mut self, record: &Record<'_>) -> Vec<String> {
        let mut effects = Vec::new();
        let mut note = |effect: Effect<'_>| effects.push(describe(&effect));
        if self.is_logged {
            self.lsn = self.lsn.next();
            self.state.apply(self.lsn, self.time_ms, record, &mut note);
        } else {
            self.state.apply_unlogged(self.lsn, self.time_ms, record, &mut note);
        }
        assert_eq!(invariant::check(&self.state), Ok(()));
        effects
    }

    pub(super) fn session(&self, n: u64) -> &Session {
        self.state.session(session(n)).expect("the session is there")
    }

    /// The open numbers of a session's queue.
    pub(super) fn queue(&self, n: u64) -> Vec<u64> {
        self.session(n).queue().iter().map(|waiting| waiting.number.get()).collect()
    }

    /// Opens or resumes a session that never expires, with a window of 10.
    pub(super) fn connect(&mut self, n: u64, client: &str) -> Vec<String> {
        self.connect_with(n, client, NEVER, None)
    }

    pub(super) fn connect_with(
        &mut self,
        n: u64,
        client: &str,
        expiry_s: u32,
        will: Option<WillMessage<'_>>,
    ) -> Vec<String> {
        let session = session(n);
        self.apply(&Record::Connect(Connect {
            session,
            client,
            expiry_s,
            window: 10,
            joins: None,
            will,
        }))
    }

    /// The log begins to hold a volatile session that is up.
    pub(super) fn join(&mut self, n: u64, client: &str, last: u64) -> Vec<String> {
        let (session, joins) = (session(n), Some(QueueNumber::new(last)));
        let expiry_s = 0;
        self.apply(&Record::Connect(Connect {
            session,
            client,
            expiry_s,
            window: 10,
            joins,
            will: None,
        }))
    }

    /// What is done is not in the log and takes no place there.
    pub(super) fn unlogged(&mut self, todo: impl FnOnce(&mut Self)) {
        self.is_logged = false;
        todo(self);
        self.is_logged = true;
    }

    pub(super) fn down(&mut self, n: u64, sent: u64) -> Vec<String> {
        self.down_with(n, sent, false, None)
    }

    pub(super) fn down_with(
        &mut self,
        n: u64,
        sent: u64,
        drop_will: bool,
        expiry_s: Option<u32>,
    ) -> Vec<String> {
        let (session, sent) = (session(n), QueueNumber::new(sent));
        self.apply(&Record::SessionDown(SessionDown { session, sent, drop_will, expiry_s }))
    }

    pub(super) fn end(&mut self, n: u64) -> Vec<String> {
        self.apply(&Record::SessionEnd(SessionEnd { session: session(n), forget: false }))
    }

    pub(super) fn forget(&mut self, n: u64) -> Vec<String> {
        self.apply(&Record::SessionEnd(SessionEnd { session: session(n), forget: true }))
    }

    pub(super) fn start(&mut self, jump: bool) -> Vec<String> {
        self.apply(&Record::Start(Start { jump }))
    }

    pub(super) fn will_set(&mut self, n: u64, will: Option<WillMessage<'_>>) -> Vec<String> {
        self.apply(&Record::WillSet(WillSet { session: session(n), will }))
    }

    pub(super) fn release(&mut self, n: u64, id: u16) -> Vec<String> {
        let id = PacketId::new(id).unwrap();
        self.apply(&Record::Release(Release { session: session(n), id }))
    }

    pub(super) fn subscribe(&mut self, n: u64, number: u32, filter: &str) -> Vec<String> {
        let mut items = SubscribeItemsBuf::new();
        items.push(&SubscribeItem {
            number: SubNumber::new(number),
            filter,
            options: SubscribeOptions::with_qos(Q2),
            id: SubscriptionId::new(number),
            replay: None,
        });
        let items = items.as_list();
        self.apply(&Record::Subscribe(Subscribe { session: session(n), items }))
    }

    pub(super) fn unsubscribe(&mut self, n: u64, filter: &str) -> Vec<String> {
        let mut filters = UnsubscribeItemsBuf::new();
        filters.push(&filter);
        let filters = filters.as_list();
        self.apply(&Record::Unsubscribe(Unsubscribe { session: session(n), filters }))
    }

    /// Publishes to plain destinations.
    pub(super) fn publish(&mut self, message: &Message<'_>, to: &[(u64, QoS)]) -> Vec<String> {
        let mut decision = DecisionBuf::new();
        for &(n, qos) in to {
            decision.push_plain(session(n), qos, false);
        }
        self.publish_decided(message, decision.as_decision())
    }

    /// Publishes at QoS 1 or 2 to one member of a group.
    pub(super) fn publish_picked(&mut self, n: u64, qos: QoS, pick: u32) -> Vec<String> {
        let mut decision = DecisionBuf::new();
        decision.push(session(n), qos, false, Some(SubNumber::new(pick)), []);
        self.publish_decided(&MESSAGE, decision.as_decision())
    }

    pub(super) fn publish_decided(
        &mut self,
        message: &Message<'_>,
        decision: Decision<'_>,
    ) -> Vec<String> {
        let mut properties = PropertiesBuf::new();
        if let Some(expiry_s) = message.expiry_s {
            properties.push(Property::MessageExpiry(expiry_s)).unwrap();
        }
        self.apply(&Record::Publish(Publish {
            publisher: message.from.map(|(n, _)| session(n)),
            inbound: message.from.and_then(|(_, id)| PacketId::new(id?)),
            will_of: message.will_of.map(session),
            qos: message.qos,
            retain: message.retain,
            decision,
            topic: topic(message.topic),
            properties: properties.as_properties(),
            payload: message.payload,
        }))
    }

    /// Gives an orphan on, or brings an older message.
    pub(super) fn late(
        &mut self,
        n: u64,
        lsn: u64,
        pick: Option<u32>,
        orphan: Option<(u64, u64)>,
    ) -> Vec<String> {
        let mut items = LateItemsBuf::new();
        items.push(&LateItem {
            lsn: Lsn::new(lsn),
            qos: Q1,
            retain: false,
            size: 2,
            expires_ms: None,
            pick: pick.map(SubNumber::new),
            orphan: orphan.map(|(ended, number)| Orphan {
                session: session(ended),
                number: QueueNumber::new(number),
            }),
            ids: SubscriptionIds::NONE,
        });
        let items = items.as_list();
        self.apply(&Record::LateDecision(LateDecision { session: session(n), items }))
    }

    pub(super) fn receipt(
        &mut self,
        n: u64,
        closing: Closing,
        first: u64,
        last: u64,
    ) -> Vec<String> {
        let mut sets = RangeSetsBuf::new();
        sets.push_ranges(session(n), closing, [range(first, last)]);
        let sets = sets.as_list();
        self.apply(&match closing {
            Closing::Taken | Closing::Closed => Record::Receipt(Receipt { sets }),
            Closing::Expired | Closing::Dropped => {
                let topics = ExpiredTopicsBuf::new();
                return self.apply(&Record::Expire(Expire { sets, topics: topics.as_list() }));
            }
        })
    }

    pub(super) fn expire_topic(&mut self, text: &str, lsn: u64) -> Vec<String> {
        let sets = RangeSetsBuf::new();
        let mut topics = ExpiredTopicsBuf::new();
        topics.push(&ExpiredTopic { topic: topic(text), lsn: Lsn::new(lsn) });
        let (sets, topics) = (sets.as_list(), topics.as_list());
        self.apply(&Record::Expire(Expire { sets, topics }))
    }
}

pub(super) fn range(first: u64, last: u64) -> NumberRange {
    NumberRange { first: QueueNumber::new(first), last: QueueNumber::new(last) }
}

fn describe(effect: &Effect<'_>) -> String {
    let ids = |ids: SubscriptionIds<'_>| ids.into_iter().map(SubscriptionId::get).count();
    let named = |session: SessionNumber, what: &str| format!("{what} {session}");
    match *effect {
        Effect::Queued { session, number, lsn, qos, late } => {
            let late = if late { " late" } else { "" };
            format!("queued {session} {number} {lsn} qos {}{late}", qos.bits())
        }
        Effect::Deliver0 { session, lsn, retain, placed, ids: list, .. } => {
            let placed = if placed { " placed" } else { "" };
            format!("deliver {session} {lsn} retain {retain}{placed} ids {}", ids(list))
        }
        Effect::Released { lsn } => format!("released {lsn}"),
        Effect::SessionOpened { session, client } => format!("opened {session} {client}"),
        Effect::SessionResumed { session } => named(session, "resumed"),
        Effect::SessionDown { session } => named(session, "down"),
        Effect::SessionEnded { session, client } => format!("ended {session} {client}"),
        Effect::Subscribed { session, number, filter, new, .. } => {
            format!("{} {session} {number} {filter}", if new { "subscribed" } else { "replaced" })
        }
        Effect::Unsubscribed { session, number, filter } => {
            format!("unsubscribed {session} {number} {filter}")
        }
        Effect::RetainedSet { topic, lsn } => format!("retained {topic} {lsn}"),
        Effect::RetainedRemoved { topic } => format!("unretained {topic}"),
        Effect::WillHeld { session, lsn } => format!("will {session} {lsn}"),
        Effect::WillDue { session, lsn, due_ms } => format!("will due {session} {lsn} {due_ms}"),
        Effect::Orphaned { session, number, lsn } => format!("orphaned {session} {number} {lsn}"),
        Effect::OrphansReady { session } => named(session, "orphans"),
    }
}
