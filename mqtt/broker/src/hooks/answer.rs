//! Answers of hooks: at once, or later.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

/// What a hook answers.
pub enum Answer<T> {
    /// This. It costs a call.
    Now(T),
    /// What comes of this future. Who has asked waits for it, up to
    /// [`Hooks::answer_within`](crate::hooks::Hooks::answer_within); the future is dropped if
    /// nobody waits any more. One that panics is no answer.
    Later(Pin<Box<dyn Future<Output = T> + Send>>),
}

impl<T> Answer<T> {
    /// The outcome of a future.
    pub fn later(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self::Later(Box::pin(future))
    }
}

impl<T: fmt::Debug> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(answer) => f.debug_tuple("Now").field(answer).finish(),
            Self::Later(_) => f.write_str("Later"),
        }
    }
}

/// All of several answers, in their order; what comes later is waited for side by side.
pub(crate) fn all_of<T: Send + Unpin + 'static>(answers: Vec<Answer<T>>) -> Answer<Vec<T>> {
    if answers.iter().all(|answer| matches!(answer, Answer::Now(_))) {
        let now = answers.into_iter().filter_map(|answer| match answer {
            Answer::Now(answer) => Some(answer),
            Answer::Later(_) => None,
        });
        return Answer::Now(now.collect());
    }
    let mut answers = answers;
    Answer::later(async move {
        poll_fn(|context| {
            let mut waits = false;
            for one in &mut answers {
                if let Answer::Later(future) = one {
                    match future.as_mut().poll(context) {
                        Poll::Ready(answer) => *one = Answer::Now(answer),
                        Poll::Pending => waits = true,
                    }
                }
            }
            if waits { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        let done = answers.into_iter().filter_map(|answer| match answer {
            Answer::Now(answer) => Some(answer),
            Answer::Later(_) => None,
        });
        done.collect()
    })
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn answers_at_once_make_no_future() {
        let Answer::Now(all) = all_of(vec![Answer::Now(1), Answer::Now(2)]) else {
            panic!("a future");
        };
        assert_eq!(all, [1, 2]);
    }

    #[test]
    fn later_answers_keep_their_places_whichever_comes_first() {
        let (one, first) = oneshot::channel();
        let (two, second) = oneshot::channel();
        let wait =
            |receiver: oneshot::Receiver<i32>| Answer::later(async { receiver.await.unwrap() });
        let all = all_of(vec![wait(first), Answer::Now(5), wait(second)]);
        let Answer::Later(mut future) = all else { panic!("at once") };
        let mut context = Context::from_waker(Waker::noop());
        two.send(6).unwrap();
        assert!(future.as_mut().poll(&mut context).is_pending());
        one.send(4).unwrap();
        assert_eq!(future.as_mut().poll(&mut context), Poll::Ready(vec![4, 5, 6]));
    }
}
