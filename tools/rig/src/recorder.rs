//! A disk that remembers: every write and flush, and what the workload said meanwhile, in one
//! order.
//!
//! Owns: the order, and which writes a flush covers. Does not know: what a note means.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use crate::fuse::{Change, Device};
use crate::image::Image;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes reached the disk's cache.
    Write {
        /// In bytes.
        offset: u64,
        /// What was written.
        bytes: Arc<[u8]>,
    },
    /// All writes among the first `covers` events are durable from here on.
    Flush {
        /// Number of events.
        covers: usize,
    },
    /// The workload said so: a line without its end.
    Note(String),
}

/// The disk's bytes and their history.
#[derive(Debug)]
pub struct Recorder {
    image: Image,
    events: Vec<Event>,
    /// Where the workload speaks; it does not block.
    voice: Option<File>,
    /// The beginning of a line whose end is still to come.
    begun: Vec<u8>,
}

impl Recorder {
    /// A disk with these bytes and no history.
    pub fn new(image: Image) -> Self {
        Self { image, events: Vec::new(), voice: None, begun: Vec::new() }
    }

    /// Begins anew with these bytes.
    pub fn reset(&mut self, image: Image) {
        *self = Self::new(image);
    }

    /// From now on notes come from `voice`, a pipe that does not block.
    pub fn listen(&mut self, voice: File) {
        self.begun.clear();
        self.voice = Some(voice);
    }

    /// Takes this down as said by now.
    pub fn note(&mut self, line: &str) {
        self.events.push(Event::Note(line.to_owned()));
    }

    /// The bytes that reads show.
    pub fn image(&self) -> &Image {
        &self.image
    }

    /// What has happened so far.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Takes down what the workload has said by now. Returns whether it may say more.
    pub fn hear(&mut self) -> bool {
        let Some(voice) = &mut self.voice else { return false };
        let mut buffer = [0; 4096];
        loop {
            match voice.read(&mut buffer) {
                Ok(0) => {
                    self.voice = None;
                    return false;
                }
                Ok(read) => self.begun.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
            while let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.begun.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line[..end]).into_owned();
                self.events.push(Event::Note(line));
            }
        }
        true
    }
}

impl Device for Recorder {
    fn read(&mut self, offset: u64, buffer: &mut [u8]) {
        self.image.read(offset, buffer);
    }

    /// What the workload had said before these were answered depends on none of them, and may
    /// depend on all that was answered before.
    fn take(&mut self, changes: Vec<Change>) {
        self.hear();
        let covers = self.events.len();
        for change in changes {
            let event = match change {
                Change::Write { offset, bytes } => {
                    self.image.write(offset, &bytes);
                    Event::Write { offset, bytes: bytes.into() }
                }
                Change::Flush => Event::Flush { covers },
            };
            self.events.push(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn write(offset: u64) -> Change {
        Change::Write { offset, bytes: vec![5; 512] }
    }

    #[test]
    fn a_flush_covers_what_was_answered_before_it_came() {
        let mut recorder = Recorder::new(Image::zeroes(8192));
        recorder.take(vec![write(0), write(512)]);
        recorder.take(vec![write(1024), Change::Flush]);
        recorder.take(vec![Change::Flush]);
        let covered = recorder.events().iter().filter_map(|event| match event {
            Event::Flush { covers } => Some(*covers),
            _ => None,
        });
        assert!(covered.eq([2, 4]));
    }

    #[test]
    fn what_is_said_before_a_change_is_answered_stands_before_it() {
        let (theirs, mut ours) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&theirs, true).unwrap();
        let mut recorder = Recorder::new(Image::zeroes(8192));
        recorder.listen(File::from(std::os::fd::OwnedFd::from(theirs)));
        ours.write_all(b"durable 1\ndur").unwrap();
        recorder.take(vec![write(0)]);
        ours.write_all(b"able 2\n").unwrap();
        drop(ours);
        assert!(!recorder.hear(), "nothing more can come");
        let said = |text: &str| Event::Note(text.to_owned());
        assert_eq!(recorder.events()[0], said("durable 1"));
        assert_eq!(recorder.events()[2], said("durable 2"));
    }
}
