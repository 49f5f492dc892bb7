//! A log in good days: what is durable is found again, in order, with its LSN.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use common::*;
use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{
    End, Handed, KeptSegment, Log, Lsn, Options, ReadError, StageError, Staging, Status,
};

#[test]
fn an_empty_log_is_found_empty() {
    let disk = SimDisk::new();
    for epoch in 1..4 {
        let (log, recovery, seen) = reopen(&disk, epoch);
        assert!(seen.is_empty());
        assert_eq!((log.durable(), recovery.epoch), (Lsn::ZERO, epoch));
    }
}

#[test]
fn records_survive_with_order_kind_and_lsn() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    for n in 0..100_u8 {
        assert_eq!(put(&log, &mut one, &[n; 50]), Lsn::new(u64::from(n) + 1));
    }
    let hash = disk.image_hash();
    let mut count = 0;
    let inspected = zzq_wal::inspect(disk.clone(), &small(1), &mut |_| {
        count += 1;
        Ok(())
    });
    assert_eq!((inspected.unwrap().last_lsn, count), (Lsn::new(100), 100));
    assert_eq!(disk.image_hash(), hash, "looking changes nothing");
    let (_, recovery, seen) = reopen(&disk, 2);
    assert_eq!(recovery.last_lsn, Lsn::new(100));
    let expected = (0..100_u8).map(|n| Seen { lsn: u64::from(n) + 1, kind: 1, body: vec![n; 50] });
    assert!(seen.into_iter().eq(expected));
}

#[test]
fn nothing_is_durable_before_its_completion() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    disk.hold();
    let first = stage(&mut one, b"first").unwrap();
    turn(&log, &mut one);
    let second = stage(&mut one, b"second").unwrap();
    turn(&log, &mut one);
    let third = stage(&mut one, b"third").unwrap();
    turn(&log, &mut one);
    assert_eq!(log.appended(), Lsn::new(2), "two groups are in flight, the third record waits");
    assert_eq!((log.durable(), one.durable()), (Lsn::ZERO, Handed::ZERO));

    // The second write comes back first: it is no prefix.
    let tokens = disk.in_flight();
    assert!(disk.release(tokens[1]));
    one.drive(1000);
    assert_eq!((log.durable(), one.durable()), (Lsn::ZERO, Handed::ZERO));
    assert!(disk.release(tokens[0]));
    one.drive(1000);
    assert_eq!((log.durable(), one.durable()), (Lsn::new(2), second));
    assert!(first < second);
    disk.release_all();
    one.drive(1000);
    assert_eq!(one.durable(), third);
}

#[test]
fn segments_roll_and_grow_under_load() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    let body = |n: u32| vec![u8::try_from(n % 251).unwrap(); 3000];
    for n in 0..400 {
        put(&log, &mut one, &body(n));
    }
    let (_, recovery, seen) = reopen(&disk, 2);
    assert!(recovery.segments.len() > 5, "{recovery:?}");
    let (next, used) = recovery.segments.split_last().unwrap();
    assert_eq!((next.end, next.groups), (End::Void, 0), "made ahead and not yet used");
    let (last, others) = used.split_last().unwrap();
    assert!(matches!(last.end, End::Clean { .. }), "{recovery:?}");
    assert!(others.iter().all(|segment| matches!(segment.end, End::Continued { .. })));
    assert_eq!(seen.len(), 400);
    assert!((0..400).zip(&seen).all(|(n, record)| record.body == body(n)));
}

#[test]
fn segments_grow_with_the_log_and_an_empty_one_is_small() {
    let disk = SimDisk::new();
    let size = |disk: &SimDisk| disk.list().unwrap().iter().map(|(_, size)| size).sum::<u64>();
    let options = |seed| Options { segment_size: 8 << 20, ..Options::new(entropy(seed)) };
    for seed in 0..5 {
        let (log, _, _) = open(disk.clone(), options(seed)).unwrap();
        let (mut one, _) = producer(&log);
        turn(&log, &mut one);
        assert!(size(&disk) <= 8 << 20, "{:?}", disk.list());
    }
    let (log, _, _) = open(disk.clone(), options(9)).unwrap();
    let (mut one, _) = producer(&log);
    for n in 0..160_u8 {
        put(&log, &mut one, &vec![n; 200_000]);
    }
    let (_, recovery, _) = open(disk.restart(), options(10)).unwrap();
    let used = recovery.segments.iter().filter(|segment| segment.groups > 0);
    let sizes = used.map(|segment| disk.bytes(&segment.file).unwrap().len() >> 20);
    assert_eq!(sizes.collect::<Vec<_>>(), [1, 2, 4, 8, 8, 8, 8]);
}

#[test]
fn without_a_next_segment_the_log_pauses_and_goes_on() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, woken) = producer(&log);
    // The helper never runs: the first segment fills up.
    let mut stalled = false;
    for n in 0..200_u8 {
        if stage(&mut one, &[n; 3000]) == Err(StageError::Full) {
            break;
        }
        stalled |= one.drive(1000).stall == Some(zzq_wal::Stall::Segment);
    }
    assert!(stalled);
    woken.take();
    let before = one.appended();
    assert!(log.helper_step(0));
    assert!(woken.take() > 0, "the lane is called when the segment is there");
    assert_eq!(one.drive(1000).stall, None);
    assert!(one.appended() > before);
}

#[test]
fn big_records_are_found_whole_between_others() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    let (mut two, _) = producer(&log);
    let big = |n: u8, len: usize| -> Vec<u8> {
        (0..len).map(|at| u8::try_from(at % 253).unwrap() ^ n).collect()
    };
    let mut expected = Vec::new();
    for n in 0..6_u8 {
        let body = big(n, 100_000 + usize::from(n) * 7777);
        let handed = stage(&mut one, &body).unwrap();
        let small = stage(&mut two, &[n; 10]).unwrap();
        for _ in 0..200 {
            turn(&log, &mut one);
            turn(&log, &mut two);
        }
        assert!(one.durable() == handed && two.durable() == small);
        expected.push(body);
        expected.push(vec![n; 10]);
    }
    let (log, _, seen) = reopen(&disk, 2);
    assert_eq!(seen.len(), 12, "parts take no LSN");
    let mut found: Vec<_> = seen.iter().map(|record| record.body.clone()).collect();
    found.sort();
    expected.sort();
    assert!(found == expected);

    // The same by cold reads, from each LSN on.
    for from in 1..=12_u64 {
        let mut reader = log.reader(Lsn::new(from)).unwrap();
        for record in &seen[usize::try_from(from).unwrap() - 1..] {
            let read = reader.next_record().unwrap().unwrap();
            assert_eq!((read.lsn.get(), read.body), (record.lsn, &record.body[..]));
        }
        assert_eq!(reader.next_record().unwrap(), None);
    }
}

#[test]
fn lazy_records_ride_along_or_go_after_their_time() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    one.stage(&LAZY, |out| out.push(1)).unwrap();
    let drive = one.drive(1000);
    assert_eq!((log.appended(), drive.again_at), (Lsn::ZERO, Some(1005)));
    assert_eq!(one.drive(1004).again_at, Some(1005));
    assert_eq!(one.drive(1005).again_at, None);
    assert_eq!(log.appended(), Lsn::new(1));

    one.stage(&LAZY, |out| out.push(2)).unwrap();
    one.drive(2000);
    assert_eq!(log.appended(), Lsn::new(1));
    stage(&mut one, b"waits").unwrap();
    one.drive(2001);
    assert_eq!(log.appended(), Lsn::new(3));

    let big = Options { chunk_size: 65_536, ..Options::new(entropy(3)) };
    let (log, _, _) = open(SimDisk::new(), big).unwrap();
    let (mut one, _) = producer(&log);
    for _ in 0..65 {
        one.stage(&LAZY, |out| out.extend_from_slice(&[0; 1024])).unwrap();
    }
    one.drive(1000);
    assert_eq!(log.appended(), Lsn::new(64), "64 KiB of them start a write");
}

#[test]
fn lazy_records_kept_back_behind_a_full_pipe_ride_with_the_next_group() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    let (mut two, _) = producer(&log);
    disk.hold();
    for _ in 0..3 {
        stage(&mut one, b"two in flight, one waits").unwrap();
        one.drive(1000);
    }
    one.stage(&LAZY, |out| out.push(1)).unwrap();
    one.drive(1000);
    assert_eq!(one.drive(1005).again_at, Some(1006), "its time has come, but nothing can start");
    disk.release_all();
    two.drive(1006);
    assert_eq!(one.appended(), Handed::new(4));
}

#[test]
fn a_producer_that_waits_is_woken_once_and_the_leader_never() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, woken_one) = producer(&log);
    let (mut two, woken_two) = producer(&log);
    let (mut three, woken_three) = producer(&log);
    disk.hold();
    let handed = [&mut one, &mut two, &mut three].map(|producer| {
        let handed = stage(producer, b"x").unwrap();
        producer.flush(1000);
        handed
    });
    one.drive(1000);
    assert_eq!(log.appended(), Lsn::new(3), "one group takes what all have staged");
    assert!(!one.wants(handed[0]) && !two.wants(handed[1]));
    disk.release_all();
    one.drive(1000);
    let woken = [&woken_one, &woken_two, &woken_three].map(|woken| woken.take());
    assert_eq!(woken, [0, 1, 0], "self, waiting, not waiting");
    assert_eq!((one.durable(), two.durable(), three.durable()), (handed[0], handed[1], handed[2]));
    assert!(two.wants(handed[1]), "it is durable already");
    stage(&mut three, b"y").unwrap();
    three.drive(1000);
    assert_eq!(woken_two.take(), 0, "a wish is granted once");
}

#[test]
fn the_tail_shows_each_group_when_it_is_appended() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    let (mut two, woken_two) = producer(&log);
    let mut tail_one = one.tail();
    let mut tail_two = two.tail();
    disk.hold();
    let to_two = Staging { kind: 7, waits: true, lanes: 0b10, reserved: false };
    one.stage(&to_two, |out| out.extend_from_slice(b"hello")).unwrap();
    let big = vec![9; 20_000];
    one.stage(&to_two, |out| out.extend_from_slice(&big)).unwrap();
    one.drive(1000);
    assert_eq!(log.durable(), Lsn::ZERO);
    assert!(woken_two.take() > 0);
    let group = tail_two.next_group().unwrap();
    assert_eq!((group.lanes(), group.first_lsn(), group.last_lsn()), (2, Lsn::new(1), Lsn::new(2)));
    let records: Vec<_> = group.records_for(0b10).collect();
    assert_eq!(records.len(), 2);
    assert_eq!((records[0].body, records[0].kind, records[0].lanes), (&b"hello"[..], 7, 2));
    assert_eq!((records[0].producer, records[0].handed), (0, Handed::new(1)));
    assert_eq!((records[1].body, records[1].lsn), (&big[..], Lsn::new(2)));
    assert_eq!(group.records_for(0b100).count(), 0);
    assert!(tail_two.next_group().is_none());
    assert_eq!(tail_one.next_group().unwrap().number(), group.number());
    two.drive(1000);
}

#[test]
fn a_cursor_that_is_behind_stops_packing_and_nothing_else() {
    let disk = SimDisk::new();
    let options = Options { tail_groups: 2, ..small(1) };
    let (log, _, _) = open(disk, options).unwrap();
    let (mut one, _) = producer(&log);
    let (mut two, _) = producer(&log);
    let mut tail = two.tail();
    for n in 0..2 {
        stage(&mut one, b"x").unwrap();
        assert_eq!(one.drive(1000).stall, None);
        assert_eq!(log.appended(), Lsn::new(n + 1));
    }
    stage(&mut one, b"x").unwrap();
    let drive = one.drive(1000);
    assert_eq!((drive.led, drive.stall), (true, Some(zzq_wal::Stall::Tail)));
    assert_eq!(log.appended(), Lsn::new(2));
    // The lane that reads drives after it, for the other one.
    assert!(tail.next_group().is_some());
    assert_eq!(two.drive(1000).stall, None);
    assert_eq!(log.appended(), Lsn::new(3));
    // A lane that has gone holds nobody up.
    drop(tail);
    for _ in 0..5 {
        put(&log, &mut one, b"x");
    }
}

#[test]
fn a_full_ring_refuses_and_calls_back() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, woken) = producer(&log);
    let (mut two, _) = producer(&log);
    disk.hold();
    let mut count = 0_u64;
    let refused = loop {
        match stage(&mut one, &[7; 4000]) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
        one.drive(1000);
    };
    assert_eq!(refused, StageError::Full);
    let reserved = Staging { reserved: true, ..WAITS };
    one.stage(&reserved, |out| out.push(1)).unwrap();
    woken.take();
    disk.release_all();
    two.drive(1000);
    assert!(woken.take() > 0);
    for _ in 0..50 {
        turn(&log, &mut one);
    }
    assert_eq!(one.durable(), Handed::new(count + 1));
    stage(&mut one, b"again").unwrap();
}

#[test]
fn a_record_that_is_too_long_is_refused_and_leaves_no_trace() {
    let (wal, _, _) = reopen(&SimDisk::new(), 1);
    let (mut one, _) = producer(&wal);
    stage(&mut one, b"before").unwrap();
    let long = zzq_wal::format::record::BODY_MAX + 1;
    let refused = one.stage(&WAITS, |out| out.resize(out.len() + long, 0));
    assert_eq!(refused, Err(StageError::TooLong(long)));
    assert_eq!(stage(&mut one, b"after"), Ok(Handed::new(2)));
    turn(&wal, &mut one);
    turn(&wal, &mut one);
    assert_eq!(wal.durable(), Lsn::new(2));
}

#[test]
fn trimmed_segments_are_recycled_and_leased_ones_are_not() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    for n in 0..200_u8 {
        put(&log, &mut one, &[n; 3000]);
    }
    let mut reader = log.reader(Lsn::FIRST).unwrap();
    assert_eq!(reader.next_record().unwrap().unwrap().lsn, Lsn::FIRST);
    log.trim(Lsn::new(150));
    while log.helper_step(0) {}
    assert!(log.first_whole() > Lsn::new(100));
    assert!(disk.bytes(&zzq_wal::segment_name(1)).is_ok(), "it is being read");
    // The lease covers what the reader is in; beyond that, it is told.
    let gone = loop {
        match reader.next_record() {
            Ok(record) => assert!(record.is_some()),
            Err(error) => break error,
        }
    };
    assert!(matches!(gone, ReadError::Trimmed { .. }), "{gone}");
    drop(reader);
    while log.helper_step(0) {}
    assert!(disk.bytes(&zzq_wal::segment_name(1)).is_err());
    assert!(log.reader(Lsn::FIRST).is_err());
    let first = log.first_whole();
    for n in 200..250_u8 {
        put(&log, &mut one, &[n; 3000]);
    }
    drop((log, one));
    let (_, recovery, seen) = reopen(&disk, 2);
    assert_eq!((seen[0].lsn, recovery.last_lsn), (first.get(), Lsn::new(250)));
    assert!(seen.iter().all(|record| record.body == [u8::try_from(record.lsn - 1).unwrap(); 3000]));
}

#[test]
fn a_big_record_holds_its_first_segment_until_it_is_trimmed_itself() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    put(&log, &mut one, b"first");
    let big = vec![7; 300_000];
    assert_eq!(put(&log, &mut one, &big), Lsn::new(2));
    put(&log, &mut one, b"last");
    log.trim(Lsn::new(2));
    while log.helper_step(0) {}
    assert!(disk.bytes(&zzq_wal::segment_name(1)).is_ok(), "it has the first part");
    let mut reader = log.reader(Lsn::new(2)).unwrap();
    assert!(reader.next_record().unwrap().unwrap().body == big);
    drop(reader);
    log.trim(Lsn::new(3));
    while log.helper_step(0) {}
    assert!(disk.bytes(&zzq_wal::segment_name(1)).is_err());
    assert!(disk.bytes(&zzq_wal::segment_name(2)).is_err());
}

/// Reads this record and all that follow, each of one byte over and over; says how many.
fn read_from(log: &Log<SimDisk>, from: Lsn) -> u64 {
    let mut reader = log.reader(from).unwrap();
    let mut read = 0;
    while let Some(found) = reader.next_record().unwrap() {
        assert!(found.body.iter().all(|byte| *byte == found.body[0]), "{}", found.lsn);
        read += 1;
    }
    read
}

/// A segment that is kept for a record that begins in it begins with the end of another, whose
/// beginning is gone: whoever began with that was refused, again and again.
#[test]
fn whoever_begins_with_the_first_whole_record_reads_all_that_follow() {
    let disk = SimDisk::new();
    let (log, ..) = reopen(&disk, 1);
    assert_eq!(log.first_whole(), Lsn::FIRST, "the one to come");
    let (mut one, _) = producer(&log);
    let (mut two, _) = producer(&log);
    for n in 1..=12_u8 {
        // Over three segments, with short ones between its parts.
        let big = stage(&mut one, &vec![n; 200_000 + 1000 * usize::from(n)]).unwrap();
        while one.durable() < big {
            let _ = stage(&mut two, &[n; 100]);
            turn(&log, &mut one);
            turn(&log, &mut two);
        }
    }
    while two.durable() < two.handed() {
        turn(&log, &mut two);
    }
    let last = log.durable();
    assert_eq!(read_from(&log, log.first_whole()), last.get());
    let (mut before, mut without_beginning) = ((Lsn::FIRST, Lsn::FIRST), 0);
    for below in (1..=last.get()).map(Lsn::new) {
        log.trim(below);
        let stays = log.stays_from();
        while log.helper_step(0) {}
        let (kept, whole) = (log.segments()[0].first, log.first_whole());
        assert_eq!((stays, log.stays_from()), (whole, whole), "it is known before it is so");
        let is_whole = |segment: &KeptSegment| segment.first >= whole;
        assert!(log.whole_segments().into_iter().eq(log.segments().into_iter().filter(is_whole)));
        if std::mem::replace(&mut before, (kept, whole)) == (kept, whole) {
            continue;
        }
        assert!(
            kept <= whole && whole <= below,
            "{kept}, {whole} of what is trimmed below {below}"
        );
        assert_eq!(read_from(&log, whole), last.get() - whole.get() + 1);
        if kept == whole {
            continue;
        }
        without_beginning += 1;
        for lsn in (whole.get()..=last.get()).map(Lsn::new) {
            assert!(log.reader(lsn).unwrap().next_record().unwrap().is_some(), "{lsn} alone");
        }
        let refused = log.reader(kept).unwrap_err();
        let ReadError::Trimmed { wanted, first } = refused else { panic!("{refused}") };
        assert_eq!((wanted, first), (kept, whole), "it says where to begin");
        // A start knows the same.
        let (again, ..) = reopen(&disk.restart(), 2);
        assert_eq!((again.segments()[0].first, again.first_whole()), (kept, whole));
        assert_eq!(read_from(&again, whole), last.get() - whole.get() + 1);
    }
    assert!(without_beginning > 3, "{without_beginning}");
}

#[test]
fn a_log_of_which_all_is_trimmed_goes_on_behind_it() {
    let disk = SimDisk::new();
    for round in 1..6_u64 {
        let (log, _, seen) = reopen(&disk, round);
        assert!(seen.is_empty(), "{seen:?}");
        let (mut one, _) = producer(&log);
        assert_eq!(put(&log, &mut one, b"x"), Lsn::new(round));
        // Only the next start lets go of the segment that was written last.
        drop((log, one));
        let (log, _, seen) = reopen(&disk, 100 + round);
        assert_eq!(seen.len(), 1);
        log.trim(Lsn::new(round + 1));
        while log.helper_step(0) {}
        assert_eq!((log.segments(), log.first_whole()), (vec![], Lsn::new(round + 1)));
        for again in 0..3 {
            let (log, _, seen) = reopen(&disk, 1000 * round + again);
            assert_eq!((seen.len(), log.durable()), (0, Lsn::new(round)));
        }
    }
}

#[test]
fn the_visitor_sees_records_from_where_it_asks() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    for n in 0..200_u8 {
        put(&log, &mut one, &[n; 3000]);
    }
    for from in [1, 2, 77, 199, 200, 201] {
        let options = Options { visit_from: Lsn::new(from), ..small(from) };
        let (log, recovery, seen) = open(disk.restart(), options).unwrap();
        assert_eq!(seen.len(), usize::try_from(201 - from).unwrap());
        assert!(seen.iter().all(|record| record.lsn >= from));
        assert_eq!(log.durable(), Lsn::new(200));
        let skipped = recovery.segments.iter().filter(|segment| segment.end == End::Skipped);
        assert_eq!(skipped.count() > 0, from > 50, "{recovery:?}");
        // What recovery passed over can be read all the same.
        let mut reader = log.reader(Lsn::FIRST).unwrap();
        for n in 1..=200 {
            assert_eq!(reader.next_record().unwrap().unwrap().lsn, Lsn::new(n));
        }
    }
}

#[test]
fn the_visitor_can_refuse_a_kind() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    put(&log, &mut one, b"x");
    let refused = Log::open(disk, small(2), 0, &mut |record| {
        Err(format!("kind {} is unknown", record.kind).into())
    });
    let refused = refused.err().unwrap().to_string();
    assert_eq!(refused, "record @1 of kind 1 was refused: kind 1 is unknown");
}

#[test]
fn no_more_than_64_producers() {
    let (log, _, _) = reopen(&SimDisk::new(), 1);
    let producers: Vec<_> = (0..64).map(|_| producer(&log)).collect();
    assert_eq!(producers.last().unwrap().0.index(), 63);
    assert!(log.producer(std::sync::Arc::new(Woken::default()), None).is_err());
    assert_eq!(log.status(), Status::Running);
}

#[test]
fn what_nobody_waits_for_may_wait_for_ever() {
    let options = Options { lazy_ms: u64::MAX, ..small(1) };
    let (log, ..) = open(SimDisk::new(), options).unwrap();
    let mut one = producer(&log).0;
    one.stage(&LAZY, |out| out.push(1)).unwrap();
    for now in [0, 1000, 1 << 40, u64::MAX - 1] {
        one.drive(now);
    }
    assert_eq!(log.appended(), Lsn::ZERO);
    put(&log, &mut one, &[2]);
    assert_eq!(log.durable(), Lsn::new(2), "it rides with what somebody waits for");
}
