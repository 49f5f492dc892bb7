//! Runs against a broker that keeps its word, and against stand-ins that do not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use support::{RIG, broker, rig, said};
use tempfile::TempDir;

/// A program in front of the broker, which is `$BROKER`; its data directory is `$DATA`.
fn stand_in(folder: &TempDir, script: &str) -> PathBuf {
    let path = folder.path().join("stand-in");
    let find =
        "for word in \"$@\"; do [ \"$before\" = --data-dir ] && DATA=$word; before=$word; done";
    let text = format!("#!/bin/sh\nBROKER='{}'\n{find}\n{script}\n", broker().display());
    // Written by a process of its own: a file open for writing here would be so in what another
    // thread has just forked too, and one that somebody writes does not run.
    let mut install = Command::new("install")
        .args(["-m", "700", "/dev/stdin"])
        .arg(&path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    install.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(install.wait().unwrap().success());
    path
}

fn last_line(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).lines().last().unwrap_or_default().to_owned()
}

/// The run finds one of these promises broken, and keeps what there is to see.
fn finds(script: &str, promises: &[&str]) {
    finds_with(&["--minutes=2", "--seed=5"], script, promises);
}

fn finds_with(flags: &[&str], script: &str, promises: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let program = stand_in(&folder, script);
    let directory = folder.path().join("d");
    let output = rig(&directory, &program, flags);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let named = promises.iter().any(|promise| said.contains(&format!("BROKEN: {promise}: ")));
    assert!(named, "{said}");
    let last = last_line(&output);
    assert!(last.starts_with("BROKEN: seed 5"), "{last}");
    let report = std::fs::read_to_string(folder.path().join("d.html")).unwrap();
    assert!(report.contains("<h1 class=\"broken\">BROKEN: seed 5"));
    // What was sound is gone.
    let kept: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|one| one.unwrap().path()).collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(kept[0].join("accounts").exists() && kept[0].join("broker.log").exists());
}

#[test]
fn a_good_broker_has_a_clean_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("made/by/the/rig");
    let output = rig(&directory, &broker(), &["--minutes=0.1", "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let report = std::fs::read_to_string(folder.path().join("made/by/the/rig.html")).unwrap();
    assert!(report.contains("<h1 class=\"clean\">") && report.contains("<svg"));
    let last = last_line(&output);
    let verdict: serde_json::Value = serde_json::from_str(&last).unwrap();
    assert_eq!(verdict["clean"], true);
    for count in ["rounds", "acknowledged", "received", "starts"] {
        assert!(verdict[count].as_u64().unwrap() > 0, "{count}: {last}");
    }
}

#[test]
fn a_directory_with_something_in_it_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine"), "mine").unwrap();
    let output = rig(folder.path(), &broker(), &["--minutes=0.1"]);
    assert_eq!(output.status.code(), Some(2));
    let last = last_line(&output);
    assert!(last.starts_with("FAILED: ") && last.contains("something in it"), "{last}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// What the rig was given is wrong: it says what, and begins nothing.
#[test]
fn what_does_not_fit_is_named_before_a_run_begins() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("file"), "no program").unwrap();
    let missing = path("missing");
    for (program, directory, words) in [
        (missing.clone(), path("d"), "--broker ", "No such file"),
        (path("file"), path("d"), "--broker ", "it does not run"),
        (folder.path().to_owned(), path("d"), "--broker ", "it is no file"),
        (broker(), path("file/d"), "--data-dir ", "cannot be made"),
        (broker(), "/proc/zzq".into(), "--data-dir ", "cannot be made"),
    ]
    .map(|(program, directory, flag, words)| (program, directory, [flag, words]))
    {
        let named = |what: &str| words.iter().all(|word| what.contains(word));
        let output = rig(&directory, &program, &["--minutes=0.1"]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let last = last_line(&output);
        assert!(last.starts_with("FAILED: ") && named(&last), "{words:?}: {last}");
        let output = rig(&directory, &program, &["--minutes=0.1", "--json"]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let verdict: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&verdict["clean"], &verdict["verdict"]), (&false.into(), &"failed".into()));
        assert!(named(verdict["failure"]["what"].as_str().unwrap()), "{words:?}: {verdict}");
        assert!(!directory.exists());
    }
    for minutes in ["--minutes=0", "--minutes=-1", "--minutes=nan"] {
        let output = rig(&path("d"), &broker(), &[minutes]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(last_line(&output).contains("--minutes"), "{minutes}: {}", said(&output));
    }
}

/// What else the rig does with a broker and a directory is as plain about it.
#[test]
fn what_does_not_fit_is_named_by_everything_that_the_rig_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let soak = ["soak", "--minutes=0.1", "--data-dir"];
    for (begin, directory, program, words) in [
        (&soak[..], path("d"), path("missing"), "--broker "),
        (&soak[..], "/proc/zzq".into(), broker(), "--data-dir "),
        (&["after-power-loss"], path("d"), path("missing"), "--broker "),
        (&["after-power-loss"], path("d"), broker(), "No such file"),
    ] {
        let mut command = Command::new(RIG);
        command.args(begin).arg(&directory).arg("--broker").arg(&program);
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        let last = last_line(&output);
        assert!(last.starts_with("FAILED: ") && last.contains(words), "{words}: {last}");
    }
}

/// A run that had begun ends with a verdict and a report, whatever has ended it.
#[test]
fn a_rig_that_cannot_go_on_says_so_and_accuses_nobody() {
    for (script, words) in [
        ("echo I am no broker; exec sleep 60", "says \"I am no broker"),
        ("echo there is no space >&2; exit 3", "there is no space"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let program = stand_in(&folder, script);
        let output = rig(&folder.path().join("d"), &program, &["--minutes=2", "--json"]);
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        let verdict: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&verdict["clean"], &verdict["verdict"]), (&false.into(), &"failed".into()));
        let what = verdict["failure"]["what"].as_str().unwrap();
        assert!(what.contains(words), "{what}");
        let report = std::fs::read_to_string(folder.path().join("d.html")).unwrap();
        assert!(report.contains("<h1 class=\"broken\">FAILED: seed"), "{report}");
    }
}

/// A run that is killed, as a loss of power would end it, and what is said about it afterwards.
#[test]
fn a_run_that_was_cut_off_is_held_to_its_accounts() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("d");
    let mut run = Command::new(RIG)
        .arg("--data-dir")
        .arg(&directory)
        .arg("--broker")
        .arg(broker())
        .args(["--minutes=5", "--plain"])
        // Where it has no chance to remove its own.
        .env("TMPDIR", folder.path())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let accounts = directory.join("1/accounts");
    let patience = Instant::now() + Duration::from_mins(1);
    // Nothing tells when enough was acknowledged.
    while !std::fs::read_to_string(&accounts).is_ok_and(|text| text.matches("acked").count() > 200)
    {
        assert!(Instant::now() < patience, "nothing is acknowledged");
        std::thread::sleep(Duration::from_millis(20));
    }
    // With all its processes: without namespaces a broker would outlive it. Only the first one is
    // known to have ended then, the others are about to.
    kill_process_group(Pid::from_child(&run), Signal::KILL).unwrap();
    run.wait().unwrap();
    let after = |expected: i32, word: &str| {
        let mut command = Command::new(RIG);
        command.arg("after-power-loss").arg(&directory).arg("--broker").arg(broker());
        let output = command.stdin(Stdio::null()).output().unwrap();
        let said = said(&output);
        assert!(output.status.code() == Some(expected) && said.contains(word), "{said}");
    };
    after(0, "clean: ");
    after(0, "clean: ");
    // An acknowledgement that the broker has never given.
    let text = std::fs::read_to_string(&accounts).unwrap();
    let whole = &text[..=text.rfind('\n').unwrap()];
    std::fs::write(
        &accounts,
        format!("{whole}sent 0 9999999 1\nacked 0 9999999\ndone 0 9999999\n"),
    )
    .unwrap();
    after(1, "BROKEN: nothing lost");
}

#[test]
fn a_broker_that_keeps_nothing_is_found_out() {
    let without = "exec \"$BROKER\" --bind tcp://127.0.0.1:0";
    finds(without, &["sessions stay", "retained is the last acknowledged"]);
}

/// What is acknowledged after the second start is gone at the third.
#[test]
fn a_broker_that_goes_back_in_time_is_found_out() {
    // A damaged copy is another matter: there are several at one place.
    let goes_back = "\
case \"$DATA\" in */damaged) exec \"$BROKER\" \"$@\";; esac
if [ -e \"$DATA.old\" ]; then rm -r \"$DATA\"; cp -a \"$DATA.old\" \"$DATA\"
elif [ -e \"$DATA/meta\" ]; then cp -a \"$DATA\" \"$DATA.$$\" && mv \"$DATA.$$\" \"$DATA.old\"
fi
exec \"$BROKER\" \"$@\"";
    finds(goes_back, &["retained is the last acknowledged", "nothing lost", "at most once"]);
}

/// On a damaged directory it begins anew, as if nothing had been there.
#[test]
fn a_broker_that_gives_up_what_is_damaged_is_found_out() {
    let anew = "case \"$DATA\" in */damaged) rm \"$DATA\"/*;; esac; exec \"$BROKER\" \"$@\"";
    let promises = [
        "damage is refused",
        "damage is named",
        "the log ends cleanly",
        "what nobody was told of is passed over",
    ];
    finds_with(&["--minutes=2", "--seed=5", "--plain"], anew, &promises);
}

#[test]
fn a_broker_that_does_not_start_again_is_found_out() {
    // A damaged copy is another matter.
    let once = "\
case \"$DATA\" in */damaged) ;; *) [ -e \"$DATA/meta\" ] && exit 65;; esac
exec \"$BROKER\" \"$@\"";
    finds(once, &["starts again"]);
}
