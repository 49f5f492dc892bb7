//! Messages that left memory are read back from the log, or from cold files, and queues that stayed
//! in an image, by threads of their own: lanes read no files.
//!
//! Assumes: what a lane asks for is still referred to, so it is there.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use zzq_engine::image::UntouchedReader;
use zzq_engine::session::Untouched;
use zzq_engine::{Record, SessionNumber};
use zzq_lanes::{ConnId, LaneWaker};
use zzq_types::Lsn;
use zzq_wal::disk::Disk;

use crate::images::{Past, Places};
use crate::shell::{Content, Message};

/// What a lane asks for.
#[derive(Debug)]
struct Request {
    what: Wanted,
    inbox: Arc<Inbox>,
}

#[derive(Debug)]
enum Wanted {
    /// The messages of these records, on behalf of a connection.
    Messages { conn: ConnId, lsns: Vec<Lsn> },
    /// What stayed of a queue in an image.
    Queue { session: SessionNumber, front: Untouched },
}

/// What comes of it.
#[derive(Debug)]
pub(crate) enum Fetched {
    /// Messages for a connection.
    Messages {
        conn: ConnId,
        /// In the order of the log; the reading ended at the first that could not be read.
        messages: Vec<(Lsn, Message)>,
        error: Option<String>,
    },
    /// A queue, to be given back to the state.
    Queue { session: SessionNumber, read: Result<UntouchedReader, String> },
}

/// Where a lane finds what was read for it.
#[derive(Debug)]
struct Inbox {
    fetched: Mutex<Vec<Fetched>>,
    waker: LaneWaker,
}

/// A lane's way to the reader thread.
#[derive(Debug)]
pub(crate) struct FetchSeat {
    /// One for each thread.
    requests: Vec<Sender<Request>>,
    inbox: Arc<Inbox>,
}

/// Gives seats to lanes.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher(Vec<Sender<Request>>);

/// Where requests are served.
pub(crate) struct Library<D: Disk>(Vec<Desk<D>>);

/// What one thread serves.
struct Desk<D: Disk> {
    past: Past<D>,
    requests: Receiver<Request>,
    places: Places<D>,
}

/// One that reads much does not hold up all others.
const THREADS: usize = 2;

/// A thread that has had nothing to do for so long keeps no place in the log.
const IDLE: Duration = Duration::from_secs(1);

/// The two ends of reading back.
pub(crate) fn library<D: Disk>(past: &Past<D>) -> (Fetcher, Library<D>) {
    let (senders, desks) = (0..THREADS)
        .map(|_| {
            let (sender, requests) = channel();
            (sender, Desk { past: past.clone(), requests, places: Places::default() })
        })
        .unzip();
    (Fetcher(senders), Library(desks))
}

impl<D: Disk> Library<D> {
    /// Serves on threads that end when all seats are gone.
    pub(crate) fn spawn(self) -> io::Result<()> {
        for desk in self.0 {
            thread::Builder::new().name("zzq-reader".into()).spawn(|| desk.run())?;
        }
        Ok(())
    }

    /// Serves one request; false if there is none.
    pub(crate) fn step(&mut self) -> bool {
        self.0.iter_mut().any(|desk| {
            let request = desk.requests.try_recv();
            request.map(|request| desk.serve(request)).is_ok()
        })
    }

    /// What its threads do that have had nothing to do for a while.
    pub(crate) fn rest(&mut self) {
        self.0.iter_mut().for_each(|desk| desk.places.clear());
    }
}

impl<D: Disk> Desk<D> {
    fn run(mut self) {
        loop {
            match self.requests.recv_timeout(IDLE) {
                Ok(request) => self.serve(request),
                Err(RecvTimeoutError::Timeout) => self.places.clear(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn serve(&mut self, Request { what, inbox }: Request) {
        let fetched = match what {
            Wanted::Messages { conn, lsns } => {
                let mut messages = Vec::with_capacity(lsns.len());
                let error = self.read_all(&lsns, &mut messages).err();
                Fetched::Messages { conn, messages, error }
            }
            Wanted::Queue { session, front } => {
                Fetched::Queue { session, read: self.past.read_untouched(session, front) }
            }
        };
        inbox.fetched.lock().unwrap_or_else(PoisonError::into_inner).push(fetched);
        inbox.waker.wake();
    }

    fn read_all(&mut self, lsns: &[Lsn], messages: &mut Vec<(Lsn, Message)>) -> Result<(), String> {
        self.past.read_with(&mut self.places, lsns, |lsn, time_ms, record| {
            let Record::Publish(publish) = record else {
                return Err(format!("record {lsn} holds no message"));
            };
            messages.push((lsn, Message::copy(Content::of(publish, time_ms))));
            Ok(())
        })
    }
}

impl Fetcher {
    /// A lane's seat.
    pub(crate) fn seat(&self, waker: LaneWaker) -> FetchSeat {
        let inbox = Arc::new(Inbox { fetched: Mutex::default(), waker });
        FetchSeat { requests: self.0.clone(), inbox }
    }
}

impl FetchSeat {
    /// Asks for the messages of these records.
    pub(crate) fn request(&self, conn: ConnId, mut lsns: Vec<Lsn>) {
        lsns.sort_unstable();
        // What one connection asks for goes on where its last request has ended.
        self.send(conn.index(), Wanted::Messages { conn, lsns });
    }

    /// Asks for what an image holds of a queue.
    pub(crate) fn request_queue(&self, session: SessionNumber, front: Untouched) {
        self.send(usize::try_from(session.get()).unwrap_or(0), Wanted::Queue { session, front });
    }

    fn send(&self, to: usize, what: Wanted) {
        let request = Request { what, inbox: Arc::clone(&self.inbox) };
        let sent = self.requests[to % self.requests.len()].send(request);
        assert!(sent.is_ok(), "the reader thread lives as long as its seats");
    }

    /// What has come since the last call.
    pub(crate) fn take(&self) -> Vec<Fetched> {
        std::mem::take(&mut *self.inbox.fetched.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
