//! History for subscriptions that start in the past: a thread reads the log for them, a bounded
//! stretch at a time, each in its turn.
//!
//! Owns: the words in which a subscription asks ([`ask`]), what of the log matches ([`turn`]),
//! where the messages of each topic lie ([`topics`]), and what is held of the log meanwhile.
//! Does not know: sessions, queues, what is live.

mod archive;
pub(crate) mod ask;
mod holds;
pub(crate) mod standing;
#[cfg(test)]
mod tests;
mod topics;
mod turn;

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use zzq_engine::{SessionNumber, SubNumber};
use zzq_lanes::LaneWaker;
use zzq_types::{Lsn, QoS};
use zzq_wal::Log;
use zzq_wal::disk::Disk;

pub(crate) use self::archive::Archive;
pub(crate) use self::holds::{Hold, Holds};
use crate::shell::Message;

/// What a lane asks for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) session: SessionNumber,
    pub(crate) sub: SubNumber,
    /// Given back with the answer.
    pub(crate) ticket: u64,
    pub(crate) from: Lsn,
    pub(crate) since_ms: u64,
    pub(crate) filter: Box<str>,
    /// The subscription's.
    pub(crate) qos: QoS,
    pub(crate) retain_as_published: bool,
    /// Messages at most.
    pub(crate) most: usize,
    /// What those at QoS 1 and 2 may weigh together, as a queue counts it; a first one may be
    /// heavier if it is to be `alone`, so that history goes on.
    pub(crate) most_bytes: u64,
    pub(crate) alone: bool,
    /// Bytes of messages in memory; the last one may come on top.
    pub(crate) most_memory: usize,
    /// What has expired by then is passed over.
    pub(crate) now_ms: u64,
}

/// A message of the past.
#[derive(Clone, Debug)]
pub(crate) struct PastMessage {
    pub(crate) lsn: Lsn,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) size: u32,
    pub(crate) expires_ms: Option<u64>,
    pub(crate) message: Message,
}

/// What comes of it: the matching messages of a stretch of the log.
#[derive(Debug)]
pub(crate) struct Stretch {
    pub(crate) session: SessionNumber,
    pub(crate) sub: SubNumber,
    pub(crate) ticket: u64,
    /// All at QoS 0, or none: these go different ways.
    pub(crate) messages: Vec<PastMessage>,
    /// What they take in memory.
    pub(crate) bytes: usize,
    /// The first record behind the stretch.
    pub(crate) next: Lsn,
    /// Nothing that is committed lies behind it.
    pub(crate) is_end: bool,
    /// It is empty: the first message is too heavy for what else is in the queue.
    pub(crate) has_no_room: bool,
    /// Where the log begins, if that is behind what was asked for.
    pub(crate) begins: Option<Lsn>,
    /// Keeps what was read in the log.
    pub(crate) hold: Hold,
    pub(crate) error: Option<String>,
}

#[derive(Debug)]
struct Request {
    wanted: Wanted,
    inbox: Arc<Inbox>,
}

#[derive(Debug)]
struct Inbox {
    stretches: Mutex<Vec<Stretch>>,
    waker: LaneWaker,
}

/// A lane's way to the thread.
#[derive(Debug)]
pub(crate) struct ReplaySeat {
    requests: Sender<Request>,
    inbox: Arc<Inbox>,
}

/// Gives seats to lanes.
#[derive(Clone, Debug)]
pub(crate) struct Replayer(Sender<Request>);

/// The two ends of reading history.
pub(crate) fn archive<D: Disk>(log: Log<D>, holds: Arc<Holds>) -> (Replayer, Archive<D>) {
    let (sender, requests) = channel();
    let archive = Archive::new(log, holds, requests);
    (Replayer(sender), archive)
}

impl PastMessage {
    /// What it adds to the queue.
    fn weight(&self) -> u64 {
        let is_queued = self.qos != QoS::AtMostOnce;
        if is_queued { u64::from(self.size).next_multiple_of(16) } else { 0 }
    }
}

impl Replayer {
    /// A lane's seat.
    pub(crate) fn seat(&self, waker: LaneWaker) -> ReplaySeat {
        let inbox = Arc::new(Inbox { stretches: Mutex::default(), waker });
        ReplaySeat { requests: self.0.clone(), inbox }
    }
}

impl ReplaySeat {
    /// Asks for a stretch.
    pub(crate) fn request(&self, wanted: Wanted) {
        let sent = self.requests.send(Request { wanted, inbox: Arc::clone(&self.inbox) });
        assert!(sent.is_ok(), "the thread lives as long as its seats");
    }

    /// What has come since the last call.
    pub(crate) fn take(&self) -> Vec<Stretch> {
        std::mem::take(&mut *self.inbox.stretches.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
