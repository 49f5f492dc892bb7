//! The steps by which a broker changes its data directory.
//!
//! Owns: their names. Does not know: which of them a broker takes.

use std::fmt;

use zzq_wal::{META_NAME, segment_number};

/// One kind of operation on one kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    /// What is done.
    pub op: Op,
    /// To what; a rename is of the kind that it makes.
    pub file: Kind,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "operations by their names")]
pub enum Op {
    Create,
    Open,
    Read,
    Write,
    /// A write that is durable when it is answered.
    DurableWrite,
    Sync,
    Allocate,
    /// Space goes back to the file system.
    GiveBack,
    Resize,
    Rename,
    Remove,
    List,
}

/// What a name says about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "kinds of files by their names")]
pub enum Kind {
    Directory,
    Lock,
    Probe,
    Meta,
    Spare,
    Segment,
    Image,
    Cold,
    Topics,
    Other,
}

impl Kind {
    /// The kind of the file with this name.
    pub fn of(name: &str) -> Self {
        match name {
            "lock" => Self::Lock,
            "probe" => Self::Probe,
            _ if name == META_NAME || name == "meta.new" => Self::Meta,
            _ if name.starts_with("spare-") => Self::Spare,
            _ if segment_number(name).is_some() => Self::Segment,
            _ => match name.rsplit_once('.') {
                Some((_, "image") | ("image", "new")) => Self::Image,
                Some((_, "cold") | ("cold", "new")) => Self::Cold,
                Some((_, "topics") | ("topics", "new")) => Self::Topics,
                _ => Self::Other,
            },
        }
    }
}

impl Kind {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Directory => "directory",
            Self::Lock => "lock",
            Self::Probe => "probe",
            Self::Meta => "meta",
            Self::Spare => "spare",
            Self::Segment => "segment",
            Self::Image => "image",
            Self::Cold => "cold file",
            Self::Topics => "topic index",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = match self.op {
            Op::Create => "create",
            Op::Open => "open",
            Op::Read => "read",
            Op::Write => "write",
            Op::DurableWrite => "durable write",
            Op::Sync => "sync",
            Op::Allocate => "allocate",
            Op::GiveBack => "give back",
            Op::Resize => "resize",
            Op::Rename => "rename to",
            Op::Remove => "remove",
            Op::List => "list",
        };
        write!(out, "{op} {}", self.file.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_a_file_is() {
        let kinds = [
            ("lock", Kind::Lock),
            ("probe", Kind::Probe),
            ("meta", Kind::Meta),
            ("meta.new", Kind::Meta),
            ("spare-3", Kind::Spare),
            ("00000000000000000017.log", Kind::Segment),
            ("00000000000000000003.image", Kind::Image),
            ("image.new", Kind::Image),
            ("00000000000000000005.cold", Kind::Cold),
            ("00000000000000000005.topics", Kind::Topics),
            ("notes", Kind::Other),
        ];
        for (name, kind) in kinds {
            assert_eq!(Kind::of(name), kind, "{name}");
        }
        let step = Step { op: Op::Rename, file: Kind::Segment };
        assert_eq!(step.to_string(), "rename to segment");
    }
}
