//! Start, Connect, `SessionDown` and `SessionEnd`: which session a client has.

use super::fold::{Fold, MESSAGE, Q1, Q2, will};
use crate::counters::Ignored;
use crate::deadline::Due;
use crate::record::Closing;
use crate::session::{JUMP, Link, NEVER, Session};
use crate::testing::session;

#[test]
fn a_connect_with_a_new_number_begins_afresh() {
    //= MQTT5-3.1.2-4
    //= MQTT5-3.1.2-6
    //= MQTT311-3.1.2-6
    let mut fold = Fold::new();
    assert_eq!(fold.connect(1, "ada"), ["opened s1 ada"]);
    fold.subscribe(1, 3, "a/#");
    fold.publish(&MESSAGE, &[(1, Q1)]);
    assert_eq!(
        fold.connect(2, "ada"),
        ["released @3", "unsubscribed s1 f3 a/#", "ended s1 ada", "opened s2 ada"]
    );
    assert!(fold.state.session(session(1)).is_none());
    assert!(fold.session(2).subscriptions().is_empty() && fold.session(2).queue().is_empty());
    assert_eq!(fold.state.session_of("ada").map(Session::number), Some(session(2)));
    assert_eq!(fold.state.next_session(), 3);
    // What was decided for the old session never reaches the new one.
    assert!(fold.publish(&MESSAGE, &[(1, Q1)]).is_empty());
    assert_eq!(fold.state.counters().get(Ignored::UnknownSession), 1);
}

#[test]
fn a_connect_with_the_same_number_resumes() {
    //= MQTT5-3.1.2-5
    //= MQTT5-3.1.2-23
    //= MQTT311-3.1.2-4
    //= MQTT311-3.1.2-5
    //= MQTT311-4.1.0-1
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    fold.subscribe(1, 0, "a");
    fold.publish(&super::fold::Message { from: Some((1, Some(7))), ..MESSAGE }, &[]);
    assert_eq!(fold.down(1, 0), ["down s1"]);
    assert_eq!(fold.publish(&MESSAGE, &[(1, Q1)]), ["queued s1 q1 @5 qos 1"]);
    assert_eq!(fold.connect_with(1, "ada", 60, None), ["resumed s1"]);
    let resumed = fold.session(1);
    assert_eq!((resumed.link(), resumed.expiry_s()), (Link::Up, 60));
    assert_eq!((resumed.subscriptions().len(), resumed.inbound().len()), (1, 1));
    assert_eq!(fold.queue(1), [1]);
}

#[test]
fn a_number_in_use_opens_nothing() {
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    assert!(fold.connect(1, "bob").is_empty());
    assert!(fold.state.session_of("bob").is_none());
    // Nor one whose session left something to a group.
    fold.subscribe(1, 0, "$share/g/t");
    fold.end(1);
    assert!(fold.connect(1, "bob").is_empty());
    assert_eq!(fold.state.counters().get(Ignored::NumberInUse), 2);
}

#[test]
fn a_session_that_is_down_ends_at_its_time() {
    //= MQTT5-4.1.0-2
    //= MQTT5-3.1.2-23
    let mut fold = Fold::new();
    fold.time_ms = 500;
    fold.connect_with(1, "ada", 10, None);
    fold.connect(2, "bob");
    assert_eq!(fold.state.next_deadline(), None, "nothing is due for who is up");
    fold.down(1, 0);
    fold.down(2, 0);
    assert_eq!(fold.state.next_deadline(), Some(10_500));
    assert_eq!(fold.state.due(10_499).count(), 0);
    let due: Vec<_> = fold.state.due(u64::MAX).cloned().collect();
    assert_eq!(due, [Due::SessionEnd { session: session(1) }], "the other never ends");
    assert_eq!(fold.end(1), ["ended s1 ada"]);
    assert_eq!(fold.state.next_deadline(), None);
}

#[test]
fn a_disconnect_may_name_another_expiry() {
    let mut fold = Fold::new();
    fold.connect_with(1, "ada", NEVER, None);
    fold.down_with(1, 0, false, Some(3));
    assert_eq!(fold.state.next_deadline(), Some(3000));
    fold.connect_with(1, "ada", 60, None);
    assert_eq!(fold.state.next_deadline(), None);
    fold.down_with(1, 0, false, Some(0));
    assert_eq!(fold.session(1).ends_ms(), Some(0), "at once");
}

#[test]
fn a_session_goes_down_once() {
    let mut fold = Fold::new();
    fold.connect_with(1, "ada", 10, None);
    fold.down(1, 0);
    fold.time_ms = 5000;
    assert!(fold.down_with(1, 0, false, Some(99)).is_empty());
    assert_eq!(fold.session(1).ends_ms(), Some(10_000));
    assert_eq!(fold.state.counters().get(Ignored::WrongLink), 1);
}

/// The broker is killed: who was up is down from the start, volatile sessions have ended, and
/// numbers jump so that what was sent above the log names nothing else.
#[test]
fn a_start_takes_sessions_down_and_ends_volatile_ones() {
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    fold.connect_with(2, "bob", 0, Some(will(0)));
    fold.connect(3, "cyd");
    fold.publish(&MESSAGE, &[(1, Q1), (2, Q1), (3, Q2)]);
    fold.down(3, 1);
    fold.time_ms = 70;
    assert_eq!(fold.start(true), ["down s1", "will due s2 @2 70", "released @4", "ended s2 bob"]);
    assert_eq!(fold.session(1).link(), Link::Down { since_ms: 70 });
    assert_eq!(fold.session(1).queue().last().get(), 1 + JUMP);
    assert_eq!(fold.session(3).link(), Link::Down { since_ms: 0 });
    assert_eq!(fold.session(3).queue().last().get(), 1, "who was down sent nothing early");
    assert_eq!(fold.queue(1), [1]);
    assert_eq!(fold.publish(&MESSAGE, &[(1, Q1)]), ["queued s1 q32770 @7 qos 1"]);
}

#[test]
fn a_new_leader_starts_without_a_jump() {
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    fold.publish(&MESSAGE, &[(1, Q2)]);
    assert_eq!(fold.start(false), ["down s1"]);
    assert_eq!(fold.session(1).queue().last().get(), 1);
    assert_eq!(fold.session(1).queue().dup_through().get(), 1, "it may have been sent");
}

/// A second connection takes over and nobody says how far the first had come: the record may be
/// all that a follower sees.
#[test]
fn a_takeover_leaves_in_doubt_what_the_old_connection_sent() {
    //= MQTT5-3.1.4-3
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    for _ in 0..12 {
        fold.publish(&MESSAGE, &[(1, Q2)]);
    }
    fold.connect(1, "ada");
    let queue = fold.session(1).queue();
    assert_eq!((queue.dup_through().get(), queue.doubtful().get()), (12, 10), "its window");
    assert_eq!(queue.last().get(), 12, "no jump: nothing was lost");
}

#[test]
fn what_an_ended_session_held_is_let_go() {
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    for qos in [Q1, Q2, Q2] {
        fold.publish(&MESSAGE, &[(1, qos)]);
    }
    fold.receipt(1, Closing::Taken, 2, 2);
    assert_eq!(fold.end(1), ["released @2", "released @4", "ended s1 ada"]);
    assert!(fold.end(1).is_empty());
    assert!(fold.state.references().is_empty());
}
