//! Requests of the kernel, carried out on the files behind, one after the other.
//!
//! Owns: what each request means, and obeying the orders at each step. Does not know: who gives
//! them.

use std::io;
use std::sync::Arc;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::control::{Control, Effect, Met, Moment};
use super::files::Files;
use super::step::{Kind, Op, Step};
use crate::fuse::channel::Channel;
use crate::fuse::wire::{Answer, Head, REQUEST_MAX, name, u32_at, u64_at, usize_at};

/// Nothing is believed by the kernel: each step is to be seen.
const NOT_AT_ALL: u64 = 0;
/// Reads and writes pass by the kernel's cache.
const DIRECT: u32 = 1;
/// Of a write: it is to be durable when it is answered.
const DSYNC: u32 = 0o10_000;
/// Of a change of attributes: the size is meant.
const SIZE: u32 = 1 << 3;
/// A regular file, in a listing.
const REGULAR: u32 = 8;

pub(super) struct Server {
    channel: Channel,
    files: Files,
    control: Arc<Control>,
    /// As it was when the listing began.
    listing: Vec<(String, u64)>,
}

/// What became of a request.
type Outcome = io::Result<()>;

impl Server {
    pub(super) fn new(channel: Channel, files: Files, control: Arc<Control>) -> Self {
        Self { channel, files, control, listing: Vec::new() }
    }

    /// Answers until the file system is unmounted.
    pub(super) fn run(mut self) -> io::Result<()> {
        let mut buffer = vec![0; REQUEST_MAX];
        loop {
            match self.channel.next(&mut buffer)? {
                None => self.channel.wait()?,
                Some(0) => return Ok(()),
                Some(read) => {
                    let answer = self.answer(&Head::parse(&buffer[..read])?);
                    if answer.is_some_and(|answer| !self.channel.answer(&answer).unwrap_or(false)) {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn answer(&mut self, head: &Head<'_>) -> Option<Vec<u8>> {
        if self.forget(head) {
            return None;
        }
        let mut answer = Answer::new();
        let error = match self.carry_out(head, &mut answer) {
            Ok(()) => 0,
            Err(error) => -error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()),
        };
        Some(answer.seal(head.unique, error))
    }

    /// Requests that want no answer.
    fn forget(&mut self, head: &Head<'_>) -> bool {
        match head.code {
            2 => self.files.forget(head.node, u64_at(head.rest, 0).unwrap_or(0)),
            42 => {
                for one in head.rest.get(8..).unwrap_or_default().as_chunks::<16>().0 {
                    let node = u64_at(one, 0).unwrap_or(0);
                    self.files.forget(node, u64_at(one, 8).unwrap_or(0));
                }
            }
            36 => {}
            _ => return false,
        }
        true
    }

    fn carry_out(&mut self, head: &Head<'_>, answer: &mut Answer) -> Outcome {
        match head.code {
            1 => {
                let found = self.files.look_up(text(name(head.rest))?)?;
                answer.entry(found, NOT_AT_ALL);
            }
            3 => self.attributes(head.node, answer)?,
            4 => {
                self.set_attributes(head)?;
                self.attributes(head.node, answer)?;
            }
            10 => self.remove(text(name(head.rest))?)?,
            12 => self.rename(head.rest.get(8..).unwrap_or_default())?,
            14 => {
                self.step(head.node, Op::Open, |_| Ok(()))?;
                answer.words64(&[0]).words32(&[DIRECT, 0]);
            }
            15 => self.read(head, answer)?,
            16 => self.write(head, answer)?,
            17 => {
                let (blocks, free) = self.files.space()?;
                answer.statfs(blocks, if self.control.is_full() { 0 } else { free });
            }
            20 => self.step(head.node, Op::Sync, |server| server.files.sync(head.node))?,
            26 => answer.init(),
            27 => {
                answer.words64(&[0]).words32(&[0, 0]);
            }
            28 => self.list(head, answer)?,
            30 => self.step(head.node, Op::Sync, |server| server.files.sync_names())?,
            35 => self.create(text(name(head.rest.get(16..).unwrap_or_default()))?, answer)?,
            43 => self.allocate(head)?,
            // Release, flush (of a descriptor), release of a directory, destroy.
            18 | 25 | 29 | 38 => {}
            _ => return Err(Errno::NOSYS.into()),
        }
        Ok(())
    }

    fn attributes(&self, node: u64, answer: &mut Answer) -> Outcome {
        let found = self.files.attributes(node)?;
        answer.words64(&[NOT_AT_ALL]).words32(&[0, 0]).attributes(found);
        Ok(())
    }

    fn set_attributes(&mut self, head: &Head<'_>) -> Outcome {
        if u32_at(head.rest, 0)? & SIZE == 0 {
            return Ok(());
        }
        let len = u64_at(head.rest, 16)?;
        self.step(head.node, Op::Resize, |server| server.files.resize(head.node, len))
    }

    fn create(&mut self, name: &str, answer: &mut Answer) -> Outcome {
        let step = Step { op: Op::Create, file: Kind::of(name) };
        self.take_step(step, |server| {
            answer.entry(server.files.create(name)?, NOT_AT_ALL);
            answer.words64(&[0]).words32(&[DIRECT, 0]);
            Ok(())
        })
    }

    fn remove(&mut self, name: &str) -> Outcome {
        let step = Step { op: Op::Remove, file: Kind::of(name) };
        self.take_step(step, |server| server.files.remove(name))
    }

    fn rename(&mut self, names: &[u8]) -> Outcome {
        let from = name(names);
        let to = name(names.get(from.len() + 1..).unwrap_or_default());
        let (from, to) = (text(from)?, text(to)?);
        let step = Step { op: Op::Rename, file: Kind::of(to) };
        self.take_step(step, |server| server.files.rename(from, to))
    }

    fn read(&mut self, head: &Head<'_>, answer: &mut Answer) -> Outcome {
        let (offset, len) = head.read()?;
        self.step(head.node, Op::Read, |server| {
            let mut bytes = vec![0; len];
            let read = server.files.read(head.node, offset, &mut bytes)?;
            answer.bytes(&bytes[..read]);
            Ok(())
        })
    }

    fn write(&mut self, head: &Head<'_>, answer: &mut Answer) -> Outcome {
        let (offset, bytes) = head.write()?;
        let is_durable = u32_at(head.rest, 32)? & DSYNC != 0;
        let op = if is_durable { Op::DurableWrite } else { Op::Write };
        let step = Step { op, file: self.files.kind(head.node) };
        let met = self.control.meet(step);
        self.obey(met, |server| {
            let is_cut = met.kill == Some(Moment::Within)
                || met.fail.is_some_and(|(_, effect)| effect == Effect::Half);
            let bytes = if is_cut { &bytes[..bytes.len() / 1024 * 512] } else { bytes };
            server.files.write(head.node, offset, bytes)?;
            if is_durable { server.files.sync(head.node) } else { Ok(()) }
        })?;
        answer.words32(&[u32::try_from(bytes.len()).unwrap_or(u32::MAX), 0]);
        Ok(())
    }

    fn allocate(&mut self, head: &Head<'_>) -> Outcome {
        let (offset, len) = (u64_at(head.rest, 8)?, u64_at(head.rest, 16)?);
        let mode = u32_at(head.rest, 24)?;
        let gives = FallocateFlags::from_bits_retain(mode).contains(FallocateFlags::PUNCH_HOLE);
        let op = if gives { Op::GiveBack } else { Op::Allocate };
        let node = head.node;
        self.step(node, op, |server| server.files.allocate(node, mode, offset, len))
    }

    fn list(&mut self, head: &Head<'_>, answer: &mut Answer) -> Outcome {
        let (from, room) = (u64_at(head.rest, 8)?, usize_at(head.rest, 16)?);
        if from == 0 {
            self.step(head.node, Op::List, |server| {
                server.listing = server.files.list()?;
                Ok(())
            })?;
        }
        let mut left = room;
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        for (at, (name, node)) in self.listing.iter().enumerate().skip(from) {
            let padded = name.len().next_multiple_of(8);
            let Some(rest) = left.checked_sub(24 + padded) else { break };
            left = rest;
            let len = u32::try_from(name.len()).unwrap_or(u32::MAX);
            answer.words64(&[*node, at as u64 + 1]).words32(&[len, REGULAR]);
            answer.space(padded)[..name.len()].copy_from_slice(name.as_bytes());
        }
        Ok(())
    }

    fn step(&mut self, node: u64, op: Op, act: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        self.take_step(Step { op, file: self.files.kind(node) }, act)
    }

    fn take_step(&mut self, step: Step, act: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        let met = self.control.meet(step);
        self.obey(met, act)
    }

    fn obey(&mut self, met: Met, act: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        if met.kill == Some(Moment::Before) {
            self.control.strike();
            return Err(Errno::IO.into());
        }
        if let Some((error, Effect::Nothing)) = met.fail {
            return Err(error.into());
        }
        let done = act(self);
        if met.kill.is_some() {
            self.control.strike();
        }
        match met.fail {
            Some((error, _)) => Err(error.into()),
            None => done,
        }
    }
}

fn text(name: &[u8]) -> io::Result<&str> {
    std::str::from_utf8(name).map_err(|_| Errno::INVAL.into())
}
