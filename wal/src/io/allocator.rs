//! What the process's allocator keeps of what was freed.
//!
//! Owns: asking for it (tested in `tests/allocator.rs`, in a process of its own). Does not know:
//! who allocates, or when it is worth it.

/// Gives back to the system what the allocator keeps free.
///
/// The allocator of glibc gives back what lies free at the end of a thread's arena, and nothing of
/// what lies free below something that is used. So a process with many threads, each of which has
/// had a burst once, keeps most of what all these bursts took. This looks through all of it: it
/// takes some milliseconds, in which threads that allocate wait for one another's arenas. For a
/// program to call; a library leaves it to its user. Other allocators are left alone.
pub fn give_back_free_memory() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: it takes the allocator's own locks, and unmaps only pages that nobody uses.
        let _anything = unsafe { libc::malloc_trim(0) };
    }
}
