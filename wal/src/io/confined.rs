//! For tests: a thread that is refused system calls, and a process with limits of its own.
//!
//! Owns: the filter, and how a test runs itself again. Neither asks for any privilege.

use std::mem::offset_of;
use std::process::Command;
use std::thread;

use libc::{c_long, seccomp_data, sock_filter, sock_fprog};

/// A system call that fails, if the argument has the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) call: c_long,
    pub(super) argument: Option<(usize, u32)>,
    pub(super) error: i32,
}

impl Refused {
    pub(super) fn always(call: c_long, error: i32) -> Self {
        Self { call, argument: None, error }
    }

    pub(super) fn when(call: c_long, argument: usize, value: u32, error: i32) -> Self {
        Self { call, argument: Some((argument, value)), error }
    }
}

/// Runs `body` on a thread that is refused these calls. `None`, with a line that says why, where
/// the system does not let a thread refuse itself anything.
pub(super) fn confined<R: Send>(refused: &[Refused], body: impl FnOnce() -> R + Send) -> Option<R> {
    let run = || match refuse(refused) {
        Ok(()) => Some(body()),
        Err(error) => {
            eprintln!("skipped: no filter for system calls ({error})");
            None
        }
    };
    thread::scope(|scope| scope.spawn(run).join().unwrap())
}

/// Refuses the calling thread, and threads that it starts, these calls from now on.
pub(super) fn refuse(refused: &[Refused]) -> std::io::Result<()> {
    let mut filter = program(refused);
    let length = u16::try_from(filter.len()).unwrap();
    let program = sock_fprog { len: length, filter: filter.as_mut_ptr() };
    rustix::thread::set_no_new_privs(true)?;
    // SAFETY: the program points to as many instructions as it says; the kernel copies them.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program)
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// The accumulator holds the number of the call before each rule.
fn program(refused: &[Refused]) -> Vec<sock_filter> {
    let call = || load(offset_of!(seccomp_data, nr));
    let mut filter = vec![call()];
    for rule in refused {
        let number = u32::try_from(rule.call).unwrap();
        let error = u32::try_from(rule.error).unwrap();
        let refusal = step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | error, 0, 0);
        match rule.argument {
            None => filter.extend([equals(number, 1), refusal]),
            Some((at, value)) => {
                // The lower half of a little-endian argument.
                let argument = load(offset_of!(seccomp_data, args) + 8 * at);
                filter.extend([equals(number, 4), argument, equals(value, 1), refusal, call()]);
            }
        }
    }
    filter.push(step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0));
    filter
}

fn load(offset: usize) -> sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, u32::try_from(offset).unwrap(), 0, 0)
}

/// Goes on if they are equal, else leaves out as many steps.
fn equals(value: u32, skip: u8) -> sock_filter {
    step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, 0, skip)
}

fn step(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code: u16::try_from(code).unwrap(), jt, jf, k }
}

/// Runs the body of the test of this name in a process of its own, in which SIGXFSZ is ignored
/// and limits harm nobody else.
pub(super) fn in_child(test: &str, body: impl FnOnce()) {
    const MARK: &str = "ZZQ_WAL_TEST_CHILD";
    if std::env::var_os(MARK).is_some() {
        return body();
    }
    let child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(MARK, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    let complained = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}{complained}");
    assert!(said.contains("1 passed"), "there is a test {test}: {said}");
}

#[test]
fn only_what_is_named_is_refused() {
    let rules = [
        Refused::when(libc::SYS_dup3, 0, 9999, libc::EPERM),
        Refused::always(libc::SYS_getppid, libc::EXDEV),
    ];
    confined(&rules, || {
        let duplicate = |old: i32| {
            // SAFETY: no descriptor has one of these numbers, so nothing is duplicated.
            let result = unsafe { libc::syscall(libc::SYS_dup3, old, 9998, 0) };
            (result, std::io::Error::last_os_error().raw_os_error())
        };
        assert_eq!(duplicate(9999), (-1, Some(libc::EPERM)));
        assert_eq!(duplicate(9997), (-1, Some(libc::EBADF)));
        // SAFETY: it takes no argument.
        let parent = unsafe { libc::syscall(libc::SYS_getppid) };
        assert_eq!(parent, -1);
    });
}
