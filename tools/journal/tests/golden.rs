//! What the command prints, word by word, of two logs that are kept for ever.
//!
//! With the variable `ZZQ_BLESS` set, the texts are written anew.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::{Path, PathBuf};

use common::run;

/// The log of the log's own golden test: its bodies are none of the engine's. Its files are kept
/// without the zeroes at their ends.
fn wal_log() -> tempfile::TempDir {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wal/tests/golden/log-v1");
    let directory = tempfile::tempdir().unwrap();
    for (path, mut bytes, _) in common::contents(&kept) {
        let name = path.file_name().unwrap();
        let len = if name == "meta" { 8192 } else { 64 * 1024 };
        bytes.resize(len, 0);
        std::fs::write(directory.path().join(name), bytes).unwrap();
    }
    directory
}

/// A broker's: sessions, wills, all ways of QoS, retained messages, killed and started again.
fn broker_log() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/broker-v1")
}

fn assert_says(command: &str, log: &Path, arguments: &[&str], status: i32, text: &str) {
    let ran = run(command, log, arguments);
    assert_eq!(ran.status, status, "{ran:?}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(text);
    if std::env::var_os("ZZQ_BLESS").is_some() {
        std::fs::write(&path, &ran.out).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert!(ran.out == golden, "{} is not what is said now:\n{}", path.display(), ran.out);
}

#[test]
fn the_logs_own_golden_files() {
    let log = wal_log();
    assert_says("verify", log.path(), &[], 3, "wal-verify.txt");
    assert_says("verify", log.path(), &["--opaque"], 0, "wal-verify-opaque.txt");
    assert_says("dump", log.path(), &["--opaque", "--payload=none"], 0, "wal-dump-opaque.txt");
    assert_says("dump", log.path(), &["--limit=3"], 3, "wal-dump.txt");
}

#[test]
fn a_brokers_golden_files() {
    assert_says("verify", &broker_log(), &[], 0, "broker-verify.txt");
    assert_says("verify", &broker_log(), &["--json"], 0, "broker-verify.jsonl");
    assert_says("dump", &broker_log(), &[], 0, "broker-dump.txt");
    assert_says("dump", &broker_log(), &["--json"], 0, "broker-dump.jsonl");
}
