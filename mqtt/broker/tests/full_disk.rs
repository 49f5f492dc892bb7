//! A disk that has nothing left but what is kept for others, as clients see it: a reserve that is
//! greater than any disk makes it so. What fills a real one, and how it recovers by itself, is in
//! the rig.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod support;

use Version::{V4, V5};
use support::{Broker, Client, Connect, Publish, Version, on_disk, show};

const QUOTA_EXCEEDED: u8 = 0x97;

#[test]
fn a_full_disk_refuses_what_it_cannot_keep_and_serves_the_rest() {
    let mut broker = on_disk();
    let away = Connect::persistent(V5, "away");
    let (mut client, _) = away.open(&broker);
    client.subscribe("t/#", 2);
    client.disconnect();
    let old = Connect::persistent(V4, "old");
    old.open(&broker).0.disconnect();
    let mut publisher = Client::connect(&broker, V5, "publisher");
    publisher.say("t/1", "before", 1);
    publisher.retain("kept", "before", 1);
    drop(publisher);
    assert!(broker.stop().success());
    broker.start_again_with(&["--disk-reserve=1000000GiB"]);

    assert_eq!(store_state(&broker), "full");
    let mut publisher = Client::connect(&broker, V5, "publisher");
    publisher.publish(&Publish::new("t/1", "refused").qos(1, 1));
    assert_eq!(publisher.expect_ack_code(0x40, 1), QUOTA_EXCEEDED);
    publisher.publish(&Publish::new("t/1", "refused").qos(2, 2));
    assert_eq!(publisher.expect_ack_code(0x50, 2), QUOTA_EXCEEDED);
    publisher.publish(&Publish::new("kept", "refused").qos(1, 3).retain());
    assert_eq!(publisher.expect_ack_code(0x40, 3), QUOTA_EXCEEDED);
    // MQTT 3 has no answer that says so: it gets none, and is served all the same.
    let (mut held, accepted) = old.open(&broker);
    assert!(accepted.session_present);
    held.publish(&Publish::new("t/1", "held").qos(1, 1));
    held.ping();
    // A session that would have to be kept.
    let mut stranger = Client::open(&broker, V5);
    stranger.send(&Connect::persistent(V5, "stranger").encode());
    let answer = stranger.expect_packet();
    assert_eq!((answer[0], answer[3]), (0x20, QUOTA_EXCEEDED), "{}", show(&answer));
    // Who receives makes space. What is not logged passes.
    let (mut client, accepted) = away.open(&broker);
    assert!(accepted.session_present);
    client.expect("t/1", "before");
    publisher.publish(&Publish::new("t/2", "at QoS 0"));
    client.expect("t/2", "at QoS 0");
    client.ping_without_messages();
    // A retained message can be taken away.
    publisher.retain("kept", "", 1);
    client.disconnect();
    drop((publisher, held));
    assert!(broker.stop().success());

    broker.start_again_with(&[]);
    assert_eq!(store_state(&broker), "writable");
    let mut publisher = Client::connect(&broker, V5, "publisher");
    publisher.say("t/1", "after", 1);
    let (mut client, accepted) = away.open(&broker);
    assert!(accepted.session_present);
    client.subscribe("kept", 1);
    client.expect("t/1", "after");
    client.ping_without_messages();
    let stranger = Connect::persistent(V5, "stranger").open(&broker);
    assert!(!stranger.1.session_present);
}

/// What the broker says of it.
fn store_state(broker: &Broker) -> String {
    let mut watcher = Client::connect(broker, V5, "watcher");
    watcher.subscribe("$SYS/broker/store/state", 0);
    watcher.expect_message().payload_text().to_owned()
}
