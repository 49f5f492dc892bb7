//! Somebody who decides what clients may do: at once, late, or never.
//!
//! Owns: the rules, which topics tell, so that oracles know them too; the answers under way.
//! Assumes: what takes its time is asked again by nobody but the broker, so no chance is shared
//! with anything else.

use std::fmt;
use std::future::{pending, ready};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use zzq_broker::Hooks;
use zzq_broker::hooks::{
    Answer, Authenticator, Authoriser, Client, Exchange, Identity, Login, Permit, Publishing,
    Receiving, Refusal, Step, Subscribing, Task, Verdict,
};

use crate::chance::Chance;
use crate::clock::SimClock;

/// Nobody may publish or subscribe here.
pub const FORBIDDEN: &str = "no/1";
/// Everybody may publish here, and nobody is sent it.
pub const HIDDEN: &str = "hidden/1";
/// A filter that is denied.
pub const DENIED_FILTER: &str = "no/#";

/// How long the broker waits for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// The longest that one takes.
const LATE_MS: u64 = 1500;

/// What a seed's guard is like.
#[derive(Clone, Copy, Debug)]
pub struct GuardPlan {
    /// Once in so many questions the answer is late.
    pub late: u64,
    /// Once in so many of these there is none. Only MQTT 5 is told so, so only they get none.
    pub silent: u64,
}

/// See the file.
#[derive(Clone)]
pub struct Guard {
    plan: GuardPlan,
    chance: Arc<Mutex<Chance>>,
    /// There are more questions about deliveries than about anything else. `None`: these have all
    /// their answers at once.
    deliveries: Option<Arc<Mutex<Chance>>>,
    /// It has an answer to everything.
    calm: Arc<AtomicBool>,
    under_way: Arc<Mutex<Vec<(u64, Task)>>>,
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// It was answered, or nobody waits for it any more.
    Answer,
    /// It stays open.
    Nothing,
}

/// Whether a client's message is denied.
pub fn denies_publish(topic: &str) -> bool {
    topic == FORBIDDEN
}

/// Whether nobody is sent such a message.
pub fn denies_all(topic: &str) -> bool {
    topic == FORBIDDEN || topic == HIDDEN
}

impl Guard {
    /// Of a seed.
    pub fn new(plan: GuardPlan, seed: u64) -> Self {
        let mut deliveries = Chance::new(seed, "guard's answers about deliveries");
        Self {
            plan,
            chance: Arc::new(Mutex::new(Chance::new(seed, "guard's answers"))),
            deliveries: deliveries.once_in(3).then(|| Arc::new(Mutex::new(deliveries))),
            calm: Arc::default(),
            under_way: Arc::default(),
        }
    }

    /// What the broker is given.
    pub fn hooks(&self, clock: SimClock) -> Hooks {
        let (under_way, chance) = (Arc::clone(&self.under_way), Arc::clone(&self.chance));
        let spawn = move |task| {
            let late = lock(&chance).within(0, LATE_MS);
            lock(&under_way).push((clock.now() + late, task));
        };
        Hooks {
            authenticator: Some(Arc::new(self.clone())),
            authoriser: Some(Arc::new(self.clone())),
            answer_within: ANSWER_WITHIN,
            spawn: Some(Arc::new(spawn)),
            ..Hooks::default()
        }
    }

    /// From now on every question has an answer.
    pub fn calm(&self) {
        self.calm.store(true, Ordering::Relaxed);
    }

    /// When the next answer is due.
    pub fn next_due(&self) -> Option<u64> {
        lock(&self.under_way).iter().map(|(due, _)| *due).min()
    }

    /// Looks after a question that is due, if there is one.
    pub fn give(&self, now: u64) -> Option<Given> {
        let mut under_way = lock(&self.under_way);
        let at = under_way.iter().position(|(due, _)| *due <= now)?;
        let (_, mut task) = under_way.remove(at);
        // Answering wakes lanes, which ask for nothing here.
        if task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            under_way.push((now + 100, task));
            return Some(Given::Nothing);
        }
        Some(Given::Answer)
    }

    /// The broker is gone, and who waited with it.
    pub fn forget(&self) {
        let gone = std::mem::take(&mut *lock(&self.under_way));
        drop(gone);
    }

    fn answer<T: Clone + Send + Sync + 'static>(&self, what: T, may_be_silent: bool) -> Answer<T> {
        let mut chance = lock(&self.chance);
        if !chance.once_in(self.plan.late) {
            return Answer::Now(what);
        }
        let is_silent = may_be_silent && chance.once_in(self.plan.silent);
        if is_silent && !self.calm.load(Ordering::Relaxed) {
            return Answer::later(pending());
        }
        Answer::later(ready(what))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Authenticator for Guard {
    fn authenticate(&self, login: &Login<'_>) -> Answer<Verdict> {
        let known = !login.client_id.is_empty();
        let refused = Verdict::Refuse(Refusal::BadUserNameOrPassword);
        let verdict = if known { Verdict::Admit(Identity::default()) } else { refused };
        self.answer(verdict, true)
    }

    fn exchange(&self, method: &str, _: &Login<'_>) -> Option<Box<dyn Exchange>> {
        (method == METHOD).then(|| Box::new(self.clone()) as Box<dyn Exchange>)
    }
}

/// The method of clients that authenticate by one, and what they answer to its challenge.
pub const METHOD: &str = "twice";
/// See [`METHOD`].
pub const WORD: &[u8] = b"yes";

/// It asks once more.
impl Exchange for Guard {
    fn step(self: Box<Self>, data: Option<&[u8]>) -> Answer<Step> {
        let this = (*self).clone();
        if data == Some(WORD) {
            let admit = || Step::Admit { identity: Identity::default(), data: b"good".into() };
            return match this.answer((), true) {
                Answer::Now(()) => admit().into(),
                Answer::Later(late) => Answer::later(async move {
                    late.await;
                    admit()
                }),
            };
        }
        let challenge = || Step::Challenge { data: b"really?".into(), next: self };
        match this.answer((), true) {
            Answer::Now(()) => challenge().into(),
            Answer::Later(late) => {
                let challenge = challenge();
                Answer::later(async move {
                    late.await;
                    challenge
                })
            }
        }
    }
}

impl Authoriser for Guard {
    fn publish(&self, client: &Arc<Client>, publish: &Publishing<'_>) -> Answer<Permit> {
        let denied = denies_publish(publish.topic);
        let permit = if denied { Permit::Deny } else { Permit::Allow };
        self.answer(permit, client.version.is_v5())
    }

    fn subscribe(&self, client: &Arc<Client>, subscribe: &Subscribing<'_>) -> Answer<Permit> {
        let denied = subscribe.filter == DENIED_FILTER;
        let permit = if denied { Permit::Deny } else { Permit::Allow };
        self.answer(permit, client.version.is_v5())
    }

    fn replay(&self, _: &Arc<Client>, _: &Subscribing<'_>) -> Answer<Permit> {
        Answer::Now(Permit::Allow)
    }

    fn receive(&self, _: &Arc<Client>, message: &Receiving<'_>) -> Answer<bool> {
        let may = !denies_all(message.topic);
        // Each delivery is asked for, and who reads all that there is has to come to an end.
        match &self.deliveries {
            Some(deliveries)
                if !self.calm.load(Ordering::Relaxed)
                    && lock(deliveries).once_in(4 * self.plan.late) =>
            {
                Answer::later(ready(may))
            }
            _ => Answer::Now(may),
        }
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("plan", &self.plan).finish_non_exhaustive()
    }
}
