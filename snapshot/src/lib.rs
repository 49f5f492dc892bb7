//! Named, checksummed sections of bytes: images and cold files.
//!
//! Owns: the format of an image, writing one aside and switching to it, what may go afterwards.
//! Does not know: sockets, lanes, what a section means.
//!
//! Filled by the snapshot issue; until then this comment is the whole crate.

#![forbid(unsafe_code)]
