//! Bytes that change on the medium, durable or not: what opening such a disk may show.
//!
//! Owns: ways to spoil an image, one for each kind of broken device. The rule: the log refuses to
//! start, or what it shows is true and holds all that can be proven.

use std::io;

use zzq_wal::disk::Disk;
use zzq_wal::format::checksum;
use zzq_wal::format::group::GroupHeader;
use zzq_wal::sim_disk::{Random, SimDisk};
use zzq_wal::{Limit, Log, Lsn, OpenError, ReadError, segment_number};

use super::expected::Expected;
use super::image::Setting;
use super::replay::options;

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Spoilt {
    /// A flipped bit, overwritten bytes, a block that is elsewhere, a file gone or exchanged.
    Bytes(String),
    /// Bytes that cannot be read: nothing is lost, so nothing may be missing.
    Unreadable(String),
    /// The end of a file: groups go with it, and their headers.
    Cut(String),
}

/// Spoils `image` and opens it; true if it was refused.
pub fn check(setting: &Setting<'_>, image: &SimDisk, random: &mut Random) -> Result<bool, String> {
    let Some(spoilt) = spoil(setting.expected, image, random) else { return Ok(false) };
    judge(setting, image, &spoilt, random.number())
        .map_err(|what| format!("with {spoilt:?}: {what}"))
}

fn judge(
    setting: &Setting<'_>,
    image: &SimDisk,
    spoilt: &Spoilt,
    seed: u64,
) -> Result<bool, String> {
    let expected = setting.expected;
    let mut visited = expected.visit(0);
    let opened = Log::open(image.clone(), options(setting.history, seed), 0, &mut |record| {
        visited.take(&record);
        Ok(())
    });
    let (log, recovery) = match opened {
        Ok(opened) => opened,
        Err(OpenError::Damage(_) | OpenError::Version { .. }) => return Ok(true),
        Err(OpenError::Disk { .. }) if matches!(spoilt, Spoilt::Unreadable(_)) => return Ok(true),
        Err(error) => return Err(error.to_string()),
    };
    let least = match spoilt {
        Spoilt::Bytes(_) => expected.proven(),
        Spoilt::Unreadable(_) => expected.least(),
        Spoilt::Cut(_) => expected.uncut(expected.marked),
    };
    let end = usize::try_from(recovery.last_lsn.get()).unwrap();
    visited.finish(end, least)?;
    read_truly(&log, expected, end)?;
    Ok(false)
}

/// A reader shows what was written, or reports what it cannot read.
fn read_truly(log: &Log<SimDisk>, expected: &Expected, end: usize) -> Result<(), String> {
    let from = expected.trimmed;
    let told = |error: &ReadError| !matches!(error, ReadError::Trimmed { .. });
    let mut reader = match log.reader_to(Lsn::new(from as u64 + 1), Limit::Durable) {
        Err(error) if told(&error) => return Ok(()),
        opened => opened.map_err(|error| error.to_string())?,
    };
    for record in &expected.records[from.min(end)..end] {
        match reader.next_record() {
            Ok(Some(read)) if read.body == record.body => {}
            Err(error) if told(&error) => return Ok(()),
            read => return Err(format!("a reader shows {read:?}")),
        }
    }
    Ok(())
}

fn spoil(expected: &Expected, image: &SimDisk, random: &mut Random) -> Option<Spoilt> {
    let files = image.list().ok()?;
    let (name, size) = files.get(random.index(files.len().max(1)))?;
    let (other, _) = &files[random.index(files.len())];
    let at = random.below((*size).max(1));
    let done = match random.below(11) {
        0 => image.flip(name, at, 3).map(|()| Spoilt::Bytes(format!("a bit of {name} at {at}"))),
        1 => {
            let len = (1 + random.below(4096)).min(size - at);
            let bytes = vec![random.pick(&[0, 0x5a, 0xff]); usize::try_from(len).unwrap()];
            let what = Spoilt::Bytes(format!("{len} bytes of {name} at {at} overwritten"));
            image.overwrite(name, at, &bytes).map(|()| what)
        }
        2 => copy_block(image, other, name, random),
        3 => image.delete(name).map(|()| Spoilt::Bytes(format!("{name} deleted"))),
        4 => image.swap(name, other).map(|()| Spoilt::Bytes(format!("{name} for {other}"))),
        5 => {
            let what = Spoilt::Unreadable(format!("a byte of {name} at {at}"));
            image.break_bytes(name, at..at + 1).map(|()| what)
        }
        6 => image.cut(name, at).map(|()| Spoilt::Cut(format!("{name} cut at {at}"))),
        7 => flip_last(expected, image, random)?,
        8 => displace(image, random)?,
        _ => forge(expected, image, random)?,
    };
    done.ok()
}

/// A block lands where it does not belong, or an old one shows up.
fn copy_block(image: &SimDisk, from: &str, to: &str, random: &mut Random) -> io::Result<Spoilt> {
    let (source, target) = (image.bytes(from)?, image.bytes(to)?);
    let blocks = (source.len() / 4096, target.len() / 4096);
    if blocks.0 == 0 || blocks.1 == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let (at, onto) = (4096 * random.index(blocks.0), 4096 * random.index(blocks.1));
    image.overwrite(to, onto as u64, &source[at..at + 4096])?;
    Ok(Spoilt::Bytes(format!("the block of {from} at {at} onto {to} at {onto}")))
}

/// A group found in a file under the file's own salt.
struct FoundGroup {
    file: String,
    at: usize,
    header: GroupHeader,
    bytes: Vec<u8>,
}

fn groups(image: &SimDisk) -> Vec<FoundGroup> {
    let mut found = Vec::new();
    for (file, _) in image.list().unwrap_or_default() {
        let Some(number) = segment_number(&file) else { continue };
        let bytes = image.bytes(&file).unwrap_or_default();
        for at in (4096..bytes.len()).step_by(4096) {
            let Some(header) = GroupHeader::decode(&bytes[at..]) else { continue };
            let ours = header.segment == number && header.salt == bytes[88..104];
            if ours && header.body_is_intact(&bytes[at..]) {
                let bytes = bytes[at..at + header.length].to_vec();
                found.push(FoundGroup { file: file.clone(), at, header, bytes });
            }
        }
    }
    found
}

/// The last group that was acknowledged goes bad.
fn flip_last(
    expected: &Expected,
    image: &SimDisk,
    random: &mut Random,
) -> Option<io::Result<Spoilt>> {
    let last = expected.last_durable_group() as u64;
    let group = groups(image).into_iter().rfind(|group| group.header.number == last)?;
    let at = group.at + random.index(group.header.length);
    let what = Spoilt::Bytes(format!("a bit of the last group, {} at {at}", group.file));
    Some(image.flip(&group.file, at as u64, 3).map(|()| what))
}

/// A group lands where its segment begins.
fn displace(image: &SimDisk, random: &mut Random) -> Option<io::Result<Spoilt>> {
    let mut groups = groups(image);
    groups.retain(|group| group.at > 4096);
    let group = groups.get(random.index(groups.len().max(1)))?;
    let what = format!("group {} of {} at its beginning", group.header.number, group.file);
    let done = image.overwrite(&group.file, 4096, &group.bytes);
    Some(done.map(|()| Spoilt::Bytes(what)))
}

/// Another group in place of one, as intact as the one that was written. The group behind it does
/// not follow it; that is damage where it was durable, as the next group but one shows.
fn forge(expected: &Expected, image: &SimDisk, random: &mut Random) -> Option<io::Result<Spoilt>> {
    let last = expected.last_durable_group() as u64;
    let mut groups = groups(image);
    groups.retain(|group| group.header.number + 3 <= last);
    if groups.is_empty() {
        return None;
    }
    let mut group = groups.swap_remove(random.index(groups.len()));
    let bytes = &mut group.bytes;
    let len = usize::try_from(u32::from_le_bytes(bytes[132..136].try_into().unwrap())).unwrap();
    let end = 128 + 12 + len;
    bytes[end - 1] ^= 0x55;
    let sums = [(128, 132..end), (8, 128..bytes.len()), (4, 8..128)];
    for (at, covered) in sums {
        let sum = checksum(&bytes[covered]).to_le_bytes();
        bytes[at..at + 4].copy_from_slice(&sum);
    }
    let what = format!("group {} of {} forged", group.header.number, group.file);
    Some(image.overwrite(&group.file, group.at as u64, bytes).map(|()| Spoilt::Bytes(what)))
}
