//! The accounts in a file of their own: an entry counts when it is synced.
//!
//! Owns: that order. Does not know: what entries mean.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};

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

impl std::fmt::Debug for Book {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Book").field("accounts", &self.accounts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
