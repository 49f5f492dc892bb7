//! What the file system is told to do at which step, and what it has seen.
//!
//! Owns: orders, shared between who gives them and the server. Does not know: files.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};

use super::step::{Op, Step};

/// When in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Nothing of it is done.
    Before,
    /// Half of its bytes are written, if it writes.
    Within,
    /// All of it is done, and the process does not learn of it.
    After,
}

/// An order to kill.
#[derive(Clone, Copy, Debug)]
pub struct Kill {
    /// At this step.
    pub step: Step,
    /// The so-manieth time, from 1.
    pub nth: u64,
    /// When in it.
    pub moment: Moment,
}

/// How much of a step that fails is done all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// Half of its bytes.
    Half,
    /// All, and it is reported as failed.
    All,
}

/// An order to fail.
#[derive(Clone, Debug)]
pub struct Fault {
    /// These operations.
    pub ops: Vec<Op>,
    /// So many pass before it.
    pub passing: u64,
    /// So many fail; the next ones do not.
    pub failing: u64,
    /// With this error.
    pub error: Errno,
    /// How.
    pub effect: Effect,
}

/// What a step meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Met {
    pub(super) kill: Option<Moment>,
    pub(super) fail: Option<(Errno, Effect)>,
}

/// See the file.
#[derive(Debug, Default)]
pub struct Control {
    orders: Mutex<Orders>,
    has_victim: Condvar,
}

#[derive(Debug, Default)]
struct Orders {
    seen: BTreeMap<Step, u64>,
    kill: Option<Kill>,
    victim: Option<Pid>,
    fault: Option<Fault>,
    is_full: bool,
    /// When operations have failed.
    failed: Vec<Instant>,
}

/// Between an order and the process that it is about.
const PATIENCE: Duration = Duration::from_secs(20);

impl Control {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills at a step. The process is named [by itself](Self::set_victim), also later: the step
    /// waits for that.
    pub fn arm(&self, kill: Kill) {
        let mut orders = self.orders();
        orders.victim = None;
        orders.kill = Some(kill);
    }

    /// Whom to kill.
    pub fn set_victim(&self, victim: Pid) {
        self.orders().victim = Some(victim);
        self.has_victim.notify_all();
    }

    /// Takes the order back. Returns whether it was carried out.
    pub fn disarm(&self) -> bool {
        self.orders().kill.take().is_none()
    }

    /// Whether the order still stands.
    pub fn is_armed(&self) -> bool {
        self.orders().kill.is_some()
    }

    /// Fails at operations.
    pub fn fail(&self, fault: Fault) {
        self.orders().fault = Some(fault);
    }

    /// There is no space any more, or there is again.
    pub fn set_full(&self, is_full: bool) {
        self.orders().is_full = is_full;
    }

    /// Whether an operation has failed since all was well.
    pub fn has_failed(&self) -> bool {
        !self.orders().failed.is_empty()
    }

    /// All is well from now on. Returns when operations have failed.
    pub fn heal(&self) -> Vec<Instant> {
        let mut orders = self.orders();
        orders.fault = None;
        orders.is_full = false;
        std::mem::take(&mut orders.failed)
    }

    /// The steps that were taken since this was asked last.
    pub fn take_seen(&self) -> BTreeMap<Step, u64> {
        std::mem::take(&mut self.orders().seen)
    }

    pub(super) fn is_full(&self) -> bool {
        self.orders().is_full
    }

    /// What this step meets.
    pub(super) fn meet(&self, step: Step) -> Met {
        let mut orders = self.orders();
        *orders.seen.entry(step).or_default() += 1;
        let met = Met { kill: orders.kill_at(step), fail: orders.fault_at(step.op) };
        orders.failed.extend(met.fail.map(|_| Instant::now()));
        met
    }

    /// Kills, once it is known whom.
    pub(super) fn strike(&self) {
        let orders = self.orders();
        let waited =
            self.has_victim.wait_timeout_while(orders, PATIENCE, |orders| orders.victim.is_none());
        let (orders, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if let Some(victim) = orders.victim {
            // It may have ended by itself.
            let _ = kill_process(victim, Signal::KILL);
        }
    }
}

impl Orders {
    fn kill_at(&mut self, step: Step) -> Option<Moment> {
        let kill = self.kill.as_mut().filter(|kill| kill.step == step)?;
        kill.nth -= u64::from(kill.nth > 0);
        if kill.nth > 0 {
            return None;
        }
        self.kill.take().map(|kill| kill.moment)
    }

    fn fault_at(&mut self, op: Op) -> Option<(Errno, Effect)> {
        if self.is_full && matches!(op, Op::Create | Op::Allocate) {
            return Some((Errno::NOSPC, Effect::Nothing));
        }
        let fault = self.fault.as_mut().filter(|fault| fault.ops.contains(&op))?;
        if fault.passing > 0 {
            fault.passing -= 1;
            return None;
        }
        if fault.failing == 0 {
            return None;
        }
        fault.failing -= 1;
        Some((fault.error, fault.effect))
    }
}

#[cfg(test)]
mod tests {
    use super::super::step::Kind;
    use super::*;

    const WRITE: Step = Step { op: Op::Write, file: Kind::Segment };
    const CREATE: Step = Step { op: Op::Create, file: Kind::Spare };

    #[test]
    fn the_order_is_for_one_step_and_one_time() {
        let control = Control::default();
        control.arm(Kill { step: WRITE, nth: 2, moment: Moment::Within });
        let met = [CREATE, WRITE, CREATE, WRITE, WRITE].map(|step| control.meet(step).kill);
        assert_eq!(met, [None, None, None, Some(Moment::Within), None]);
        assert!(control.disarm(), "it was carried out");
        control.arm(Kill { step: CREATE, nth: 1, moment: Moment::After });
        assert!(!control.disarm());
        assert_eq!(control.meet(CREATE).kill, None);
        assert_eq!(control.take_seen(), BTreeMap::from([(WRITE, 3), (CREATE, 3)]));
    }

    #[test]
    fn faults_come_late_and_go_away() {
        let control = Control::default();
        let ops = vec![Op::Write];
        let error = Errno::NOSPC;
        control.fail(Fault { ops, passing: 1, failing: 2, error, effect: Effect::Half });
        assert!(!control.has_failed());
        let met = [(); 4].map(|()| control.meet(WRITE).fail);
        let failed = Some((error, Effect::Half));
        assert_eq!(met, [None, failed, failed, None]);
        assert!(control.has_failed());
        control.set_full(true);
        assert_eq!(control.meet(CREATE).fail, Some((Errno::NOSPC, Effect::Nothing)));
        assert_eq!(control.meet(WRITE).fail, None);
        assert_eq!(control.heal().len(), 3);
        assert_eq!(control.meet(CREATE), Met::default());
    }
}
