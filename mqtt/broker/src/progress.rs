//! How far a start is: a line on stderr now and then, and word to the service manager.
//!
//! Owns: what is told and when. A start that stands still is not said to go on, so that a service
//! manager ends one whose disk does not answer.
//! Does not know: what a start does.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::service;

/// How often there is word. A start that takes less is told at its end only.
const EVERY: Duration = Duration::from_secs(2);

/// So much longer than its limit a start may take from each word on.
const EXTENSION: Duration = Duration::from_secs(30);

/// The steps of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Images are looked at from the first byte to the last, and the newest becomes the state.
    Image,
    /// The log since is folded.
    Log,
    /// Subscriptions are indexed.
    Routing,
    /// The start becomes a record.
    Begin,
}

const NAMES: [&str; 4] =
    ["reading images", "replaying the log", "indexing subscriptions", "writing the start"];

/// Where a start notes how far it is. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<Marks>);

#[derive(Debug, Default)]
struct Marks {
    step: AtomicUsize,
    done: AtomicU64,
    all: AtomicU64,
}

impl Progress {
    /// A step begins.
    pub(crate) fn step(&self, step: Step) {
        self.0.step.store(step as usize, Ordering::Relaxed);
        self.0.done.store(0, Ordering::Relaxed);
        self.0.all.store(0, Ordering::Relaxed);
    }

    /// So many bytes more.
    pub(crate) fn add(&self, bytes: usize) {
        self.0.done.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// So many bytes of so many.
    pub(crate) fn set(&self, done: u64, all: u64) {
        self.0.done.store(done, Ordering::Relaxed);
        self.0.all.store(all, Ordering::Relaxed);
    }

    fn read(&self) -> (usize, u64, u64) {
        let read = |mark: &AtomicU64| mark.load(Ordering::Relaxed);
        (self.0.step.load(Ordering::Relaxed), read(&self.0.done), read(&self.0.all))
    }

    fn text(&self) -> String {
        const MIB: u64 = 1 << 20;
        let (step, done, all) = self.read();
        let name = NAMES.get(step).copied().unwrap_or_default();
        match (done / MIB, all / MIB) {
            (0, 0) => name.to_owned(),
            (done, 0) => format!("{name}: {done} MiB"),
            (done, all) => format!("{name}: {done} of {all} MiB"),
        }
    }
}

/// Tells of a start until it is dropped.
#[derive(Debug)]
pub(crate) struct Teller {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Teller {
    /// Begins, on a thread of its own: what it tells of may be one long call.
    pub(crate) fn spawn(progress: Progress) -> io::Result<Self> {
        let (end, ended) = channel::<()>();
        let run = move || {
            let began = Instant::now();
            let mut told = None;
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                let (now, text) = (progress.read(), progress.text());
                tracing::info!(seconds = began.elapsed().as_secs(), "starting: {text}");
                service::tell(&word(&text, told.replace(now) != Some(now)));
            }
        };
        let thread = thread::Builder::new().name("zzq-progress".into()).spawn(run)?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported where it happened.
            let _ = thread.join();
        }
    }
}

fn word(text: &str, goes_on: bool) -> String {
    let extension = EXTENSION.as_micros();
    let asks = if goes_on { format!("EXTEND_TIMEOUT_USEC={extension}\n") } else { String::new() };
    format!("{asks}STATUS=starting: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_the_step_and_its_bytes() {
        let progress = Progress::default();
        assert_eq!(progress.text(), "reading images");
        progress.add(3 << 20);
        assert_eq!(progress.text(), "reading images: 3 MiB");
        progress.step(Step::Log);
        progress.set(1 << 20, 5 << 20);
        assert_eq!(progress.text(), "replaying the log: 1 of 5 MiB");
        progress.step(Step::Begin);
        assert_eq!(progress.text(), "writing the start");
    }

    #[test]
    fn a_start_that_stands_still_asks_for_no_more_time() {
        assert_eq!(word("x", true), "EXTEND_TIMEOUT_USEC=30000000\nSTATUS=starting: x");
        assert_eq!(word("x", false), "STATUS=starting: x");
    }
}
