//! Real storage: aligned memory, and what carries it to a device.
//!
//! Owns: every unsafe block of the crate (in `aio`, `allocator`, `buffer` and `uring`), system
//! calls, buffers between submission and completion.
//! Does not know: segments, groups, records.

#[expect(unsafe_code, reason = "system calls that no safe crate offers; each block proves its own")]
mod aio;
#[expect(unsafe_code, reason = "a call that no safe crate offers; the block proves its own")]
mod allocator;
#[expect(unsafe_code, reason = "aligned blocks seen as bytes; each block proves its own")]
mod buffer;
#[cfg(test)]
#[expect(unsafe_code, reason = "a filter of system calls; the block proves its own")]
mod confined;
mod directory;
pub mod event;
mod file;
mod file_disk;
mod lock;
mod pwrite;
mod read_only;
#[cfg(test)]
mod samples;
#[expect(unsafe_code, reason = "rings shared with the kernel; each block proves its own")]
mod uring;

pub use allocator::give_back_free_memory;
pub use buffer::IoBuffer;
pub use file::OpenFile;
pub use file_disk::{Backend, FileDisk, OpenError, UnknownBackend};
pub use lock::{DirectoryLock, LockError};
pub use read_only::{LockHolder, ReadOnlyDisk, ReadOnlyFile, lock_holder};
pub use uring::Issuers;
