//! Images are made beside everything else.

use zzq_codec::AckKind;
use zzq_types::QoS::{AtLeastOnce, ExactlyOnce};

use super::harness::*;

/// Whatever it costs to make one, nobody waits for it: neither lanes nor the log.
#[test]
fn clients_are_served_while_an_image_is_being_made() {
    //= W04
    for version in VERSIONS {
        for lanes in [1, 2] {
            let mut world = Setup { lanes, ..Setup::new(version) }.start();
            let mut away = world.member("away");
            world.subscribe(&mut away, "t", ExactlyOnce);
            away.disconnect();
            let (mut publisher, mut receiver) = (world.guest("publisher"), world.guest("receiver"));
            world.subscribe(&mut receiver, "live", AtLeastOnce);
            for id in 1..=200 {
                world.publish(&mut publisher, Line::new("t", "waits", AtLeastOnce, id));
            }
            let mut served = 0;
            world.image_amid(&mut |settle| {
                publisher.publish(Line::new("live", "now", AtLeastOnce, 1));
                settle();
                assert_eq!(publisher.got(), ["PUBACK 1"], "piece {served}");
                served += 1;
                let id = u16::try_from(served).unwrap();
                assert_eq!(receiver.got(), [format!("live=now q1 #{id}")]);
                receiver.ack(AckKind::PubAck, id);
            });
            assert!(served > 3, "{served} pieces are no image");
        }
    }
}
