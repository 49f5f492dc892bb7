//! The accounts in a file of their own: an entry counts when it is synced.
//!
//! Owns: that order. Does not know: what entries mean.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{Accounts, Entry};

/// Whoever wants to hear of each entry when it is made.
type Listener = Box<dyn FnMut(&str) + Send>;

/// See the file.
pub struct Book {
    /// `None`: these accounts are a trial that nobody looks at later.
    file: Option<File>,
    unsynced: String,
    accounts: Accounts,
    listener: Option<Listener>,
}

impl Book {
    /// An empty book in a new file.
    pub fn create(path: &Path) -> Result<Self> {
        Self::go_on(path, Accounts::default())
    }

    /// A book in a new file that goes on from these accounts.
    pub fn go_on(path: &Path, accounts: Accounts) -> Result<Self> {
        let file = File::create_new(path).with_context(|| format!("making {}", path.display()))?;
        let directory = path.parent().context("a book lies in a directory")?;
        File::open(directory)?.sync_all()?;
        Ok(Self { file: Some(file), ..Self::trial(accounts) })
    }

    /// A book that was left in the middle. What was not written to its end counts for nothing, and
    /// is cut off.
    pub fn reopen(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).with_context(|| path.display().to_string())?;
        let (accounts, whole) = sum(&bytes).with_context(|| path.display().to_string())?;
        let mut file = File::options().write(true).open(path)?;
        file.set_len(whole)?;
        file.seek(SeekFrom::End(0))?;
        file.sync_all()?;
        Ok(Self { file: Some(file), ..Self::trial(accounts) })
    }

    /// A book in memory that goes on from these accounts.
    pub fn trial(accounts: Accounts) -> Self {
        Self { file: None, unsynced: String::new(), accounts, listener: None }
    }

    /// From now on each entry is told to `listener`, too.
    pub fn listen(&mut self, listener: Option<Listener>) {
        self.listener = listener;
    }

    /// Makes an entry. What follows from it may leave after [`sync`](Self::sync).
    pub fn enter(&mut self, entry: Entry) {
        let start = self.unsynced.len();
        self.unsynced.push_str(&entry.to_string());
        if let Some(listener) = &mut self.listener {
            listener(&self.unsynced[start..]);
        }
        self.unsynced.push('\n');
        self.accounts.apply(&entry);
    }

    /// Makes all entries so far durable.
    pub fn sync(&mut self) -> io::Result<()> {
        if self.unsynced.is_empty() {
            return Ok(());
        }
        if let Some(file) = &mut self.file {
            file.write_all(self.unsynced.as_bytes())?;
            file.sync_data()?;
        }
        self.unsynced.clear();
        Ok(())
    }

    /// Takes down that a promise was broken.
    pub fn accuse(&mut self, promise: &'static str, what: String) {
        self.accounts.accuse(promise, what);
    }

    /// The sum of all entries.
    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Takes down what this audience lacks.
    pub fn accuse_missing(&mut self, audience: usize) {
        self.accounts.accuse_missing(audience);
    }
}

/// The sum of the entries, and how many bytes they take: up to the first one that is none, if no
/// other comes behind it.
fn sum(bytes: &[u8]) -> Result<(Accounts, u64)> {
    let mut accounts = Accounts::default();
    let mut taken = 0;
    let entry = |line: &[u8]| std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?.parse().ok();
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    for line in lines.by_ref() {
        let Some(entry) = entry(line) else { break };
        accounts.apply(&entry);
        taken += line.len() as u64;
    }
    ensure!(lines.all(|line| entry(line).is_none()), "no entry at byte {taken}, but behind it");
    Ok((accounts, taken))
}

impl std::fmt::Debug for Book {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Book").field("accounts", &self.accounts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_were_not_written_to_their_end_count_for_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("accounts");
        let acknowledged = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let mut book = Book::reopen(&path).ok()?;
            book.enter(Entry::Acked { by: 0, seq: 9 });
            book.sync().unwrap();
            assert!(std::fs::read_to_string(&path).unwrap().ends_with("\nacked 0 9\n"));
            assert_eq!(Book::reopen(&path).unwrap().accounts().acknowledged(), 2);
            Some(book.accounts().acknowledged())
        };
        assert_eq!(acknowledged("acked 0 1\n"), Some(2));
        assert_eq!(acknowledged("acked 0 1\nacked 0 2"), Some(2));
        assert_eq!(acknowledged("acked 0 1\n\0\0\0\n\0\n"), Some(2));
        assert_eq!(acknowledged("acked 0 1\nnonsense\nacked 0 2\n"), None);
    }

    #[test]
    fn the_file_holds_what_was_synced_and_its_sum_is_the_accounts() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("book");
        let mut book = Book::create(&path).unwrap();
        assert!(Book::create(&path).is_err(), "no book is overwritten");
        let (said, heard) = std::sync::mpsc::channel();
        book.listen(Some(Box::new(move |line| said.send(line.to_owned()).unwrap())));
        book.enter(Entry::Sent { by: 0, seq: 1, id: 1 });
        book.sync().unwrap();
        book.enter(Entry::Acked { by: 0, seq: 1 });
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "sent 0 1 1\n");
        book.sync().unwrap();
        book.listen(None);
        let lines = std::fs::read_to_string(&path).unwrap();
        let mut again = Accounts::default();
        lines.lines().for_each(|line| again.apply(&line.parse().unwrap()));
        assert_eq!(again.acknowledged(), 1);
        assert!(heard.iter().eq(lines.lines()));
    }
}
