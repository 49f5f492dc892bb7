//! A lane that finds leadership taken has not come in vain.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use common::hooked::{Hooked, Hooks};
use common::*;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Handed, Lsn, Status, Wake};

type Hook = Box<dyn FnOnce() + Send>;

/// Something else happens while a leader takes completions.
#[derive(Default)]
struct Interrupted {
    hook: Mutex<Option<Hook>>,
    /// Making a file panics.
    broken: AtomicBool,
}

impl Hooks for Interrupted {
    fn before_create(&self) {
        assert!(!self.broken.load(Ordering::SeqCst), "an invariant that does not hold");
    }

    fn before_reap(&self) {
        let hook = self.hook.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
    }
}

fn interrupted() -> Hooked<Interrupted> {
    Hooked::new(SimDisk::new())
}

#[test]
fn the_leader_takes_what_was_staged_while_it_led() {
    let disk = interrupted();
    let (log, _, _) = open(disk.clone(), small(1)).unwrap();
    let (mut one, _) = producer(&log);
    let (mut two, _) = producer(&log);
    stage(&mut one, b"in flight").unwrap();
    one.drive(1000);
    let (answer, answered) = std::sync::mpsc::channel();
    *disk.hooks.hook.lock().unwrap() = Some(Box::new(move || {
        stage(&mut two, b"while it is led").unwrap();
        answer.send((two.drive(1000).led, two)).unwrap();
    }));
    // It holds the lead, and does not mean to pack anything.
    one.reap(1000);
    let (led, two) = answered.recv().unwrap();
    assert!(!led);
    assert_eq!(two.appended(), Handed::new(1), "in the same call");
    assert_eq!(log.appended(), Lsn::new(2));
}

#[test]
fn taking_completions_only_does_not_swallow_the_work_of_others() {
    let disk = interrupted();
    let (log, _, _) = open(disk.clone(), small(1)).unwrap();
    let (mut one, _) = producer(&log);
    let (mut two, _) = producer(&log);
    stage(&mut one, b"x").unwrap();
    one.drive(1000);
    stage(&mut two, b"y").unwrap();
    two.flush(1000);
    one.reap(1000);
    assert_eq!((log.durable(), log.appended()), (Lsn::new(1), Lsn::new(1)));
    two.drive(1000);
    assert_eq!(log.appended(), Lsn::new(2));
}

/// So that what a group delivers can be sent before time is spent on its write.
#[test]
fn a_sealed_group_is_shown_and_is_written_by_the_next_who_leads() {
    for another_leads in [false, true] {
        let disk = SimDisk::new();
        let (log, _, _) = open(disk.clone(), small(1)).unwrap();
        let (mut one, _) = producer(&log);
        let (mut two, _) = producer(&log);
        let mut tail = one.tail();
        disk.hold();
        for _ in 0..3 {
            stage(&mut one, b"x").unwrap();
            assert!(one.seal(1000));
        }
        assert_eq!(log.appended(), Lsn::new(2), "two groups are under way at most");
        assert_eq!(tail.next_group().unwrap().first_lsn(), Lsn::new(1));
        assert_eq!(disk.in_flight().len(), 0, "nothing is with the disk");
        if another_leads {
            two.reap(1000);
        } else {
            one.drive(1000);
        }
        assert_eq!(disk.in_flight().len(), 2);
        disk.release_all();
        one.drive(1000);
        assert_eq!(log.durable(), Lsn::new(2));
        assert_eq!(log.appended(), Lsn::new(3), "what found no room follows");
    }
}

/// Then the write costs the lane nothing, and it has no reason to put it off.
#[test]
fn nobody_seals_where_another_leads() {
    let disk = interrupted();
    let (log, _, _) = open(disk.clone(), small(1)).unwrap();
    let (mut one, _) = producer(&log);
    let mut steps = log.drive_by_steps().unwrap();
    stage(&mut one, b"x").unwrap();
    assert!(!one.seal(1000));
    assert_eq!(log.appended(), Lsn::ZERO);
    one.drive(1000);
    steps.step(1000);
    assert_eq!(log.appended(), Lsn::new(1));
    drop(steps);
    stage(&mut one, b"y").unwrap();
    assert!(one.seal(1000), "the seat is free again");
    one.drive(1000);
    let (mut two, _) = producer(&log);
    let (answer, answered) = std::sync::mpsc::channel();
    *disk.hooks.hook.lock().unwrap() = Some(Box::new(move || {
        stage(&mut two, b"z").unwrap();
        answer.send((two.seal(1000), two)).unwrap();
    }));
    one.reap(1000);
    let (led, _two) = answered.recv().unwrap();
    assert!(!led, "a lane leads");
}

#[test]
fn what_was_sealed_and_not_written_is_lost_with_the_power() {
    let disk = SimDisk::new();
    let (log, _, _) = open(disk.clone(), small(1)).unwrap();
    let (mut one, _) = producer(&log);
    put(&log, &mut one, b"durable");
    stage(&mut one, b"sealed").unwrap();
    one.seal(1000);
    assert_eq!(log.durable(), Lsn::new(1));
    let (_, _, seen) = reopen(&disk.crash(1), 2);
    assert_eq!(bodies(&seen), [b"durable"]);
}

#[test]
fn a_lane_that_ends_leaves_its_writes_to_the_others() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    let (mut two, woken) = producer(&log);
    disk.hold();
    let handed = stage(&mut two, b"led by another").unwrap();
    two.flush(1000);
    one.drive(1000);
    assert_eq!(two.drive(1000).again_at, None, "the other one is notified");
    woken.take();
    drop(one);
    assert!(woken.take() > 0);
    assert_eq!(two.drive(1000).again_at, Some(1001), "nobody else is notified");
    disk.release_all();
    assert_eq!(two.drive(1001).again_at, None);
    assert_eq!(two.durable(), handed);
}

#[test]
fn what_a_lane_handed_over_before_it_ended_is_written() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    stage(&mut one, b"x").unwrap();
    one.flush(1000);
    one.stage(&LAZY, |out| out.push(1)).unwrap();
    drop(one);
    while !log.is_settled() {
        log.drive(1000, None);
    }
    assert_eq!(log.durable(), Lsn::new(2));
}

#[test]
fn a_big_record_whose_lane_has_ended_is_whole_wherever_reading_begins() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    let (mut two, _) = producer(&log);
    for n in 0..30_u8 {
        put(&log, &mut one, &[n; 3000]);
    }
    disk.hold();
    let big: Vec<u8> = (0..90_000_u32).map(|at| u8::try_from(at % 249).unwrap()).collect();
    stage(&mut two, &big).unwrap();
    two.flush(1000);
    // The last of its parts are packed when nothing is left of the lane.
    drop(two);
    disk.release_all();
    while !log.is_settled() {
        turn(&log, &mut one);
    }
    assert_eq!(log.durable(), Lsn::new(31));
    assert!(log.reader(Lsn::new(31)).unwrap().next_record().unwrap().unwrap().body == big);
    // Whoever wants nothing in front of it needs its first parts all the same.
    log.trim(Lsn::new(31));
    while log.helper_step(1000) {}
    let options = zzq_wal::Options { visit_from: Lsn::new(31), ..small(2) };
    let (_, _, seen) = open(disk.restart(), options).unwrap();
    assert!(seen.len() == 1 && seen[0].body == big);
}

#[test]
fn parts_that_wait_for_the_ring_are_called_for_until_the_last() {
    let disk = SimDisk::new();
    // One segment takes all of it, so that no new one is a reason to be called.
    let options = zzq_wal::Options { segment_size: 1 << 20, ..small(1) };
    let (log, _, _) = open(disk.clone(), options).unwrap();
    let (mut one, woken) = producer(&log);
    let (mut two, _) = producer(&log);
    turn(&log, &mut two);
    disk.hold();
    for _ in 0..2 {
        stage(&mut two, b"in flight").unwrap();
        two.drive(1000);
    }
    // More than twice as many parts as the ring takes.
    let handed = stage(&mut one, &vec![7; 300_000]).unwrap();
    one.drive(1000);
    assert!(!one.wants(handed));
    woken.take();
    // The other lane leads all the time; this one only comes when it is called.
    for _ in 0..100 {
        for token in disk.in_flight() {
            disk.release(token);
        }
        two.drive(1000);
        if woken.take() > 0 {
            one.drive(1000);
        }
    }
    assert_eq!(one.durable(), handed);
}

#[test]
fn the_cursor_of_a_lane_that_has_ended_holds_nobody_up() {
    let disk = SimDisk::new();
    let options = zzq_wal::Options { tail_groups: 2, ..small(1) };
    let (log, _, _) = open(disk, options).unwrap();
    let (mut one, woken) = producer(&log);
    let (two, _) = producer(&log);
    let mut tail = two.tail();
    let mut drive = one.drive(1000);
    for _ in 0..3 {
        stage(&mut one, b"x").unwrap();
        drive = one.drive(1000);
    }
    assert_eq!(drive.stall, Some(zzq_wal::Stall::Tail));
    woken.take();
    drop(two);
    assert!(woken.take() > 0);
    // It is still there, and nobody would be called when it goes.
    assert_eq!(one.drive(1000).stall, None);
    assert_eq!(log.appended(), Lsn::new(3));
    assert!(tail.next_group().is_some() && tail.next_group().is_some());
    assert!(tail.next_group().is_none(), "it shows nothing that came after its lane");
}

struct Ring(std::sync::mpsc::SyncSender<()>);

impl Wake for Ring {
    fn wake(&self) {
        // A call that is not yet heard is enough.
        let _ = self.0.try_send(());
    }
}

#[test]
fn a_helper_that_ends_by_a_broken_invariant_makes_the_log_read_only() {
    let disk = interrupted();
    let (log, _, _) = open(disk.clone(), small(1)).unwrap();
    let (ring, rings) = std::sync::mpsc::sync_channel(1);
    let mut one = log.producer(Arc::new(Ring(ring)), None).unwrap();
    disk.hooks.broken.store(true, Ordering::SeqCst);
    let helper = log.spawn_helper().unwrap();
    // Asks for the next segment.
    stage(&mut one, b"x").unwrap();
    one.drive(1000);
    rings.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
    assert!(matches!(log.status(), Status::ReadOnly(why) if why.contains("helper")));
    drop(helper);
}

#[test]
fn a_log_has_one_helper_once() {
    let (log, ..) = reopen(&SimDisk::new(), 1);
    let helper = log.spawn_helper().unwrap();
    assert_eq!(log.spawn_helper().unwrap_err().kind(), ErrorKind::AlreadyExists);
    drop(helper);
    assert_eq!(log.spawn_helper().unwrap_err().kind(), ErrorKind::AlreadyExists);
}
