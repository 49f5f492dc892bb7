//! The first block: which file of which log it is.
//!
//! ```text
//!   0   8  magic, ASCII "ZQ-IMAGE", "ZQ-COLD" and a zero byte, or "ZQ-TOPIC"
//!   8   4  checksum: CRC-32 of bytes 12 .. 4096
//!  12   4  format version
//!  16  16  log id
//!  32  16  cluster id
//!  48   4  node id
//!  52   4  key id; 0: not encrypted
//!  56   8  number of the file
//!  64   8  LSN
//!  72   8  log time of that record in ms
//!  80   8  term of that record
//!  88   8  number of that record's entry in the cluster's log; 0 without a cluster
//!  96   8  number of the file that it was made from; 0: none
//! 104   8  LSN of that file
//! 112   4  version of the encoding of its entries
//! 116      zero
//! ```

use zzq_wal::Lsn;
use zzq_wal::disk::BLOCK;
use zzq_wal::format::field::{array_at, put, u32_at, u64_at};
use zzq_wal::format::segment::Identity;

use super::{Fault, check_block, seal_block};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The state at one LSN, without payloads.
    Image,
    /// Records that outlived their segments.
    Cold,
    /// Where the messages of each topic lie in a segment.
    Topics,
}

impl Kind {
    pub(super) const fn magic(self) -> [u8; 8] {
        match self {
            Self::Image => *b"ZQ-IMAGE",
            Self::Cold => *b"ZQ-COLD\0",
            Self::Topics => *b"ZQ-TOPIC",
        }
    }

    pub(super) const fn end_magic(self) -> [u8; 8] {
        match self {
            Self::Image => *b"ZQ-IMEND",
            Self::Cold => *b"ZQ-COEND",
            Self::Topics => *b"ZQ-TOEND",
        }
    }
}

/// What the first block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// What it is.
    pub kind: Kind,
    /// Of which log, and whose.
    pub identity: Identity,
    /// Its number among files of its kind, from 1; that of its segment, if it is a topic index.
    pub number: u64,
    /// An image is the state behind this record; a cold file and a topic index hold none behind it.
    pub lsn: Lsn,
    /// Log time of that record in ms.
    pub time_ms: u64,
    /// The term that record was made under; 0 without a cluster.
    pub term: u64,
    /// The number of that record's entry in the cluster's log; 0 without a cluster.
    pub index: u64,
    /// Number and LSN of the file that this one was made from; those of a segment are its number
    /// and its first record.
    pub before: Option<(u64, Lsn)>,
    /// Version of the encoding of the entries, in the words of whoever wrote them.
    pub contents: u32,
}

impl Heading {
    /// The first of its kind, of nothing: for a caller to say the rest.
    pub const fn new(kind: Kind, identity: Identity) -> Self {
        Self {
            kind,
            identity,
            number: 1,
            lsn: Lsn::ZERO,
            time_ms: 0,
            term: 0,
            index: 0,
            before: None,
            contents: 1,
        }
    }

    /// Writes the block; returns its checksum.
    pub(crate) fn encode(&self, block: &mut [u8]) -> u32 {
        assert!(self.number > 0, "files are numbered from 1");
        block.fill(0);
        put(block, 16, &self.identity.log);
        put(block, 32, &self.identity.cluster);
        put(block, 48, &self.identity.node.to_le_bytes());
        put(block, 56, &self.number.to_le_bytes());
        put(block, 64, &self.lsn.get().to_le_bytes());
        put(block, 72, &self.time_ms.to_le_bytes());
        put(block, 80, &self.term.to_le_bytes());
        put(block, 88, &self.index.to_le_bytes());
        let (number, lsn) = self.before.unwrap_or((0, Lsn::ZERO));
        put(block, 96, &number.to_le_bytes());
        put(block, 104, &lsn.get().to_le_bytes());
        put(block, 112, &self.contents.to_le_bytes());
        seal_block(block, self.kind.magic())
    }

    /// Reads the block of a file of this kind.
    pub(crate) fn decode(kind: Kind, block: &[u8; BLOCK]) -> Result<Self, Fault> {
        check_block(block, kind.magic())?;
        if u32_at(block, 52) != 0 {
            return Err(Fault::Senseless("it is encrypted"));
        }
        let number = u64_at(block, 56);
        if number == 0 || number == u64::MAX {
            return Err(Fault::Senseless("a number that no file has"));
        }
        let before = u64_at(block, 96);
        Ok(Self {
            kind,
            identity: Identity {
                log: array_at(block, 16),
                cluster: array_at(block, 32),
                node: u32_at(block, 48),
            },
            number,
            lsn: Lsn::new(u64_at(block, 64)),
            time_ms: u64_at(block, 72),
            term: u64_at(block, 80),
            index: u64_at(block, 88),
            before: (before > 0).then(|| (before, Lsn::new(u64_at(block, 104)))),
            contents: u32_at(block, 112),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Heading {
        Heading {
            kind: Kind::Image,
            identity: Identity { log: [1; 16], cluster: [2; 16], node: 3 },
            number: 7,
            lsn: Lsn::new(4711),
            time_ms: 1_700_000_000_000,
            term: 5,
            index: 99,
            before: Some((6, Lsn::new(4000))),
            contents: 1,
        }
    }

    #[test]
    fn a_heading_is_read_back_as_its_kind_only() {
        for heading in [sample(), Heading { kind: Kind::Cold, before: None, ..sample() }] {
            let mut block = [0; BLOCK];
            heading.encode(&mut block);
            assert_eq!(Heading::decode(heading.kind, &block), Ok(heading));
            let other = if heading.kind == Kind::Image { Kind::Cold } else { Kind::Image };
            assert_eq!(Heading::decode(other, &block), Err(Fault::Magic));
        }
    }

    #[test]
    fn what_no_writer_says_is_refused_though_intact() {
        for (at, byte, reason) in [(52, 1, "encrypted"), (56, 0, "number")] {
            let mut block = [0; BLOCK];
            sample().encode(&mut block);
            block[at] = byte;
            seal_block(&mut block, Kind::Image.magic());
            let error = Heading::decode(Kind::Image, &block).unwrap_err();
            assert!(error.to_string().contains(reason), "{error}");
        }
        let mut block = [0; BLOCK];
        sample().encode(&mut block);
        block[12] = 2;
        let sum = zzq_wal::format::checksum(&block[12..]);
        put(&mut block, 8, &sum.to_le_bytes());
        assert_eq!(Heading::decode(Kind::Image, &block), Err(Fault::Version { found: 2 }));
    }
}
