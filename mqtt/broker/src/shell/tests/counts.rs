//! What the broker counts is what its clients see: every packet and byte, once.

use zzq_codec::{AckKind, Packet};
use zzq_types::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};

use super::harness::*;
use crate::metrics::{self, Counts};

/// The clients that there were.
type Clients = Vec<Client>;

/// What clients have sent and seen, against what the broker counts.
#[track_caller]
fn check(world: &mut World, clients: &mut [Client]) -> Counts {
    // Until the log has taken what nobody waits for.
    world.pass(10);
    let mut seen = Traffic::default();
    for client in clients {
        client.got();
        seen.add(&client.traffic);
    }
    let counts = metrics::total(&world.shell(0).shared.metrics);
    let counted = Traffic {
        packets_out: counts.packets_in,
        publishes_out: counts.publishes_in,
        payload_out: counts.payload_in,
        bytes_out: counts.bytes_in,
        packets_in: counts.packets_out,
        publishes_in: counts.publishes_out,
        payload_in: counts.payload_out,
        bytes_in: counts.bytes_out,
    };
    assert_eq!(counted, seen, "counted and seen, in the direction of clients");
    counts
}

/// Calls `scene` for each version, on one lane and on two.
fn everywhere(scene: impl Fn(&mut World) -> Clients) {
    for version in VERSIONS {
        for lanes in [1, 2] {
            let mut world = Setup { lanes, ..Setup::new(version) }.start();
            let mut clients = scene(&mut world);
            check(&mut world, &mut clients);
        }
    }
}

#[test]
fn each_kind_of_packet_counts_once() {
    everywhere(|world| {
        let mut receiver = world.member("receiver");
        let mut other = world.guest("other");
        let mut publisher = world.guest("publisher");
        world.subscribe(&mut receiver, "t", ExactlyOnce);
        world.subscribe(&mut other, "t", AtMostOnce);
        receiver.unsubscribe(10, "t");
        receiver.unsubscribe(11, "nothing");
        world.settle();
        assert_eq!(receiver.got(), ["UNSUBACK 10", "UNSUBACK 11"]);
        world.subscribe(&mut receiver, "t", ExactlyOnce);
        for (id, qos) in [(1, AtMostOnce), (2, AtLeastOnce), (3, ExactlyOnce)] {
            world.publish(&mut publisher, Line::new("t", "x", qos, id));
        }
        receiver.ack(AckKind::PubAck, 1);
        receiver.ack(AckKind::PubRec, 2);
        // One that names nothing is answered as well.
        receiver.ack(AckKind::PubRec, 77);
        publisher.ack(AckKind::PubRel, 78);
        world.settle();
        receiver.ack(AckKind::PubComp, 2);
        for client in [&mut receiver, &mut other, &mut publisher] {
            client.send(&Packet::PingReq);
        }
        world.settle();
        publisher.disconnect();
        world.settle();
        vec![receiver, other, publisher]
    });
}

#[test]
fn a_large_message_for_many_counts_for_each() {
    everywhere(|world| {
        let mut clients: Clients = (0..3).map(|n| world.guest(&format!("r{n}"))).collect();
        for client in &mut clients {
            world.subscribe(client, "t", AtLeastOnce);
        }
        let mut publisher = world.guest("publisher");
        world.publish(&mut publisher, Line::new("t", &"x".repeat(20_000), AtLeastOnce, 1));
        clients.push(publisher);
        clients
    });
}

#[test]
fn what_is_sent_again_counts_again() {
    everywhere(|world| {
        let mut receiver = world.member("receiver");
        world.subscribe(&mut receiver, "t", ExactlyOnce);
        let mut publisher = world.guest("publisher");
        for id in 1..=2 {
            world.publish(&mut publisher, Line::new("t", "x", ExactlyOnce, id));
        }
        receiver.ack(AckKind::PubRec, 1);
        world.settle();
        // PUBREL for the first, PUBLISH for the second.
        let mut again = world.call(&Hello::member("receiver"));
        assert_eq!(again.got(), ["CONNACK present", "PUBREL 1", "t=x q2 #2 dup"]);
        vec![receiver, again, publisher]
    });
}

#[test]
fn the_last_words_of_a_connection_count() {
    everywhere(|world| {
        let mut refused = world.open();
        let hello = Hello { will: Some(("$SYS/x", AtMostOnce, false)), ..Hello::guest("refused") };
        refused.connect(&hello);
        let old = world.guest("one");
        let taker = world.guest("one");
        let mut faulty = world.guest("faulty");
        world.subscribe(&mut faulty, "t", AtLeastOnce);
        faulty.publish(Line::new("t", "x", AtLeastOnce, 1));
        world.settle();
        // PUBREC for QoS 1.
        faulty.ack(AckKind::PubRec, 1);
        world.settle();
        let mut strange = world.guest("strange");
        strange.send_bytes(&[0xF1, 0x00]);
        world.settle();
        vec![refused, old, taker, faulty, strange]
    });
}

#[test]
fn a_publish_that_waits_for_the_log_counts_once() {
    everywhere(|world| {
        let mut publisher = world.guest("publisher");
        publisher.gather();
        let text = "x".repeat(4000);
        for id in 1..=400 {
            publisher.publish(Line::new("t", &text, AtLeastOnce, id));
        }
        world.disk.hold();
        publisher.flush();
        world.settle();
        assert!(publisher.got().is_empty());
        world.disk.release_all();
        world.settle();
        assert_eq!(publisher.got().len(), 400);
        vec![publisher]
    });
}

#[test]
fn what_is_held_is_told_whatever_the_number_of_lanes() {
    for lanes in [1, 2, 3] {
        let mut world = Setup { lanes, ..Setup::new(VERSIONS[1]) }.start();
        let mut clients: Clients = (0..4).map(|n| world.member(&format!("r{n}"))).collect();
        for client in &mut clients {
            world.subscribe(client, "t", AtLeastOnce);
        }
        let mut publisher = world.guest("publisher");
        world.publish(&mut publisher, Line::new("t", "x", AtLeastOnce, 1));
        world.publish(&mut publisher, Line::new("t", "y", AtLeastOnce, 2).retained());
        clients[0].got();
        clients[0].ack(AckKind::PubAck, 1);
        clients[1].disconnect();
        clients.push(publisher);
        let counts = check(&mut world, &mut clients);
        let told = (counts.subscriptions, counts.queued, counts.retained);
        assert_eq!(told, (4, 7, 1), "{lanes} lanes");
        assert_eq!((counts.clients, counts.sessions), (4, 5), "{lanes} lanes");
    }
}

#[test]
fn who_has_vanished_is_told_from_who_broke_off() {
    let mut world = Setup::new(VERSIONS[0]).start();
    let broke_off = world.guest("broke off");
    let vanished = world.guest("vanished");
    // It had not said who it is.
    let unknown = world.open();
    broke_off.reset();
    vanished.vanish();
    unknown.vanish();
    world.settle();
    let counts = metrics::total(&world.shell(0).shared.metrics);
    assert_eq!((counts.vanished_peers, counts.connections), (2, 0));
}
