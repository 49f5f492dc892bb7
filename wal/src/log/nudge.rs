//! The call for the helper's thread.
//!
//! Owns: the order of "put something to do, call whoever is there" against "be there, look for
//! something to do". Does not know: what there is to do.

use crate::sync::{Between, OnceLock, full_fence};

/// Unparks a thread.
type Call = Box<dyn Fn() + Send + Sync>;

/// Calls one thread that may not be there yet.
#[derive(Default)]
pub(crate) struct Nudge(OnceLock<Call>);

impl Nudge {
    /// From now on there is a thread, and `call` is how to call it, for the first time now: it
    /// looks for something to do, and parks when it finds nothing.
    ///
    /// # Panics
    /// There is another one.
    pub(crate) fn serve(&self, call: Call) {
        assert!(self.0.set(call).is_ok(), "one thread is called");
        full_fence(Between::AskAndLook);
        self.unpark();
    }

    /// There is something to do, put where the thread looks before this.
    pub(crate) fn call(&self) {
        full_fence(Between::PublishAndLook);
        self.unpark();
    }

    fn unpark(&self) {
        if let Some(call) = self.0.get() {
            call();
        }
    }
}
