//! Names of volumes in the directory of the log, and which of them are there.

use std::io;

use zzq_wal::disk::Disk;

use crate::format::Kind;

const IMAGE: &str = ".image";
const COLD: &str = ".cold";
const TOPICS: &str = ".topics";

/// The name of image `number`.
pub fn image_name(number: u64) -> String {
    Kind::Image.name(number)
}

/// The name of cold file `number`.
pub fn cold_name(number: u64) -> String {
    Kind::Cold.name(number)
}

/// The number of an image by its name; `None` for other files.
pub fn image_number(name: &str) -> Option<u64> {
    Kind::Image.number(name)
}

/// The number of a cold file by its name; `None` for other files.
pub fn cold_number(name: &str) -> Option<u64> {
    Kind::Cold.number(name)
}

/// The name of the topic index of segment `number`.
pub fn topics_name(number: u64) -> String {
    Kind::Topics.name(number)
}

/// The number of the segment of a topic index by its name; `None` for other files.
pub fn topics_number(name: &str) -> Option<u64> {
    Kind::Topics.number(name)
}

/// The volumes in a directory by their numbers: one look at it serves a whole start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    images: Vec<u64>,
    cold: Vec<u64>,
    topics: Vec<u64>,
    /// See [`Listing::as_stated`].
    unstated_images: Vec<u64>,
    unstated_cold: Vec<u64>,
}

impl Listing {
    /// Looks at the directory.
    pub fn read<D: Disk>(disk: &D) -> io::Result<Self> {
        let mut listing = Self::default();
        for (name, _) in disk.list()? {
            listing.images.extend(image_number(&name));
            listing.cold.extend(cold_number(&name));
            listing.topics.extend(topics_number(&name));
        }
        listing.images.sort_unstable();
        listing.cold.sort_unstable();
        listing.topics.sort_unstable();
        Ok(listing)
    }

    /// Leaves out the images and cold files above the highest numbers that `meta` has stated. They
    /// were never taken, and whoever wrote them may have been told that making their names durable
    /// had failed: to be read now is no proof that they outlive a loss of power. They go before
    /// another one of their kind is begun, and their numbers are not used again.
    #[must_use]
    pub fn as_stated(mut self, image: u64, cold: u64) -> Self {
        let above = |numbers: &mut Vec<u64>, stated| {
            numbers.split_off(numbers.partition_point(|number| *number <= stated))
        };
        self.unstated_images = above(&mut self.images, image);
        self.unstated_cold = above(&mut self.cold, cold);
        self
    }

    /// Images that were left out, ascending.
    pub fn unstated_images(&self) -> &[u64] {
        &self.unstated_images
    }

    /// Cold files that were left out, ascending.
    pub fn unstated_cold(&self) -> &[u64] {
        &self.unstated_cold
    }

    /// Numbers of images, ascending.
    pub fn images(&self) -> &[u64] {
        &self.images
    }

    /// Numbers of cold files, ascending.
    pub fn cold(&self) -> &[u64] {
        &self.cold
    }

    /// Numbers of the segments that topic indexes are of, ascending.
    pub fn topics(&self) -> &[u64] {
        &self.topics
    }
}

/// Removes what an attempt to write a volume has left aside, and gives its space back. For whoever
/// writes volumes, when an attempt has failed: it is removed by the next one in any case.
pub fn remove_aside<D: Disk>(disk: &D) -> io::Result<()> {
    for kind in [Kind::Image, Kind::Cold] {
        match disk.remove(kind.aside()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

impl Kind {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Image => IMAGE,
            Self::Cold => COLD,
            Self::Topics => TOPICS,
        }
    }

    /// What a volume is called until it is finished.
    pub(crate) const fn aside(self) -> &'static str {
        match self {
            Self::Image => "image.new",
            Self::Cold => "cold.new",
            Self::Topics => "topics.new",
        }
    }

    pub(crate) fn name(self, number: u64) -> String {
        format!("{number:020}{}", self.suffix())
    }

    pub(crate) fn number(self, name: &str) -> Option<u64> {
        let number = name.strip_suffix(self.suffix())?.parse().ok()?;
        // From 1, and the next one has a number, too.
        let is_ours = (1..u64::MAX).contains(&number) && self.name(number) == name;
        is_ours.then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_are_not() {
        assert_eq!(image_number(&image_name(17)), Some(17));
        assert_eq!(cold_number(&cold_name(17)), Some(17));
        assert_eq!(topics_number(&topics_name(17)), Some(17));
        for other in [
            "17.image",
            "image.new",
            "00000000000000000000.image",
            "18446744073709551615.image",
            "00000000000000000017.cold",
            "00000000000000000017.log",
            "+0000000000000000017.image",
            "",
        ] {
            assert_eq!(image_number(other), None, "{other}");
        }
    }
}
