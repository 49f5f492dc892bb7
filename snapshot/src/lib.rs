//! Named, checksummed sections of bytes: images, cold files, topic indexes.
//!
//! Owns: the format of these files (*volumes*), writing one aside and switching to it, reading one
//! as a stream or one entry of it, the merge of one with what has changed since, which of them are
//! there, which of them is good, and what may go.
//! Does not know: sockets, lanes, what a section means, when an image is due.
//!
//! A volume is an immutable file of entries, sorted by section and key. It is written in one pass
//! with memory for one node a level, and is never changed. The checksum of its last block fixes
//! every byte of it: the sections' roots by their entries there, each node by the node above it,
//! the order of all nodes by a chain.
//!
//! ```
//! use zzq_snapshot::{Heading, Kind, Listing, Shelf, at_full_speed};
//! use zzq_wal::{Lsn, format::segment::Identity, sim_disk::SimDisk};
//!
//! let disk = SimDisk::new(); // on a machine: io::FileDisk
//! let identity = Identity::default();
//! let there = Listing::read(&disk)?.as_stated(0, 0); // by `meta`: none was taken yet
//! let (mut shelf, _) = Shelf::open(&disk, &there, &identity, None, at_full_speed())?;
//! let lsn = Lsn::new(7);
//! let number = shelf.next_number();
//! let heading = Heading { lsn, number, ..Heading::new(Kind::Image, identity) };
//! let mut writer = shelf.begin(&disk, heading, at_full_speed())?;
//! writer.entry(1, b"key", b"value")?;
//! let image = writer.finish()?; // synced, read back, renamed, the directory synced
//! // Here its number and LSN are marked in `meta`: what is older may go from then on.
//! shelf.admit(image)?;
//! shelf.retire(&disk)?;
//! assert_eq!(shelf.newest().map(|image| image.heading().lsn), Some(lsn));
//! assert_eq!(shelf.newest().unwrap().get(1, b"key")?.as_deref(), Some(&b"value"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod attempts;
mod cold;
mod entries;
mod error;
pub mod format;
mod levels;
mod merge;
mod names;
mod needs;
mod pace;
mod seek;
mod shelf;
mod sink;
mod topics;
mod volume;
mod window;
mod writer;

pub use cold::{ColdFile, ColdReader, ColdRecord, ColdShelf, ColdWriter};
pub use entries::{Entries, Entry};
pub use error::{Damage, ReadError, WriteError};
pub use format::{Heading, Kind, SectionEntry};
pub use merge::{Merge, MergeError};
pub use names::{
    Listing, cold_name, cold_number, image_name, image_number, remove_aside, topics_name,
    topics_number,
};
pub use needs::{Need, NeededKind};
pub use pace::{Pace, at_full_speed};
pub use seek::Cursor;
pub use shelf::{Mark, Shelf, ShelfError, Verdict, What};
pub use topics::{TopicEntry, TopicPlace, TopicsDraft, TopicsFile};
pub use volume::Volume;
pub use writer::Writer;
