//! The outcome of something a lane was asked to do: await it in any runtime, or block for it.
//!
//! Assumes: one side keeps the promise, or drops it, which keeps it with what was agreed for that
//! case; so nobody waits for ever on a lane that has stopped.
use std::{
    pin::Pin,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// What comes of a request.
#[derive(Debug)]
pub struct Completion<T>(Arc<Shared<T>>);

/// The other side of a [`Completion`].
#[derive(Debug)]
pub(crate) struct Promise<T> {
    shared: Arc<Shared<T>>,
    if_dropped: Option<T>,
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    kept: Condvar,
}

#[derive(Debug)]
struct State<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

/// A promise that is worth `if_dropped` when nobody keeps it.
pub(crate) fn promise<T>(if_dropped: T) -> (Promise<T>, Completion<T>) {
    let state = Mutex::new(State { value: None, waker: None });
    let shared = Arc::new(Shared { state, kept: Condvar::new() });
    (Promise { shared: Arc::clone(&shared), if_dropped: Some(if_dropped) }, Completion(shared))
}

impl<T> Promise<T> {
    pub(crate) fn keep(mut self, value: T) {
        self.if_dropped = Some(value);
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.value = self.if_dropped.take();
        let waker = state.waker.take();
        drop(state);
        self.shared.kept.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Completion<T> {
    /// One that is there already.
    pub(crate) fn ready(value: T) -> Self {
        promise(value).1
    }

    /// Blocks until it is there. Not for use on a lane or in async code.
    pub fn wait(self) -> T {
        let mut state = self.0.lock();
        loop {
            if let Some(value) = state.value.take() {
                return value;
            }
            state = self.0.kept.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl<T> Future for Completion<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut state = self.0.lock();
        if let Some(value) = state.value.take() {
            return Poll::Ready(value);
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
    };

    use super::*;

    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_is_woken_when_the_promise_is_kept() {
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        let (promise, mut completion) = promise(0);
        let mut cx = Context::from_waker(&waker);
        assert_eq!(Pin::new(&mut completion).poll(&mut cx), Poll::Pending);
        promise.keep(7);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert_eq!(Pin::new(&mut completion).poll(&mut cx), Poll::Ready(7));
    }

    #[test]
    fn a_dropped_promise_is_worth_what_was_agreed() {
        let (promise, completion) = promise("stopped");
        let waits = std::thread::spawn(|| completion.wait());
        drop(promise);
        assert_eq!(waits.join().unwrap(), "stopped");
    }
}
