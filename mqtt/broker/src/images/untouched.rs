//! Queues that stay in an image, and their way back when they are touched.

use zzq_engine::image::{ImageError, Section, UntouchedReader};
use zzq_engine::session::Untouched;
use zzq_engine::{Record, SessionNumber, State};
use zzq_snapshot::{ReadError, Volume};
use zzq_wal::disk::DiskFile;

/// A queue could not be read from an image.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TouchError {
    /// Its file.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Its bytes are what was written, and are not this queue.
    #[error("{file} does not hold the queue of session {session}: {reason}")]
    Contents {
        /// Its file.
        file: String,
        /// Whose queue.
        session: SessionNumber,
        /// What is wrong.
        reason: String,
    },
}

/// Reads what an image holds of a queue.
pub(super) fn read<F: DiskFile>(
    image: &Volume<F>,
    session: SessionNumber,
    front: Untouched,
) -> Result<UntouchedReader, TouchError> {
    let wrong =
        |reason: String| TouchError::Contents { file: image.name().to_owned(), session, reason };
    let failed = |error: ImageError| wrong(error.to_string());
    let mut reader = UntouchedReader::new(session, front);
    let mut cursor = image.seek(u16::from(Section::Queues.code()), &reader.key())?;
    while let Some(entry) = cursor.next_entry()? {
        if !reader.entry(entry.key, entry.value).map_err(failed)? {
            break;
        }
    }
    if reader.is_whole() { Ok(reader) } else { Err(wrong("messages are missing".to_owned())) }
}

/// Gives back the queues that a record touches, before it is applied.
pub(crate) fn give_back<F: DiskFile>(
    image: Option<&Volume<F>>,
    state: &mut State,
    record: &Record<'_>,
) -> Result<(), TouchError> {
    let mut touched = Vec::new();
    state.touches(record, |session| touched.push(session));
    for session in touched {
        // A session may be named several times.
        let (Some(front), Some(image)) = (state.untouched(session), image) else { continue };
        let read = read(image, session, front)?;
        let wrong = |error: ImageError| TouchError::Contents {
            file: image.name().to_owned(),
            session,
            reason: error.to_string(),
        };
        state.give_back(read).map_err(wrong)?;
    }
    Ok(())
}
