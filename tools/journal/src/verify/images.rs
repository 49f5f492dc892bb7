//! The images and cold files beside a log: each is read to its last byte, and what a broker would
//! start from is weighed against where the log begins.
//!
//! Owns: the line of each of them, and the verdict where the log alone is good.

use std::io;

use zzq_engine::image::Section;
use zzq_snapshot::{
    ColdFile, Kind, NeededKind, ReadError, Volume, at_full_speed, cold_name, cold_number,
    image_name, image_number,
};
use zzq_wal::disk::DiskFile;
use zzq_wal::format::meta::Facts;

use super::verdict::Verdict;
use crate::Status;
use crate::place::{Place, Trouble};
use crate::report::{ColdLine, ImageEnd, ImageLine, SectionCount};

/// All of them, the oldest first.
pub(super) struct Volumes {
    pub(super) images: Vec<ImageLine>,
    pub(super) cold: Vec<ColdLine>,
}

/// Looks at all of them.
pub(super) fn look(place: &Place, facts: Option<&Facts>) -> Result<Volumes, Trouble> {
    // A broker that runs may have stated more by now.
    let stated = facts.filter(|_| !place.is_live());
    let mut images = look_at_images(place, facts)?;
    for line in &mut images {
        if stated.is_some_and(|facts| line.number > facts.snapshot_number) {
            line.end = ImageEnd::Unstated;
        }
    }
    // What an image needs is told by those that count.
    let mut cold = look_at_cold(place, &images)?;
    let last = |facts: &Facts| facts.cold_files().map_or(0, |range| range.last);
    for line in cold.iter_mut().filter(|line| !line.needed) {
        if stated.is_some_and(|facts| line.number > last(facts)) {
            line.end = ImageEnd::Unstated;
        }
    }
    Ok(Volumes { images, cold })
}

fn look_at_cold(place: &Place, images: &[ImageLine]) -> Result<Vec<ColdLine>, Trouble> {
    let disk = place.disk()?;
    let failed = |error| Trouble::File { file: "the directory".to_owned(), error };
    let list = zzq_wal::disk::Disk::list(&disk).map_err(failed)?;
    let there = list.iter().filter_map(|(name, _)| cold_number(name));
    let is_good = |image: &&ImageLine| image.end == ImageEnd::Good;
    let needed =
        || images.iter().filter(is_good).flat_map(|image| image.needs_cold.iter().copied());
    let mut numbers: Vec<u64> = there.chain(needed()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut lines = Vec::new();
    for number in numbers {
        let needed = needed().any(|needed| needed == number);
        let mut line = ColdLine { number, file: cold_name(number), needed, ..ColdLine::default() };
        let opened = ColdFile::open(&disk, number).and_then(|file| {
            (line.bytes, line.records) = (file.volume().size(), file.len());
            file.volume().verify(at_full_speed())
        });
        match opened {
            Ok(()) => {}
            Err(ReadError::Disk { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                // A broker that runs lets old ones go.
                if place.is_live() {
                    continue;
                }
                line.end = ImageEnd::Missing;
            }
            Err(error) => (line.end, line.offset, line.reason) = fault(error)?,
        }
        lines.push(line);
    }
    Ok(lines)
}

fn look_at_images(place: &Place, facts: Option<&Facts>) -> Result<Vec<ImageLine>, Trouble> {
    let disk = place.disk()?;
    let failed = |error| Trouble::File { file: "the directory".to_owned(), error };
    let list = zzq_wal::disk::Disk::list(&disk).map_err(failed)?;
    let mut numbers: Vec<u64> = list.iter().filter_map(|(name, _)| image_number(name)).collect();
    numbers.sort_unstable();
    let mut lines = Vec::new();
    for number in numbers {
        match Volume::open(&disk, Kind::Image, number) {
            Ok(volume) => lines.push(read(&volume, facts)?),
            // A broker that runs lets old ones go.
            Err(ReadError::Disk { error, .. })
                if place.is_live() && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => lines.push(spoilt(number, error)?),
        }
    }
    let marked = facts.map_or(0, |facts| facts.snapshot_number);
    for line in &mut lines {
        line.marked = line.number == marked;
    }
    if marked > 0 && !place.is_live() && lines.iter().all(|line| !line.marked) {
        let (file, end) = (image_name(marked), ImageEnd::Missing);
        lines.push(ImageLine { number: marked, file, end, marked: true, ..ImageLine::default() });
    }
    Ok(lines)
}

fn read<F: DiskFile>(volume: &Volume<F>, facts: Option<&Facts>) -> Result<ImageLine, Trouble> {
    let heading = *volume.heading();
    let sections = volume.sections().map(|section| {
        let known = u8::try_from(section.section).ok().and_then(Section::from_code);
        let name = known.map_or_else(|| section.section.to_string(), |known| format!("{known:?}"));
        SectionCount { name, entries: section.entries }
    });
    let mut line = ImageLine {
        number: heading.number,
        file: volume.name().to_owned(),
        bytes: volume.size(),
        lsn: heading.lsn.get(),
        time_ms: heading.time_ms,
        before: heading.before.map(|(number, _)| number),
        sections: sections.collect(),
        ..ImageLine::default()
    };
    let needs = match volume.verify(at_full_speed()).and_then(|()| volume.needs()) {
        Ok(needs) => needs,
        Err(error) => return Ok(ImageLine { ..blame(line, error)? }),
    };
    line.needs_from = needs.iter().map(|need| need.first.get()).min();
    line.needs = needs.len();
    let cold = needs.iter().filter(|need| need.kind == NeededKind::Cold);
    line.needs_cold = cold.map(|need| need.number).collect();
    if let Some(facts) = facts {
        let marked = facts.snapshot_number == heading.number;
        if facts.identity.log != heading.identity.log {
            line.end = ImageEnd::OtherLog;
        } else if marked && facts.snapshot != heading.lsn {
            line.end = ImageEnd::Damaged;
            line.reason = Some(format!("meta says that it covers {}", facts.snapshot));
        }
    }
    Ok(line)
}

fn spoilt(number: u64, error: ReadError) -> Result<ImageLine, Trouble> {
    blame(ImageLine { number, file: image_name(number), ..ImageLine::default() }, error)
}

fn blame(line: ImageLine, error: ReadError) -> Result<ImageLine, Trouble> {
    let (end, offset, reason) = fault(error)?;
    Ok(ImageLine { end, offset, reason, ..line })
}

/// What it is, where, and why.
fn fault(error: ReadError) -> Result<(ImageEnd, Option<u64>, Option<String>), Trouble> {
    Ok(match error {
        ReadError::Damage(damage) => (ImageEnd::Damaged, Some(damage.offset), Some(damage.reason)),
        ReadError::Version { ref file, .. } => {
            return Err(Trouble::Version { file: file.clone(), reason: error.to_string() });
        }
        error => (ImageEnd::Unreadable, None, Some(error.to_string())),
    })
}

/// Whether a broker starts from what there is, where it would start from the log alone.
pub(super) fn weigh(volumes: &Volumes, verdict: &mut Verdict) {
    let lines = &volumes.images;
    if verdict.status == Status::Damaged || verdict.status == Status::Unreadable {
        return;
    }
    let is_bad = |cold: &&ColdLine| cold.needed && cold.end != ImageEnd::Good;
    if let Some(cold) = volumes.cold.iter().find(is_bad) {
        let copy = super::verdict::COPY_FIRST;
        let text = &verdict.line.text;
        verdict.line.text = format!(
            "{cold}, with messages that are owed; the broker starts only if it can be opened, and \
             cannot send what is damaged; {text}. {copy}"
        );
        (verdict.line.file, verdict.line.offset) = (Some(cold.file.clone()), cold.offset);
        verdict.line.verdict = "damaged";
        verdict.status = Status::Damaged;
        verdict.line.status = Status::Damaged as u8;
        return;
    }
    let Some(first) = verdict.line.first_lsn else { return };
    let good = lines.iter().rev().find(|line| line.end == ImageEnd::Good);
    let reaches = good.map_or(0, |line| line.lsn) + 1 >= first;
    let is_bad = |end| !matches!(end, ImageEnd::Good | ImageEnd::Unstated);
    let bad = lines.iter().rev().find(|line| is_bad(line.end));
    let text = match (bad, good) {
        (_, None) if !reaches => {
            format!("the log begins with @{first}, and no good image covers what came before")
        }
        (_, Some(line)) if !reaches => {
            format!("the log begins with @{first}, and {} covers up to @{}", line.file, line.lsn)
        }
        (Some(bad), _) => bad.to_string(),
        (None, _) => return,
    };
    let what = match good {
        _ if !reaches => "the broker refuses to start".to_owned(),
        Some(line) => format!("the broker starts from {} and says so", line.file),
        None => "the broker starts from the log alone and says so".to_owned(),
    };
    let copy = super::verdict::COPY_FIRST;
    verdict.line.text = format!("{text}; {what}; {}. {copy}", verdict.line.text);
    verdict.line.file = bad.map(|bad| bad.file.clone());
    verdict.line.offset = bad.and_then(|bad| bad.offset);
    verdict.line.verdict = "damaged";
    verdict.status = Status::Damaged;
    verdict.line.status = Status::Damaged as u8;
}
