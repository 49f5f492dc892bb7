//! What the kernel may ask of a file system of one file that is read, written and synced.
//!
//! Owns: requests and their answers. Does not know: how they travel.

use std::io;

use super::wire::{Answer, Attributes, Head, ROOT, name};

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
        let head = Head::parse(bytes)?;
        let call = match head.code {
            1 => Call::Lookup(name(head.rest).to_vec()),
            2 | 36 | 42 => Call::Silent,
            3 => Call::Attributes(head.node),
            14 | 27 => Call::Open,
            15 => {
                let (offset, len) = head.read()?;
                Call::Read { offset, len }
            }
            16 => {
                let (offset, bytes) = head.write()?;
                Call::Write { offset, bytes: bytes.to_vec() }
            }
            17 => Call::Statfs,
            // Release, flush (of a descriptor), release of a directory, destroy.
            18 | 25 | 29 | 38 => Call::Accepted,
            20 => Call::Fsync,
            26 => Call::Init,
            _ => Call::Unknown,
        };
        Ok(Self { unique: head.unique, call })
    }

    /// The bytes to send back, if there are any.
    pub(super) fn answer(
        &self,
        file: &FileFacts,
        read: impl FnOnce(u64, &mut [u8]),
    ) -> Option<Vec<u8>> {
        let mut answer = Answer::new();
        let mut error = 0;
        match &self.call {
            Call::Silent => return None,
            Call::Unknown => error = NOT_THERE,
            Call::Lookup(name) if *name != file.name.as_bytes() => error = NO_ENTRY,
            Call::Lookup(_) => {
                answer.entry(file.attributes(FILE), FOR_EVER);
            }
            Call::Attributes(node) => {
                answer.words64(&[FOR_EVER]).words32(&[0, 0]).attributes(file.attributes(*node));
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
                answer.statfs(file.len / 4096, 0);
            }
            Call::Init => answer.init(),
            Call::Fsync | Call::Accepted => {}
        }
        Some(answer.seal(self.unique, error))
    }
}

impl FileFacts {
    fn attributes(&self, node: u64) -> Attributes {
        let is_directory = node == ROOT;
        let len = if is_directory { 0 } else { self.len };
        Attributes { node, is_directory, len, blocks: len / 512 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::WRITE_LEN;
    use super::*;

    const HEADER_LEN: usize = 40;

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
