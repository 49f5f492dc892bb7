//! A small journal from the documented API alone: two threads append, then what they wrote is
//! read, trimmed, and found again at the next start.
//!
//! ```sh
//! cargo run -p zzq-wal --example journal -- some-directory
//! ```

#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::thread;

use zzq_wal::io::{Backend, DirectoryLock, FileDisk};
use zzq_wal::{Appender, Log, Lsn, Options, Recovery};

const NOTE: u8 = 1;

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Fallible<()> {
    let path: PathBuf = std::env::args_os().nth(1).ok_or("name a directory")?.into();
    // One process for a directory, until the lock is dropped.
    let _lock = DirectoryLock::acquire(&path)?;
    write(&path)?;
    let (_, recovery) = open(&path)?;
    println!("the next start finds the log up to {}", recovery.last_lsn);
    Ok(())
}

fn open(path: &Path) -> Fallible<(Log<FileDisk>, Recovery)> {
    let disk = FileDisk::open(path, Backend::Auto)?;
    let mut records = 0;
    let opened = Log::open(disk, Options::from_os()?, 0, &mut |_| {
        records += 1;
        Ok(())
    })?;
    println!("{records} records were there");
    Ok(opened)
}

fn write(path: &Path) -> Fallible<()> {
    let (log, _) = open(path)?;
    let helper = log.spawn_helper()?;
    let first = log.durable().next();
    thread::scope(|scope| {
        let names = ["left", "right"];
        let threads = names.map(|name| scope.spawn(|| append(&log, name)));
        threads.into_iter().try_for_each(|ended| ended.join().map_err(|_| "a thread panicked")?)
    })?;
    let mut reader = log.reader(first)?;
    while let Some(record) = reader.next_record()? {
        println!("{} {}", record.lsn, String::from_utf8_lossy(record.body));
    }
    // What is below is not needed any more; whole segments go, when the helper comes to it.
    log.trim(reader.next_lsn());
    log.mark_durable()?;
    drop(helper);
    Ok(())
}

fn append(log: &Log<FileDisk>, name: &str) -> Fallible<()> {
    let mut appender = Appender::new(log)?;
    for n in 1..=3 {
        let lsn: Lsn = appender.append(NOTE, format!("{name} {n}").as_bytes())?;
        println!("{lsn} is durable");
    }
    Ok(())
}
