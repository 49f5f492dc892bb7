//! What the process's allocator keeps of what was freed.
//!
//! Owns: asking for it. Does not know: who allocates, or when it is worth it.

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

#[cfg(test)]
mod tests {
    use super::*;

    fn resident_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    #[test]
    #[cfg_attr(not(target_env = "gnu"), ignore = "the allocator is left alone")]
    fn what_lies_free_below_something_used_goes_back() {
        const COUNT: usize = 8192;
        let blocks: Vec<Vec<u8>> = (0..COUNT).map(|_| vec![7; 8192]).collect();
        // Every hundredth stays, the last one too.
        let kept: Vec<_> = blocks.into_iter().rev().step_by(100).collect();
        let before = resident_kib();
        give_back_free_memory();
        let after = resident_kib();
        assert!(after + (32 << 10) < before, "{before} KiB, and then {after}");
        assert!(kept.iter().flatten().all(|byte| *byte == 7));
    }
}
