//! Looking at a log, and copies of it: what is looked at is never written to.
//!
//! Owns: `verify` and `dump`, what they print, and a second, plainer reading of a log's files than
//! the log's own recovery. Recovery stops where the log ends or is damaged; this one goes on
//! behind, and says what it passed over. What recovery says is the verdict; the two must agree.
//! `copy` and `restore`, which make a directory of their own.
//! Does not know: how a log is written, mended or made smaller.
//!
//! Bytes of a log may be anything: what is printed of them holds no control characters.

#![forbid(unsafe_code)]

mod backup;
mod bar;
mod cold;
mod describe;
#[cfg(test)]
mod documented;
mod dump;
mod escape;
mod groups;
mod judge;
mod parts;
mod place;
#[cfg(not(feature = "planted-bugs"))]
mod planted;
#[cfg(feature = "planted-bugs")]
pub mod planted;
mod report;
mod survey;
mod time;
mod value;
mod verify;
mod walk;

pub use backup::{BackupError, BackupOptions, Taken, Wish, backup, copy_log};
pub use bar::Bar;
pub use dump::{DumpOptions, PayloadForm, dump};
pub use place::{Place, Trouble};
pub use survey::Survey;
pub use verify::{VerifyOptions, verify};
pub use walk::{Event, Found, Stop, Watch, walk};

/// How a run ended, as an exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Status {
    /// A clean or torn end: a broker starts on it and loses nothing that it acknowledged.
    Good = 0,
    /// Bytes that were durable are gone or changed.
    Damaged = 1,
    /// The command line is wrong, there is no log, it cannot be read, or it is in use.
    Unreadable = 2,
    /// Intact, but a record has a body that a broker does not take.
    Refused = 3,
}
