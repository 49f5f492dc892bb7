//! The bytes that the kernel and a file system exchange over `/dev/fuse`, as far as one file that
//! is read, written and synced needs them.
//!
//! Owns: requests, answers, their layout (`linux/fuse.h`, version 7.31, in the machine's byte
//! order). Does not know: how they travel.

use std::io;

/// The longest write that the kernel is allowed to send.
const WRITE_MAX: usize = 1024 * 1024;
/// Room for any request.
pub(super) const REQUEST_MAX: usize = WRITE_MAX + 8192;

const VERSION: [u32; 2] = [7, 31];
const HEADER_LEN: usize = 40;
const WRITE_LEN: usize = 40;

/// Direct reads and writes that do not wait for one another; whole megabytes in one request.
const FLAGS: u32 = ASYNC_DIO | BIG_WRITES | MAX_PAGES;
const BIG_WRITES: u32 = 1 << 5;
const ASYNC_DIO: u32 = 1 << 15;
const MAX_PAGES: u32 = 1 << 22;

const ROOT: u64 = 1;
const FILE: u64 = 2;
/// Seconds for which the kernel may believe a name or attribute: nothing here ever changes.
const FOR_EVER: u64 = 1 << 30;

const NO_ENTRY: i32 = -2;
const NOT_THERE: i32 = -38;

/// The one file.
#[derive(Clone, Debug)]
pub(super) struct FileFacts {
    pub(super) name: String,
    pub(super) len: u64,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) unique: u64,
    pub(super) call: Call,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Init,
    Lookup(Vec<u8>),
    Attributes(u64),
    Open,
    Read {
        offset: u64,
        len: usize,
    },
    Write {
        offset: u64,
        bytes: Vec<u8>,
    },
    /// A write that the device has taken.
    Written(usize),
    Fsync,
    Statfs,
    /// Nothing is to be done for it.
    Accepted,
    /// It wants no answer.
    Silent,
    Unknown,
}

impl Request {
    pub(super) fn parse(bytes: &[u8]) -> io::Result<Self> {
        let code = u32_at(bytes, 4)?;
        let unique = u64_at(bytes, 8)?;
        let node = u64_at(bytes, 16)?;
        let rest = bytes.get(HEADER_LEN..).unwrap_or_default();
        let call = match code {
            1 => Call::Lookup(rest.split(|byte| *byte == 0).next().unwrap_or_default().to_vec()),
            2 | 36 | 42 => Call::Silent,
            3 => Call::Attributes(node),
            14 | 27 => Call::Open,
            15 => Call::Read { offset: u64_at(rest, 8)?, len: usize_at(rest, 16)? },
            16 => {
                let (offset, len) = (u64_at(rest, 8)?, usize_at(rest, 16)?);
                let bytes = rest.get(WRITE_LEN..WRITE_LEN + len).ok_or_else(cut_short)?;
                Call::Write { offset, bytes: bytes.to_vec() }
            }
            17 => Call::Statfs,
            // Release, flush (of a descriptor), release of a directory, destroy.
            18 | 25 | 29 | 38 => Call::Accepted,
            20 => Call::Fsync,
            26 => Call::Init,
            _ => Call::Unknown,
        };
        Ok(Self { unique, call })
    }

    /// The bytes to send back, if there are any.
    pub(super) fn answer(
        &self,
        file: &FileFacts,
        read: impl FnOnce(u64, &mut [u8]),
    ) -> Option<Vec<u8>> {
        let mut answer = Answer(vec![0; 16]);
        let mut error = 0;
        match &self.call {
            Call::Silent => return None,
            Call::Unknown => error = NOT_THERE,
            Call::Lookup(name) if *name != file.name.as_bytes() => error = NO_ENTRY,
            Call::Lookup(_) => {
                answer.words64(&[FILE, 0, FOR_EVER, FOR_EVER]).words32(&[0, 0]);
                answer.attributes(FILE, file.len);
            }
            Call::Attributes(node) => {
                answer.words64(&[FOR_EVER]).words32(&[0, 0]).attributes(*node, file.len);
            }
            Call::Open => {
                answer.words64(&[1]).words32(&[0, 0]);
            }
            Call::Read { offset, len } => read(*offset, answer.space(*len)),
            Call::Written(len) => {
                answer.words32(&[u32::try_from(*len).unwrap_or(u32::MAX), 0]);
            }
            Call::Write { .. } => unreachable!("the device takes writes before they are answered"),
            Call::Statfs => {
                answer.words64(&[file.len / 4096, 0, 0, 1, 0]).words32(&[4096, 255, 4096]);
                answer.space(28);
            }
            Call::Init => answer.init(),
            Call::Fsync | Call::Accepted => {}
        }
        Some(answer.seal(self.unique, error))
    }
}

struct Answer(Vec<u8>);

impl Answer {
    fn words64(&mut self, words: &[u64]) -> &mut Self {
        self.0.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        self
    }

    fn words32(&mut self, words: &[u32]) -> &mut Self {
        self.0.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        self
    }

    fn space(&mut self, len: usize) -> &mut [u8] {
        let start = self.0.len();
        self.0.resize(start + len, 0);
        &mut self.0[start..]
    }

    fn attributes(&mut self, node: u64, len: u64) {
        let (mode, len) = if node == ROOT { (0o40_700, 0) } else { (0o100_600, len) };
        self.words64(&[node, len, len / 512, 0, 0, 0]);
        self.words32(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0]);
    }

    fn init(&mut self) {
        let write_max = u32::try_from(WRITE_MAX).unwrap_or(u32::MAX);
        self.words32(&VERSION).words32(&[0, FLAGS]);
        // Requests in the background, and the number from which on the kernel counts as crowded.
        self.0.extend([64_u16, 48].iter().flat_map(|count| count.to_ne_bytes()));
        self.words32(&[write_max, 1]);
        let pages = u16::try_from(WRITE_MAX / 4096).unwrap_or(u16::MAX);
        self.0.extend([pages, 0].iter().flat_map(|count| count.to_ne_bytes()));
        self.space(32);
    }

    fn seal(mut self, unique: u64, error: i32) -> Vec<u8> {
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

fn cut_short() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's request is shorter than it says")
}

fn u32_at(bytes: &[u8], at: usize) -> io::Result<u32> {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or_else(cut_short)?;
    Ok(u32::from_ne_bytes(*field))
}

fn u64_at(bytes: &[u8], at: usize) -> io::Result<u64> {
    let field = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or_else(cut_short)?;
    Ok(u64::from_ne_bytes(*field))
}

fn usize_at(bytes: &[u8], at: usize) -> io::Result<usize> {
    usize::try_from(u32_at(bytes, at)?).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(code: u32, node: u64, rest: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        bytes[4..8].copy_from_slice(&code.to_ne_bytes());
        bytes[8..16].copy_from_slice(&7_u64.to_ne_bytes());
        bytes[16..24].copy_from_slice(&node.to_ne_bytes());
        bytes.extend_from_slice(rest);
        bytes
    }

    fn facts() -> FileFacts {
        FileFacts { name: "disk".to_owned(), len: 8192 }
    }

    #[test]
    fn a_write_is_read_with_its_bytes() {
        let mut rest = vec![0; WRITE_LEN];
        rest[8..16].copy_from_slice(&4096_u64.to_ne_bytes());
        rest[16..20].copy_from_slice(&3_u32.to_ne_bytes());
        rest.extend_from_slice(b"abc");
        let parsed = Request::parse(&request(16, FILE, &rest)).unwrap();
        let call = Call::Write { offset: 4096, bytes: b"abc".to_vec() };
        assert_eq!(parsed, Request { unique: 7, call });
        assert!(Request::parse(&request(16, FILE, &rest[..WRITE_LEN + 2])).is_err());
        assert!(Request::parse(&[0; 12]).is_err());
    }

    #[test]
    fn the_one_file_is_found_and_no_other() {
        for (name, len, error) in [("disk", 16 + 40 + 88, 0), ("other", 16, NO_ENTRY)] {
            let parsed = Request::parse(&request(1, ROOT, format!("{name}\0").as_bytes())).unwrap();
            let answer = parsed.answer(&facts(), |_, _| ()).unwrap();
            assert_eq!((answer.len(), answer[4..8].to_vec()), (len, error.to_ne_bytes().to_vec()));
        }
    }

    #[test]
    fn answers_have_the_lengths_that_the_kernel_expects() {
        let answer = |call| Request { unique: 1, call }.answer(&facts(), |_, _| ());
        assert_eq!(answer(Call::Init).unwrap().len(), 16 + 64);
        assert_eq!(answer(Call::Open).unwrap().len(), 16 + 16);
        assert_eq!(answer(Call::Attributes(ROOT)).unwrap().len(), 16 + 16 + 88);
        assert_eq!(answer(Call::Statfs).unwrap().len(), 16 + 80);
        assert_eq!(answer(Call::Written(3)).unwrap().len(), 16 + 8);
        assert_eq!(answer(Call::Unknown).unwrap()[4..8], NOT_THERE.to_ne_bytes());
        assert_eq!(answer(Call::Silent), None);
    }
}
