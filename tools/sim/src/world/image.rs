//! Images of the state, made at once, or while everything goes on.
//!
//! Owns: what comes between two pieces of one. Does not know: when one is made, what is in it.

use std::cell::RefCell;
use std::ops::ControlFlow;

use super::World;
use crate::history::Event;

/// Once in so many pieces others go on for a while.
const OFTEN: [u64; 3] = [1, 8, 60];
/// Steps of others at most.
const STEPS: u64 = 30;

impl World {
    /// An image, or one for the space that it brings.
    pub(super) fn image(&mut self, for_space: bool) {
        let starts = self.starts.len();
        let often = *self.amid.pick(&OFTEN);
        let is_amid = !self.calm && self.amid.once_in(2);
        let mut making = match self.node.begin_image(for_space) {
            Some(Ok(making)) => making,
            Some(Err(why)) => return self.note(Event::Imaged { outcome: Err(why) }),
            None => return self.coverage.hit("image given up"),
        };
        let before = self.steps;
        self.imaging = true;
        let world = RefCell::new(&mut *self);
        let made = making.make(&|| {
            let mut world = world.borrow_mut();
            if is_amid && world.amid.once_in(often) {
                for _ in 0..world.amid.within(1, STEPS) {
                    if !world.is_over(starts) {
                        world.step();
                    }
                }
            }
            if world.is_over(starts) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        self.imaging = false;
        self.helper_waits = true;
        if self.is_over(starts) {
            // Its maker has gone with the process.
            self.coverage.hit("crash amid an image");
            return;
        }
        let Some(outcome) = self.node.end_image(making, made) else {
            return self.coverage.hit("image given up");
        };
        if outcome == Ok(true) {
            self.coverage.hit(if for_space { "image made for space" } else { "image made" });
            if self.steps > before {
                self.coverage.hit("image made amid turns");
            }
        }
        self.note(Event::Imaged { outcome: outcome.map(drop) });
    }

    /// The process has ended since, or nothing goes on any more.
    fn is_over(&self, starts: usize) -> bool {
        self.node.broker.is_none() || self.starts.len() != starts || self.is_broken()
    }
}
