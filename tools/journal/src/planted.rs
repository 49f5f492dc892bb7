//! Bugs that the simulator plants to see that it finds them.
//!
//! Owns: the bugs of this room, and which of them is planted on this thread: one at most. Without
//! the feature `planted-bugs` none ever is and the question costs nothing; there is no release
//! build with it. Each room has its own list: one that all shared would be an edge between them.

#[cfg(all(feature = "planted-bugs", not(debug_assertions)))]
compile_error!("the feature planted-bugs breaks promises on purpose: it is for the simulator");

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "planted-bugs"),
    expect(unreachable_pub, reason = "the simulator reaches it with the feature")
)]
pub enum Bug {
    /// A copy is made without the images that its log begins behind.
    ImagesLeftOut,
}

#[cfg(not(feature = "planted-bugs"))]
pub(crate) const fn is(_: Bug) -> bool {
    false
}

#[cfg(feature = "planted-bugs")]
pub(crate) use self::switch::is;
#[cfg(feature = "planted-bugs")]
pub use self::switch::plant;

#[cfg(feature = "planted-bugs")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        // A simulated broker lives on one thread, so seeds with and without a bug run side by side.
        static PLANTED: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Plants a bug on this thread, in place of another, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.set(bug);
    }

    pub(crate) fn is(bug: Bug) -> bool {
        PLANTED.get() == Some(bug)
    }
}
