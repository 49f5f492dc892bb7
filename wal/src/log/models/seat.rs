//! The thread that drives a log, and those who call it: it never sleeps over what is there for it.
//!
//! Loom tells who sleeps for ever.

use std::sync::Arc;

use loom::sync::Notify;
use loom::thread;

use super::{Ring, needs};
use crate::log::core::Stall;
use crate::log::driver::Seat;
use crate::log::lead::Leadership;
use crate::sync::Between;

/// A log with a driver, whose eventfd is a notice that stays until it is seen.
struct Driven {
    leadership: Leadership<()>,
    staged: Ring,
    tail: Ring,
    seat: Seat,
    event: Notify,
}

impl Driven {
    fn new(in_tail: u64) -> Arc<Self> {
        Arc::new(Self {
            leadership: Leadership::new(()),
            staged: Ring::new(2, 0),
            tail: Ring::new(1, in_tail),
            seat: Seat::new(),
            event: Notify::new(),
        })
    }

    /// What `Shared::call_driver` does.
    fn call(&self) {
        self.leadership.call();
        if self.seat.is_to_be_woken() {
            self.event.notify();
        }
    }

    /// What `Driver::run` does, until it has led `count` records.
    fn drive(&self, count: u64) {
        let mut left = count;
        loop {
            let led = self.leadership.lead(true, |(), _| {
                while left > 0 {
                    if !self.tail.has_room() {
                        return Some(Stall::Tail);
                    }
                    if !self.staged.pop() {
                        return None;
                    }
                    assert!(self.tail.push(), "it was found to have room");
                    left -= 1;
                }
                None
            });
            let Some(stall) = led.last else { unreachable!("nobody else leads") };
            if left == 0 {
                return;
            }
            if self.seat.note_stall(stall) {
                continue;
            }
            self.seat.sleep_by(|| self.leadership.is_called(), || self.event.wait());
        }
    }
}

#[test]
fn a_driver_is_awake_for_whoever_calls() {
    needs(&[Between::AskAndLook, Between::PublishAndLook], || {
        let log = Driven::new(0);
        let driver = Arc::clone(&log);
        let driver = thread::spawn(move || driver.drive(1));
        assert!(log.staged.push());
        log.call();
        driver.join().unwrap();
    });
}

#[test]
fn who_reads_a_full_tail_calls_the_driver_that_waits_for_it() {
    needs(&[Between::AskAndLook, Between::PublishAndLook], || {
        let log = Driven::new(1);
        assert!(log.staged.push());
        let driver = Arc::clone(&log);
        let driver = thread::spawn(move || driver.drive(1));
        assert!(log.tail.pop());
        // What `Producer::drive` does behind it.
        if log.seat.waits_for_tail() {
            log.call();
        }
        driver.join().unwrap();
    });
}
