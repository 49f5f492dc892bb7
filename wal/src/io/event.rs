//! Wake-ups: an eventfd that a completed write makes readable.
//!
//! Owns: making, signalling, waiting for and draining eventfds. Does not know: who waits, or why.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::retry_on_intr;

/// A new eventfd, not signalled, fit for [`Write::notify`](crate::disk::Write::notify) and for
/// an epoll set. It never blocks.
pub fn create() -> io::Result<Arc<OwnedFd>> {
    let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
    Ok(Arc::new(eventfd(0, flags)?))
}

/// Takes all signals that have arrived; returns how many there were.
pub fn drain(event: &OwnedFd) -> u64 {
    let mut count = [0; 8];
    match rustix::io::read(event, &mut count) {
        Ok(8) => u64::from_ne_bytes(count),
        // Nothing there (EAGAIN): the only thing that a read of a live eventfd can report.
        _ => 0,
    }
}

/// Waits until there is a signal; `false` when `timeout` passed first. Takes no signal.
pub fn wait(event: &OwnedFd, timeout: Duration) -> io::Result<bool> {
    wait_until(event, Some(timeout))
}

/// [`wait`], for ever without a timeout.
pub(crate) fn wait_until(event: &OwnedFd, timeout: Option<Duration>) -> io::Result<bool> {
    let timeout = timeout.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
    let mut fds = [PollFd::from_borrowed_fd(event.as_fd(), PollFlags::IN)];
    let ready = retry_on_intr(|| poll(&mut fds, timeout.as_ref()))?;
    Ok(ready == 1)
}

/// Makes `event` readable, as the kernel does for a write that it completes itself.
pub(crate) fn signal(event: &OwnedFd) {
    // Fails only when the counter is at its maximum, and then it is readable already.
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_add_up_until_drained() {
        let event = create().unwrap();
        assert_eq!(drain(&event), 0);
        assert!(!wait(&event, Duration::ZERO).unwrap());
        signal(&event);
        signal(&event);
        assert!(wait(&event, Duration::ZERO).unwrap());
        assert_eq!(drain(&event), 2);
        assert_eq!(drain(&event), 0);
    }
}
