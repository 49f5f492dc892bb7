//! Why the log acknowledges nothing any more.
//!
//! Owns: that it is said once, and that everybody is called after it was said. Does not know: who
//! is called.

use crate::sync::OnceLock;

/// The first failure that the log did not get over.
#[derive(Debug, Default)]
pub(crate) struct Fault(OnceLock<String>);

impl Fault {
    /// States a failure, and calls everybody to see it, unless there was one before.
    pub(crate) fn set(&self, reason: String, call_all: impl FnOnce()) {
        if self.0.set(reason).is_ok() {
            call_all();
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    pub(crate) fn reason(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}
