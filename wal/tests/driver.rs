//! A thread that drives the log: it leads, others call it, and it ends in good order.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use common::hooked::{Hooked, Hooks};
use common::*;
use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::{Fault, Op, SimDisk};
use zzq_wal::{Commits, Handed, Log, Lsn, Options, Producer, Status, Wake};

const LONG: Duration = Duration::from_secs(30);

struct Ring(SyncSender<()>);

impl Wake for Ring {
    fn wake(&self) {
        // A call that is not yet heard is enough.
        let _ = self.0.try_send(());
    }
}

fn lane<D: Disk>(log: &Log<D>) -> (Producer<D>, Receiver<()>) {
    let (ring, rings) = sync_channel(1);
    (log.producer(Arc::new(Ring(ring)), None).unwrap(), rings)
}

/// Waits until `handed` is durable; nobody but the driver leads.
fn wait(lane: &Producer<impl Disk>, rings: &Receiver<()>, handed: Handed) {
    while !lane.wants(handed) {
        rings.recv_timeout(LONG).unwrap();
    }
}

/// A clock that stands still until it is set.
#[derive(Clone, Default)]
struct Stopped(Arc<AtomicU64>);

impl Stopped {
    fn clock(&self) -> impl FnMut() -> u64 + Send + 'static {
        let now = Arc::clone(&self.0);
        move || now.load(Ordering::SeqCst)
    }

    fn set(&self, now_ms: u64) {
        self.0.store(now_ms, Ordering::SeqCst);
    }
}

#[test]
fn lanes_hand_over_and_the_thread_leads() {
    let (log, _, _) = reopen(&SimDisk::new(), 1);
    let driver = log.spawn_driver(|| 1000).unwrap();
    let (mut one, rings) = lane(&log);
    let mut tail = one.tail();
    for n in 1..=20_u8 {
        let handed = stage(&mut one, &[n]).unwrap();
        let drive = one.drive(1000);
        assert!(!drive.led && drive.again_at.is_none() && drive.stall.is_none());
        assert!(!log.drive(1000, None).led, "nor does anybody else");
        wait(&one, &rings, handed);
        let group = tail.next_group().unwrap();
        assert!(group.records().all(|record| record.body == [n]));
    }
    assert_eq!(log.durable(), Lsn::new(20));
    drop(driver);
    let handed = stage(&mut one, b"led again").unwrap();
    assert!(one.drive(1000).led);
    assert!(one.drive(1000).led && one.durable() == handed);
}

#[test]
fn who_drives_by_steps_leads_in_each_and_at_no_other_time() {
    let (log, _, _) = reopen(&SimDisk::new(), 1);
    let mut steps = log.drive_by_steps().unwrap();
    assert_eq!(log.drive_by_steps().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(log.spawn_driver(|| 1000).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    let (mut one, _rings) = lane(&log);
    for n in 1..=20_u8 {
        let handed = stage(&mut one, &[n]).unwrap();
        assert!(!one.drive(1000).led && one.durable() < handed);
        while one.durable() < handed {
            steps.step(1000);
        }
    }
    assert!(!steps.step(1000), "there is nothing to do");
    drop(steps);
    stage(&mut one, b"led again").unwrap();
    assert!(one.drive(1000).led);
}

#[test]
fn it_goes_on_when_the_helper_has_made_a_segment() {
    let (log, _, _) = reopen(&SimDisk::new(), 1);
    let _helper = log.spawn_helper().unwrap();
    let _driver = log.spawn_driver(|| 1000).unwrap();
    let (mut one, rings) = lane(&log);
    let mut handed = Handed::ZERO;
    for _ in 0..100 {
        handed = stage(&mut one, &[7; 4000]).unwrap();
        one.drive(1000);
        wait(&one, &rings, handed);
    }
    assert_eq!(one.durable(), handed);
    assert!(log.disk().list().unwrap().len() > 4, "it rolled");
}

#[test]
fn what_nobody_waits_for_is_written_when_its_lane_says_that_it_is_due() {
    let (log, _, _) = reopen(&SimDisk::new(), 1);
    let now = Stopped::default();
    now.set(1000);
    let _driver = log.spawn_driver(now.clock()).unwrap();
    let (mut one, rings) = lane(&log);
    let handed = one.stage(&LAZY, |out| out.push(1)).unwrap();
    assert_eq!(one.drive(1000).again_at, Some(1005), "the lane keeps the time");
    assert_eq!(one.appended(), Handed::ZERO);
    now.set(1005);
    one.drive(1005);
    wait(&one, &rings, handed);
}

#[test]
fn a_lane_that_reads_the_tail_brings_it_back() {
    let options = Options { tail_groups: 2, ..small(1) };
    let (log, _, _) = open(SimDisk::new(), options).unwrap();
    let _driver = log.spawn_driver(|| 1000).unwrap();
    let (mut one, rings) = lane(&log);
    let (mut two, _) = lane(&log);
    let mut tail = two.tail();
    let mut handed = Handed::ZERO;
    for n in 0..2 {
        handed = stage(&mut one, &[n]).unwrap();
        one.drive(1000);
        wait(&one, &rings, handed);
    }
    assert_eq!(one.durable(), handed);
    for n in 0..20 {
        // Full with two groups: this one waits until the other lane has read.
        let handed = stage(&mut one, &[n]).unwrap();
        one.drive(1000);
        assert!(tail.next_group().is_some());
        two.drive(1000);
        wait(&one, &rings, handed);
    }
}

#[test]
fn it_takes_what_lanes_had_led_before_it_came() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, rings) = lane(&log);
    disk.hold();
    let handed = stage(&mut one, b"led by a lane").unwrap();
    one.drive(1000);
    let _driver = log.spawn_driver(|| 1000).unwrap();
    disk.release_all();
    wait(&one, &rings, handed);
}

/// Whoever led for nobody may have gone, and its write calls nobody.
#[test]
fn it_takes_what_was_led_for_nobody_before_it_came() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, rings) = lane(&log);
    disk.hold();
    let handed = stage(&mut one, b"led for nobody").unwrap();
    one.flush(1000);
    assert!(log.drive(1000, None).led);
    let (looks, looked) = sync_channel(1);
    let clock = move || {
        let _ = looks.try_send(());
        1000
    };
    let _driver = log.spawn_driver(clock).unwrap();
    let looks_again = (0..3).all(|_| looked.recv_timeout(LONG).is_ok());
    disk.release_all();
    assert!(looks_again);
    wait(&one, &rings, handed);
}

#[test]
fn it_writes_what_was_handed_over_before_it_ends() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let now = Stopped::default();
    let driver = log.spawn_driver(now.clock()).unwrap();
    let (mut one, _) = lane(&log);
    now.set(1000);
    one.stage(&LAZY, |out| out.push(1)).unwrap();
    one.drive(1000);
    stage(&mut one, b"and this").unwrap();
    one.flush(1000);
    drop(driver);
    assert_eq!(log.durable(), Lsn::new(2));
    let seen = open(disk.restart(), small(2)).unwrap().2;
    assert_eq!(bodies(&seen), [&[1_u8][..], b"and this"]);
}

#[test]
fn it_ends_though_what_waits_cannot_be_written() {
    let options = Options { tail_groups: 1, ..small(1) };
    let (log, _, _) = open(SimDisk::new(), options).unwrap();
    let driver = log.spawn_driver(|| 1000).unwrap();
    let (mut one, rings) = lane(&log);
    let _unread = one.tail();
    let first = stage(&mut one, b"fills the tail").unwrap();
    one.drive(1000);
    wait(&one, &rings, first);
    stage(&mut one, b"waits for its reader").unwrap();
    one.drive(1000);
    drop(driver);
    assert_eq!(log.appended(), Lsn::new(1));
    assert!(rings.recv_timeout(LONG).is_ok(), "the lanes are called to lead again");
}

/// A new leader's term takes back what is in flight; the thread drives on in that term.
#[test]
fn a_truncation_runs_under_it() {
    let disk = SimDisk::new();
    let options = Options { commits: Commits::ByCaller, ..small(1) };
    let (log, _, _) = open(disk.clone(), options).unwrap();
    let helper = log.spawn_helper().unwrap();
    let driver = log.spawn_driver(|| 1000).unwrap();
    let (mut one, rings) = lane(&log);
    for n in 1..=3_u8 {
        let handed = stage(&mut one, &[n]).unwrap();
        one.drive(1000);
        wait(&one, &rings, handed);
    }
    disk.hold();
    stage(&mut one, b"in flight").unwrap();
    one.drive(1000);
    while disk.in_flight().is_empty() {
        std::thread::yield_now();
    }
    log.truncate(Lsn::new(2), 1).unwrap();
    assert!(log.is_truncating());
    disk.release_all();
    while !one.is_ended() {
        rings.recv_timeout(LONG).unwrap();
    }
    while log.is_truncating() {
        std::thread::yield_now();
    }
    assert_eq!((log.durable(), log.appended()), (Lsn::new(2), Lsn::new(2)));
    let (mut two, rings) = lane(&log);
    let handed = stage(&mut two, b"of the new term").unwrap();
    two.drive(1000);
    wait(&two, &rings, handed);
    drop((driver, helper));
    let seen = open(disk.restart(), small(2)).unwrap().2;
    assert_eq!(bodies(&seen), [&[1_u8][..], &[2], b"of the new term"]);
}

#[test]
fn a_log_has_one_such_thread() {
    let (log, _, _) = reopen(&SimDisk::new(), 1);
    let driver = log.spawn_driver(|| 1000).unwrap();
    let error = log.spawn_driver(|| 1000).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    drop(driver);
    drop(log.spawn_driver(|| 1000).unwrap());
}

/// Submissions panic when they are told to.
#[derive(Default)]
struct Breakable(AtomicBool);

impl Hooks for Breakable {
    fn before_submit(&self) {
        assert!(!self.0.load(Ordering::SeqCst), "an invariant that does not hold");
    }
}

#[test]
fn a_broken_invariant_makes_the_log_read_only_and_calls_the_lanes() {
    let disk = Hooked::<Breakable>::new(SimDisk::new());
    let (log, _, _) = open(disk.clone(), small(1)).unwrap();
    let driver = log.spawn_driver(|| 1000).unwrap();
    let (mut one, rings) = lane(&log);
    disk.hooks.0.store(true, Ordering::SeqCst);
    stage(&mut one, b"x").unwrap();
    one.drive(1000);
    rings.recv_timeout(LONG).unwrap();
    while log.status() == Status::Running {
        std::thread::yield_now();
    }
    assert!(matches!(log.status(), Status::ReadOnly(why) if why.contains("driver")));
    drop(driver);
    assert!(!one.drive(1000).led, "nobody leads what is broken");
}

#[test]
fn a_failed_write_moves_under_it_as_under_lanes() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let _helper = log.spawn_helper().unwrap();
    let _driver = log.spawn_driver(|| 1000).unwrap();
    let (mut one, rings) = lane(&log);
    disk.fail(Op::Write, 1, Fault::Fail(io::ErrorKind::Other));
    let handed = stage(&mut one, b"on a bad place").unwrap();
    one.drive(1000);
    wait(&one, &rings, handed);
    assert!(log.take_failure().is_some());
}
