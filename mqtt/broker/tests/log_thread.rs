//! A thread that leads the log. Then a lane is woken for what it has asked for, and for nothing
//! else: no write of its own comes back to it, and here no `$SYS` timer is there to help.
//!
//! Everything else runs with it by `ZZQ_TEST_ARGS=--log-thread`.

mod support;

use Version::V5;
use support::{Broker, Client, Connect, Version};
use zzq_wal::io::{Backend, FileDisk};

fn start(disk: &str) -> Broker {
    Broker::start(true, &["--log-thread", "--sys-interval", "0s", "--disk", disk])
}

#[test]
fn what_is_acknowledged_survives_a_kill_by_every_backend() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for backend in [Backend::Aio, Backend::Uring, Backend::Pwrite] {
        if let Err(error) = FileDisk::open(folder.path(), backend) {
            eprintln!("skipped: {error}");
            continue;
        }
        let mut broker = start(&backend.to_string());
        let reader = Connect::persistent(V5, "reader");
        let (mut subscriber, _) = reader.open(&broker);
        subscriber.subscribe("t", 2);
        subscriber.disconnect();
        let mut publisher = Client::connect(&broker, V5, "publisher");
        for n in 0..20 {
            publisher.say("t", &n.to_string(), 1 + n % 2);
        }
        broker.crash();
        let (mut subscriber, accepted) = reader.open(&broker);
        assert!(accepted.session_present);
        for n in 0..20 {
            subscriber.expect("t", &n.to_string());
        }
    }
}

#[test]
fn a_will_comes_at_its_time_though_nothing_else_happens() {
    let broker = start("auto");
    let mut watcher = Client::connect(&broker, V5, "watcher");
    watcher.subscribe("will/#", 1);
    let connect = Connect::persistent(V5, "a");
    let will = connect.clone().will_with("18 00 00 00 01", "will/a", "gone", 1, false);
    will.open(&broker).0.reset();
    watcher.expect("will/a", "gone");
}

#[test]
fn a_session_goes_on_behind_its_last_record() {
    let broker = start("auto");
    let connect = Connect::persistent(V5, "subscriber");
    let (mut subscriber, _) = connect.open(&broker);
    subscriber.subscribe("t", 2);
    Client::connect(&broker, V5, "publisher").say("t", "x", 2);
    let message = subscriber.expect_message();
    subscriber.send_ack(0x50, message.id);
    subscriber.expect_ack(0x62, message.id);
    for _ in 0..3 {
        // A connection that is lost leaves a record that nobody waits for, but the next one does.
        subscriber.reset();
        (subscriber, _) = connect.open(&broker);
        subscriber.expect_ack(0x62, message.id);
    }
    subscriber.send_ack(0x70, message.id);
    subscriber.ping_without_messages();
}
