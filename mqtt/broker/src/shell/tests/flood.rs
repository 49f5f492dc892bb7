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
