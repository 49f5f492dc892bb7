//! A process whose mounts and children end with it, whatever ends it.
//!
//! Owns: namespaces of mounts and processes, and the line by which the process inside learns that
//! the one outside has gone. Does not know: what is done inside.

use std::ffi::OsString;
use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::command::run as run_to_end;

/// The exit code of a run that this machine does not allow.
pub const CANNOT: u8 = 77;

/// What an error is about that stands for something this machine does not allow, and not for a
/// fault of anybody's.
#[derive(Clone, Copy, Debug)]
pub struct Refused;

impl std::fmt::Display for Refused {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("the machine refuses it")
    }
}

/// Programs that the rig calls.
const PROGRAMS: [&str; 5] = ["unshare", "losetup", "mkfs.ext4", "mount", "umount"];

/// Options of `unshare`, in front of what it runs.
const NAMESPACES: [&str; 5] = ["--mount", "--pid", "--fork", "--kill-child", "--"];

/// Why the rig cannot work here, as far as that shows without trying.
pub fn able() -> Result<()> {
    ensure!(rustix::process::geteuid().is_root(), "it takes root to mount file systems");
    for device in ["/dev/fuse", "/dev/loop-control"] {
        std::fs::File::open(device).with_context(|| format!("{device} cannot be opened"))?;
    }
    for program in PROGRAMS {
        let mut tried = Command::new(program);
        tried.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Some know no such option; all that counts is that there is a program.
        if let Err(error) = tried.status() {
            bail!("{program}: {error}");
        }
    }
    // Root in a container may be denied it.
    let namespaces: Vec<_> = NAMESPACES.into_iter().chain(["true"]).collect();
    run_to_end("unshare", &namespaces).map(drop)
}

/// Runs this program again with `arguments` and `--inside PLACE`, in namespaces of its own.
pub fn run(place: &Path, arguments: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let program = std::env::current_exe()?;
    let mut child = Command::new("unshare")
        .args(NAMESPACES)
        .arg(program)
        .args(arguments)
        .arg("--inside")
        .arg(place)
        // Closed by the kernel when we end: see `end_with_outside`.
        .stdin(Stdio::piped())
        .spawn()?;
    let line = child.stdin.take();
    let status = child.wait()?;
    drop(line);
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    // It had no chance to say anything.
    Ok(ExitCode::from(code.with_context(|| format!("the process inside was ended: {status}"))?))
}

/// From now on this process ends when the one outside does. A terminal's interrupt reaches only
/// that one: the first process of a namespace is spared.
pub fn end_with_outside() -> Result<()> {
    std::thread::Builder::new().name("lifeline".to_owned()).spawn(|| {
        let mut nothing = [0];
        while !matches!(std::io::stdin().read(&mut nothing), Ok(0) | Err(_)) {}
        std::process::exit(1);
    })?;
    Ok(())
}
