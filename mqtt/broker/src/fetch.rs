//! Messages that left memory are read back from the log, or from cold files, by a thread of its
//! own: lanes read no files.
//!
//! Assumes: what a lane asks for is still referred to, so it is there.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use zzq_engine::Record;
use zzq_lanes::{ConnId, LaneWaker};
use zzq_types::Lsn;
use zzq_wal::disk::Disk;

use crate::images::Past;
use crate::shell::{Content, Message};

/// What a lane asks for, on behalf of a connection.
#[derive(Debug)]
struct Request {
    conn: ConnId,
    lsns: Vec<Lsn>,
    inbox: Arc<Inbox>,
}

/// What comes of it.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) conn: ConnId,
    /// In the order of the log; the reading ended at the first that could not be read.
    pub(crate) messages: Vec<(Lsn, Message)>,
    pub(crate) error: Option<String>,
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
    requests: Sender<Request>,
    inbox: Arc<Inbox>,
}

/// Gives seats to lanes.
#[derive(Clone, Debug)]
pub(crate) struct Fetcher(Sender<Request>);

/// Where requests are served.
#[derive(Debug)]
pub(crate) struct Library<D: Disk> {
    past: Past<D>,
    requests: Receiver<Request>,
}

/// The two ends of reading back.
pub(crate) fn library<D: Disk>(past: Past<D>) -> (Fetcher, Library<D>) {
    let (sender, requests) = channel();
    (Fetcher(sender), Library { past, requests })
}

impl<D: Disk> Library<D> {
    /// Serves on a thread that ends when all seats are gone.
    pub(crate) fn spawn(self) -> io::Result<()> {
        let run = move || {
            while let Ok(request) = self.requests.recv() {
                self.serve(request);
            }
        };
        thread::Builder::new().name("zzq-reader".into()).spawn(run).map(|_| ())
    }

    /// Serves one request; false if there is none.
    pub(crate) fn step(&self) -> bool {
        self.requests.try_recv().map(|request| self.serve(request)).is_ok()
    }

    fn serve(&self, request: Request) {
        let Request { conn, lsns, inbox } = request;
        let mut messages = Vec::with_capacity(lsns.len());
        let error = read_all(&self.past, &lsns, &mut messages).err();
        let fetched = Fetched { conn, messages, error };
        inbox.fetched.lock().unwrap_or_else(PoisonError::into_inner).push(fetched);
        inbox.waker.wake();
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
        let request = Request { conn, lsns, inbox: Arc::clone(&self.inbox) };
        let sent = self.requests.send(request);
        assert!(sent.is_ok(), "the reader thread lives as long as its seats");
    }

    /// What has come since the last call.
    pub(crate) fn take(&self) -> Vec<Fetched> {
        std::mem::take(&mut *self.inbox.fetched.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn read_all<D: Disk>(
    past: &Past<D>,
    lsns: &[Lsn],
    messages: &mut Vec<(Lsn, Message)>,
) -> Result<(), String> {
    past.read(lsns, |lsn, time_ms, record| {
        let Record::Publish(publish) = record else {
            return Err(format!("record {lsn} holds no message"));
        };
        messages.push((lsn, Message::copy(Content::of(publish, time_ms))));
        Ok(())
    })
}
