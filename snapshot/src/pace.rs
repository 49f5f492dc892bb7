//! How fast volumes are read and written.

use std::ops::ControlFlow;

/// Called with the bytes of each read and write, behind it: it may take its time, so that others
/// get theirs, or break, which gives the work up.
pub type Pace<'p> = &'p dyn Fn(usize) -> ControlFlow<()>;

/// As fast as the disk allows.
pub fn at_full_speed() -> Pace<'static> {
    &|_| ControlFlow::Continue(())
}
