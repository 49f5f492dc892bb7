//! Wills: when they are due, what takes them back, and that each goes once.

use super::fold::{Fold, MESSAGE, Message, Q1, will};
use crate::counters::Ignored;
use crate::deadline::Due;
use crate::testing::session;

fn publish_will(fold: &mut Fold, n: u64) -> Vec<String> {
    fold.publish(&Message { will_of: Some(n), topic: "w", ..MESSAGE }, &[])
}

fn due(fold: &Fold) -> Vec<Due> {
    fold.state.due(u64::MAX).cloned().collect()
}

#[test]
fn a_will_is_due_when_the_connection_ends_and_goes_once() {
    //= MQTT5-3.1.2-7
    //= MQTT5-3.1.2-8
    //= MQTT5-3.1.2-10
    //= MQTT311-3.1.2-8
    //= MQTT311-3.1.2-10
    let mut fold = Fold::new();
    assert_eq!(fold.connect_with(1, "ada", 60, Some(will(0))), ["opened s1 ada", "will s1 @1"]);
    fold.time_ms = 9;
    assert_eq!(fold.down(1, 0), ["down s1", "will due s1 @1 9"]);
    assert_eq!(publish_will(&mut fold, 1), ["released @1"]);
    assert!(fold.session(1).will().is_none());
    assert!(publish_will(&mut fold, 1).is_empty());
    assert_eq!(fold.state.counters().get(Ignored::UnknownWill), 1);
}

#[test]
fn a_disconnect_takes_the_will_back() {
    //= MQTT5-3.1.2-10
    //= MQTT5-3.14.4-3
    //= MQTT311-3.14.4-3
    let mut fold = Fold::new();
    fold.connect_with(1, "ada", 60, Some(will(0)));
    assert_eq!(fold.down_with(1, 0, true, None), ["released @1", "down s1"]);
    assert_eq!(due(&fold), [Due::SessionEnd { session: session(1) }]);
}

#[test]
fn a_will_waits_for_its_delay_or_the_end_of_the_session() {
    //= MQTT5-3.1.2-8
    for (delay_s, expiry_s, due_ms) in
        [(5, 60, 5000), (60, 5, 5000), (60, u32::MAX, 60_000), (9, 0, 0), (0, 9, 0)]
    {
        let mut fold = Fold::new();
        fold.connect_with(1, "ada", expiry_s, Some(will(delay_s)));
        let told = format!("will due s1 @1 {due_ms}");
        assert_eq!(fold.down(1, 0), ["down s1".to_owned(), told]);
        // Of two things due together the will comes first.
        assert!(matches!(due(&fold)[0], Due::Will { .. }), "{delay_s} of {expiry_s}");
    }
}

#[test]
fn a_client_that_is_back_in_time_has_no_will_published() {
    //= MQTT5-3.1.3-9
    let mut fold = Fold::new();
    fold.connect_with(1, "ada", 60, Some(will(5)));
    fold.down(1, 0);
    fold.time_ms = 4999;
    assert_eq!(fold.connect_with(1, "ada", 60, None), ["released @1", "resumed s1"]);
    assert_eq!(due(&fold), []);
}

/// The lane had no time to publish the will before its client was back: its time had come.
#[test]
fn a_client_that_is_back_too_late_does_not_stop_it() {
    //= MQTT5-3.1.2-8
    let mut fold = Fold::new();
    fold.connect_with(1, "ada", 60, Some(will(5)));
    fold.down(1, 0);
    fold.time_ms = 5000;
    assert_eq!(
        fold.connect_with(1, "ada", 60, Some(will(0))),
        ["will due s1 @1 5000", "resumed s1", "will s1 @3"]
    );
    let lsn = zzq_types::Lsn::new(1);
    assert_eq!(due(&fold), [Due::Will { session: session(1), lsn }]);
    // The older will is the one that is published; the newer stays.
    assert_eq!(publish_will(&mut fold, 1), ["released @1"]);
    assert_eq!(fold.session(1).will().map(|will| will.lsn.get()), Some(3));
    assert_eq!(due(&fold), []);
}

/// A report against another broker: no will on takeover with a delay of 0.
#[test]
fn a_takeover_sends_a_will_without_delay() {
    //= MQTT5-3.1.2-8
    //= MQTT311-3.1.2-8
    let mut fold = Fold::new();
    fold.connect_with(1, "ada", 60, Some(will(0)));
    assert_eq!(fold.connect_with(1, "ada", 60, None), ["will due s1 @1 0", "resumed s1"]);
    assert_eq!(publish_will(&mut fold, 1), ["released @1"]);
    // With a delay the new connection is in time.
    fold.connect_with(2, "bob", 60, Some(will(1)));
    assert_eq!(fold.connect_with(2, "bob", 60, None), ["released @4", "resumed s2"]);
}

#[test]
fn a_session_that_ends_sends_its_will_at_once() {
    //= MQTT5-3.1.2-8
    let mut fold = Fold::new();
    fold.connect_with(1, "ada", 60, Some(will(30)));
    fold.down(1, 0);
    fold.time_ms = 100;
    assert_eq!(
        fold.connect_with(2, "ada", 60, None),
        ["will due s1 @1 100", "ended s1 ada", "opened s2 ada"]
    );
    assert_eq!(fold.state.detached_wills().count(), 1);
    assert_eq!(publish_will(&mut fold, 1), ["released @1"]);
    assert_eq!(fold.state.detached_wills().count(), 0);
}

#[test]
fn a_crash_makes_wills_due() {
    //= MQTT5-3.1.2-8
    let mut fold = Fold::new();
    fold.connect_with(1, "ada", 60, Some(will(2)));
    fold.connect_with(2, "bob", 0, Some(will(2)));
    fold.time_ms = 10;
    assert_eq!(
        fold.start(true),
        ["down s1", "will due s1 @1 2010", "will due s2 @2 10", "ended s2 bob"]
    );
}

#[test]
fn a_will_is_set_and_taken_back_while_the_session_is_up() {
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    assert_eq!(fold.will_set(1, Some(will(0))), ["will s1 @2"]);
    assert_eq!(fold.will_set(1, Some(will(0))), ["released @2", "will s1 @3"]);
    assert_eq!(fold.will_set(1, None), ["released @3"]);
    fold.down(1, 0);
    assert!(fold.will_set(1, Some(will(0))).is_empty(), "nobody is there to set one");
    assert_eq!(fold.state.counters().get(Ignored::WrongLink), 1);
}

#[test]
fn a_will_is_a_message_like_others() {
    //= MQTT5-3.1.2-14
    //= MQTT311-3.1.2-16
    //= MQTT311-3.1.2-17
    let mut fold = Fold::new();
    fold.connect_with(1, "ada", 60, Some(will(0)));
    fold.connect(2, "bob");
    fold.down(1, 0);
    let message = Message { will_of: Some(1), topic: "w", retain: true, ..MESSAGE };
    assert_eq!(
        fold.publish(&message, &[(2, Q1)]),
        ["released @1", "retained w @4", "queued s2 q1 @4 qos 1"]
    );
    fold.publish(&Message { retain: false, ..message }, &[]);
    assert_eq!(fold.state.retained().len(), 1);
}
