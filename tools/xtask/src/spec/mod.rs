//! The normative statements of the specifications, and which of them have a tag in code and a
//! tag in a test.
//!
//! Owns: the reading of `doc/spec`, of the tags, and the report. Does not know: whether a tag
//! tells the truth.

mod report;
mod statements;
mod tags;

use std::io::{ErrorKind, Write as _};

use anyhow::{Result, bail};

pub(crate) use self::tags::{Tag, read as tags};
use crate::tree::Tree;

/// How much to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Counts, and what must have a tag and has none.
    Missing,
    /// Also what may lack one.
    Full,
}

/// Prints the report. Some cases may lack a test: those of parts that are not there yet.
pub(crate) fn spec(tree: &Tree, mode: Mode) -> Result<()> {
    let statements = statements::read(tree)?;
    let tags = tags::read(tree);
    let report = report::Report::new(&statements, &tags);
    let untested = report.untested.iter().filter(|_| mode == Mode::Full);
    let listed = report.missing.iter().chain(untested);
    let lines = listed.chain(&report.errors).map(|line| format!("{line}\n"));
    let text: String = std::iter::once(report.to_string()).chain(lines).collect();
    // Whoever reads may have seen enough, as `head` has.
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {}
    }
    if !report.errors.is_empty() {
        bail!("spec: {} errors", report.errors.len());
    }
    if !report.missing.is_empty() {
        bail!("spec: {} statements or cases lack a tag", report.missing.len());
    }
    Ok(())
}
