//! What the allocator keeps, in a process in which nothing else allocates.

#![cfg(target_env = "gnu")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use zzq_wal::io::give_back_free_memory;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
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
