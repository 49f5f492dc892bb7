//! A few threads that read ahead for all readers of one log.
//!
//! Owns: the threads, started when the first job comes and ended with the log. Each reader has one
//! job here at most. Does not know: what a job reads.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// One read.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Ends its threads when it is dropped.
#[derive(Debug)]
pub(crate) struct ReadPool {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    most: usize,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    idle: usize,
    ended: bool,
}

impl ReadPool {
    /// At most so many threads; without any nothing is read ahead.
    pub(crate) fn new(most: usize) -> Self {
        Self { shared: Arc::default(), threads: Mutex::default(), most }
    }

    /// Lets a thread do the job soon; gives it back if there is none.
    pub(crate) fn submit(&self, job: Job) -> Result<(), Job> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if self.shared.queue().idle == 0
            && threads.len() < self.most
            && let Ok(thread) = self.spawn()
        {
            threads.push(thread);
        }
        if threads.is_empty() {
            return Err(job);
        }
        self.shared.queue().jobs.push_back(job);
        self.shared.wake.notify_one();
        Ok(())
    }

    fn spawn(&self) -> std::io::Result<JoinHandle<()>> {
        let shared = Arc::clone(&self.shared);
        Builder::new().name("zzq-read".to_owned()).spawn(move || {
            while let Some(job) = shared.next_job() {
                // It is reported where it happens; whoever waits for it sees that it is gone. The
                // thread is counted as one that does jobs, and goes on with them.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
        })
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_job(&self) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            if queue.ended {
                return None;
            }
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            queue.idle += 1;
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }
}

impl Drop for ReadPool {
    fn drop(&mut self) {
        self.shared.queue().ended = true;
        self.shared.wake.notify_all();
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "a job's panic ends in the job");
        }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Queue").field("jobs", &self.jobs.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn jobs_are_done_by_no_more_threads_than_allowed() {
        let pool = ReadPool::new(2);
        let (done, results) = channel();
        for n in 0..50 {
            let done = done.clone();
            let job = move || done.send((n, std::thread::current().id())).unwrap();
            assert!(pool.submit(Box::new(job)).is_ok());
        }
        drop(done);
        let mut results: Vec<_> = (0..50).map(|_| results.recv().unwrap()).collect();
        results.sort_by_key(|(n, _)| *n);
        assert!(results.iter().map(|(n, _)| *n).eq(0..50));
        let threads: std::collections::HashSet<_> = results.iter().map(|(_, id)| *id).collect();
        assert!(threads.len() <= 2 && !threads.contains(&std::thread::current().id()));
    }

    #[test]
    fn a_job_that_panics_takes_no_thread_with_it() {
        let pool = ReadPool::new(1);
        let (done, results) = channel();
        let silent = AssertUnwindSafe(done.clone());
        let job = move || {
            let _gone_with_it = &silent;
            std::panic::resume_unwind(Box::new("an invariant"));
        };
        assert!(pool.submit(Box::new(job)).is_ok());
        assert!(pool.submit(Box::new(move || done.send(7).unwrap())).is_ok());
        assert_eq!(results.recv(), Ok(7));
        assert!(results.recv().is_err());
    }

    #[test]
    fn without_threads_the_job_comes_back() {
        assert!(ReadPool::new(0).submit(Box::new(|| unreachable!("nobody does it"))).is_err());
    }
}
