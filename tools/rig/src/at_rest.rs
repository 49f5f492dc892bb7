//! A process at rest, and what it has then.
//!
//! Owns: how long it is looked at. Does not know: what it is looked at for. The broker's own tests
//! take this file as it is.

use std::time::Duration;
use std::{fs, io, thread};

/// So many looks find nothing less than those before, and nothing that is done. A broker looks
/// every second whether there is memory to be given back.
const LOOKS: usize = 40;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Who is never at rest has what it has by then: half a minute, a part of the time that a run has
/// behind its end.
const LOOKS_MOST: usize = 300;

/// The least that a process has until that becomes no less. What is needed for a moment, as by
/// those who make images and segments, is none of it.
pub(crate) fn least<T: Copy + PartialEq>(
    pid: u32,
    mut look: impl FnMut() -> io::Result<T>,
    lesser: impl Fn(T, T) -> T,
) -> io::Result<T> {
    let mut least = look()?;
    let mut looks = 0;
    for _ in 0..LOOKS_MOST {
        thread::sleep(LOOK_EVERY);
        let less = lesser(least, look()?);
        looks = if less == least && !is_busy(pid)? { looks + 1 } else { 0 };
        least = less;
        if looks == LOOKS {
            break;
        }
    }
    Ok(least)
}

/// Memory that a process holds, in KiB. Pages of its program come and go as the system likes: they
/// are none of it.
pub(crate) fn resident_kib(pid: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    let kib = field("RssAnon:").zip(field("RssShmem:")).map(|(own, shared)| own + shared);
    kib.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Whether a thread of a process runs, or would if there were a processor, or waits for a disk.
pub(crate) fn is_busy(pid: u32) -> io::Result<bool> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // It may have ended since it was listed.
        let Ok(stat) = fs::read_to_string(thread?.path().join("stat")) else { continue };
        let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
        if matches!(state, Some("R" | "D")) {
            return Ok(true);
        }
    }
    Ok(false)
}
