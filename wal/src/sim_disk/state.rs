//! Everything a simulated disk holds, and what each operation does to it.
//!
//! Owns: the table of files, names, requests in flight, faults to come. Does not know: threads,
//! wake-ups.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::mem;

use crate::disk::{Completion, Write, assert_name};
use crate::sim_disk::SimFile;
use crate::sim_disk::faults::{Fault, Faults, Lie, Op};
use crate::sim_disk::file::{Contents, SECTOR};
use crate::sim_disk::flight::{Completed, Flight, InFlight};
use crate::sim_disk::names::{FileId, Names};
use crate::sim_disk::power::{Power, is_change, last_fault, no_power};

#[derive(Debug)]
pub(super) struct State {
    pub(super) capacity: u64,
    pub(super) names: Names,
    /// All files ever made: one whose name is gone may still be open, or come back in a crash.
    pub(super) files: Vec<Contents>,
    pub(super) flight: Flight,
    pub(super) done: Vec<Completion>,
    pub(super) faults: Faults,
    pub(super) power: Power,
    /// What the device only pretends to do.
    pub(super) lie: Option<Lie>,
    /// Of names.
    pub(super) failed_syncs: u64,
    /// Operations for which there was no space.
    pub(super) full: u64,
    /// Writes so far: each has a number, by which a crash decides about it.
    writes: u64,
    counts: BTreeMap<Op, u64>,
}

impl State {
    pub(super) fn new(capacity: u64) -> Self {
        Self::with_files(capacity, Names::default(), Vec::new())
    }

    pub(super) fn with_files(capacity: u64, names: Names, files: Vec<Contents>) -> Self {
        Self {
            capacity,
            names,
            files,
            flight: Flight::default(),
            done: Vec::new(),
            faults: Faults::default(),
            power: Power::default(),
            lie: None,
            failed_syncs: 0,
            full: 0,
            writes: 0,
            counts: BTreeMap::new(),
        }
    }

    pub(super) fn count(&self, op: Op) -> u64 {
        self.counts.get(&op).copied().unwrap_or(0)
    }

    pub(super) fn find(&self, name: &str) -> io::Result<FileId> {
        self.names.find(name).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn list(&mut self) -> io::Result<Vec<(String, u64)>> {
        self.check(Op::List)?;
        let files = self.names.live().iter();
        Ok(files.map(|(name, file)| (name.clone(), self.size(*file))).collect())
    }

    pub(super) fn create(&mut self, name: &str, len: u64) -> io::Result<FileId> {
        assert_name(name);
        assert!(len.is_multiple_of(SECTOR as u64), "a size of {len} is no number of sectors");
        let fault = self.meet(Op::Create)?;
        if let Some(error) = fault.and_then(Fault::error) {
            return Err(error);
        }
        if self.names.find(name).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if len > self.free_bytes() {
            self.full += 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        let len = to_usize(len)?;
        let (len, whole) = match fault {
            Some(Fault::Short(count)) => (count.min(len), false),
            _ => (len, true),
        };
        let file = self.add_file(Contents::durable(vec![0; len]));
        self.names.change(file, Some(name));
        if whole { Ok(file) } else { Err(io::ErrorKind::Interrupted.into()) }
    }

    pub(super) fn add_file(&mut self, contents: Contents) -> FileId {
        self.files.push(contents);
        self.files.len() - 1
    }

    pub(super) fn open(&mut self, name: &str) -> io::Result<FileId> {
        assert_name(name);
        self.check(Op::Open)?;
        self.find(name)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        assert_name(from);
        assert_name(to);
        let fault = self.meet(Op::Rename)?;
        self.change_name(from, Some(to), fault)
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        assert_name(name);
        let fault = self.meet(Op::Remove)?;
        self.change_name(name, None, fault)
    }

    fn change_name(
        &mut self,
        from: &str,
        to: Option<&str>,
        fault: Option<Fault>,
    ) -> io::Result<()> {
        if let Some(Fault::Fail(kind)) = fault {
            return Err(kind.into());
        }
        let file = self.find(from)?;
        self.names.change(file, to);
        fault.and_then(Fault::error).map_or(Ok(()), Err)
    }

    pub(super) fn sync_dir(&mut self) -> io::Result<()> {
        let fault = self.meet(Op::SyncDir)?;
        let failed = fault.and_then(Fault::error);
        if failed.is_some() || fault == Some(Fault::ToldOthers) {
            self.failed_syncs += 1;
            self.names.fail_sync();
        } else if self.lie != Some(Lie::Names) {
            self.names.sync();
        }
        failed.map_or(Ok(()), Err)
    }

    pub(super) fn free_bytes(&self) -> u64 {
        let taken: u64 = self.names.live().values().map(|file| self.size(*file)).sum();
        self.capacity.saturating_sub(taken)
    }

    pub(super) fn size(&self, file: FileId) -> u64 {
        self.files[file].live().len() as u64
    }

    pub(super) fn read(&mut self, file: FileId, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.check(Op::Read)?;
        self.files[file].read(buffer, to_usize(at)?)
    }

    pub(super) fn write(&mut self, file: FileId, bytes: &[u8], offset: u64) -> io::Result<()> {
        let fault = self.meet(Op::Write)?;
        let number = self.next_write();
        let written = self.carry_out(file, bytes, offset, false, number, fault)?;
        if written == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    pub(super) fn give_back(&mut self, file: FileId, offset: u64, len: u64) -> io::Result<()> {
        let fault = self.meet(Op::GiveBack)?;
        let end = offset.saturating_add(len).min(self.size(file));
        let zeroes = vec![0; to_usize(end.saturating_sub(offset))?];
        let number = self.next_write();
        self.carry_out(file, &zeroes, offset, false, number, fault).map(drop)
    }

    pub(super) fn sync(&mut self, file: FileId) -> io::Result<()> {
        let failed = self.meet(Op::Sync)?.and_then(Fault::error);
        match failed {
            None if self.lie == Some(Lie::Files) => {}
            None => self.files[file].sync(),
            Some(_) => self.files[file].fail_sync(),
        }
        failed.map_or(Ok(()), Err)
    }

    pub(super) fn submit(
        &mut self,
        write: Write<SimFile>,
    ) -> Result<(), (Write<SimFile>, io::Error)> {
        if let Err(error) = self.check(Op::Submit) {
            return Err((write, error));
        }
        let fault = self.meet_fault(Op::Write);
        let number = self.next_write();
        let Write { file, buffer, offset, sync, token, notify } = write;
        let write = Write { file: file.file, buffer, offset, sync, token, notify };
        self.flight.add(InFlight { write, number, fault });
        Ok(())
    }

    /// Completes a write in flight, the oldest or the one of a token, with a fault of its own or
    /// with the one that it met; nothing completes without power.
    pub(super) fn release(
        &mut self,
        token: Option<u64>,
        fault: Option<Fault>,
    ) -> Option<Completed> {
        if self.power.is_off() {
            return None;
        }
        let ended = self.flight.take(token)?;
        let fault = fault.or(ended.fault);
        Some(self.complete(InFlight { fault, ..ended }))
    }

    fn complete(&mut self, ended: InFlight) -> Completed {
        let InFlight { write, number, fault } = ended;
        let Write { file, buffer, offset, sync, token, notify } = write;
        let result = self.carry_out(file, &buffer, offset, sync, number, fault);
        self.done.push(Completion { token, buffer, result });
        Completed { token, notify }
    }

    fn carry_out(
        &mut self,
        file: FileId,
        bytes: &[u8],
        offset: u64,
        sync: bool,
        number: u64,
        fault: Option<Fault>,
    ) -> io::Result<usize> {
        let grows = offset.saturating_add(bytes.len() as u64).saturating_sub(self.size(file));
        if grows > 0 && grows > self.free_bytes() {
            self.full += 1;
            return Err(io::ErrorKind::StorageFull.into());
        }
        let offset = to_usize(offset)?;
        let contents = &mut self.files[file];
        let written = match fault {
            None | Some(Fault::ToldOthers) => bytes,
            Some(Fault::Short(count)) => &bytes[..count.min(bytes.len()) / SECTOR * SECTOR],
            Some(Fault::Fail(kind)) => {
                contents.write_perhaps(number, bytes, offset);
                return Err(kind.into());
            }
            Some(Fault::FailWritten(kind)) => {
                contents.write_doubtful(number, bytes, offset);
                return Err(kind.into());
            }
            Some(astray @ (Fault::Lost | Fault::Shifted(_) | Fault::InOtherFile)) => {
                self.go_astray(astray, file, bytes, offset);
                return Ok(bytes.len());
            }
        };
        if sync && self.lie != Some(Lie::Writes) {
            contents.write_durable(written, offset);
        } else {
            contents.write(number, written, offset);
        }
        Ok(written.len())
    }

    /// A write lands, durably, where nobody expects it, or nowhere.
    fn go_astray(&mut self, fault: Fault, file: FileId, bytes: &[u8], offset: usize) {
        let live = self.names.live().values();
        let (target, at) = match fault {
            Fault::Shifted(by) => {
                let len = self.files[file].live().len().max(SECTOR) / SECTOR * SECTOR;
                let by = usize::try_from(by).unwrap_or(0) / SECTOR * SECTOR;
                (Some(file), (offset + by) % len)
            }
            Fault::InOtherFile => (live.copied().filter(|other| *other != file).min(), offset),
            _ => (None, offset),
        };
        let Some(target) = target else { return };
        let contents = &mut self.files[target];
        let room = contents.live().len().saturating_sub(at) / SECTOR * SECTOR;
        contents.write_durable(&bytes[..bytes.len().min(room)], at);
    }

    /// A file with what the writes in flight may have done to it when the power goes.
    pub(super) fn with_flight(&self, file: FileId) -> Cow<'_, Contents> {
        let mut contents = Cow::Borrowed(&self.files[file]);
        for InFlight { write, number, .. } in self.flight.iter() {
            if write.file == file {
                let offset = usize::try_from(write.offset).unwrap_or(usize::MAX);
                contents.to_mut().write_perhaps(*number, &write.buffer, offset);
            }
        }
        contents
    }

    /// The same disk with the writes in flight carried out, but for their flush, and nobody waiting
    /// for them.
    pub(super) fn carried_out(&self) -> Self {
        let (names, files) = (self.names.clone(), self.files.clone());
        let mut after = Self::with_files(self.capacity, names, files);
        after.writes = self.writes;
        after.lie = self.lie;
        for InFlight { write, number, fault } in self.flight.iter() {
            let (file, bytes) = (write.file, &write.buffer);
            // Its result is told to nobody: who asked has ended.
            let _ = after.carry_out(file, bytes, write.offset, false, *number, *fault);
        }
        after
    }

    fn next_write(&mut self) -> u64 {
        let next = self.writes + 1;
        mem::replace(&mut self.writes, next)
    }

    /// Counts an operation; the fault that it meets, or that there is no power for it.
    fn meet(&mut self, op: Op) -> io::Result<Option<Fault>> {
        if self.power.is_off() {
            return Err(no_power());
        }
        let last = is_change(op) && self.power.count();
        let fault = self.meet_fault(op);
        Ok(if last { last_fault(op) } else { fault })
    }

    fn meet_fault(&mut self, op: Op) -> Option<Fault> {
        *self.counts.entry(op).or_default() += 1;
        self.faults.meet(op)
    }

    fn check(&mut self, op: Op) -> io::Result<()> {
        self.meet(op)?.and_then(Fault::error).map_or(Ok(()), Err)
    }
}

pub(super) fn to_usize(value: u64) -> io::Result<usize> {
    usize::try_from(value).map_err(|_| io::ErrorKind::InvalidInput.into())
}
