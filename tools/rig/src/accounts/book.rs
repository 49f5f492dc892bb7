//! The accounts in a file of their own: an entry counts when it is synced.
//!
//! Owns: that order, and that one process at a time writes the file. Does not know: what entries
//! mean.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

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
        ensure!(lock(&file)?, "{}: somebody else has it", path.display());
        Ok(Self::in_file(file, accounts))
    }

    /// A book that was left in the middle. What was not written to its end counts for nothing, and
    /// is cut off. `None`: somebody still writes it, and may say more than stands there.
    pub fn reopen(path: &Path) -> Result<Option<Self>> {
        let named = || path.display().to_string();
        let mut file = File::options().read(true).write(true).open(path).with_context(named)?;
        if !lock(&file).with_context(named)? {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).with_context(named)?;
        let (accounts, whole) = sum(&bytes).with_context(named)?;
        file.set_len(whole)?;
        file.seek(SeekFrom::End(0))?;
        file.sync_all()?;
        Ok(Some(Self::in_file(file, accounts)))
    }

    fn in_file(file: File, accounts: Accounts) -> Self {
        let mut book = Self::trial(accounts);
        book.file = Some(file);
        book
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

impl Drop for Book {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            // What has just been forked has the file too, until it runs its program, and the
            // kernel would keep the lock for it.
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

/// Takes the lock of whoever writes a book, unless somebody has it: it ends with the process,
/// however that ends.
fn lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
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
            let mut book = Book::reopen(&path).ok()?.unwrap();
            book.enter(Entry::Acked { by: 0, seq: 9 });
            book.sync().unwrap();
            assert!(std::fs::read_to_string(&path).unwrap().ends_with("\nacked 0 9\n"));
            let acknowledged = book.accounts().acknowledged();
            drop(book);
            let again = Book::reopen(&path).unwrap().unwrap();
            assert_eq!(again.accounts().acknowledged(), acknowledged);
            Some(acknowledged)
        };
        assert_eq!(acknowledged("acked 0 1\n"), Some(2));
        assert_eq!(acknowledged("acked 0 1\nacked 0 2"), Some(2));
        assert_eq!(acknowledged("acked 0 1\n\0\0\0\n\0\n"), Some(2));
        assert_eq!(acknowledged("acked 0 1\nnonsense\nacked 0 2\n"), None);
    }

    /// A run whose first process is killed goes on for a moment. Its messages reached the broker,
    /// but not the accounts that had been read, and were then held against the broker.
    #[test]
    fn a_book_that_somebody_writes_is_not_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("accounts");
        let mut book = Book::create(&path).unwrap();
        book.enter(Entry::Sent { by: 0, seq: 1, id: 1 });
        book.sync().unwrap();
        assert!(Book::reopen(&path).unwrap().is_none(), "it goes on");
        book.enter(Entry::Sent { by: 0, seq: 2, id: 2 });
        book.sync().unwrap();
        drop(book);
        let again = Book::reopen(&path).unwrap().unwrap();
        assert_eq!(again.accounts().publisher(0).sent(), 2);
        assert!(Book::reopen(&path).unwrap().is_none(), "so does who has opened it again");
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
