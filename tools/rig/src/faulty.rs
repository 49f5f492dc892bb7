//! A file system that passes everything on to a directory, sees each operation, and fails or kills
//! at the one that it was told.
//!
//! Owns: its mount. Does not know: why it is told so.
//!
//! The points at which a broker is killed have their names from here: the operation and the kind
//! of file, as in "rename to segment". They are found by looking at what a broker does, so that
//! parts of it that come later bring points of their own, and nothing in the broker knows of them.

mod control;
mod files;
mod server;
mod step;

use std::io;
use std::path::Path;
use std::sync::Arc;

pub use self::control::{Control, Effect, Fault, Kill, Moment};
pub use self::step::{Kind, Op, Step};
use crate::fuse::channel::{Channel, Served};

/// See the file; dropping it unmounts.
#[derive(Debug)]
pub struct Faulty {
    control: Arc<Control>,
    _served: Served,
}

impl Faulty {
    /// Shows `behind` at `directory`. No process that is waited for may use `directory` by itself.
    pub fn mount(behind: &Path, directory: &Path) -> io::Result<Self> {
        let control = Arc::new(Control::default());
        let files = files::Files::new(behind)?;
        let channel = Channel::mount(directory)?;
        let server = server::Server::new(channel, files, Arc::clone(&control));
        Ok(Self { control, _served: Served::spawn(directory, move || server.run())? })
    }

    /// Who tells it what to do.
    pub fn control(&self) -> &Arc<Control> {
        &self.control
    }
}
