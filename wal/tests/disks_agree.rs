//! The simulated disk against real ones: the same calls, the same answers.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::io;
use std::time::Duration;

use proptest::prelude::*;
use zzq_wal::disk::{BLOCK, Disk, DiskFile, Write};
use zzq_wal::io::{Backend, FileDisk, IoBuffer, Issuers, event};
use zzq_wal::sim_disk::SimDisk;

const NAMES: [&str; 3] = ["a", "b", "c"];

#[derive(Clone, Debug)]
enum Step {
    Create { name: usize, blocks: u64 },
    Open(usize),
    Rename(usize, usize),
    Remove(usize),
    Submit { block: u64, blocks: usize, sync: bool },
    Write { block: u64, blocks: usize },
    Read { block: u64, blocks: usize },
    Size,
    Sync,
    SyncDir,
    List,
}

fn step() -> impl Strategy<Value = Step> {
    let name = || 0..NAMES.len();
    let range = || (0..5_u64, 1..4_usize);
    prop_oneof![
        (name(), 0..4_u64).prop_map(|(name, blocks)| Step::Create { name, blocks }),
        name().prop_map(Step::Open),
        (name(), name()).prop_map(|(from, to)| Step::Rename(from, to)),
        name().prop_map(Step::Remove),
        (range(), any::<bool>()).prop_map(|((block, blocks), sync)| Step::Submit {
            block,
            blocks,
            sync
        }),
        range().prop_map(|(block, blocks)| Step::Write { block, blocks }),
        range().prop_map(|(block, blocks)| Step::Read { block, blocks }),
        Just(Step::Size),
        Just(Step::Sync),
        Just(Step::SyncDir),
        Just(Step::List),
    ]
}

/// What a step showed, in a form that both kinds of disk can give.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Done,
    Count(u64),
    Bytes(Vec<u8>),
    Files(Vec<(String, u64)>),
}

/// A disk and the file that was opened last.
struct Subject<D: Disk> {
    disk: D,
    file: Option<D::File>,
}

impl<D: Disk> Subject<D> {
    fn new(disk: D) -> Self {
        Self { disk, file: None }
    }

    fn step(&mut self, step: &Step, byte: u8) -> Result<Seen, io::ErrorKind> {
        self.try_step(step, byte).map_err(|error| error.kind())
    }

    fn try_step(&mut self, step: &Step, byte: u8) -> io::Result<Seen> {
        match *step {
            Step::Create { name, blocks } => {
                self.file = Some(self.disk.create(NAMES[name], blocks * BLOCK as u64)?);
            }
            Step::Open(name) => self.file = Some(self.disk.open(NAMES[name])?),
            Step::Rename(from, to) => self.disk.rename(NAMES[from], NAMES[to])?,
            Step::Remove(name) => self.disk.remove(NAMES[name])?,
            Step::SyncDir => self.disk.sync_dir()?,
            Step::List => {
                let mut files = self.disk.list()?;
                files.sort();
                return Ok(Seen::Files(files));
            }
            _ => return self.file_step(step, byte),
        }
        Ok(Seen::Done)
    }

    fn file_step(&self, step: &Step, byte: u8) -> io::Result<Seen> {
        let Some(file) = &self.file else { return Ok(Seen::Done) };
        match *step {
            Step::Submit { block, blocks, sync } => {
                return self.write_and_wait(file.clone(), block, filled(blocks, byte), sync);
            }
            Step::Write { block, blocks } => {
                file.write_at(&filled(blocks, byte), block * BLOCK as u64)?;
            }
            Step::Read { block, blocks } => {
                let mut buffer = filled(blocks, 0xff);
                let count = file.read_at(&mut buffer, block * BLOCK as u64)?;
                return Ok(Seen::Bytes(buffer[..count].to_vec()));
            }
            Step::Size => return Ok(Seen::Count(file.size()?)),
            _ => file.sync()?,
        }
        Ok(Seen::Done)
    }

    fn write_and_wait(
        &self,
        file: D::File,
        block: u64,
        buffer: IoBuffer,
        sync: bool,
    ) -> io::Result<Seen> {
        let event = event::create()?;
        let notify = Some(event.clone());
        let offset = block * BLOCK as u64;
        let write = Write { file, buffer, offset, sync, token: 1, notify };
        self.disk.submit(write).map_err(|(_, error)| error)?;
        assert!(event::wait(&event, Duration::from_secs(30))?);
        let mut completions = Vec::new();
        self.disk.reap(&mut completions);
        let completion = completions.pop().unwrap();
        assert!(completions.is_empty() && completion.token == 1);
        Ok(Seen::Count(completion.result? as u64))
    }
}

fn filled(blocks: usize, byte: u8) -> IoBuffer {
    let mut buffer = IoBuffer::with_blocks(blocks);
    buffer.fill(byte);
    buffer
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn simulated_and_real_disks_answer_alike(steps in prop::collection::vec(step(), 1..40)) {
        let kinds = [
            (Backend::Aio, Issuers::Any),
            (Backend::Pwrite, Issuers::Any),
            // Where there is no io_uring there is nothing to agree with.
            (Backend::Uring, Issuers::Any),
            (Backend::Uring, Issuers::One),
        ];
        let directories = kinds.map(|_| tempfile::tempdir().unwrap());
        let real = kinds.iter().zip(&directories).filter_map(|((backend, issuers), directory)| {
            let disk = FileDisk::open_for(directory.path(), *backend, *issuers);
            assert!(disk.is_ok() || *backend == Backend::Uring, "{disk:?}");
            Some((backend, Subject::new(disk.ok()?)))
        });
        let mut real: Vec<_> = real.collect();
        let mut simulated = Subject::new(SimDisk::new());
        for (step, byte) in steps.iter().zip((1..250).cycle()) {
            let expected = simulated.step(step, byte);
            for (backend, subject) in &mut real {
                prop_assert_eq!(&subject.step(step, byte), &expected, "{}", backend);
            }
        }
    }
}
