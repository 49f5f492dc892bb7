//! The command as a shell sees it: each exit status, and what it says then.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use common::*;
use tempfile::TempDir;
use zzq_wal::disk::Disk as _;
use zzq_wal::format::group::GroupHeader;
use zzq_wal::format::segment::SegmentHeader;
use zzq_wal::io::DirectoryLock;
use zzq_wal::sim_disk::{SimDisk, Survival};
use zzq_wal::{Lsn, META_NAME, segment_name};

/// Where each group of a segment begins, and where the last one ends.
fn groups(disk: &SimDisk, file: &str) -> Vec<u64> {
    let bytes = disk.bytes(file).unwrap();
    let mut places = vec![4096];
    while let Some(header) = GroupHeader::decode(&bytes[places[places.len() - 1]..]) {
        places.push(places[places.len() - 1] + header.length);
    }
    places.iter().map(|place| *place as u64).collect()
}

#[test]
fn a_log_of_a_killed_process_is_clean_and_left_as_it_is() {
    let directory = directory(&killed(5, 10));
    let before = contents(directory.path());
    let ran = verify(&directory);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert_eq!(ran.last_line(), "clean: 6 records @1..@6");
    assert_eq!(dump(&directory, &[]).out.lines().count(), 6);
    assert_eq!(contents(directory.path()), before, "looking changes nothing");
}

#[test]
fn a_torn_last_group_is_no_damage() {
    let disk = killed(5, 10);
    let last = groups(&disk, &segment_name(1))[5];
    disk.flip(&segment_name(1), last + 200, 0).unwrap();
    let directory = directory(&disk);
    let ran = verify(&directory);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.last_line().starts_with("torn: 5 records @1..@5"), "{ran:?}");
    let ran = dump(&directory, &[]);
    assert_eq!((ran.status, ran.out.lines().count()), (0, 5));
    assert!(ran.err.contains(&format!("byte {last}")), "{ran:?}");
}

#[test]
fn a_flipped_bit_in_a_durable_group_is_damage_and_what_lies_behind_is_counted() {
    let disk = killed(9, 10);
    let place = groups(&disk, &segment_name(1))[3];
    disk.flip(&segment_name(1), place + 200, 0).unwrap();
    let directory = directory(&disk);
    let before = contents(directory.path());
    let ran = verify(&directory);
    assert_eq!(ran.status, 1, "{ran:?}");
    let said = ran.last_line();
    let place = format!("damaged: {} is damaged at byte {place}", segment_name(1));
    for part in [
        &place,
        "no intact group that follows",
        "records @4..=@9 were durable",
        "6 intact groups with 6 records lie behind",
        "3 records @1..@3 are intact before",
        "copy the directory",
        "zzq_journal dump",
    ] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
    let ran = dump(&directory, &[]);
    assert_eq!((ran.status, ran.out.lines().count()), (1, 3), "{ran:?}");
    assert!(ran.err.contains("all records before @4 were shown"), "{ran:?}");
    assert_eq!(contents(directory.path()), before);
}

/// A log that begins with its third segment, and that with this record, its only one.
fn trimmed() -> (SimDisk, Lane, Lsn) {
    let disk = SimDisk::new();
    let mut lane = Lane::open(&disk);
    while lane.log.segments().len() < 3 {
        lane.put(9, &[1; 3000]);
    }
    let first = lane.log.durable();
    lane.trim(first);
    (disk, lane, first)
}

/// A write that went astray: nothing in the group itself tells that it is not the first.
#[test]
fn another_group_where_a_trimmed_log_begins_is_damage() {
    let (disk, mut lane, first) = trimmed();
    for n in 0..3 {
        lane.put(9, &[n; 3000]);
    }
    drop(lane);
    let disk = disk.restart();
    let file = segment_name(3);
    let ran = run("verify", directory(&disk).path(), &["--opaque"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.out.contains(&format!(" from group {} with {first} on", first.get())), "{ran:?}");
    let last = groups(&disk, &file)[3];
    let group = disk.bytes(&file).unwrap()[usize::try_from(last).unwrap()..][..4096].to_vec();
    disk.overwrite(&file, 4096, &group).unwrap();
    let ran = run("verify", directory(&disk).path(), &["--opaque"]);
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.out.contains("it is not the group with which the log begins"), "{ran:?}");
    let said = ran.last_line();
    assert!(said.starts_with(&format!("damaged: {file} is damaged at byte 4096")), "{said}");
    assert!(said.contains(&format!("records {first}..=@")), "{said}");
}

/// The next segment has groups, but the log does not begin with them.
#[test]
fn no_group_where_a_trimmed_log_begins_is_damage_of_that_segment() {
    let (disk, mut lane, _) = trimmed();
    while lane.log.segments().len() < 2 {
        lane.put(9, &[1; 3000]);
    }
    drop(lane);
    let disk = disk.restart();
    let file = segment_name(3);
    for at in groups(&disk, &file) {
        disk.overwrite(&file, at, &[0; 4096]).unwrap();
    }
    let ran = run("verify", directory(&disk).path(), &["--opaque"]);
    assert_eq!(ran.status, 1, "{ran:?}");
    let stops: Vec<_> = ran.out.lines().filter(|line| line.contains("begins is not")).collect();
    assert_eq!(stops.len(), 1, "{ran:?}");
    assert!(stops[0].contains(&file) && stops[0].contains("4096"), "{ran:?}");
    assert!(!ran.out.contains("it is not the group"), "{ran:?}");
    let said = ran.last_line();
    assert!(said.starts_with(&format!("damaged: {file} is damaged at byte 4096")), "{said}");
}

/// A user may have had files of such names in the directory, which the log never touches.
#[test]
fn a_spare_of_before_the_log_is_not_the_logs() {
    let disk = SimDisk::new();
    drop(disk.create("spare-7", 4096).unwrap());
    drop(Lane::open(&disk));
    let ran = run("verify", directory(&disk.restart()).path(), &["--opaque"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    let line = ran.out.lines().find(|line| line.contains("spare-7")).unwrap();
    assert!(line.contains("not the log's"), "{line}");
}

/// Recovery reads no record when a header, `meta` or a file is gone. What is in front is shown all
/// the same.
#[test]
fn a_spoilt_header_or_meta_and_a_deleted_segment_are_damage() {
    let whole = killed(120, 3000);
    let spoilt = |change: &dyn Fn(&SimDisk)| {
        let disk = whole.restart();
        change(&disk);
        directory(&disk)
    };
    let header = spoilt(&|disk| disk.flip(&segment_name(2), 100, 0).unwrap());
    let gone = spoilt(&|disk| disk.delete(&segment_name(2)).unwrap());
    for directory in [&header, &gone] {
        let ran = verify(directory);
        assert_eq!(ran.status, 1, "{ran:?}");
        assert!(ran.last_line().contains(&segment_name(2)), "{ran:?}");
        assert!(!ran.last_line().contains("no intact group lies behind"), "{ran:?}");
        let ran = dump(directory, &[]);
        assert_eq!(ran.status, 1, "{ran:?}");
        let shown = ran.out.lines().count();
        assert!(shown > 5 && shown < 100, "the first segment: {shown}");
    }
    let meta = spoilt(&|disk| disk.overwrite(META_NAME, 0, &[0; 8192]).unwrap());
    let no_meta = spoilt(&|disk| disk.delete(META_NAME).unwrap());
    for directory in [meta, no_meta] {
        let ran = verify(&directory);
        assert_eq!(ran.status, 1, "{ran:?}");
        assert!(ran.last_line().contains("meta is damaged"), "{ran:?}");
        assert_eq!(dump(&directory, &[]).out.lines().count(), 121, "all of it is intact");
    }
    let page = spoilt(&|disk| disk.overwrite(META_NAME, 0, &[0; 4096]).unwrap());
    let ran = verify(&page);
    assert_eq!(ran.status, 0, "one page of two is enough: {ran:?}");
    assert!(ran.out.contains("note: meta, page 0"), "{ran:?}");
}

#[test]
fn a_changed_index_is_damage_although_the_log_opens() {
    let disk = killed(120, 3000);
    let length = disk.bytes(&segment_name(1)).unwrap().len() as u64;
    assert!(verify(&directory(&disk)).out.contains(", index"));
    disk.flip(&segment_name(1), length - 4096 - 4096 + 3, 0).unwrap();
    let ran = verify(&directory(&disk));
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.last_line().contains("the index of 00000000000000000001.log has changed"));
    assert!(ran.out.contains("BAD INDEX"), "{ran:?}");
}

/// Where the index of a segment lies, if it was closed.
fn index_of(disk: &SimDisk, file: &str) -> Option<std::ops::Range<usize>> {
    let bytes = disk.bytes(file).ok()?;
    let header = SegmentHeader::decode(bytes.first_chunk()?).ok()?;
    let end = bytes.len() - 4096;
    let closing = header.decode_closing(bytes.last_chunk()?)?;
    let len = zzq_wal::format::index::len(usize::try_from(closing.groups).ok()?);
    Some(end - len..end)
}

/// A power cut came between the write of an index and its sync: `verify` called that damage, and
/// bade the operator replace a device on which nothing had changed.
#[test]
fn an_index_whose_write_a_power_cut_has_taken_is_no_damage() {
    let (mut whole, mut cut_off) = (0, 0);
    for nth in 30..60 {
        let disk = SimDisk::new();
        let mut lane = Lane::open(&disk);
        disk.cut_power(nth);
        while !disk.is_off() {
            lane.hand_over(1, &[7; 3000]);
        }
        let is_there = |disk: &SimDisk| index_of(disk, &segment_name(1)).is_some();
        if is_there(&disk.crash_with(Survival::Nothing)) {
            break;
        }
        for after in (0..64).map(|seed| disk.crash(seed)).filter(is_there) {
            let directory = directory(&after);
            let ran = run("verify", directory.path(), &["--opaque"]);
            assert_eq!(ran.status, 0, "power cut {nth}: {ran:?}");
            whole += usize::from(ran.out.contains(", index,"));
            if ran.out.contains(", index cut off,") {
                cut_off += 1;
                let note = format!("note: the index of {} was cut off", segment_name(1));
                assert!(ran.out.contains(&note), "{ran:?}");
            }
        }
    }
    assert!(whole > 0 && cut_off > 0, "{whole} are whole, {cut_off} are cut off");
}

/// Once another segment is closed an index is durable: what is missing of it is lost. And a sector
/// that is nearly right was written.
#[test]
fn what_no_crash_explains_in_an_index_is_damage() {
    let whole = killed(120, 3000);
    let closed: Vec<u64> =
        (1..9).filter(|number| index_of(&whole, &segment_name(*number)).is_some()).collect();
    let (first, last) = (segment_name(closed[0]), segment_name(*closed.last().unwrap()));
    assert!(first < last, "two segments are closed: {closed:?}");
    let spoilt = |file: &str, change: &dyn Fn(&SimDisk, u64)| {
        let disk = whole.restart();
        change(&disk, index_of(&disk, file).unwrap().start as u64);
        verify(&directory(&disk))
    };
    let clear = |disk: &SimDisk, at| disk.overwrite(&first, at, &[0; 512]).unwrap();
    let ran = spoilt(&first, &clear);
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.last_line().contains(&format!("the index of {first} has changed")), "{ran:?}");
    let ran = spoilt(&last, &|disk, at| disk.overwrite(&last, at, &[0; 512]).unwrap());
    assert_eq!(ran.status, 0, "{ran:?}");
    let ran = spoilt(&last, &|disk, at| disk.flip(&last, at + 3, 0).unwrap());
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.last_line().contains(&format!("the index of {last} has changed")), "{ran:?}");
}

#[test]
fn a_record_that_a_broker_does_not_take_ends_with_3() {
    let disk = SimDisk::new();
    let mut lane = Lane::open(&disk);
    lane.start();
    lane.put(99, b"of a later kind");
    lane.put(1, &[0xff; 3]);
    lane.publish("news/1", b"hello");
    let directory = directory(&disk.restart());
    let ran = verify(&directory);
    assert_eq!(ran.status, 3, "{ran:?}");
    assert!(ran.last_line().starts_with("refused: 4 records @1..@4; 2 of them"), "{ran:?}");
    assert!(ran.out.contains("record @2 of kind 99: unknown record kind 99"), "{ran:?}");
    let ran = dump(&directory, &[]);
    assert_eq!((ran.status, ran.out.lines().count()), (3, 4), "{ran:?}");
    assert!(ran.out.contains("body=15:\"of a later kind\""), "{ran:?}");
    assert_eq!(run("verify", directory.path(), &["--opaque"]).status, 0);
    let ran = dump(&directory, &["--opaque", "--limit=2"]);
    assert_eq!((ran.status, ran.out.lines().count()), (0, 2), "{ran:?}");
}

#[test]
fn a_newer_version_is_not_judged() {
    let newer = |disk: &SimDisk, file: &str| {
        let mut bytes = disk.bytes(file).unwrap();
        for page in bytes.chunks_mut(4096).take(2) {
            page[12] = 9;
            let sum = zzq_wal::format::checksum(&page[12..]);
            page[8..12].copy_from_slice(&sum.to_le_bytes());
        }
        disk.insert(file, bytes);
    };
    for file in [META_NAME.to_owned(), segment_name(1)] {
        let disk = killed(2, 10);
        newer(&disk, &file);
        let directory = directory(&disk);
        for command in ["verify", "dump"] {
            let ran = run(command, directory.path(), &[]);
            assert_eq!(ran.status, 2, "{ran:?}");
            assert!(ran.err.contains("version 9") && ran.err.contains("up to 1"), "{ran:?}");
            assert!(ran.err.contains(&file), "{ran:?}");
        }
    }
}

fn fails(directory: &Path, words: &[&str]) {
    for command in ["verify", "dump"] {
        let ran = run(command, directory, &[]);
        assert_eq!(ran.status, 2, "{ran:?}");
        assert!(ran.out.is_empty(), "{ran:?}");
        for word in words {
            assert!(ran.err.contains(word), "{word} is not in {ran:?}");
        }
    }
}

#[test]
fn what_is_no_log_ends_with_2() {
    let empty = tempfile::tempdir().unwrap();
    fails(empty.path(), &["no log in", "--data-dir"]);
    fails(&empty.path().join("nothing"), &["cannot read", "nothing"]);
    let file = empty.path().join("file");
    fs::write(&file, "x").unwrap();
    fails(&file, &["cannot read", "file"]);
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 1, "nothing was made");
}

#[test]
fn wrong_usage_ends_with_2_and_help_with_0() {
    let ran = |arguments: &[&str]| Ran::of(Command::new(COMMAND).args(arguments).output().unwrap());
    assert_eq!(ran(&[]).status, 2);
    assert_eq!(ran(&["verify"]).status, 2);
    assert_eq!(ran(&["dump", "x", "--kind", "nothing"]).status, 2);
    assert_eq!(ran(&["dump", "x", "--topic", "a/#/b"]).status, 2);
    for arguments in [&["--help"][..], &["verify", "--help"], &["dump", "--help"]] {
        let help = ran(arguments);
        assert_eq!(help.status, 0);
        assert!(help.out.contains("Examples:") && help.out.contains("Exit status:"));
    }
}

#[test]
fn a_log_in_use_is_refused_unless_it_may_move() {
    if !Path::new("/proc/locks").exists() {
        return;
    }
    let directory = directory(&killed(5, 10));
    let lock = DirectoryLock::acquire(directory.path()).unwrap();
    fails(directory.path(), &["in use by process", &std::process::id().to_string(), "--live"]);
    for command in ["verify", "dump"] {
        let ran = run(command, directory.path(), &["--live"]);
        assert_eq!(ran.status, 0, "{ran:?}");
        assert!(ran.err.contains("moves while it is read"), "{ran:?}");
    }
    drop(lock);
    assert_eq!(verify(&directory).status, 0);
    DirectoryLock::acquire(directory.path()).unwrap();
}

/// A user who may read and nothing else, on files that nobody may write.
#[test]
fn the_permission_to_read_is_needed_and_enough() {
    let directory = directory(&killed(5, 10));
    let tool = tempfile::tempdir().unwrap();
    let command = tool.path().join("zzq_journal");
    // By a process of its own: a file open for writing here would be so in what another thread
    // has just forked too, and one that somebody writes does not run.
    let mut copy = Command::new("install");
    assert!(copy.args(["-m", "755", COMMAND]).arg(&command).status().unwrap().success());
    let allow = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(tool.path(), 0o755);
    for entry in fs::read_dir(directory.path()).unwrap() {
        allow(&entry.unwrap().path(), 0o444);
    }
    let as_reader = || {
        let mut process = Command::new(&command);
        process.args(["verify"]).arg(directory.path());
        // Root may do everything: then as nobody.
        if rustix::process::geteuid().is_root() {
            process.uid(65_534).gid(65_534);
        }
        Ran::of(process.output().unwrap())
    };
    allow(directory.path(), 0o555);
    let ran = as_reader();
    assert_eq!(ran.status, 0, "{ran:?}");

    let segment = directory.path().join(segment_name(1));
    allow(&segment, 0);
    let ran = as_reader();
    assert_eq!(ran.status, 2, "{ran:?}");
    assert!(ran.err.contains(&segment_name(1)) && ran.err.contains("denied"), "{ran:?}");
    allow(directory.path(), 0);
    let ran = as_reader();
    assert_eq!(ran.status, 2, "{ran:?}");
    assert!(ran.err.contains("cannot read") && ran.err.contains("denied"), "{ran:?}");
    allow(directory.path(), 0o700);
}

#[test]
fn whoever_reads_may_stop_reading() {
    let directory: TempDir = directory(&killed(120, 3000));
    let mut process = Command::new(COMMAND)
        .args(["dump", "--payload=full"])
        .arg(directory.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(process.stdout.take());
    let ran = Ran::of(process.wait_with_output().unwrap());
    assert_eq!((ran.status, ran.err.as_str()), (0, ""));
}
