//! Programs of the system: run to their end, what they say kept for the error.

use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Runs a program and returns what it printed.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<String> {
    let said = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("{program} cannot be run"))?;
    let errors = String::from_utf8_lossy(&said.stderr);
    ensure!(said.status.success(), "{program} {arguments:?}: {}: {}", said.status, errors.trim());
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}
