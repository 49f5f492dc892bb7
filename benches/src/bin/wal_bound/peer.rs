//! The third column: a published log, in a process of its own.
//!
//! Owns: that process, and the lines that are exchanged with it: a cell to measure, figures back.
//! Does not know: the peer, which is built in `benches/peers`, a workspace of its own.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::rounds::Figures;

/// How it is built.
pub(crate) const BUILD: &str = "cargo build --release --manifest-path benches/peers/Cargo.toml";

/// Where that leaves it.
pub(crate) fn built() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/target/release/peer_disk")
}

pub(crate) struct Peer {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

#[derive(Debug, Serialize)]
struct Question {
    writers: u64,
    payload: usize,
    milliseconds: u64,
}

#[derive(Debug, Deserialize)]
struct Answer {
    records: f64,
    seconds: f64,
    p50_us: f64,
    p99_us: f64,
    cpu_seconds: f64,
}

impl Peer {
    pub(crate) fn start(program: &Path, directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        let mut process = Command::new(program)
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let questions = process.stdin.take().context("the peer has no input")?;
        let answers = BufReader::new(process.stdout.take().context("the peer has no output")?);
        Ok(Self { process, questions, answers })
    }

    pub(crate) fn run(&mut self, cell: &Cell, length: Duration) -> Result<Figures> {
        let milliseconds = u64::try_from(length.as_millis())?;
        let question = Question { writers: cell.writers, payload: cell.payload, milliseconds };
        writeln!(self.questions, "{}", serde_json::to_string(&question)?)?;
        let mut line = String::new();
        ensure!(self.answers.read_line(&mut line)? > 0, "the peer has ended");
        figures(&line)
    }
}

fn figures(line: &str) -> Result<Figures> {
    let answer: Answer = serde_json::from_str(line)?;
    ensure!(answer.records > 0.0, "the peer wrote nothing");
    Ok(Figures {
        rate: answer.records / answer.seconds,
        p50: answer.p50_us,
        p99: answer.p99_us,
        cpu: answer.cpu_seconds * 1e6 / answer.records,
    })
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_becomes_figures() {
        let line = r#"{"records":4,"seconds":2.0,"p50_us":7.5,"p99_us":9.0,"cpu_seconds":0.001}"#;
        let figures = figures(line).unwrap();
        assert_eq!((figures.rate, figures.p50, figures.p99), (2.0, 7.5, 9.0));
        assert!((figures.cpu - 250.0).abs() < 1e-9);
    }

    #[test]
    fn a_peer_that_wrote_nothing_is_no_peer() {
        let line = r#"{"records":0,"seconds":2.0,"p50_us":0.0,"p99_us":0.0,"cpu_seconds":0.0}"#;
        assert!(figures(line).is_err());
        assert!(figures("").is_err());
    }
}
