//! A client id that connects again: the new connection owns the session, the old one is gone.

mod support;

use Version::{V3, V4, V5};
use support::{Broker, Client, Connect, Publish, Version, in_both_modes};

#[test]
fn the_old_connection_is_told_and_closed() {
    //= MQTT5-3.1.4-3, MQTT5-3.14.4-1, MQTT5-3.14.4-2, MQTT311-3.1.4-2
    in_both_modes(|broker| {
        for version in [V3, V4, V5] {
            for first in [Connect::new(version, "a"), Connect::persistent(version, "a")] {
                let (mut old, _) = first.open(broker);
                let mut new = Client::connect(broker, version, "a");
                old.expect_end(&[0x8E]);
                new.ping();
            }
        }
    });
}

#[test]
fn the_end_of_the_old_connection_does_not_touch_the_new_one() {
    //= B10
    in_both_modes(|broker| {
        let (old, _) = Connect::persistent(V4, "a").open(broker);
        let (mut new, accepted) = Connect::persistent(V4, "a").open(broker);
        assert!(accepted.session_present);
        new.subscribe("t", 1);
        // Its FIN comes only now.
        drop(old);
        new.send_hex("C0 00");
        new.expect_hex("D0 00");
        new.say("t", "alive", 1);
        new.expect("t", "alive");
    });
}

#[test]
fn a_reset_of_the_old_connection_does_not_touch_the_new_one() {
    //= B10
    in_both_modes(|broker| {
        let (old, _) = Connect::persistent(V5, "a").open(broker);
        let (mut new, accepted) = Connect::persistent(V5, "a").open(broker);
        assert!(accepted.session_present);
        old.reset();
        new.subscribe("t", 2);
        new.say("t", "alive", 2);
        new.expect("t", "alive");
    });
}

#[test]
fn subscriptions_and_waiting_messages_go_with_the_session() {
    //= MQTT5-3.1.2-5, MQTT311-3.1.2-4
    in_both_modes(|broker| {
        for (version, id) in [(V4, "a"), (V5, "b")] {
            let (mut old, _) = Connect::persistent(version, id).open(broker);
            old.subscribe("t", 1);
            let mut publisher = Client::connect(broker, version, "publisher");
            publisher.say("t", "one", 1);
            let first = old.expect_message();
            let (mut new, accepted) = Connect::persistent(version, id).open(broker);
            assert!(accepted.session_present);
            let again = new.expect("t", "one");
            assert!(again.dup);
            assert_eq!(again.id, first.id);
            publisher.say("t", "two", 1);
            new.expect("t", "two");
            new.unsubscribe(&["t"]);
        }
    });
}

#[test]
fn a_clean_takeover_throws_the_old_session_away() {
    //= MQTT5-3.1.2-4, MQTT311-3.1.2-6
    in_both_modes(|broker| {
        for version in [V4, V5] {
            let (mut old, _) = Connect::persistent(version, "a").open(broker);
            old.subscribe("t", 1);
            let (mut new, accepted) = Connect::new(version, "a").open(broker);
            assert!(!accepted.session_present);
            old.expect_end(&[0x8E]);
            Client::connect(broker, version, "publisher").say("t", "nobody listens", 1);
            new.subscribe("marker", 1);
            Client::connect(broker, version, "publisher").say("marker", "x", 1);
            new.expect("marker", "x");
        }
    });
}

#[test]
fn what_the_old_connection_still_sends_is_not_handled() {
    //= MQTT5-3.1.4-3, MQTT311-3.1.4-2
    in_both_modes(|broker| {
        let mut watcher = Client::connect(broker, V4, "watcher");
        watcher.subscribe("t", 0);
        let mut old = Client::connect(broker, V4, "a");
        let mut new = Client::connect(broker, V4, "a");
        old.publish(&Publish::new("t", "from the old"));
        old.expect_close();
        new.say("t", "from the new", 0);
        watcher.expect("t", "from the new");
    });
}

#[test]
fn only_the_last_of_many_connections_is_alive() {
    //= B10, MQTT311-3.1.4-2
    in_both_modes(|broker| {
        let mut clients: Vec<Client> =
            (0..50).map(|_| Connect::persistent(V4, "a").open(broker).0).collect();
        let mut last = clients.pop().unwrap();
        clients.iter_mut().for_each(Client::expect_close);
        last.subscribe("t", 1);
        last.say("t", "alive", 1);
        last.expect("t", "alive");
    });
}

/// Everybody connects with one id at once; whoever is last stays.
fn storm(broker: &Broker) {
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let mut client = Client::open(broker, V4);
                    client.send(&Connect::persistent(V4, "a").encode());
                    // Taken over at once, it may be closed before its CONNACK leaves.
                    client.receive(support::PATIENCE);
                }
            });
        }
    });
}

#[test]
fn a_storm_of_takeovers_leaves_one_session_that_works() {
    in_both_modes(|broker| {
        storm(broker);
        let (mut client, accepted) = Connect::persistent(V4, "a").open(broker);
        assert!(accepted.session_present);
        client.subscribe("t", 2);
        client.say("t", "alive", 2);
        client.expect("t", "alive");
        client.ping_without_messages();
    });
}

#[test]
fn another_version_takes_over_as_well() {
    //= MQTT5-3.1.4-3
    in_both_modes(|broker| {
        let mut five = Client::connect(broker, V5, "a");
        let mut four = Client::connect(broker, V4, "a");
        five.expect_end(&[0x8E]);
        let mut five = Client::connect(broker, V5, "a");
        four.expect_close();
        five.ping();
    });
}
