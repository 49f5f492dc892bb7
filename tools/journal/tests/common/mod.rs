//! Directories with logs, and the command run on them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "it is only part of tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use tempfile::TempDir;
use zzq_engine::Record;
use zzq_engine::record::{Publish, Start};
use zzq_snapshot::{Heading, Kind, Need, Writer, at_full_speed, image_name};
use zzq_types::{Properties, QoS, TopicName};
use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Log, Lsn, Options, Producer, StageError, Staging, Wake};

pub const COMMAND: &str = env!("CARGO_BIN_EXE_zzq_journal");

struct Nobody;

impl Wake for Nobody {
    fn wake(&self) {}
}

/// A log on a simulated disk, and one lane of it.
pub struct Lane {
    pub log: Log<SimDisk>,
    pub producer: Producer<SimDisk>,
}

pub fn options() -> Options {
    let mut state = 7_u128;
    Options {
        segment_size: 128 * 1024,
        group_size: 32 * 1024,
        chunk_size: 4096,
        part_size: 8192,
        ring_chunks: 16,
        ..Options::new(Box::new(move || {
            state = state.wrapping_mul(0xda94_2042_e4dd_58b5_da94_2042_e4dd_58b5).wrapping_add(1);
            (state ^ state >> 61).to_le_bytes()
        }))
    }
}

impl Lane {
    /// Opens the log on this disk.
    pub fn open(disk: &SimDisk) -> Self {
        let opened = Log::open(disk.clone(), options(), 0, &mut |_| Ok(())).unwrap();
        let producer = opened.0.producer(Arc::new(Nobody), None).unwrap();
        Self { log: opened.0, producer }
    }

    /// A record in a group of its own, durable.
    pub fn put(&mut self, kind: u8, body: &[u8]) {
        let how = Staging { kind, waits: true, ..Staging::default() };
        let handed = loop {
            match self.producer.stage(&how, |out| out.extend_from_slice(body)) {
                Ok(handed) => break handed,
                Err(StageError::Full) => self.turn(),
                Err(error) => unreachable!("{error}"),
            }
        };
        while self.producer.durable() < handed {
            self.turn();
        }
    }

    /// A record in a group of its own, on a disk that may fail.
    pub fn hand_over(&mut self, kind: u8, body: &[u8]) {
        let how = Staging { kind, waits: true, ..Staging::default() };
        let _refused = self.producer.stage(&how, |out| out.extend_from_slice(body));
        self.turn();
    }

    fn turn(&mut self) {
        self.producer.drive(1_700_000_000_000 + self.log.durable().get());
        self.log.helper_step(0);
    }

    pub fn start(&mut self) {
        self.record(&Record::Start(Start { jump: true }));
    }

    pub fn publish(&mut self, topic: &str, payload: &[u8]) {
        self.record(&Record::Publish(Publish {
            publisher: None,
            inbound: None,
            will_of: None,
            qos: QoS::AtLeastOnce,
            retain: false,
            decision: zzq_engine::Decision::NOBODY,
            topic: TopicName::new(topic).unwrap(),
            properties: Properties::EMPTY,
            payload,
        }));
    }

    /// Records that are written in one group if they find room in it.
    pub fn put_together(&mut self, kind: u8, bodies: &[Vec<u8>]) {
        let how = Staging { kind, waits: true, ..Staging::default() };
        for body in bodies {
            while let Err(error) = self.producer.stage(&how, |out| out.extend_from_slice(body)) {
                assert!(matches!(error, StageError::Full), "{error}");
                self.turn();
            }
        }
        while self.producer.durable() < self.producer.handed() {
            self.turn();
        }
    }

    /// An image without entries of what is durable, marked; it needs the log from here on.
    pub fn image(&mut self, needs: Option<Need>) {
        let (lsn, identity) = (self.log.durable(), self.log.facts().identity);
        let number = self.log.facts().snapshot_number + 1;
        let heading = Heading { number, lsn, ..Heading::new(Kind::Image, identity) };
        let disk = Arc::clone(self.log.disk());
        let mut writer = Writer::begin_with(&*disk, heading, 16_384, at_full_speed()).unwrap();
        writer.entry(1, b"", &[1, 1]).unwrap();
        writer.finish_with(needs.as_slice()).unwrap();
        let mark = self.log.update_facts(|facts| {
            facts.snapshot = lsn;
            facts.snapshot_number = number;
        });
        mark.unwrap();
        if number > 2 {
            disk.remove(&image_name(number - 2)).unwrap();
            disk.sync_dir().unwrap();
        }
    }

    /// Lets the log go in front of this record.
    pub fn trim(&mut self, below: Lsn) {
        self.log.trim(below);
        while self.log.helper_step(0) {}
    }

    fn record(&mut self, record: &Record<'_>) {
        let mut body = Vec::new();
        record.encode_body(&mut body);
        self.put(record.kind(), &body);
    }
}

/// A log with a Start and `count` publishes on `news/N`, whose process was killed.
pub fn killed(count: usize, payload: usize) -> SimDisk {
    let disk = SimDisk::new();
    let mut lane = Lane::open(&disk);
    lane.start();
    for n in 0..count {
        lane.publish(&format!("news/{n}"), &vec![b'x'; payload]);
    }
    disk.restart()
}

/// The files of a disk in a directory.
pub fn directory(disk: &SimDisk) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, _) in disk.list().unwrap() {
        fs::write(directory.path().join(&name), disk.bytes(&name).unwrap()).unwrap();
    }
    directory
}

/// How the command ended, and what it said.
#[derive(Debug)]
pub struct Ran {
    pub status: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        Self {
            status: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub fn last_line(&self) -> &str {
        self.out.lines().last().unwrap_or_default()
    }
}

/// Runs the command on a directory.
pub fn run(command: &str, directory: &Path, arguments: &[&str]) -> Ran {
    let mut process = Command::new(COMMAND);
    process.arg(command).arg(directory).args(arguments);
    Ran::of(process.output().unwrap())
}

pub fn verify(directory: &TempDir) -> Ran {
    run("verify", directory.path(), &[])
}

pub fn dump(directory: &TempDir, arguments: &[&str]) -> Ran {
    run("dump", directory.path(), arguments)
}

/// Names, bytes, and times of change and of last reading of all files.
pub fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>, std::time::SystemTime)> {
    let entries = fs::read_dir(directory).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let changed = fs::metadata(&path).unwrap().modified().unwrap();
            let bytes = fs::read(&path).unwrap();
            (path, bytes, changed)
        })
        .collect();
    files.sort();
    files
}
