//! Sessions: whether there is one at CONNECT, what it is of, and when it ends.

mod support;

use Version::{V3, V4, V5};
use support::{Client, Connect, Version, in_both_modes};

#[test]
fn session_present_tells_whether_there_was_a_session() {
    //= MQTT5-3.1.2-4, MQTT5-3.1.2-5, MQTT5-3.1.2-6, MQTT5-3.1.4-4, MQTT5-3.2.2-2, MQTT5-3.2.2-3
    //= MQTT311-3.1.2-4, MQTT311-3.1.2-6, MQTT311-3.1.4-3, MQTT311-3.2.2-1, MQTT311-3.2.2-2
    //= MQTT311-3.2.2-3, MQTT311-4.1.0-1, MQTT5-3.1.2-23, MQTT5-4.1.0-1
    in_both_modes(|broker| {
        for (version, id) in [(V4, "four"), (V5, "five")] {
            let persistent = Connect::persistent(version, id);
            let open = |connect: &Connect| {
                let (client, accepted) = connect.open(broker);
                client.disconnect();
                accepted.session_present
            };
            assert!(!open(&persistent), "nothing there");
            assert!(open(&persistent), "left behind");
            assert!(open(&persistent), "and still there");
            assert!(!open(&Connect::new(version, id)), "thrown away");
            assert!(!open(&persistent), "a clean session leaves nothing");
        }
    });
}

#[test]
fn the_first_version_has_no_session_present() {
    in_both_modes(|broker| {
        for _ in 0..2 {
            let mut client = Client::open(broker, V3);
            client.send(&Connect::persistent(V3, "three").encode());
            client.expect_hex("20 02 00 00");
            client.disconnect();
        }
    });
}

#[test]
fn sessions_of_other_versions_are_gone_on_with() {
    //= MQTT5-3.1.3-2, MQTT311-3.1.3-2
    in_both_modes(|broker| {
        let (mut client, _) = Connect::persistent(V4, "a").open(broker);
        client.subscribe("t", 1);
        client.disconnect();
        let (mut client, accepted) = Connect::persistent(V5, "a").open(broker);
        assert!(accepted.session_present);
        client.say("t", "to myself", 1);
        client.expect("t", "to myself");
    });
}

#[test]
fn a_session_without_expiry_ends_with_its_connection() {
    //= MQTT5-4.1.0-2
    in_both_modes(|broker| {
        let (client, _) = Connect::new(V5, "a").resume().open(broker);
        client.disconnect();
        assert!(!Connect::new(V5, "a").resume().open(broker).1.session_present);
    });
}

#[test]
fn a_session_ends_when_its_expiry_has_passed() {
    //= MQTT5-4.1.0-2
    in_both_modes(|broker| {
        let (client, _) = Connect::new(V5, "a").properties("11 00 00 00 01").open(broker);
        client.disconnect();
        std::thread::sleep(std::time::Duration::from_millis(2500));
        assert!(!Connect::persistent(V5, "a").open(broker).1.session_present);
    });
}

#[test]
fn a_session_does_not_end_while_its_connection_lasts() {
    //= MQTT311-4.1.0-2, MQTT5-4.1.0-1
    in_both_modes(|broker| {
        let (mut five, _) = Connect::new(V5, "five").properties("11 00 00 00 01").open(broker);
        let mut four = Client::connect(broker, V4, "four");
        five.subscribe("t", 1);
        four.subscribe("t", 1);
        std::thread::sleep(std::time::Duration::from_millis(2500));
        four.say("t", "still here", 1);
        four.expect("t", "still here");
        five.expect("t", "still here");
    });
}

#[test]
fn disconnect_may_shorten_the_expiry() {
    //= MQTT5-4.1.0-2
    in_both_modes(|broker| {
        let (mut client, _) = Connect::persistent(V5, "a").open(broker);
        client.send_hex("E0 07 00 05 11 00 00 00 00");
        client.finish();
        assert!(!Connect::persistent(V5, "a").open(broker).1.session_present);
    });
}

#[test]
fn disconnect_may_not_give_an_expiry_to_a_session_without_one() {
    //= MQTT5-4.13.2-1
    in_both_modes(|broker| {
        let mut client = Client::connect(broker, V5, "a");
        client.send_hex("E0 07 00 05 11 00 00 00 0A");
        client.expect_end(&[0x82]);
    });
}
