//! A program as a file: which build it is, and what it says of itself.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Tells this build from others.
pub fn checksum(program: &Path) -> io::Result<u32> {
    Ok(crc32fast::hash(&fs::read(program)?))
}

/// The first line that it prints, asked by this flag.
pub fn first_line(program: &Path, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(|line| line.trim().to_owned())
}
