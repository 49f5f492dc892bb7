//! Copies of logs on simulated disks: what is in them, what a crash leaves, what is said of a
//! damaged source, and how they come about while a log is trimmed and recycled under them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use common::*;
use zzq_journal::{BackupError, Status, Taken, Trouble, Wish, copy_log};
use zzq_snapshot::{Need, NeededKind, image_name};
use zzq_wal::disk::{Completion, Disk, DiskFile, Write};
use zzq_wal::format::group::GroupHeader;
use zzq_wal::io::IoBuffer;
use zzq_wal::sim_disk::{Random, SimDisk, SimFile, Survival};
use zzq_wal::{Log, Lsn, META_NAME, OpenError, read_facts, segment_name, segment_number};

/// What a test's records are, found again by their LSN.
type Records = Vec<(u64, u64, Vec<u8>)>;

fn backup_to(target: &SimDisk, source: &SimDisk, wish: Wish) -> Result<Taken, BackupError> {
    let open = || -> Result<SimDisk, Trouble> { Ok(source.clone()) };
    copy_log(&open, target, wish, &mut |_| {})
}

fn backup(source: &SimDisk, wish: Wish) -> Result<(SimDisk, Taken), BackupError> {
    let target = SimDisk::new();
    backup_to(&target, source, wish).map(|taken| (target, taken))
}

/// Starts on a disk: all records of its log from one on.
fn started(disk: &SimDisk, from: u64) -> Result<Records, OpenError> {
    let mut records = Vec::new();
    let mut options = options();
    options.visit_from = Lsn::new(from);
    Log::open(disk.clone(), options, 0, &mut |found| {
        records.push((found.lsn.get(), found.time_ms, found.body.to_vec()));
        Ok(())
    })?;
    Ok(records)
}

/// Several starts with groups of several records, big ones in parts among them.
fn busy(seed: u64) -> SimDisk {
    let mut disk = SimDisk::new();
    let mut random = Random::new(seed);
    for _ in 0..3 {
        let mut lane = Lane::open(&disk);
        for _ in 0..12 {
            let long = [10, 300, 3000, 20_000, 60_000];
            let bodies: Vec<_> = (0..=random.index(6))
                .map(|_| vec![u8::try_from(random.index(256)).unwrap(); random.pick(&long)])
                .collect();
            lane.put_together(9, &bodies);
        }
        drop(lane);
        disk = disk.restart();
    }
    disk
}

#[test]
fn a_copy_holds_all_records_and_a_log_goes_on_from_it() {
    for seed in 0..10 {
        let source = busy(seed);
        let (copy, taken) = backup(&source, Wish::End).unwrap();
        assert_eq!((taken.tries, &taken.passed[..]), (1, &[][..]));
        let ran = run("verify", directory(&copy).path(), &["--opaque"]);
        assert_eq!(ran.status, 0, "{ran:?}");
        let records = started(&source.restart(), 1).unwrap();
        assert_eq!(taken.last_lsn, records.len() as u64);
        assert_eq!(started(&copy, 1).unwrap(), records);
        let mut lane = Lane::open(&copy);
        lane.put(9, b"goes on");
        drop(lane);
        let more = started(&copy, 1).unwrap();
        assert_eq!(more.len(), records.len() + 1);
        assert_eq!(more[records.len()].2, b"goes on");
        // Closed segments are recycled there as here: their blocks have to be on the device.
        let mut lane = Lane::open(&copy);
        let end = lane.log.durable();
        lane.trim(end);
        lane.put(9, &vec![7; 100_000]);
    }
}

#[test]
fn a_restored_log_ends_with_any_record_that_was_asked_for() {
    let source = busy(4);
    let records = started(&source.restart(), 1).unwrap();
    for last in 1..=records.len() {
        let wish = Wish::Offset(Lsn::new(last as u64));
        let (copy, taken) = backup(&source, wish).unwrap();
        assert_eq!((taken.last_lsn, taken.time_ms), (last as u64, records[last - 1].1));
        if last % 8 == 0 {
            let ran = run("verify", directory(&copy).path(), &["--opaque"]);
            assert_eq!(ran.status, 0, "{ran:?}");
        }
        assert_eq!(started(&copy, 1).unwrap(), records[..last]);
    }
    let end = records.len();
    let beyond = backup(&source, Wish::Offset(Lsn::new(end as u64 + 1))).unwrap_err();
    assert_eq!(beyond.status(), Status::Unreadable);
    assert!(beyond.to_string().contains(&format!("from @1 to @{end}")), "{beyond}");
}

#[test]
fn a_restored_log_ends_with_the_last_record_that_is_not_younger() {
    let source = busy(5);
    let records = started(&source.restart(), 1).unwrap();
    let (first, last) = (records[0].1, records[records.len() - 1].1);
    for time in [first, first + 1, first.midpoint(last), last - 1, last, last + 1, u64::MAX] {
        let (_, taken) = backup(&source, Wish::Time(time)).unwrap();
        let expected = records.iter().filter(|(_, time_ms, _)| *time_ms <= time).count();
        assert_eq!(taken.last_lsn, expected as u64, "{time}");
    }
    let before = backup(&source, Wish::Time(first - 1)).unwrap_err();
    assert!(before.to_string().contains("the log begins with @1"), "{before}");
    assert_eq!(before.status(), Status::Unreadable);
    let forgotten = backup(&source, Wish::Time(17)).unwrap_err();
    assert!(forgotten.to_string().contains("@OFFSET"), "{forgotten}");
}

/// A log with images at three moments, the last two of which are there, trimmed in front of them.
fn with_images(payload: usize) -> (SimDisk, [u64; 3]) {
    let disk = SimDisk::new();
    let mut lane = Lane::open(&disk);
    lane.start();
    let mut covered = [0; 3];
    for round in &mut covered {
        for n in 0..40 {
            lane.publish(&format!("news/{n}"), &vec![b'x'; payload]);
        }
        *round = lane.log.durable().get();
        lane.image(None);
    }
    lane.publish("last", b"x");
    lane.trim(Lsn::new(covered[1] + 1));
    (disk.restart(), covered)
}

#[test]
fn images_go_along_that_cover_no_more_than_is_wanted() {
    let (source, covered) = with_images(8000);
    let first_kept = started(&source.restart(), covered[1] + 1).unwrap()[0].0;
    assert_eq!(first_kept, covered[1] + 1);
    for (last, images) in [
        (covered[2] + 1, &covered[1..]),
        (covered[2], &covered[1..]),
        (covered[2] - 1, &covered[1..2]),
    ] {
        let (copy, taken) = backup(&source, Wish::Offset(Lsn::new(last))).unwrap();
        assert_eq!(taken.images, images);
        let facts = read_facts(&copy).unwrap();
        assert_eq!(facts.snapshot.get(), *images.last().unwrap());
        assert_eq!((facts.durable.get(), taken.last_lsn), (last, last));
        let ran = verify(&directory(&copy));
        assert_eq!(ran.status, 0, "{ran:?}");
    }
    let gone = backup(&source, Wish::Offset(Lsn::new(covered[0]))).unwrap_err();
    assert_eq!(gone.status(), Status::Unreadable);
    assert!(gone.to_string().contains("was let go"), "{gone}");
}

/// A copy says what its log begins with as the source does, whose word is heeded.
#[test]
fn a_copy_begins_with_the_group_that_its_source_begins_with() {
    let (source, covered) = with_images(8000);
    let facts = read_facts(&source).unwrap();
    let (number, begins) = (facts.segments().unwrap().first, facts.first_group.unwrap());
    let first = first_group(&source, number).unwrap();
    assert_eq!((begins.number, begins.first_lsn), (first.number, first.first_lsn));
    let (copy, taken) = backup(&source, Wish::End).unwrap();
    assert_eq!(taken.first_lsn, begins.first_lsn.get());
    assert_eq!(read_facts(&copy).unwrap().first_group, Some(begins));

    // Another one is there.
    let file = segment_name(number);
    for disk in [&copy, &source] {
        let bytes = disk.bytes(&file).unwrap();
        let behind = &bytes[4096 + first.length..];
        let next = GroupHeader::decode(behind).unwrap();
        disk.overwrite(&file, 4096, &behind[..next.length]).unwrap();
    }
    assert!(matches!(started(&copy, 1), Err(OpenError::Damage(_))));
    let refused = backup(&source, Wish::End).unwrap_err();
    assert!(refused.to_string().contains("is where group"), "{refused}");
    // With less of it wanted recovery is not asked.
    let refused = backup(&source, Wish::Offset(Lsn::new(covered[2]))).unwrap_err();
    assert!(refused.to_string().contains("with which the log begins"), "{refused}");
}

/// A segment that begins within a record was passed over even where that record is not needed, so
/// that a log of long records could not be copied at all once it was trimmed.
#[test]
fn a_log_is_copied_whose_segments_all_begin_within_a_record() {
    let disk = SimDisk::new();
    let mut lane = Lane::open(&disk);
    lane.start();
    let publish = |lane: &mut Lane| {
        for n in 0..8 {
            lane.publish(&format!("long/{n}"), &vec![b'x'; 90_000]);
        }
    };
    publish(&mut lane);
    let covered = lane.log.durable().get();
    lane.image(None);
    publish(&mut lane);
    lane.trim(Lsn::new(covered + 1));
    let source = disk.restart();
    let names = source.list().unwrap();
    let numbers = names.iter().filter_map(|(name, _)| segment_number(name));
    let firsts = numbers.filter_map(|number| first_group(&source, number));
    let mut firsts = firsts.filter(|first| first.first_lsn.get() <= covered + 1).peekable();
    assert!(firsts.peek().is_some());
    assert!(firsts.all(|first| first.open.is_some_and(|open| open.segment < first.segment)));
    let (copy, taken) = backup(&source, Wish::End).unwrap();
    assert_eq!(taken.images, [covered]);
    let ran = verify(&directory(&copy));
    assert_eq!(ran.status, 0, "{ran:?}");
    let (copied, kept) = (started(&copy, covered + 1), started(&source.restart(), covered + 1));
    assert_eq!(copied.unwrap(), kept.unwrap());
}

#[test]
fn what_is_wrong_and_not_needed_is_told_and_left_out() {
    let (source, covered) = with_images(8000);
    let spoilt = |change: &dyn Fn(&SimDisk)| {
        let disk = source.restart();
        change(&disk);
        disk
    };
    // The newest image: the one before does.
    let disk = spoilt(&|disk| disk.flip(&image_name(3), 4100, 0).unwrap());
    let (copy, taken) = backup(&disk, Wish::End).unwrap();
    assert_eq!((&taken.images[..], taken.passed.len()), (&covered[1..2], 1), "{taken:?}");
    assert_eq!(verify(&directory(&copy)).status, 0);
    // An index.
    let first = source.list().unwrap();
    let first = first.iter().filter_map(|(name, _)| segment_number(name)).min().unwrap();
    let length = source.bytes(&segment_name(first)).unwrap().len() as u64;
    let disk = spoilt(&|disk| disk.flip(&segment_name(first), length - 8192, 0).unwrap());
    let (copy, taken) = backup(&disk, Wish::End).unwrap();
    assert!(taken.passed[0].contains("index"), "{taken:?}");
    assert_eq!(verify(&directory(&copy)).status, 0);
}

#[test]
fn history_that_is_damaged_is_left_out_and_what_is_needed_is_not() {
    // Nothing was trimmed, and an image covers nearly all.
    let disk = SimDisk::new();
    let mut lane = Lane::open(&disk);
    lane.start();
    for n in 0..100 {
        lane.publish(&format!("news/{n}"), &[b'x'; 8000]);
    }
    lane.image(None);
    lane.publish("last", b"x");
    drop(lane);
    let newest = disk.list().unwrap();
    let newest = newest.iter().filter_map(|(name, _)| segment_number(name)).max().unwrap();
    disk.flip(&segment_name(2), 30_000, 0).unwrap();
    let (copy, taken) = backup(&disk, Wish::End).unwrap();
    assert!(taken.passed[0].contains("history up to 00000000000000000002.log"), "{taken:?}");
    assert!(taken.first_lsn > 1 && taken.first_lsn < 100 && taken.last_lsn == 102, "{taken:?}");
    assert_eq!(verify(&directory(&copy)).status, 0);
    // Up to the damage it can be restored without the image.
    let (copy, taken) = backup(&disk, Wish::Offset(Lsn::new(10))).unwrap();
    assert_eq!((taken.first_lsn, taken.last_lsn, &taken.images[..]), (1, 10, &[][..]));
    assert_eq!(verify(&directory(&copy)).status, 0);
    let within = backup(&disk, Wish::Offset(Lsn::new(40))).unwrap_err();
    assert_eq!(within.status(), Status::Damaged);
    assert!(within.to_string().contains("00000000000000000002.log"), "{within}");
    // What lies behind the image is needed.
    let mut number = newest;
    while read_facts(&disk).unwrap().snapshot.get() < first_of(&disk, number) {
        number -= 1;
    }
    disk.flip(&segment_name(number), 5000, 0).unwrap();
    let needed = backup(&disk, Wish::End).unwrap_err();
    assert_eq!(needed.status(), Status::Damaged, "{needed}");
    assert!(needed.to_string().contains(&segment_name(number)), "{needed}");
}

fn first_group(disk: &SimDisk, number: u64) -> Option<GroupHeader> {
    let bytes = disk.bytes(&segment_name(number)).unwrap();
    GroupHeader::decode(&bytes[4096..])
}

/// The first LSN of a segment; the highest if it has none.
fn first_of(disk: &SimDisk, number: u64) -> u64 {
    first_group(disk, number).map_or(u64::MAX, |header| header.first_lsn.get())
}

#[test]
fn without_meta_or_a_file_that_is_needed_nothing_is_made() {
    let (source, covered) = with_images(8000);
    let changes: [&dyn Fn(&SimDisk); 4] = [
        &|disk| disk.delete(META_NAME).unwrap(),
        &|disk| disk.overwrite(META_NAME, 0, &[0; 8192]).unwrap(),
        &|disk| {
            // Neither image, and the log begins behind them.
            disk.delete(&image_name(2)).unwrap();
            disk.flip(&image_name(3), 4100, 0).unwrap();
        },
        &|disk| {
            let needed = |(name, _): &(String, u64)| {
                segment_number(name).is_some_and(|number| first_of(disk, number) > covered[2] - 10)
            };
            let list = disk.list().unwrap();
            let needed = list.iter().find(|file| needed(file)).unwrap();
            disk.delete(&needed.0).unwrap();
        },
    ];
    for (nth, change) in changes.iter().enumerate() {
        let disk = source.restart();
        change(&disk);
        let target = SimDisk::new();
        let error = backup_to(&target, &disk, Wish::End).unwrap_err();
        assert_eq!(error.status(), Status::Damaged, "{nth}: {error}");
        assert_eq!(target.list().unwrap(), [], "{nth}: nothing is left");
    }
}

/// Whatever a power cut leaves of it, a broker starts from all of it or refuses.
#[test]
fn a_copy_that_was_broken_off_is_never_taken_for_a_log() {
    let (source, _) = with_images(2000);
    let last = backup(&source, Wish::End).unwrap().1.last_lsn;
    let mut whole = 0;
    for nth in 1.. {
        let target = SimDisk::new();
        target.cut_power(nth);
        let outcome = backup_to(&target, &source, Wish::End);
        for seed in 0..8 {
            let survival = match seed {
                0 => Survival::Nothing,
                1 => Survival::Everything,
                _ => Survival::Seeded(seed * 1000 + nth),
            };
            let after = target.crash_with(survival);
            let files = after.list().unwrap();
            if outcome.is_ok() || read_facts(&after).is_ok() {
                let ran = verify(&directory(&after));
                assert_eq!(ran.status, 0, "{nth} {seed}: {ran:?}");
                assert!(ran.last_line().contains(&format!("@{last}")), "{ran:?}");
                whole += 1;
            } else if !files.is_empty() {
                let opened = Log::open(after.clone(), options(), 0, &mut |_| Ok(()));
                assert!(matches!(opened, Err(OpenError::Damage(_))), "{nth} {seed}: {files:?}");
            }
        }
        if outcome.is_ok() {
            assert!(!target.is_off() && whole >= 8);
            return;
        }
    }
}

#[test]
fn a_target_that_fails_at_any_step_is_left_empty() {
    use zzq_wal::sim_disk::{Fault, Op};
    let (source, _) = with_images(2000);
    for op in [Op::Create, Op::Write, Op::Sync, Op::SyncDir, Op::Rename] {
        for nth in 1.. {
            let target = SimDisk::new();
            target.fail(op, nth, Fault::Fail(io::ErrorKind::StorageFull));
            match backup_to(&target, &source, Wish::End) {
                Ok(_) => {
                    assert!(nth > 1, "{op:?} is never done");
                    break;
                }
                Err(error) => {
                    assert!(matches!(error, BackupError::Target { .. }), "{op:?} {nth}: {error}");
                    let left = target.list().unwrap();
                    let left: Vec<_> = left.iter().filter(|(name, _)| name != "meta.new").collect();
                    assert!(left.is_empty(), "{op:?} {nth}: {left:?}");
                }
            }
        }
    }
}

/// A log that goes on whenever it is looked at: records are added, images made, segments trimmed
/// and used again.
struct Restless {
    lane: Lane,
    random: Random,
    /// One in so many looks is followed by a step.
    calm: usize,
    trims: bool,
    steps: u64,
}

impl Restless {
    fn step(&mut self) {
        if self.random.index(self.calm) > 0 {
            return;
        }
        self.steps += 1;
        let bodies: Vec<_> = (0..=self.random.index(4))
            .map(|_| vec![b'r'; self.random.pick(&[100, 3000, 20_000])])
            .collect();
        self.lane.put_together(9, &bodies);
        if self.random.index(3) == 0 {
            let before = self.lane.log.facts().snapshot;
            let segment = self.lane.log.segments().pop().unwrap();
            let first =
                Lsn::new(self.lane.log.durable().get().saturating_sub(3)).max(segment.first);
            let (kind, number) = (NeededKind::Segment, segment.number);
            let need = Need { kind, number, first, last: first, references: 1, bytes: 1 };
            self.lane.image((first <= segment.last).then_some(need));
            if self.trims {
                // As a broker does: behind the image before, with a record that it needs.
                self.lane.trim(Lsn::new(before.get().saturating_sub(4)));
            }
        }
    }
}

/// The disk of a restless log, for reading.
#[derive(Clone)]
struct Moving {
    disk: SimDisk,
    log: Arc<Mutex<Restless>>,
}

#[derive(Clone)]
struct MovingFile {
    file: SimFile,
    log: Arc<Mutex<Restless>>,
}

impl fmt::Debug for MovingFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(out)
    }
}

impl Moving {
    fn step(&self) {
        self.log.lock().unwrap().step();
    }
}

fn only_read<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for Moving {
    type File = MovingFile;

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let list = self.disk.list();
        self.step();
        list
    }

    fn create(&self, _: &str, _: u64) -> io::Result<MovingFile> {
        only_read()
    }

    fn open(&self, name: &str) -> io::Result<MovingFile> {
        let file = self.disk.open(name);
        self.step();
        Ok(MovingFile { file: file?, log: Arc::clone(&self.log) })
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        only_read()
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        only_read()
    }

    fn sync_dir(&self) -> io::Result<()> {
        only_read()
    }

    fn failed_syncs(&self) -> u64 {
        0
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn submit(&self, write: Write<MovingFile>) -> Result<(), (Write<MovingFile>, io::Error)> {
        Err((write, io::ErrorKind::ReadOnlyFilesystem.into()))
    }

    fn reap(&self, _: &mut Vec<Completion>) {}
}

impl DiskFile for MovingFile {
    fn read_at(&self, buffer: &mut IoBuffer, offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(buffer, offset);
        self.log.lock().unwrap().step();
        read
    }

    fn write_at(&self, _: &IoBuffer, _: u64) -> io::Result<()> {
        only_read()
    }

    fn sync(&self) -> io::Result<()> {
        only_read()
    }

    fn give_back(&self, _: u64, _: u64) -> io::Result<()> {
        only_read()
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}

/// What is acknowledged before it begins is in it, however the log goes on meanwhile; where that
/// goes on too fast, it says so.
#[test]
fn a_log_is_copied_while_it_is_trimmed_and_recycled() {
    let (mut again, mut short, mut given_up) = (0, 0, 0);
    for seed in 0..150 {
        let disk = SimDisk::new();
        let mut lane = Lane::open(&disk);
        for _ in 0..20 {
            lane.put_together(9, &[vec![b'b'; 20_000], vec![b'b'; 300]]);
        }
        lane.image(None);
        let mut random = Random::new(seed);
        let (calm, trims) = (random.pick(&[1, 3, 10, 40, 150]), random.index(4) > 0);
        let log = Restless { lane, random, calm, trims, steps: 0 };
        let log = Arc::new(Mutex::new(log));
        let source = Moving { disk: disk.clone(), log: Arc::clone(&log) };
        let acknowledged = log.lock().unwrap().lane.log.durable().get();
        let target = SimDisk::new();
        let open = || -> Result<Moving, Trouble> { Ok(source.clone()) };
        let taken = match copy_log(&open, &target, Wish::End, &mut |_| {}) {
            Ok(taken) => taken,
            Err(error) => {
                assert!(trims && calm < 40, "seed {seed}, calm {calm}: {error}");
                assert_eq!(target.list().unwrap(), []);
                given_up += 1;
                continue;
            }
        };
        again += usize::from(taken.tries > 1);
        short += usize::from(taken.first_lsn > 1);
        assert!(taken.last_lsn >= acknowledged, "seed {seed}: {taken:?}");
        if calm >= 10 {
            assert_eq!(taken.passed, Vec::<String>::new(), "seed {seed}: nothing is damaged");
        }
        let covered = taken.images.last().map_or(0, |image| *image);
        let ran = run("verify", directory(&target).path(), &["--opaque"]);
        assert_eq!(ran.status, 0, "seed {seed}: {ran:?}");
        let copied = started(&target, covered + 1).unwrap();
        let lsns = copied.iter().map(|(lsn, ..)| *lsn);
        assert!(lsns.eq(covered + 1..=taken.last_lsn), "seed {seed}: {taken:?}");
    }
    println!("{again} begun again, {short} without history, {given_up} given up");
    assert!(again > 10 && short > 10, "{again} and {short}: it was hardly trimmed meanwhile");
}
