//! The records that entries name: what an image needs besides itself.

use zzq_types::Lsn;

use crate::wire::{Reader, RecordError};

use super::read::{each_waiting, key_of, read_orphan, read_retained, read_session, session_of};
use super::{ImageError, Section};

/// Calls `each` with every record whose message this entry holds, and with what the message weighs
/// as far as the entry tells; a record that is named twice comes twice.
pub fn references(
    section: Section,
    key: &[u8],
    value: &[u8],
    mut each: impl FnMut(Lsn, u32),
) -> Result<(), ImageError> {
    find(section, key, Reader::new(value), &mut each)
        .map_err(|error| ImageError::Entry(section, error))
}

fn find(
    section: Section,
    key: &[u8],
    value: Reader<'_>,
    each: &mut impl FnMut(Lsn, u32),
) -> Result<(), RecordError> {
    let mut of = Reader::new(key);
    match section {
        Section::Sessions => {
            let number = session_of(&mut of)?;
            if let Some(will) = read_session(number, value)?.will {
                each(will.lsn, 0);
            }
        }
        Section::Queues => {
            let (_, first) = key_of(&mut of)?;
            each_waiting(first, value, |waiting, _, _| {
                if !waiting.taken {
                    each(waiting.lsn, waiting.size);
                }
                Ok(())
            })?;
        }
        Section::Wills => each(Lsn::new(key_of(&mut of)?.1), 0),
        Section::Orphans => {
            let orphan = read_orphan(value)?;
            each(orphan.lsn, orphan.size);
        }
        Section::Retained => {
            let retained = read_retained(value)?;
            each(retained.lsn, retained.size);
        }
        Section::Marks
        | Section::Subscriptions
        | Section::Inbound
        | Section::Ended
        | Section::Facts
        | Section::Replays => {}
    }
    Ok(())
}
