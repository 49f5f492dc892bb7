//! More than the log takes at once.

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

#[test]
fn answers_that_are_not_read_carry_no_reasons() {
    const ALL: u16 = 1000;
    let mut world = Setup::new(ProtocolVersion::V5).start();
    let mut client = world.guest("a");
    client.got();
    let before = client.traffic.bytes_in;
    client.takes(0);
    client.gather();
    for id in 1..=ALL {
        client.publish(Line::new("$SYS/a", "", AtLeastOnce, id));
    }
    client.flush();
    world.settle();
    client.takes(usize::MAX);
    world.settle();
    let got = client.got();
    assert_eq!(got.len(), usize::from(ALL));
    assert!(got.iter().all(|answer| answer.ends_with(" failed")), "{got:?}");
    // Six bytes at most without them; the first have them.
    let bytes = client.traffic.bytes_in - before;
    let short = 6 * u64::from(ALL);
    assert!((short + 10_000..short + (20 << 10)).contains(&bytes), "{bytes} bytes");
}
