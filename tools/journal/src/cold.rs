//! Records that outlived their segments.
//!
//! Owns: where each is, and their order. Does not know: which of them are wanted.

use std::io;
use std::ops::ControlFlow;

use zzq_snapshot::{ColdFile, ReadError, cold_number};
use zzq_wal::Lsn;
use zzq_wal::disk::Disk;
use zzq_wal::format::record::Flags;
use zzq_wal::io::ReadOnlyFile;

use crate::place::{Place, Trouble};
use crate::walk::Found;

/// All cold files of a log.
#[derive(Debug)]
pub(crate) struct Cold {
    files: Vec<ColdFile<ReadOnlyFile>>,
    /// Each record once, ascending, and in which file.
    records: Vec<(Lsn, usize)>,
}

impl Cold {
    /// Opens them.
    pub(crate) fn open(place: &Place) -> Result<Self, Trouble> {
        let disk = place.disk()?;
        let failed = |error| Trouble::File { file: "the directory".to_owned(), error };
        let list = disk.list().map_err(failed)?;
        let mut cold = Self { files: Vec::new(), records: Vec::new() };
        for number in list.iter().filter_map(|(name, _)| cold_number(name)) {
            match ColdFile::open(&disk, number) {
                Ok(file) => {
                    let at = cold.files.len();
                    cold.records.extend(file.lsns().map(|lsn| (lsn, at)));
                    cold.files.push(file);
                }
                // What it had is in others, or needed no more.
                Err(ReadError::Disk { error, .. })
                    if place.is_live() && error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(trouble(error)),
            }
        }
        // A record that is in several files is the same in all.
        cold.records.sort_unstable();
        cold.records.dedup_by_key(|(lsn, _)| *lsn);
        Ok(cold)
    }

    /// Shows the records from one up to another, without that one.
    pub(crate) fn each(
        &self,
        from: Lsn,
        below: Lsn,
        visit: &mut dyn FnMut(&Found<'_>) -> ControlFlow<()>,
    ) -> Result<(), Trouble> {
        let begin = self.records.partition_point(|(lsn, _)| *lsn < from);
        let mut readers: Vec<_> = self.files.iter().map(ColdFile::reader).collect();
        for &(lsn, at) in self.records[begin..].iter().take_while(|(lsn, _)| *lsn < below) {
            // Its file names it, so it has it, or is damaged.
            let Some(found) = readers[at].read(lsn).map_err(trouble)? else { continue };
            let (time_ms, kind, flags) = (found.time_ms, found.kind, Flags::default());
            if visit(&Found { lsn, time_ms, kind, flags, body: found.body }).is_break() {
                break;
            }
        }
        Ok(())
    }
}

fn trouble(error: ReadError) -> Trouble {
    match error {
        ReadError::Version { ref file, .. } => {
            Trouble::Version { file: file.clone(), reason: error.to_string() }
        }
        ReadError::Disk { file, error, .. } => Trouble::File { file, error },
        error => Trouble::File { file: "a cold file".to_owned(), error: io::Error::other(error) },
    }
}
