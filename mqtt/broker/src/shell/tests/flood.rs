//! More than the log takes at once.

use zzq_codec::{AckKind, Packet};
use zzq_types::ProtocolVersion;
use zzq_types::QoS::AtLeastOnce;

use super::harness::*;

#[test]
fn a_flood_while_the_disk_stands_still_is_acknowledged_afterwards() {
    const EACH: u16 = 2000;
    for lanes in [1, 2] {
        let mut world = Setup { lanes, ..Setup::new(ProtocolVersion::V311) }.start();
        // On both lanes, each with a subscriber on the other, or on none.
        let ids = ["a", "b", "c", "d"];
        let mut reader = world.member("reader");
        world.subscribe(&mut reader, "read/#", AtLeastOnce);
        let mut publishers = ids.map(|id| world.guest(id));
        world.disk.hold();
        for id in 1..=EACH {
            for (publisher, name) in publishers.iter_mut().zip(ids) {
                let topic = if id % 2 == 0 { format!("read/{name}") } else { name.to_owned() };
                publisher.publish(Line::new(&topic, &"x".repeat(100), AtLeastOnce, id));
            }
        }
        world.settle();
        for publisher in &mut publishers {
            assert!(publisher.got().is_empty(), "nothing is durable");
        }
        world.disk.release_all();
        world.pass(1000);
        for publisher in &mut publishers {
            assert_eq!(publisher.got().len(), usize::from(EACH), "{lanes} lanes");
        }
    }
}

/// Each of so many packets is refused, and its answer has a text as long as the client reads.
fn short_answers(in_memory: bool, says: &str, least: u64, send: impl Fn(&mut Client, u16)) {
    const ALL: u16 = 1000;
    let mut world = Setup { in_memory, ..Setup::new(ProtocolVersion::V5) }.start();
    let mut client = world.guest("a");
    client.got();
    let before = client.traffic.bytes_in;
    client.takes(0);
    client.gather();
    for id in 1..=ALL {
        send(&mut client, id);
    }
    client.flush();
    world.settle();
    client.takes(usize::MAX);
    world.settle();
    let mut got = client.got();
    got.retain(|answer| answer != "PINGRESP");
    assert_eq!(got.len(), usize::from(ALL));
    assert!(got.iter().all(|answer| answer.contains(says)), "{got:?}");
    let bytes = client.traffic.bytes_in - before;
    let short = least * u64::from(ALL);
    assert!((short + 10_000..short + (20 << 10)).contains(&bytes), "{bytes} bytes");
}

#[test]
fn answers_that_are_not_read_carry_no_reasons() {
    for in_memory in [false, true] {
        short_answers(in_memory, " failed", 6, |client, id| {
            client.publish(Line::new("$SYS/a", "", AtLeastOnce, id));
        });
        // Another packet between them: each is answered by itself.
        short_answers(in_memory, "PUBCOMP", 5 + 2, |client, id| {
            client.ack(AckKind::PubRel, id);
            client.send(&Packet::PingReq);
        });
        short_answers(in_memory, "SUBACK", 6, |client, id| {
            client.subscribe(id, "a/#/b", AtLeastOnce);
        });
    }
}
