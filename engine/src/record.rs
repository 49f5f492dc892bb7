//! The one list of record kinds and their one encoding (`doc/records.md` draws every byte).
//!
//! Owns: what may stand in the log. A kind's number and body are final: what needs another body
//! takes another number. The first record of every start names [`VERSION`].
//! Assumes: the log checks that bytes are as they were written; decoding still trusts none of them.

mod facts;
mod history;
mod list;
mod publish;
mod ranges;
mod session;
mod subscribe;
#[cfg(test)]
mod tests;

pub use facts::{Config, Feature, Identity, Membership, SnTopic};
pub use history::History;
pub use list::{List, ListBuf, ListIter, Listed};
pub use publish::{LateDecision, LateItem, LateItems, LateItemsBuf, Orphan, Publish};
pub use ranges::{
    Closing, Expire, ExpiredTopic, ExpiredTopics, ExpiredTopicsBuf, NumberRange, NumberRanges,
    RangeSet, RangeSets, RangeSetsBuf, Receipt,
};
pub use session::{Connect, Release, SessionDown, SessionEnd, Start, WillMessage, WillSet};
pub use subscribe::{
    Subscribe, SubscribeItem, SubscribeItems, SubscribeItemsBuf, Unsubscribe, UnsubscribeItems,
    UnsubscribeItemsBuf,
};
pub(crate) use subscribe::{put_replay, read_replay};

use crate::wire::{Reader, RecordError};

/// The version of the encoding that this build writes, and the only one so far.
pub const VERSION: u64 = 1;

/// A unit of meaning of the log, borrowed from its bytes or from the packet it was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A start of the broker, or of a leader.
    Start(Start),
    /// A client connects: the session is opened or resumed.
    Connect(Connect<'a>),
    /// A message with its decision.
    Publish(Publish<'a>),
    /// Messages of earlier records for a session's queue.
    LateDecision(LateDecision<'a>),
    /// PUBREL in: the identifier of a QoS 2 message is free.
    Release(Release),
    /// The connection of a session is gone.
    SessionDown(SessionDown),
    /// A session is over.
    SessionEnd(SessionEnd),
    /// Subscriptions of one SUBSCRIBE.
    Subscribe(Subscribe<'a>),
    /// Filters of one UNSUBSCRIBE.
    Unsubscribe(Unsubscribe<'a>),
    /// A will outside CONNECT.
    WillSet(WillSet<'a>),
    /// Destinations have taken messages.
    Receipt(Receipt<'a>),
    /// Messages are given up, retained ones among them.
    Expire(Expire<'a>),
    /// A setting of the whole.
    Config(Config<'a>),
    /// A topic that an MQTT-SN client registered.
    SnTopic(SnTopic<'a>),
    /// Who a client said it was.
    Identity(Identity<'a>),
    /// A node of the cluster.
    Membership(Membership<'a>),
    /// Something that later versions name.
    Feature(Feature<'a>),
    /// History for a subscription that starts in the past.
    History(History<'a>),
}

macro_rules! kinds {
    ($($number:literal $kind:ident),* $(,)?) => {
        impl<'a> Record<'a> {
            /// The number of this record's kind; 0 is never used.
            pub const fn kind(&self) -> u8 {
                match self {
                    $(Self::$kind(_) => $number,)*
                }
            }

            /// The name of a kind, for people.
            pub const fn kind_name(kind: u8) -> Option<&'static str> {
                match kind {
                    $($number => Some(stringify!($kind)),)*
                    _ => None,
                }
            }

            /// Appends the body.
            pub fn encode_body(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$kind(record) => record.write(out),)*
                }
            }

            /// Reads a body of this kind, all of it.
            pub fn decode(kind: u8, body: &'a [u8]) -> Result<Self, RecordError> {
                let mut reader = Reader::new(body);
                let record = match kind {
                    $($number => Self::$kind($kind::read(&mut reader)?),)*
                    _ => return Err(RecordError::Kind(kind)),
                };
                reader.end()?;
                Ok(record)
            }
        }
    };
}

kinds! {
    1 Start,
    2 Connect,
    3 Publish,
    4 LateDecision,
    5 Release,
    6 SessionDown,
    7 SessionEnd,
    8 Subscribe,
    9 Unsubscribe,
    10 WillSet,
    11 Receipt,
    12 Expire,
    13 Config,
    14 SnTopic,
    15 Identity,
    16 Membership,
    17 Feature,
    18 History,
}

impl<'a> Record<'a> {
    /// The messages of earlier records that enter a queue with this one.
    pub const fn late_items(&self) -> Option<LateItems<'a>> {
        match self {
            Self::LateDecision(late) => Some(late.items),
            Self::History(history) => Some(history.items),
            _ => None,
        }
    }
}
