//! Questions whose answers come later: a future on some runtime, and the lane that is woken for it.
//!
//! Assumes: who has asked keeps the [`Asked`]. Dropped, it takes the question back, so no more
//! questions are open than a few for each connection.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread;

use tokio::sync::{mpsc, oneshot};
use zzq_lanes::{ConnId, LaneWaker};

/// What is run for a question: it never panics for its own part, and ends when its future does.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Runs a [`Task`] somewhere, at once or later. It must not block.
pub type Spawn = Arc<dyn Fn(Task) + Send + Sync>;

/// An open question.
#[derive(Debug)]
pub(crate) struct Asked<T>(oneshot::Receiver<T>);

/// There will be no answer: its future was dropped, or it has panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer;

/// A lane's way to ask.
pub(crate) struct AskSeat {
    spawn: Spawn,
    inbox: Arc<Inbox>,
}

/// Where a lane finds which connections have an answer.
#[derive(Debug)]
struct Inbox {
    answered: Mutex<Vec<ConnId>>,
    waker: LaneWaker,
}

/// Tells the lane, whatever becomes of the future.
struct Reply<T> {
    sender: Option<oneshot::Sender<T>>,
    inbox: Arc<Inbox>,
    conn: ConnId,
}

impl AskSeat {
    /// For the lane that `waker` wakes.
    pub(crate) fn new(spawn: Spawn, waker: LaneWaker) -> Self {
        Self { spawn, inbox: Arc::new(Inbox { answered: Mutex::default(), waker }) }
    }

    /// Asks on behalf of a connection.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        conn: ConnId,
        mut future: Pin<Box<dyn Future<Output = T> + Send>>,
    ) -> Asked<T> {
        let (sender, asked) = oneshot::channel();
        let mut reply = Reply { sender: Some(sender), inbox: Arc::clone(&self.inbox), conn };
        (self.spawn)(Box::pin(async move {
            let answer = poll_fn(|context| {
                let Some(sender) = &mut reply.sender else { return Poll::Ready(None) };
                if sender.poll_closed(context).is_ready() {
                    return Poll::Ready(None);
                }
                future.as_mut().poll(context).map(Some)
            });
            if let Some(answer) = answer.await {
                reply.give(answer);
            }
        }));
        Asked(asked)
    }

    /// Who has an answer since the last call.
    pub(crate) fn take(&self) -> Vec<ConnId> {
        std::mem::take(&mut *self.inbox.answered.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Asked<T> {
    /// A question that nobody answers.
    pub(crate) fn void() -> Self {
        Self(oneshot::channel().1)
    }

    /// The answer, if it is there.
    pub(crate) fn poll(&mut self) -> Result<Option<T>, NoAnswer> {
        match self.0.try_recv() {
            Ok(answer) => Ok(Some(answer)),
            Err(oneshot::error::TryRecvError::Empty) => Ok(None),
            Err(oneshot::error::TryRecvError::Closed) => Err(NoAnswer),
        }
    }
}

impl<T> Reply<T> {
    fn give(&mut self, answer: T) {
        if let Some(sender) = self.sender.take() {
            // Nobody waits for it if it was taken back.
            let _ = sender.send(answer);
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        // What the lane finds must be there before it looks.
        self.sender = None;
        self.inbox.answered.lock().unwrap_or_else(PoisonError::into_inner).push(self.conn);
        self.inbox.waker.wake();
    }
}

impl std::fmt::Debug for AskSeat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AskSeat").field("inbox", &self.inbox).finish_non_exhaustive()
    }
}

/// A thread that runs tasks, until nobody can bring any more.
pub(crate) fn thread_runtime() -> io::Result<Spawn> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (sender, mut tasks) = mpsc::unbounded_channel::<Task>();
    let run = move || {
        runtime.block_on(async {
            while let Some(task) = tasks.recv().await {
                tokio::spawn(task);
            }
        });
    };
    thread::Builder::new().name("zzq-hooks".into()).spawn(run)?;
    Ok(Arc::new(move |task| {
        // A thread that has ended runs nothing: its questions are without an answer.
        let _ = sender.send(task);
    }))
}
