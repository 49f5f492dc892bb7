//! An appender beside lanes: when its call returns, it leaves nothing undone.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use common::*;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Appender, Wake};

const LONG: Duration = Duration::from_secs(30);

struct Ring(SyncSender<()>);

impl Wake for Ring {
    fn wake(&self) {
        // A call that is not yet heard is enough.
        let _ = self.0.try_send(());
    }
}

/// It leads for whoever has something; its own record is durable first, and it comes no more.
#[test]
fn a_write_that_an_appender_led_for_another_is_taken_when_it_has_left() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let mut appender = Appender::new(&log).unwrap();
    let (ring, rings) = sync_channel(1);
    let mut lane = log.producer(Arc::new(Ring(ring)), None).unwrap();
    disk.hold();
    thread::scope(|scope| {
        let appending = scope.spawn(|| appender.append(1, b"its own"));
        while disk.in_flight().is_empty() {
            thread::yield_now();
        }
        let handed = stage(&mut lane, b"another's").unwrap();
        lane.flush(1000);
        disk.release_next();
        appending.join().unwrap().unwrap();
        assert_eq!(disk.in_flight().len(), 1);
        let mut drive = lane.drive(1000);
        disk.release_all();
        while !lane.wants(handed) {
            match drive.again_at {
                Some(_) => thread::yield_now(),
                None => rings.recv_timeout(LONG).unwrap(),
            }
            drive = lane.drive(1000);
        }
    });
}
