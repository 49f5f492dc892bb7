//! Evidence from outside: the system calls of a log that is made, rolls, recycles, trims and starts
//! again, as strace sees them. What must be durable before a step is synced before it.
//!
//! Where strace is not installed or not allowed, the tests are listed as ignored, with the reason.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking")]

mod common;
#[path = "strace/rules.rs"]
mod rules;
#[path = "strace/trace.rs"]
mod trace;

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use common::{open, small, stage};
use libtest_mimic::{Arguments, Failed, Trial};
use rules::{Cases, DIRECTORY, NO_NAME, PARENT, TOO_SOON, judge};
use trace::{Call, parse};
use zzq_wal::io::{Backend, FileDisk, event};
use zzq_wal::{Log, Lsn, Wake};

/// As first argument: this process is the one to be observed.
const LIVE: &str = "--live-in";

fn main() -> ExitCode {
    let given: Vec<OsString> = std::env::args_os().collect();
    if let [_, flag, directory, backend] = &given[..]
        && flag == LIVE
    {
        live(Path::new(directory), backend.to_str().unwrap().parse().unwrap());
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    let reason = why_not();
    if let Some(reason) = &reason {
        eprintln!("ignored: {reason}");
    }
    let trial = |name: &str, test: fn() -> Result<(), Failed>| {
        Trial::test(name, test).with_ignored_flag(reason.is_some())
    };
    // Whether the kernel has it, and lets this process.
    let ring = why_no_ring();
    if let Some(ring) = &ring {
        eprintln!("ignored for io_uring: {ring}");
    }
    let trials = vec![
        trial("what_a_step_rests_on_is_synced_before_it_under_aio", || keeps_order(Backend::Aio)),
        trial("what_a_step_rests_on_is_synced_before_it_under_pwrite", || {
            keeps_order(Backend::Pwrite)
        }),
        trial("what_a_step_rests_on_is_synced_before_it_under_uring", || {
            keeps_order(Backend::Uring)
        })
        .with_ignored_flag(reason.is_some() || ring.is_some()),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// What keeps this machine from it.
fn why_not() -> Option<String> {
    let tried = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "true"])
        .stdin(Stdio::null())
        .output();
    match tried {
        Err(error) => Some(format!("strace cannot be run: {error}")),
        Ok(output) if !output.status.success() => {
            Some(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
        Ok(_) => None,
    }
}

fn why_no_ring() -> Option<String> {
    let place = tempfile::tempdir().unwrap();
    FileDisk::open(place.path(), Backend::Uring).err().map(|error| error.to_string())
}

/// Makes the event readable.
struct Waker(Arc<OwnedFd>);

impl Wake for Waker {
    fn wake(&self) {
        rustix::io::write(&*self.0, &1_u64.to_ne_bytes()).unwrap();
    }
}

/// Two starts of a log that rolls, recycles and changes its facts.
fn live(directory: &Path, backend: Backend) {
    for start in 0..2_u64 {
        let disk = FileDisk::open(directory, backend).unwrap();
        let (log, _, seen) = open(disk, small(start)).unwrap();
        assert_eq!(seen.is_empty(), start == 0);
        let helper = log.spawn_helper().unwrap();
        write(&log, 80);
        log.update_facts(|facts| facts.term += 1).unwrap();
        log.mark_durable().unwrap();
        drop((helper, log));
    }
}

fn write(log: &Log<FileDisk>, records: u64) {
    let event = event::create().unwrap();
    let waker = Arc::new(Waker(Arc::clone(&event)));
    let mut lane = log.producer(waker, Some(Arc::clone(&event))).unwrap();
    for _ in 0..records {
        let handed = stage(&mut lane, &[7; 3000]).unwrap();
        while lane.durable() < handed {
            let again_at = lane.drive(1000).again_at;
            if lane.durable() < handed {
                assert!(event::wait(&event, Duration::from_mins(1)).unwrap(), "{again_at:?}");
                event::drain(&event);
            }
        }
        log.trim(Lsn::new(log.durable().get().saturating_sub(20)));
    }
}

const CALLS: &str = "trace=openat,pwrite64,pwritev2,io_submit,?io_uring_enter,fsync,fdatasync,\
                     ?renameat,?renameat2,?mkdir,mkdirat,?unlink,unlinkat";

fn observe(backend: Backend) -> Vec<Call> {
    let place = tempfile::tempdir().unwrap();
    let (parent, out) = (place.path().join(PARENT), place.path().join("calls"));
    std::fs::create_dir(&parent).unwrap();
    let log = parent.join(DIRECTORY);
    let status = Command::new("strace")
        .args(["-f", "-y", "-s", "64", "-o"])
        .arg(&out)
        .args(["-e", CALLS])
        .arg(std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/proc/self/exe")))
        .arg(LIVE)
        .arg(&log)
        .arg(backend.to_string())
        .stdin(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    parse(&std::fs::read_to_string(out).unwrap())
}

fn keeps_order(backend: Backend) -> Result<(), Failed> {
    let calls = observe(backend);
    let (cases, broken) = judge(&calls);
    if !broken.is_empty() {
        return Err(broken.join("\n").into());
    }
    let Cases { made, opened, named, recycled, removed, groups, pages } = cases;
    assert!(opened > 6 && named > 6 && recycled > 2 && pages > 20, "{cases:?}");
    assert!(made == 1 && removed > 1, "{cases:?}");
    // What a ring is handed is in memory: of these writes nothing can be seen from outside.
    assert_eq!(groups > 150, backend != Backend::Uring, "{cases:?}");
    for (call, by) in [("io_submit", Backend::Aio), ("io_uring_enter", Backend::Uring)] {
        let is_made = calls.iter().any(|made| made.name == call);
        assert_eq!(is_made, backend == by, "{call}");
    }
    assert_bites(&calls);
    assert_misses_whole_rules(&calls);
    Ok(())
}

/// The judge misses each call and flag without which a power cut could do harm.
fn assert_bites(calls: &[Call]) {
    let (mut files, mut names) = (0, 0);
    let is_parent = |call: &Call| call.file() == Some(PARENT);
    for at in 0..calls.len() {
        let call = &calls[at];
        let mut changed = calls.to_vec();
        let is_ours = call.file().is_some_and(|file| file != "probe");
        match call.name.as_str() {
            // It is synced at each start; that one rule is about the first of them.
            "fsync" | "fdatasync" if is_ours && !is_parent(call) => {
                // A directory is synced once more at each start, for what was there before, and a
                // file that was made is synced with its zeroes and again with its header.
                changed.remove(at);
                let bites = !judge(&changed).1.is_empty();
                let of_directory = call.file() == Some(DIRECTORY);
                *(if of_directory { &mut names } else { &mut files }) += usize::from(bites);
            }
            "openat" if call.file() == Some(DIRECTORY) && call.has("O_DIRECT|") => {
                changed[at].arguments = call.arguments.replace("O_DIRECT|", "");
                assert!(!judge(&changed).1.is_empty(), "{call:?}");
            }
            "io_submit" | "pwritev2" if call.has(".log>") && at.is_multiple_of(16) => {
                changed[at].arguments = call.arguments.replace("RWF_DSYNC", "0");
                assert!(!judge(&changed).1.is_empty(), "{call:?}");
            }
            _ => {}
        }
    }
    // How many are the only ones depends on how far the helper is behind.
    assert!(files > 20 && names > 2, "{files} {names}");
}

/// The rules that other syncs, of another time, could keep by chance.
fn assert_misses_whole_rules(calls: &[Call]) {
    let is_sync_of = |call: &Call, files: &[&str]| {
        let is_sync = matches!(call.name.as_str(), "fsync" | "fdatasync");
        is_sync && call.file().is_some_and(|file| files.contains(&file))
    };
    let without = |is_left_out: &dyn Fn(usize, &Call) -> bool| {
        let mut changed = Vec::new();
        for (at, call) in calls.iter().enumerate() {
            if !is_left_out(at, call) {
                changed.push(call.clone());
            }
        }
        judge(&changed).1
    };
    // The sync of the start that makes the directory; the next start's comes too late.
    let first = calls.iter().position(|call| is_sync_of(call, &[PARENT]));
    let told = without(&|at, _| Some(at) == first);
    assert!(told.iter().any(|what| what.starts_with(NO_NAME)), "{told:?}");
    let told = without(&|_, call| is_sync_of(call, &["meta", "meta.new"]));
    assert!(told.iter().any(|what| what.ends_with(TOO_SOON)), "{told:?}");
}
