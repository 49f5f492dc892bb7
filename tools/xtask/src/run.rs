//! Other programs, run from the root of the tree.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

/// A program with its arguments and environment, not yet run. Its input is empty.
pub(crate) fn program(root: &Path, line: &[&str]) -> Command {
    assert!(!line.is_empty(), "a command has at least a name");
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).current_dir(root).stdin(Stdio::null());
    command
}

/// Runs it with the output where ours goes; an exit code other than 0 is an error.
pub(crate) fn succeed(mut command: Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Runs it and gives back what it wrote to stdout and to stderr.
pub(crate) fn capture(mut command: Command) -> Result<(String, String)> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("cannot start {shown}"))?;
    let (out, err) = (lossy(&output.stdout), lossy(&output.stderr));
    if !output.status.success() {
        bail!("{shown}: {}\n{err}", output.status);
    }
    Ok((out, err))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
