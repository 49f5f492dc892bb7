//! The bytes that the kernel and a file system exchange over `/dev/fuse`: what all requests and
//! answers have in common.
//!
//! Owns: their layout (`linux/fuse.h`, version 7.31, in the machine's byte order). Does not know:
//! how they travel, and what is behind the file system.

use std::io;

/// The longest write that the kernel is allowed to send.
const WRITE_MAX: usize = 1024 * 1024;
/// Room for any request.
pub(crate) const REQUEST_MAX: usize = WRITE_MAX + 8192;

const VERSION: [u32; 2] = [7, 31];
const HEADER_LEN: usize = 40;
/// What stands in front of the bytes of a write.
pub(crate) const WRITE_LEN: usize = 40;

/// Direct reads and writes that do not wait for one another; whole megabytes in one request.
const FLAGS: u32 = ASYNC_DIO | BIG_WRITES | MAX_PAGES;
const BIG_WRITES: u32 = 1 << 5;
const ASYNC_DIO: u32 = 1 << 15;
const MAX_PAGES: u32 = 1 << 22;

/// The directory that is mounted.
pub(crate) const ROOT: u64 = 1;

/// The front of a request, and what follows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    /// What is asked for.
    pub(crate) code: u32,
    /// By which it is answered.
    pub(crate) unique: u64,
    /// Of what.
    pub(crate) node: u64,
    /// The rest.
    pub(crate) rest: &'a [u8],
}

impl<'a> Head<'a> {
    pub(crate) fn parse(bytes: &'a [u8]) -> io::Result<Self> {
        Ok(Self {
            code: u32_at(bytes, 4)?,
            unique: u64_at(bytes, 8)?,
            node: u64_at(bytes, 16)?,
            rest: bytes.get(HEADER_LEN..).unwrap_or_default(),
        })
    }

    /// Offset and bytes of a write.
    pub(crate) fn write(&self) -> io::Result<(u64, &'a [u8])> {
        let (offset, len) = (u64_at(self.rest, 8)?, usize_at(self.rest, 16)?);
        let bytes = self.rest.get(WRITE_LEN..WRITE_LEN + len).ok_or_else(cut_short)?;
        Ok((offset, bytes))
    }

    /// Offset and length of a read.
    pub(crate) fn read(&self) -> io::Result<(u64, usize)> {
        Ok((u64_at(self.rest, 8)?, usize_at(self.rest, 16)?))
    }
}

/// A name that ends with a zero.
pub(crate) fn name(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// An answer under construction.
pub(crate) struct Answer(Vec<u8>);

/// What `stat` says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    pub(crate) node: u64,
    pub(crate) is_directory: bool,
    pub(crate) len: u64,
    /// In units of 512 bytes.
    pub(crate) blocks: u64,
}

impl Answer {
    pub(crate) fn new() -> Self {
        Self(vec![0; 16])
    }

    pub(crate) fn words64(&mut self, words: &[u64]) -> &mut Self {
        self.0.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        self
    }

    pub(crate) fn words32(&mut self, words: &[u32]) -> &mut Self {
        self.0.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        self
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn space(&mut self, len: usize) -> &mut [u8] {
        let start = self.0.len();
        self.0.resize(start + len, 0);
        &mut self.0[start..]
    }

    /// A name that was found; `seconds`: how long the kernel may believe it.
    pub(crate) fn entry(&mut self, attributes: Attributes, seconds: u64) -> &mut Self {
        self.words64(&[attributes.node, 0, seconds, seconds]).words32(&[0, 0]);
        self.attributes(attributes)
    }

    pub(crate) fn attributes(&mut self, attributes: Attributes) -> &mut Self {
        let Attributes { node, is_directory, len, blocks } = attributes;
        let mode = if is_directory { 0o40_700 } else { 0o100_600 };
        self.words64(&[node, len, blocks, 0, 0, 0]);
        self.words32(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0])
    }

    /// Blocks of 4096 bytes: all, and how many are free.
    pub(crate) fn statfs(&mut self, blocks: u64, free: u64) -> &mut Self {
        self.words64(&[blocks, free, free, 1 << 20, 1 << 20]).words32(&[4096, 255, 4096]);
        self.space(28);
        self
    }

    pub(crate) fn init(&mut self) {
        let write_max = u32::try_from(WRITE_MAX).unwrap_or(u32::MAX);
        self.words32(&VERSION).words32(&[0, FLAGS]);
        // Requests in the background, and the number from which on the kernel counts as crowded.
        self.0.extend([64_u16, 48].iter().flat_map(|count| count.to_ne_bytes()));
        self.words32(&[write_max, 1]);
        let pages = u16::try_from(WRITE_MAX / 4096).unwrap_or(u16::MAX);
        self.0.extend([pages, 0].iter().flat_map(|count| count.to_ne_bytes()));
        self.space(32);
    }

    /// The whole answer; an error (a negative number) has nothing behind it.
    pub(crate) fn seal(mut self, unique: u64, error: i32) -> Vec<u8> {
        if error != 0 {
            self.0.truncate(16);
        }
        let len = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0[4..8].copy_from_slice(&error.to_ne_bytes());
        self.0[8..16].copy_from_slice(&unique.to_ne_bytes());
        self.0
    }
}

pub(crate) fn cut_short() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's request is shorter than it says")
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> io::Result<u32> {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or_else(cut_short)?;
    Ok(u32::from_ne_bytes(*field))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> io::Result<u64> {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or_else(cut_short)?;
    Ok(u64::from_ne_bytes(*field))
}

pub(crate) fn usize_at(bytes: &[u8], at: usize) -> io::Result<usize> {
    usize::try_from(u32_at(bytes, at)?).map_err(io::Error::other)
}
