//! Which images are there, which of them is good, and what may go.
//!
//! Owns: the choice at a start, the verdict on each file that is not chosen, the two images that
//! are kept: the newest and the one before it, so that a start has another way if the newest is
//! damaged. Their names go before what they need does.
//! Does not know: the log; that an image is marked in `meta`, which its caller does between
//! [`Writer::finish`] and [`Shelf::admit`].

use std::fmt;
use std::io;

use zzq_wal::Lsn;
use zzq_wal::disk::{Disk, DiskFile};
use zzq_wal::format::segment::Identity;

use crate::attempts::Attempts;
use crate::cold::remove_all;
use crate::error::{Damage, ReadError, WriteError};
use crate::format::{Heading, Kind};
use crate::names::Listing;
use crate::needs::{Need, NeededKind};
use crate::pace::Pace;
use crate::volume::Volume;
use crate::writer::Writer;

/// How many images are kept.
const KEPT: usize = 2;

/// The image that `meta` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Its number.
    pub number: u64,
    /// The last record that it covers.
    pub lsn: Lsn,
}

/// What is wrong with an image.
#[derive(Debug)]
pub struct Verdict {
    /// Name of its file.
    pub file: String,
    /// What it is.
    pub what: What,
}

/// See [`Verdict`].
#[derive(Debug)]
pub enum What {
    /// `meta` names it, and it is not there.
    Missing,
    /// It is an intact image of another log.
    OtherLog,
    /// Its bytes are not what was written.
    Damaged(Damage),
    /// The disk does not give its bytes.
    Unreadable(ReadError),
    /// It needs a file that is not there. So may an image be that was removed and is back, since a
    /// loss of power can take back a removal whose sync had failed.
    Lacks(String),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = &self.file;
        match &self.what {
            What::Missing => write!(f, "{file} is missing, and meta names it"),
            What::OtherLog => write!(f, "{file} is an image of another log"),
            What::Damaged(damage) => damage.fmt(f),
            What::Unreadable(error) => error.fmt(f),
            What::Lacks(needed) => write!(f, "{file} needs {needed}, which is not there"),
        }
    }
}

/// The images could not be looked at, or put in order.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// A newer program made one of them: use that one.
    #[error(transparent)]
    Version(ReadError),
    /// The caller's [`Pace`] broke it off.
    #[error("looking at images was given up")]
    Stopped,
    /// The disk did not do what was asked.
    #[error("{step}: {error}")]
    Disk {
        /// What was under way.
        step: &'static str,
        /// The disk's error.
        error: io::Error,
    },
}

/// The images of a log.
#[derive(Debug)]
pub struct Shelf<F> {
    /// Good ones, the newest last.
    kept: Vec<Kept<F>>,
    /// Names that go with the next [`retire`](Self::retire).
    surplus: Vec<String>,
    attempts: Attempts,
    next: u64,
}

#[derive(Debug)]
struct Kept<F> {
    volume: Volume<F>,
    needs: Vec<Need>,
}

impl<F: DiskFile> Shelf<F> {
    /// Looks at all images of a log that are `there`, from the first byte to the last, and changes
    /// nothing. `marked` is what `meta` says. Those that are not good go with the next
    /// [`retire`](Self::retire).
    pub fn open<D: Disk<File = F>>(
        disk: &D,
        there: &Listing,
        identity: &Identity,
        marked: Option<Mark>,
        pace: Pace<'_>,
    ) -> Result<(Self, Vec<Verdict>), ShelfError> {
        let numbers = there.images();
        let used = numbers.iter().chain(there.unstated_images()).copied();
        let newest = used.chain(marked.map(|mark| mark.number)).max();
        let attempts = Attempts::of_before(Kind::Image, there.unstated_images());
        let (kept, surplus, next) = (Vec::new(), Vec::new(), newest.unwrap_or(0) + 1);
        let mut shelf = Self { kept, surplus, attempts, next };
        let mut verdicts = Vec::new();
        let missing = marked.filter(|mark| !numbers.contains(&mark.number));
        verdicts.extend(
            missing
                .map(|mark| Verdict { file: Kind::Image.name(mark.number), what: What::Missing }),
        );
        for &number in numbers {
            let mark = marked.filter(|mark| mark.number == number);
            let looked = look(disk, identity, number, mark, pace)?;
            match looked.and_then(|kept| kept.with_all_it_needs(there)) {
                Ok(kept) => shelf.kept.push(kept),
                Err(what) => {
                    let file = Kind::Image.name(number);
                    shelf.surplus.push(file.clone());
                    verdicts.push(Verdict { file, what });
                }
            }
        }
        Ok((shelf, verdicts))
    }

    /// The newest good image.
    pub fn newest(&self) -> Option<&Volume<F>> {
        self.kept.last().map(|kept| &kept.volume)
    }

    /// The good ones, oldest first.
    pub fn images(&self) -> impl Iterator<Item = &Volume<F>> {
        self.kept.iter().map(|kept| &kept.volume)
    }

    /// The number of the next image: above all that are there, good or not.
    pub const fn next_number(&self) -> u64 {
        self.next
    }

    /// Begins an image, aside. Its number is used then, whatever becomes of it. What was left of
    /// others that were begun is gone first: a start could not tell it from what was taken.
    ///
    /// # Panics
    /// If its number was used before.
    pub fn begin<'w, D: Disk<File = F>>(
        &mut self,
        disk: &'w D,
        heading: Heading,
        pace: Pace<'w>,
    ) -> Result<Writer<'w, D>, WriteError> {
        assert_eq!(heading.kind, Kind::Image, "a shelf holds images");
        assert!(heading.number >= self.next, "an image has a number of its own");
        self.attempts.clear(disk)?;
        self.next = heading.number + 1;
        self.attempts.begin(heading.kind.name(heading.number));
        Writer::begin(disk, heading, pace)
    }

    /// Takes an image that was finished and marked.
    ///
    /// # Panics
    /// If it covers less than the newest one.
    pub fn admit(&mut self, volume: Volume<F>) -> Result<(), ReadError> {
        let newest = self.newest().map(|newest| newest.heading().lsn);
        assert!(newest <= Some(volume.heading().lsn), "images go on from one another");
        self.attempts.take(volume.name());
        let needs = volume.needs()?;
        self.kept.push(Kept { volume, needs });
        Ok(())
    }

    /// Removes all images but the newest and the one before it, durably. Only then may go what
    /// [`needs`](Self::needs) and [`first_needed`](Self::first_needed) do not name.
    pub fn retire<D: Disk<File = F>>(&mut self, disk: &D) -> Result<Vec<String>, ShelfError> {
        let surplus = self.kept.len().saturating_sub(KEPT);
        let names = self.kept.drain(..surplus).map(|kept| kept.volume.name().to_owned());
        self.surplus.extend(names);
        let failed = |error| ShelfError::Disk { step: "removing images", error };
        remove_all(disk, &mut self.surplus).map_err(failed)
    }

    /// The files that the kept images need, by kind and number; one stands once for each image.
    pub fn needs(&self) -> impl Iterator<Item = &Need> {
        self.kept.iter().flat_map(|kept| &kept.needs)
    }

    /// The cold files among them, by their numbers.
    pub fn needed_cold(&self) -> Vec<u64> {
        let cold = self.needs().filter(|need| need.kind == NeededKind::Cold);
        cold.map(|need| need.number).collect()
    }

    /// The first record that the log still has to hold: of those that kept images name in it, and
    /// of those behind the oldest of them. All without an image.
    pub fn first_needed(&self) -> Lsn {
        let in_log = self.needs().filter(|need| need.kind == NeededKind::Segment);
        let behind = self.kept.first().map(|kept| kept.volume.heading().lsn.next());
        let named = in_log.map(|need| need.first);
        behind.map_or(Lsn::FIRST, |behind| named.fold(behind, Lsn::min))
    }
}

impl<F> Kept<F> {
    /// Itself, if the cold files that it needs are there. Those are its own: none gets the number
    /// of another.
    fn with_all_it_needs(self, there: &Listing) -> Result<Self, What> {
        let mut cold = self.needs.iter().filter(|need| need.kind == NeededKind::Cold);
        match cold.find(|need| !there.cold().contains(&need.number)) {
            Some(lacked) => Err(What::Lacks(Kind::Cold.name(lacked.number))),
            None => Ok(self),
        }
    }
}

/// Looks at one image.
fn look<D: Disk>(
    disk: &D,
    identity: &Identity,
    number: u64,
    mark: Option<Mark>,
    pace: Pace<'_>,
) -> Result<Result<Kept<D::File>, What>, ShelfError> {
    let opened = Volume::open(disk, Kind::Image, number).and_then(|volume| {
        volume.verify(pace)?;
        let lsn = volume.heading().lsn;
        if let Some(mark) = mark.filter(|mark| mark.lsn != lsn) {
            let reason = format!("it covers {lsn}, and meta says {}", mark.lsn);
            return Err(volume.damage(0, reason).into());
        }
        Ok(Kept { needs: volume.needs()?, volume })
    });
    Ok(match opened {
        Ok(kept) if kept.volume.heading().identity.log == identity.log => Ok(kept),
        Ok(_) => Err(What::OtherLog),
        Err(ReadError::Damage(damage)) => Err(What::Damaged(damage)),
        Err(error @ ReadError::Disk { .. }) => Err(What::Unreadable(error)),
        Err(error @ ReadError::Version { .. }) => return Err(ShelfError::Version(error)),
        Err(ReadError::Stopped) => return Err(ShelfError::Stopped),
    })
}
