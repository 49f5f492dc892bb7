//! Several lanes on threads of their own, on a real disk: whoever sleeps is woken in time, with
//! both drivers of the log: the lanes themselves, and a thread.
//!
//! No lane looks again by itself: it sleeps until its eventfd, which is its waker and the notify
//! fd of the writes that it led, or until the time that the log told it. A wake-up that is lost
//! is seen as a sleep that does not end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::*;
use zzq_wal::io::{Backend, FileDisk, Issuers, event};
use zzq_wal::{Handed, Log, Options, Producer, StageError, Staging, Wake};

struct Bell(Arc<OwnedFd>);

impl Wake for Bell {
    fn wake(&self) {
        // At its maximum it is readable already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

const FOR_EVER: Duration = Duration::from_mins(1);

struct Lane {
    producer: Producer<FileDisk>,
    bell: Arc<OwnedFd>,
    began: Instant,
    window: u64,
    count: u64,
}

impl Lane {
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap()
    }

    fn run(mut self) -> u64 {
        let lanes = 0b1111;
        let mut tail = self.producer.tail();
        let mut seen = HashMap::<u16, u64>::new();
        let mut from_others = 0;
        while self.producer.durable().get() < self.count {
            self.stage_window(lanes);
            while let Some(group) = tail.next_group() {
                for record in group.records() {
                    let last = seen.entry(record.producer).or_insert(record.handed.get() - 1);
                    *last += 1;
                    assert_eq!(*last, record.handed.get(), "the tail leaves nothing out");
                    from_others += u64::from(record.producer != self.producer.index());
                }
            }
            let drive = self.producer.drive(self.now());
            let oldest = Handed::new(self.producer.durable().get() + 1);
            if self.producer.handed() < oldest || self.producer.wants(oldest) {
                continue;
            }
            let sleep = match drive.again_at {
                Some(at) => Duration::from_millis(at.saturating_sub(self.now())),
                None => FOR_EVER,
            };
            let rung = event::wait(&self.bell, sleep).unwrap();
            assert!(rung || drive.again_at.is_some(), "a wake-up was lost: {:?}", self.producer);
            event::drain(&self.bell);
        }
        from_others
    }

    /// Keeps as many records under way as the window allows; every tenth waits for nobody.
    fn stage_window(&mut self, lanes: u64) {
        while self.producer.handed().get() < self.count
            && self.producer.handed().get() - self.producer.durable().get() < self.window
        {
            let nth = self.producer.handed().get() + 1;
            let lane = u64::from(self.producer.index());
            let staging =
                Staging { kind: 3, waits: !nth.is_multiple_of(10), lanes, reserved: false };
            let len = usize::try_from(nth * 37 % 700).unwrap();
            let staged = self.producer.stage(&staging, |out| {
                out.extend_from_slice(&lane.to_le_bytes());
                out.extend_from_slice(&nth.to_le_bytes());
                out.resize(out.len() + len, 0x5a);
            });
            match staged {
                Ok(handed) => assert_eq!(handed.get(), nth),
                Err(StageError::Full) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Once with each driver.
fn run_lanes(backend: Backend, lanes: u64, window: u64, count: u64) {
    run_lanes_for(backend, Issuers::Any, lanes, window, count);
    run_lanes_for(backend, Issuers::One, lanes, window, count);
}

fn run_lanes_for(backend: Backend, issuers: Issuers, lanes: u64, window: u64, count: u64) {
    let directory = tempfile::tempdir().unwrap();
    let options =
        || Options { tail_groups: 8, ring_chunks: 8, segment_size: 512 * 1024, ..small_parts() };
    let disk = FileDisk::open_for(directory.path(), backend, issuers).unwrap();
    let (log, _, _) = open(disk, options()).unwrap();
    let helper = log.spawn_helper().unwrap();
    let began = Instant::now();
    let clock = move || u64::try_from(began.elapsed().as_millis()).unwrap();
    let driver = (issuers == Issuers::One).then(|| log.spawn_driver(clock).unwrap());
    let threads: Vec<_> = (0..lanes)
        .map(|_| {
            let bell = event::create().unwrap();
            let producer = log.producer(Arc::new(Bell(bell.clone())), Some(bell.clone())).unwrap();
            let lane = Lane { producer, bell, began, window, count };
            thread::spawn(move || lane.run())
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(log.durable().get(), lanes * count);
    drop((driver, helper, log));

    let disk = FileDisk::open(directory.path(), Backend::Auto).unwrap();
    let mut next = HashMap::new();
    let (_, recovery) = Log::open(disk, options(), 0, &mut |record| {
        let (lane, rest) = record.body.split_at(8);
        let nth = next.entry(lane.to_vec()).or_insert(1_u64);
        assert_eq!(rest[..8], nth.to_le_bytes(), "each lane's records are in its order");
        *nth += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(recovery.last_lsn.get(), lanes * count);
    assert_eq!(next.len() as u64, lanes);
}

fn small_parts() -> Options {
    Options { group_size: 64 * 1024, chunk_size: 8192, part_size: 16_384, ..small(7) }
}

#[test]
fn lanes_that_sleep_are_woken_when_they_have_much_under_way() {
    run_lanes(Backend::Aio, 4, 200, 6000);
}

#[test]
fn lanes_that_sleep_are_woken_when_they_wait_for_each_record() {
    run_lanes(Backend::Aio, 3, 1, 400);
}

#[test]
fn lanes_that_sleep_are_woken_on_a_ring() {
    let directory = tempfile::tempdir().unwrap();
    match FileDisk::open(directory.path(), Backend::Uring) {
        Ok(_) => run_lanes(Backend::Uring, 4, 20, 1500),
        Err(error) => eprintln!("skipped: {error}"),
    }
}

#[test]
fn lanes_that_sleep_are_woken_on_a_disk_with_a_thread() {
    run_lanes(Backend::Pwrite, 3, 20, 1500);
}
