//! The log on a real kernel: ext4 on a recorded disk, power cuts at many moments of the record.
//!
//! Where a machine does not allow it, the tests are listed as ignored, with the reason. More of it:
//! `zzq_rig power-cut --seeds 20 --cuts 0`.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test fails by panicking")]

mod support;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Arguments, Failed, Trial};
use support::{RIG, broker, rig, said};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let reason = why_not();
    if let Some(reason) = &reason {
        eprintln!("ignored: {reason}");
    }
    let trial = |name: &str, test: fn() -> Result<(), Failed>| {
        Trial::test(name, test).with_ignored_flag(reason.is_some())
    };
    let trials = vec![
        trial("what_was_acknowledged_survives_power_cuts_under_aio", under_aio),
        trial("what_was_acknowledged_survives_power_cuts_under_pwrite", under_pwrite),
        trial("what_was_acknowledged_survives_power_cuts_under_uring", under_uring),
        trial("a_cut_right_behind_every_flush_loses_nothing", behind_every_flush),
        trial("a_log_that_drops_its_syncs_is_found_out", dropped_syncs_show),
        trial("a_disk_that_forgets_what_it_flushed_is_found_out_under_a_broker", lying_disk),
        trial("a_run_goes_on_without_what_the_machine_refuses", refused),
        trial("a_directory_that_cannot_be_written_is_named", read_only),
        trial("a_killed_run_leaves_nothing_attached", killed_run),
        trial("what_a_killed_run_has_left_is_taken_away", leftovers),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn power_cut(flags: &[&str]) -> Output {
    Command::new(RIG).arg("power-cut").args(flags).stdin(Stdio::null()).output().unwrap()
}

/// What keeps this machine from it.
fn why_not() -> Option<String> {
    let probe = power_cut(&["--probe"]);
    (probe.status.code() == Some(77)).then(|| said(&probe).trim().to_owned())
}

fn keeps_its_promises(flags: &[&str]) -> Result<(), Failed> {
    judged(&power_cut(flags))
}

/// No promise was broken, and some could have been.
fn judged(output: &Output) -> Result<(), Failed> {
    let said = said(output);
    let good = output.status.success()
        && said.contains(" 0 promises broken")
        && !said.lines().any(|line| line.starts_with("0 power cuts"));
    if good { Ok(()) } else { Err(said.into()) }
}

fn under_aio() -> Result<(), Failed> {
    keeps_its_promises(&["--cuts=12", "--generations=2", "--backend=aio"])
}

fn under_pwrite() -> Result<(), Failed> {
    keeps_its_promises(&["--cuts=8", "--generations=1", "--backend=pwrite", "--seed=2"])
}

fn under_uring() -> Result<(), Failed> {
    let output = power_cut(&["--cuts=8", "--generations=1", "--backend=uring", "--seed=3"]);
    // Refused, or not there: EPERM and ENOSYS.
    if ["(os error 1)", "(os error 38)"].iter().any(|error| said(&output).contains(error)) {
        eprintln!("skipped: {}", said(&output).trim());
        return Ok(());
    }
    judged(&output)
}

/// All flushes of a short life, where the others draw some of a long one.
fn behind_every_flush() -> Result<(), Failed> {
    keeps_its_promises(&["--cuts=0", "--turns=3", "--generations=1", "--seed=4"])
}

/// The rig itself: it sees a loss where there is one.
fn dropped_syncs_show() -> Result<(), Failed> {
    let output = power_cut(&["--cuts=60", "--generations=1", "--drop-syncs"]);
    let found = said(&output);
    let good = output.status.code() == Some(1) && found.contains("acknowledged up to");
    if good { Ok(()) } else { Err(format!("it has found no loss: {found}").into()) }
}

/// The same with a whole broker: power cuts take what flushes had covered.
fn lying_disk() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let directory = folder.path().join("d");
    let output = rig(&directory, &broker(), &["--minutes=2", "--drop-flushes", "--seed=1"]);
    let found = said(&output);
    let good = output.status.code() == Some(1) && found.contains("BROKEN: power cut at event");
    if !good {
        return Err(format!("it has found no loss: {found}").into());
    }
    let kept = walk(&directory)?;
    let is_there = |name: &str| kept.iter().any(|path| path.ends_with(name));
    if ["disk", "accounts", "broker.log"].into_iter().all(is_there) {
        Ok(())
    } else {
        Err(format!("{kept:?}").into())
    }
}

/// A run in a namespace of mounts in which `prepare` was done, a line of shell.
fn run_behind(prepare: &str, directory: &Path, flags: &[&str]) -> Result<Output, Failed> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &format!("{prepare} && exec \"$@\""), "sh", RIG]);
    command.arg("--data-dir").arg(directory).arg("--broker").arg(broker()).args(flags);
    Ok(command.stdin(Stdio::null()).output()?)
}

/// A device that can be opened, and refuses all else.
fn refused() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let directory = folder.path().join("d");
    let prepare = "mount --bind /dev/null /dev/fuse";
    let output = run_behind(prepare, &directory, &["--minutes=0.4", "--json"])?;
    let verdict: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let left_out = verdict["left_out"].as_array().into_iter().flatten();
    let left_out: Vec<_> = left_out.filter_map(|one| one.as_str()).collect();
    let is_named = match left_out[..] {
        [cuts, steps] => {
            cuts.starts_with("power cuts: ")
                && steps.starts_with("kills at steps, faults of the disk: ")
        }
        _ => false,
    };
    if output.status.success() && verdict["clean"] == true && is_named {
        Ok(())
    } else {
        Err(said(&output).into())
    }
}

fn read_only() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let directory = folder.path().join("d");
    std::fs::create_dir(&directory)?;
    let name = directory.display();
    let prepare = format!("mount --bind {name} {name} && mount -o remount,bind,ro {name}");
    let output = run_behind(&prepare, &directory, &["--minutes=0.1"])?;
    let said = said(&output);
    let words = ["--data-dir ", "cannot be written", "Read-only file system"];
    if output.status.code() == Some(2) && words.iter().all(|word| said.contains(word)) {
        Ok(())
    } else {
        Err(said.into())
    }
}

/// All files below a directory.
fn walk(directory: &Path) -> Result<Vec<std::path::PathBuf>, Failed> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() { files.extend(walk(&path)?) } else { files.push(path) }
    }
    Ok(files)
}

/// Whatever ends the run, its mounts, processes and loop devices go with it; the next one removes
/// the rest.
fn killed_run() -> Result<(), Failed> {
    let mut run = Command::new(RIG)
        .args(["power-cut", "--turns=100000"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut out = BufReader::new(run.stdout.take().ok_or("its output")?);
    let mut line = String::new();
    out.read_line(&mut line)?;
    if !line.contains("recording") {
        return Err(format!("it says {line:?}").into());
    }
    let name = format!("zzq-rig-{}", run.id());
    let place = std::env::temp_dir().join(&name);
    run.kill()?;
    run.wait()?;
    // The end of the pipe: no process of it is left.
    out.read_to_string(&mut line)?;
    let patience = Instant::now() + Duration::from_mins(1);
    // Nothing tells when the kernel has taken down the last mount. A run that was killed in the
    // moment when it had attached a device and did not hold it yet leaves that to the next.
    while attached(&name)? {
        if Instant::now() > patience {
            return Err(format!("{name} is still attached").into());
        }
        power_cut(&["--probe"]);
    }
    // It had no chance to remove its directory: the next run does.
    power_cut(&["--probe"]);
    is_taken_away(&name, &place)
}

/// The run behind us has taken it away, or another one beside us that was quicker is about to.
fn is_taken_away(name: &str, place: &Path) -> Result<(), Failed> {
    let patience = Instant::now() + Duration::from_mins(1);
    while attached(name)? || place.exists() {
        if Instant::now() > patience {
            return Err(format!("{name} is still there").into());
        }
        std::thread::yield_now();
    }
    Ok(())
}

/// A run that was killed right after it had attached a loop device.
fn leftovers() -> Result<(), Failed> {
    let name = format!("zzq-rig-left-{}", std::process::id());
    let place = std::env::temp_dir().join(&name);
    let begun = std::env::temp_dir().join(format!("new-{name}"));
    std::fs::create_dir(&begun)?;
    std::fs::File::create(begun.join(&name))?.set_len(1 << 20)?;
    let attach = Command::new("losetup").arg("--find").arg(begun.join(&name)).status()?;
    // Named so that others see it only when it is complete.
    std::fs::File::create(begun.join("lock"))?;
    std::fs::rename(&begun, &place)?;
    if !attach.success() {
        return Err("no loop device is free".into());
    }
    power_cut(&["--probe"]);
    is_taken_away(&name, &place)
}

/// Whether a loop device is made of a file of this name.
fn attached(name: &str) -> Result<bool, Failed> {
    for device in std::fs::read_dir("/sys/block")? {
        let file = device?.path().join("loop/backing_file");
        // It may go while it is looked at.
        let file = std::fs::read_to_string(file).unwrap_or_default();
        if Path::new(file.trim()).file_name().is_some_and(|file| file == name) {
            return Ok(true);
        }
    }
    Ok(false)
}
