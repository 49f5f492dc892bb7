//! Waking a lane from other threads and from the kernel: one system call for a burst of wakes,
//! none while the lane runs.
//!
//! Assumes: one lane sleeps on a waker; any number of threads wake it.
use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use rustix::{
    event::{EventfdFlags, eventfd},
    io::{Errno, retry_on_intr, write},
};

const RUNNING: u8 = 0;
const SLEEPING: u8 = 1;
const NOTIFIED: u8 = 2;

/// Wakes one lane. Cheap to clone, callable from any thread.
#[derive(Clone, Debug)]
pub struct LaneWaker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: AtomicU8,
    /// Absent under a driver that never blocks.
    signal: Option<OwnedFd>,
}

impl LaneWaker {
    /// A waker whose lane sleeps in the kernel.
    pub(crate) fn with_eventfd() -> std::io::Result<Self> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self(Arc::new(Inner { state: AtomicU8::new(RUNNING), signal: Some(fd) })))
    }

    /// A waker whose lane never sleeps: it is only remembered that it was woken.
    pub fn flag_only() -> Self {
        Self(Arc::new(Inner { state: AtomicU8::new(RUNNING), signal: None }))
    }

    /// The lane makes another turn, and what was written before this call is seen in it.
    pub fn wake(&self) {
        // Acquire and release on one location: either the lane's `doze` fails, or this sees it.
        if self.0.state.swap(NOTIFIED, Ordering::AcqRel) == SLEEPING {
            self.signal_kernel();
        }
    }

    /// The lane's eventfd: adding to its counter (as the completion of an AIO request does) wakes
    /// the lane too. It is never read, so do not use it as a semaphore.
    pub fn eventfd(&self) -> Option<BorrowedFd<'_>> {
        self.0.signal.as_ref().map(AsFd::as_fd)
    }

    fn signal_kernel(&self) {
        let Some(fd) = &self.0.signal else { return };
        let result = retry_on_intr(|| write(fd, &1u64.to_ne_bytes()));
        // EAGAIN: the counter is at its end after 2^64 wakes; the lane is signalled all the same.
        assert!(matches!(result, Ok(8) | Err(Errno::AGAIN)), "eventfd write: {result:?}");
    }

    /// Whether the lane was woken since the last call. It counts as running from here on.
    pub(crate) fn take(&self) -> bool {
        self.0.state.swap(RUNNING, Ordering::AcqRel) == NOTIFIED
    }

    /// Whether a wake waits to be taken.
    pub(crate) fn is_notified(&self) -> bool {
        self.0.state.load(Ordering::Acquire) == NOTIFIED
    }

    /// Before blocking. False: it was woken meanwhile and must not block.
    pub(crate) fn doze(&self) -> bool {
        self.0
            .state
            .compare_exchange(RUNNING, SLEEPING, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::read;

    use super::*;

    fn count(waker: &LaneWaker) -> u64 {
        let mut buf = [0; 8];
        match read(waker.eventfd().unwrap(), &mut buf) {
            Ok(_) => u64::from_ne_bytes(buf),
            Err(error) => {
                assert_eq!(error, Errno::AGAIN);
                0
            }
        }
    }

    #[test]
    fn a_burst_costs_a_sleeping_lane_one_signal() {
        let waker = LaneWaker::with_eventfd().unwrap();
        assert!(waker.doze());
        for _ in 0..5 {
            waker.wake();
        }
        assert_eq!(count(&waker), 1);
        assert!(waker.take());
        assert!(!waker.take());
    }

    #[test]
    fn a_running_lane_is_told_without_a_signal() {
        let waker = LaneWaker::with_eventfd().unwrap();
        waker.wake();
        assert_eq!(count(&waker), 0);
        assert!(!waker.doze(), "it must not sleep over a wake");
        assert!(waker.take());
        assert!(waker.doze());
    }
}
