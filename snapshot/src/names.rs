//! Names of volumes in the directory of the log.

use crate::format::Kind;

const IMAGE: &str = ".image";
const COLD: &str = ".cold";

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

impl Kind {
    const fn suffix(self) -> &'static str {
        match self {
            Self::Image => IMAGE,
            Self::Cold => COLD,
        }
    }

    /// What a volume is called until it is finished.
    pub(crate) const fn aside(self) -> &'static str {
        match self {
            Self::Image => "image.new",
            Self::Cold => "cold.new",
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
