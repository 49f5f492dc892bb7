//! The crash-recovery rig: injures the real thing, on a real kernel, and counts what it promised.
//!
//! Owns: recording what reaches a disk under a real file system, and the judgement about what is
//! found after each power cut that the record allows.
//! Does not know: the insides of the log; it uses it as anybody does.
//!
//! ```text
//!  workload (a process: log, AIO)          rig (a process: FUSE server, recorder)
//!        │ files        └── notes: appended, durable ──> ┐
//!      ext4                                             one order of events
//!        │ blocks                                        ┘ ^
//!   loop device ── direct I/O ──> file of the FUSE mount ──┘
//! ```
//!
//! Later, for each moment of the record, a disk is made of all that a flush had covered and of some
//! of the rest, the kernel mounts it, and a fresh process opens the log.

#![forbid(unsafe_code)]

pub mod accounts;
pub mod after;
mod at_rest;
pub mod blackout;
pub mod body;
pub mod broker;
pub mod cast;
mod command;
pub mod crew;
#[cfg(test)]
#[path = "../../journal/src/documented.rs"]
mod documented;
pub mod faulty;
pub mod fuse;
pub mod gate;
pub mod image;
pub mod injuries;
pub mod loopdev;
pub mod notes;
pub mod payload;
pub mod place;
pub mod power_cut;
pub mod promise;
pub mod recorder;
pub mod recovery;
pub mod replay;
pub mod run;
pub mod scene;
pub mod sealed;
pub mod served;
pub mod soak;
pub mod unfit;
pub mod workload;
