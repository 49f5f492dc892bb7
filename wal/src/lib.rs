//! The log: bytes that survive.
//!
//! Owns: records, groups and segments on disk, LSNs, durability, recovery, readers.
//! Does not know: MQTT, sessions, what the body of a record means.
//!
//! # How it is used
//!
//! A [`Log`] lives in one directory of a [`disk::Disk`]. Opening it shows every record to a visitor
//! and makes what was found durable.
//!
//! A thread that may block has an [`Appender`]: its call returns when records are durable. One that
//! has many records in flight, and nothing else to do, has a [`Writer`]. The crate's README has a
//! program, the guarantees, and what to do on each error; a longer one is `examples/journal.rs`.
//!
//! | to | there is |
//! | --- | --- |
//! | open, or make | [`io::DirectoryLock::acquire`], [`io::FileDisk::open`], [`Log::open`] |
//! | have its segments made and used again | [`Log::spawn_helper`], once |
//! | append, and wait | [`Appender::append`]; [`Writer::stage`], [`Writer::wait`]; a [`Producer`] |
//! | read, and follow | [`Log::reader`]; [`Reader::next_record`] gives `None` where more may come |
//! | give up its front | [`Log::trim`] |
//! | give up its end, in a cluster | [`Log::truncate`] |
//! | close it | drop who appends, [`Log::mark_durable`], drop the helper, the log, the lock |
//! | look at one without changing it | [`inspect`] on an [`io::ReadOnlyDisk`] |
//!
//! Where threads have event loops, each lane (a thread with its own event loop) owns one
//! [`Producer`]: it *stages* records in its turn, *drives* the log at the turn's end, and learns by
//! count how many of its records are durable. Whichever lane drives while leadership is free packs
//! what all lanes have staged into one group, gives the records their LSNs, and submits one write;
//! two groups may be in flight. The log does nothing by itself, unless it is given a thread that
//! leads in the lanes' stead ([`Log::spawn_driver`]): they do all the same, and are never held up
//! by a submission. What may block (making, closing and recycling segments, `meta`) is the helper's
//! work, on a thread of its own or step by step.
//!
//! ```
//! use std::sync::Arc;
//! use zzq_wal::{Log, Options, Staging, Wake, sim_disk::SimDisk};
//!
//! struct Nobody;
//! impl Wake for Nobody {
//!     fn wake(&self) {}
//! }
//!
//! let disk = SimDisk::new(); // on a machine: io::FileDisk
//! let (log, _) = Log::open(disk.clone(), Options::from_os()?, 0, &mut |_| Ok(()))?;
//! let mut lane = log.producer(Arc::new(Nobody), None)?;
//! let how = Staging { kind: 1, waits: true, ..Staging::default() };
//! let handed = lane.stage(&how, |out| out.extend_from_slice(b"hello"))?;
//! while lane.durable() < handed {
//!     lane.drive(1_700_000_000_000);
//! }
//! drop((lane, log));
//!
//! let mut found = Vec::new();
//! Log::open(disk, Options::from_os()?, 0, &mut |record| {
//!     found.push((record.lsn.get(), record.body.to_vec()));
//!     Ok(())
//! })?;
//! assert_eq!(found, [(1, b"hello".to_vec())]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a lane heeds
//!
//! * It calls [`Producer::drive`] at the end of each turn in which it staged, read its
//!   [`TailCursor`], was woken, saw its notify fd readable, or in which the time of the last
//!   [`Drive::again_at`] has come. Nothing staged before the call is forgotten, even if another
//!   lane leads at that moment.
//! * Acknowledgements wait for [`Producer::durable`]; [`Producer::wants`] asks for one wake-up.
//! * A cursor that is not read stops the log: `drive` says so in [`Drive::stall`] to who leads.
//! * A file that fails while it is made ready as the next segment is replaced, once. After that, or
//!   after a write's error that one move to a fresh segment has not cured the log is read-only
//!   ([`Log::status`]): `durable` stands still for ever (a call that was just publishing may end
//!   with it), and what it does not reach must never be acknowledged.
//!
//! # In a cluster
//!
//! A replicator says what is committed ([`Options::commits`], [`Log::commit`]); readers stop there
//! unless they ask. What is not committed may go: [`Log::truncate`] ends all producers and cursors,
//! and the log goes on under a newer term behind the last group that stays.
//!
//! The files are drawn byte by byte in `doc/format.md`.

mod appender;
mod chunk;
mod clock;
pub mod disk;
mod error;
pub mod format;
pub mod io;
mod log;
mod lsn;
mod meta;
mod reader;
mod recover;
mod rules;
mod segment;
pub mod sim_disk;
mod sync;
mod tail;
mod waiting;
mod writer;

/// The program in the README is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use appender::Appender;
pub use clock::LogClock;
pub use error::{
    AppendError, Damage, OpenError, ReadError, StageError, TooManyProducers, TruncateError,
};
pub use log::{
    Commits, Drive, DriverSteps, DriverThread, Entropy, Found, HelperThread, Log, Options,
    Producer, Reserve, Space, Staging, Stall, Status, Wake, WriteTimes,
};
pub use lsn::{Handed, Lsn};
pub use meta::{read_facts, write_facts};
pub use reader::{Limit, PlacedRecord, Places, ReadRecord, Reader, RecordPlace};
#[cfg(feature = "negative-controls")]
pub mod negative_controls {
    //! Rules of the log, to be switched off by tests.
    pub use crate::rules::{Rule, SwitchedOff, switch_off};
}
pub use recover::{
    Cleared, End, OnProgress, PROGRESS_STEP, Progress, RecoveredRecord, Recovery, Renewed,
    SegmentReport, Visit, Void, Why, inspect,
};
pub use segment::{KeptSegment, META_NAME, segment_name, segment_number};
pub use tail::{Group, TailCursor, TailRecord};
pub use writer::Writer;
