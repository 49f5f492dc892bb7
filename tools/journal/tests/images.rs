//! Images beside a log: what is printed of them, and what follows from a bad one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::*;
use zzq_snapshot::{
    ColdRecord, ColdWriter, Heading, Kind, Need, NeededKind, Writer, at_full_speed, cold_name,
    image_name,
};
use zzq_wal::Lsn;
use zzq_wal::sim_disk::SimDisk;

/// A log with images at these records, the last one marked, trimmed below the first if `trims`.
fn with_images(records: usize, at: &[u64], trims: bool) -> SimDisk {
    let disk = SimDisk::new();
    let mut lane = Lane::open(&disk);
    lane.start();
    for n in 1..records {
        lane.publish(&format!("news/{n}"), &vec![b'x'; 1000]);
    }
    let identity = lane.log.facts().identity;
    for (&lsn, number) in at.iter().zip(1..) {
        let (lsn, time_ms) = (Lsn::new(lsn), 1_700_000_000_000);
        let before = (number > 1).then(|| (number - 1, Lsn::new(at[0])));
        let heading =
            Heading { number, lsn, time_ms, before, ..Heading::new(Kind::Image, identity) };
        let mut writer = Writer::begin_with(&disk, heading, 16_384, at_full_speed()).unwrap();
        writer.entry(1, b"", &[1, 1]).unwrap();
        writer.entry(10, &[13, 1], b"x").unwrap();
        writer.finish().unwrap();
        let mark = lane.log.update_facts(|facts| {
            facts.snapshot = lsn;
            facts.snapshot_number = number;
        });
        mark.unwrap();
    }
    if trims {
        lane.log.trim(Lsn::new(at[0] + 1));
        while lane.log.helper_step(0) {}
    }
    disk.restart()
}

#[test]
fn good_images_are_shown_and_change_nothing() {
    let directory = directory(&with_images(5, &[2, 4], false));
    let before = contents(directory.path());
    let ran = verify(&directory);
    assert_eq!((ran.status, ran.last_line()), (0, "clean: 5 records @1..@5"), "{ran:?}");
    let lines: Vec<_> = ran.out.lines().filter(|line| line.starts_with("image")).collect();
    let said = "the state at @4, 2023-11-14T22:13:20.000Z, Marks 1, Facts 1, good, marked in meta";
    assert_eq!(lines.len(), 2, "{ran:?}");
    assert!(lines[1].starts_with("image 2: ") && lines[1].ends_with(said), "{ran:?}");
    assert!(lines[0].ends_with("good"), "{ran:?}");
    let json = run("verify", directory.path(), &["--json"]);
    assert!(json.out.contains(r#""type":"image","number":2,"#), "{json:?}");
    assert_eq!(contents(directory.path()), before);
}

/// A process ended between the name of an image and its mark: a start leaves the file out, good or
/// not, and so it counts for nothing.
#[test]
fn an_image_that_was_never_marked_is_named_and_counts_for_nothing() {
    for bad in [false, true] {
        let disk = with_images(5, &[2, 4], false);
        let mut facts = zzq_wal::read_facts(&disk).unwrap();
        (facts.snapshot_number, facts.snapshot) = (1, Lsn::new(2));
        disk.delete(zzq_wal::META_NAME).unwrap();
        zzq_wal::write_facts(&disk, facts).unwrap();
        if bad {
            disk.flip(&image_name(2), 4100, 0).unwrap();
        }
        let ran = verify(&directory(&disk));
        assert_eq!((ran.status, ran.last_line()), (0, "clean: 5 records @1..@5"), "{ran:?}");
        let mut lines = ran.out.lines().filter(|line| line.starts_with("image 2"));
        let line = lines.next().unwrap();
        assert!(line.contains("never marked: a start removes it"), "{line}");
    }
}

#[test]
fn a_bad_image_is_damage_that_a_broker_gets_over() {
    for (at, starts) in [
        (&[2, 4][..], "the broker starts from 00000000000000000001.image and says so"),
        (&[4], "the broker starts from the log alone and says so"),
    ] {
        let disk = with_images(5, at, false);
        let name = image_name(at.len() as u64);
        disk.flip(&name, 4100, 0).unwrap();
        let ran = verify(&directory(&disk));
        assert_eq!(ran.status, 1, "{ran:?}");
        let said = ran.last_line();
        assert!(said.contains("DAMAGED at byte 4096") && said.contains(starts), "{said}");
        disk.delete(&name).unwrap();
        let ran = verify(&directory(&disk));
        assert!(ran.last_line().contains("MISSING, marked in meta"), "{ran:?}");
        assert_eq!(ran.status, 1);
    }
}

#[test]
fn a_cold_file_that_is_needed_is_damage_when_it_is_bad() {
    let disk = with_images(5, &[2], false);
    let identity = zzq_wal::read_facts(&disk).unwrap().identity;
    let cold = Heading { lsn: Lsn::new(4), ..Heading::new(Kind::Cold, identity) };
    let mut writer = ColdWriter::begin(&disk, cold, at_full_speed()).unwrap();
    let (lsn, body) = (Lsn::new(2), &b"body"[..]);
    writer.record(ColdRecord { lsn, time_ms: 5, kind: 3, body }).unwrap();
    writer.finish().unwrap();
    let (number, lsn) = (2, Lsn::new(4));
    let heading = Heading { number, lsn, ..Heading::new(Kind::Image, identity) };
    let mut writer = Writer::begin_with(&disk, heading, 16_384, at_full_speed()).unwrap();
    writer.entry(1, b"", &[1, 1]).unwrap();
    let (kind, number, first) = (NeededKind::Cold, 1, Lsn::new(2));
    let need = Need { kind, number, first, last: first, references: 1, bytes: 4 };
    writer.finish_with(&[need]).unwrap();
    assert!(verify(&directory(&disk)).out.contains("1 records, never marked: a start removes it"));
    let mut facts = zzq_wal::read_facts(&disk).unwrap();
    (facts.snapshot_number, facts.snapshot) = (2, Lsn::new(4));
    facts.set_cold_files(1, 1);
    disk.delete(zzq_wal::META_NAME).unwrap();
    zzq_wal::write_facts(&disk, facts).unwrap();
    let ran = verify(&directory(&disk));
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.out.contains("cold file 1: 12288 bytes, 1 records, good, needed"), "{ran:?}");
    disk.flip(&cold_name(1), 4100, 0).unwrap();
    let ran = verify(&directory(&disk));
    assert_eq!(ran.status, 1, "{ran:?}");
    assert!(ran.last_line().contains("DAMAGED at byte 4096"), "{ran:?}");
    disk.delete(&cold_name(1)).unwrap();
    assert!(verify(&directory(&disk)).last_line().contains("cold file 1: MISSING, needed"));
}

#[test]
fn records_that_outlived_their_segment_are_dumped_in_their_place() {
    let disk = with_images(400, &[300], true);
    let identity = zzq_wal::read_facts(&disk).unwrap().identity;
    let all = || dump(&directory(&disk), &["--payload=none"]);
    let first = all().out.lines().next().map(str::to_owned).unwrap();
    assert!(!first.starts_with("@7 ") && !first.contains(" cold "), "{first}");
    // One record is in two files, one is in the log as well.
    for (number, lsns) in [(1, &[7, 9][..]), (2, &[9, 12, 399])] {
        let heading = Heading { number, lsn: Lsn::new(399), ..Heading::new(Kind::Cold, identity) };
        let mut writer = ColdWriter::begin(&disk, heading, at_full_speed()).unwrap();
        for &lsn in lsns {
            let (time_ms, body) = (1_700_000_000_000, &b""[..]);
            writer.record(ColdRecord { lsn: Lsn::new(lsn), time_ms, kind: 3, body }).unwrap();
        }
        writer.finish().unwrap();
    }
    let ran = all();
    let cold: Vec<_> = ran.out.lines().take_while(|line| line.contains(" cold ")).collect();
    assert_eq!(cold.len(), 3, "{ran:?}");
    assert!(cold[0].starts_with("@7 2023-11-14T22:13:20.000Z Publish cold 0 bytes"), "{ran:?}");
    assert!(cold[1].starts_with("@9 ") && cold[2].starts_with("@12 "), "{ran:?}");
    assert_eq!(ran.out.lines().filter(|line| line.starts_with("@399 ")).count(), 1);
    let some = dump(&directory(&disk), &["--payload=none", "--from=8", "--to=10", "--json"]);
    assert_eq!(some.out.lines().count(), 1, "{some:?}");
    assert!(some.out.contains(r#""lsn":9"#) && some.out.contains(r#""cold":true"#), "{some:?}");
}

#[test]
fn a_trimmed_log_without_a_good_image_is_refused() {
    let disk = with_images(400, &[300], true);
    assert_eq!(verify(&directory(&disk)).status, 0);
    disk.flip(&image_name(1), 4100, 0).unwrap();
    let ran = verify(&directory(&disk));
    assert_eq!(ran.status, 1, "{ran:?}");
    let said = ran.last_line();
    assert!(said.contains("no good image covers what came before"), "{said}");
    assert!(said.contains("the broker refuses to start"), "{said}");
}
