//! Results as lines of JSON in a file, so that a run that was ended goes on where it stopped.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// All that was kept; none if there is no file yet.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(|| format!("{}", path.display())),
    };
    let line = |(nth, line): (usize, &str)| {
        serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), nth + 1))
    };
    text.lines().enumerate().map(line).collect()
}

/// Adds a line.
pub fn append<T: Serialize>(path: &Path, record: &T) -> Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    let line = serde_json::to_string(record)? + "\n";
    file.write_all(line.as_bytes()).with_context(|| format!("{}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_were_written_are_read_again_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        assert_eq!(read::<(u32, String)>(&path).unwrap(), []);
        let records = [(1, "a\nb".to_owned()), (2, "c".to_owned())];
        for record in &records {
            append(&path, record).unwrap();
        }
        assert_eq!(read::<(u32, String)>(&path).unwrap(), records);
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        fs::write(&path, "[1]\n{}\n").unwrap();
        let error = read::<Vec<u32>>(&path).unwrap_err();
        assert!(error.to_string().ends_with("results.jsonl:2"), "{error}");
    }
}
