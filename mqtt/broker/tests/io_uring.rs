//! Lanes over `io_uring`: the way of a message through them, with a log and without.
//!
//! Everything else runs with it by `ZZQ_TEST_ARGS=--io=uring`.

#![allow(clippy::expect_used, reason = "helpers of tests fail loudly")]

mod support;

use support::{Broker, Client, Version::V5};

/// Whether the process has a ring other than the log's, which does without.
fn has_ring(broker: &Broker) -> bool {
    let folder = format!("/proc/{}/fd", broker.pid());
    let open = std::fs::read_dir(folder).expect("a running process");
    let mut names = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    names.any(|name| name.to_string_lossy().contains("io_uring"))
}

#[test]
fn messages_of_any_size_pass_from_lane_to_lane() {
    for logged in [false, true] {
        let arguments = ["--io=uring", "--lanes", "2", "--disk", "pwrite"];
        let broker = Broker::start(logged, &arguments);
        let mut readers: Vec<_> = (0..4)
            .map(|n| {
                let mut reader = Client::connect(&broker, V5, &format!("reader {n}"));
                reader.subscribe("t", 2);
                reader
            })
            .collect();
        let mut publisher = Client::connect(&broker, V5, "publisher");
        for (n, size) in [0, 1, 100, 2000, 2100, 70_000, 300_000].into_iter().enumerate() {
            let payload = "x".repeat(size);
            let qos = u8::try_from(n % 3).expect("a digit");
            publisher.say("t", &payload, qos);
            for reader in &mut readers {
                reader.expect("t", &payload);
            }
        }
        let refused = broker.log().contains("they use epoll");
        assert_ne!(has_ring(&broker), refused, "one or the other: {}", broker.log());
    }
}
