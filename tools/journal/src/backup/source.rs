//! What there is to copy.
//!
//! Owns: the good images with the cold files that they need, opened before the segments: these
//! files are never written again, and who has one open reads it whatever becomes of its name.
//! Does not know: how much of it is wanted.

use std::io;

use zzq_snapshot::{
    ColdFile, Kind, Need, NeededKind, ReadError, Volume, at_full_speed, cold_name, cold_number,
    image_name, image_number,
};
use zzq_wal::disk::{Disk, DiskFile};
use zzq_wal::format::meta::Facts;
use zzq_wal::{Lsn, segment_number};

use super::error::BackupError;
use crate::place::Trouble;
use crate::survey::Survey;

/// See the file.
pub(super) struct Source<F> {
    pub(super) facts: Facts,
    /// Good ones, the oldest first.
    pub(super) images: Vec<Image<F>>,
    pub(super) survey: Survey<F>,
    /// What is wrong with others.
    pub(super) passed: Vec<String>,
}

/// An image, and what it needs.
pub(super) struct Image<F> {
    pub(super) volume: Volume<F>,
    pub(super) raw: Raw<F>,
    needs: Vec<Need>,
    pub(super) cold: Vec<(u64, Raw<F>)>,
}

/// A file to be copied byte by byte.
#[derive(Clone)]
pub(super) struct Raw<F> {
    pub(super) name: String,
    pub(super) file: F,
}

impl<F: DiskFile> Image<F> {
    /// The last record that it covers.
    pub(super) fn lsn(&self) -> Lsn {
        self.volume.heading().lsn
    }

    /// The first record that the log must have.
    pub(super) fn first_needed(&self) -> Lsn {
        let named = self.needs.iter().filter(|need| need.kind == NeededKind::Segment);
        named.map(|need| need.first).fold(self.lsn().next(), Lsn::min)
    }
}

impl<F: DiskFile> Source<F> {
    pub(super) fn open<D: Disk<File = F>>(disk: &D) -> Result<Self, BackupError> {
        let list = disk.list().map_err(opened("the directory"))?;
        let mut numbers: Vec<u64> =
            list.iter().filter_map(|(name, _)| image_number(name)).collect();
        numbers.sort_unstable();
        let (mut images, mut passed) = (Vec::new(), Vec::new());
        for number in numbers {
            match open_image(disk, number)? {
                Ok(image) => images.push(image),
                Err(reason) => passed.push(reason),
            }
        }
        let survey = Survey::read(disk)?;
        let Some(facts) = survey.meta.facts.clone() else {
            let reason = survey.meta.faults.join("; ");
            return Err(BackupError::damage(zzq_wal::META_NAME, 0, &reason));
        };
        images.retain(|image: &Image<F>| {
            let same = image.volume.heading().identity.log == facts.identity.log;
            if !same {
                passed.push(format!("{} is an image of another log", image.raw.name));
            }
            same
        });
        Ok(Self { facts, images, survey, passed })
    }
}

/// Opens an image and reads all of it; the inner error is what is wrong with it.
fn open_image<D: Disk>(
    disk: &D,
    number: u64,
) -> Result<Result<Image<D::File>, String>, BackupError> {
    let name = image_name(number);
    let file = disk.open(&name).map_err(opened(&name))?;
    let looked = Volume::open(disk, Kind::Image, number).and_then(|volume| {
        volume.verify(at_full_speed())?;
        let needs = volume.needs()?;
        Ok((volume, needs))
    });
    let (volume, needs) = match looked {
        Ok(looked) => looked,
        Err(error) => return Ok(Err(passable(error)?)),
    };
    let mut cold = Vec::new();
    for need in needs.iter().filter(|need| need.kind == NeededKind::Cold) {
        let needed = cold_name(need.number);
        let file = match disk.open(&needed) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Err(format!("{name} needs {needed}, which is not there")));
            }
            opening => opening.map_err(opened(&needed))?,
        };
        let looked = ColdFile::open(disk, need.number)
            .and_then(|cold| cold.volume().verify(at_full_speed()));
        if let Err(error) = looked {
            return Ok(Err(format!("{name} needs {needed}: {}", passable(error)?)));
        }
        cold.push((need.number, Raw { name: needed, file }));
    }
    Ok(Ok(Image { volume, raw: Raw { name, file }, needs, cold }))
}

/// What is wrong with a file, where that says nothing of others.
fn passable(error: ReadError) -> Result<String, BackupError> {
    match error {
        ReadError::Version { ref file, .. } => {
            let (file, reason) = (file.clone(), error.to_string());
            Err(Trouble::Version { file, reason }.into())
        }
        ReadError::Disk { file, error, .. } if error.kind() == io::ErrorKind::NotFound => {
            Err(Trouble::File { file, error }.into())
        }
        error => Ok(error.to_string()),
    }
}

/// A file of the source could not be opened or read.
pub(super) fn opened(file: &str) -> impl FnOnce(io::Error) -> BackupError {
    let file = file.to_owned();
    move |error| Trouble::File { file, error }.into()
}

/// The names of a log's files. As long as they stay the same nothing of it is let go or used again:
/// a file loses its name before.
pub(super) fn names<D: Disk>(disk: &D) -> Result<Vec<String>, BackupError> {
    let is_ours = |name: &String| {
        segment_number(name).is_some()
            || image_number(name).is_some()
            || cold_number(name).is_some()
    };
    let list = disk.list().map_err(opened("the directory"))?;
    let mut names: Vec<String> = list.into_iter().map(|(name, _)| name).filter(is_ours).collect();
    names.sort_unstable();
    Ok(names)
}
