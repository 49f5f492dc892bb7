//! Images of the state: made of the log while everybody else goes on, and read at a start.
//!
//! Owns: the join of the engine's sections and the files that hold them, when an image is due, what
//! the log may let go behind one and what it keeps on purpose, what of it goes to cold files, and
//! where records are read that were committed long ago. Does not know: lanes, their states.

mod clean;
mod due;
mod fill;
mod keeper;
mod late;
mod load;
mod make;
mod needs;
mod olds;
mod past;
mod retain;
mod space;
mod untouched;

use zzq_engine::image::Section;

pub(crate) use self::due::Replay;
pub(crate) use self::fill::Target;
pub(crate) use self::keeper::Keeper;
pub(crate) use self::load::{LoadError, Loaded, load, read_wills};
pub(crate) use self::make::Images;
pub(crate) use self::past::{Past, Places};
pub(crate) use self::space::Pauses;
pub(crate) use self::untouched::{TouchError, give_back};

/// The version of the encoding of entries that this build writes and reads.
const CONTENTS: u32 = 1;

/// The engine's section of this number.
pub(crate) fn section_of(number: u16) -> Option<Section> {
    Section::from_code(u8::try_from(number).ok()?)
}
