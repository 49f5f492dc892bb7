//! What happens to clients, as a stream for an application.
//!
//! Assumes: lanes never wait for who reads it. A stream that is full loses what comes, and says how
//! much that was.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;
use zzq_types::{QoS, ReasonCode};

use super::{Client, Peer};

/// Something that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A client is connected: its CONNACK is on its way.
    Connected {
        /// Who.
        client: Arc<Client>,
    },
    /// A CONNECT was refused.
    Refused {
        /// Where it came from.
        peer: Peer,
        /// What it calls itself.
        client_id: Box<str>,
        /// In the words of MQTT 5.
        reason: ReasonCode,
    },
    /// A client that was connected is not any more.
    Disconnected {
        /// Who.
        client: Arc<Client>,
        /// Of the DISCONNECT that either side has sent, or would have in MQTT 5; `None`: there was
        /// none.
        reason: Option<ReasonCode>,
        /// In words.
        why: Box<str>,
    },
    /// A subscription was granted.
    Subscribed {
        /// To whom.
        client: Arc<Client>,
        /// As it was sent.
        filter: Box<str>,
        /// As it was granted.
        qos: QoS,
    },
    /// A subscription was given up.
    Unsubscribed {
        /// By whom.
        client: Arc<Client>,
        /// As it was sent.
        filter: Box<str>,
    },
    /// The authoriser has denied something. What a client may not receive is [`Event::Dropped`].
    Denied {
        /// To whom.
        client: Arc<Client>,
        /// What.
        right: Right,
        /// The topic, or the filter as it was sent.
        topic: Box<str>,
    },
    /// Messages were dropped since the last such event, on one lane.
    Dropped {
        /// Why.
        why: Dropped,
        /// How many.
        count: u64,
    },
}

/// What an authoriser decides about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the rights by their names")]
pub enum Right {
    Publish,
    Subscribe,
    /// To subscribe with a start in the past, which takes [`Right::Subscribe`] as well.
    Replay,
}

/// Why messages were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dropped {
    /// At QoS 0: the receiver's output was full.
    SlowReceiver,
    /// It exceeds what the receiver takes.
    TooLarge,
    /// It had expired.
    Expired,
    /// A queue was full.
    QueueFull,
    /// It waited in a session that ended because its queue was full.
    SessionEnded,
    /// The receiver may not have it.
    Denied,
}

impl Dropped {
    /// Its name among the `$SYS` topics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::SlowReceiver => "slow-receiver",
            Self::TooLarge => "too-large",
            Self::Expired => "expired",
            Self::QueueFull => "queue-full",
            Self::SessionEnded => "session-ended",
            Self::Denied => "denied",
        }
    }
}

/// The broker's end.
#[derive(Clone)]
pub struct EventSink {
    sender: mpsc::Sender<Event>,
    lost: Arc<AtomicU64>,
}

/// The application's end.
pub struct EventStream {
    receiver: mpsc::Receiver<Event>,
    lost: Arc<AtomicU64>,
}

/// A stream that holds so many events that were not read yet.
pub fn events(capacity: NonZeroUsize) -> (EventSink, EventStream) {
    let (sender, receiver) = mpsc::channel(capacity.get());
    let lost = Arc::new(AtomicU64::new(0));
    (EventSink { sender, lost: Arc::clone(&lost) }, EventStream { receiver, lost })
}

impl EventSink {
    /// Never waits. False: it was lost, or nobody reads.
    pub(crate) fn tell(&self, event: Event) -> bool {
        let told = self.sender.try_send(event).is_ok();
        if !told {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        told
    }
}

impl EventStream {
    /// The next one; `None`: the broker is gone.
    pub async fn next(&mut self) -> Option<Event> {
        self.receiver.recv().await
    }

    /// [`EventStream::next`] for callers without a runtime.
    pub fn next_blocking(&mut self) -> Option<Event> {
        self.receiver.blocking_recv()
    }

    /// How many were lost so far because this stream was full.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for EventSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSink").field("lost", &self.lost).finish_non_exhaustive()
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").field("lost", &self.lost).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_stream_loses_what_comes_and_counts_it() {
        let (sink, mut stream) = events(NonZeroUsize::MIN);
        let dropped = |count| Event::Dropped { why: Dropped::Expired, count };
        assert!(sink.tell(dropped(1)));
        assert!(!sink.tell(dropped(2)) && !sink.tell(dropped(3)));
        assert_eq!(stream.lost(), 2);
        assert!(matches!(stream.next_blocking(), Some(Event::Dropped { count: 1, .. })));
        assert!(sink.tell(dropped(4)));
        drop(sink);
        assert!(matches!(stream.next_blocking(), Some(Event::Dropped { count: 4, .. })));
        assert!(stream.next_blocking().is_none());
    }
}
