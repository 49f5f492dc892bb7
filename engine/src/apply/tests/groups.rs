//! Subscriptions and shared groups: what a session subscribes to, and what it leaves.

use super::fold::{Fold, Q1, Q2};
use crate::counters::Ignored;
use crate::number::SubNumber;
use crate::record::Closing;
use crate::testing::session;

const GROUP: &str = "$share/g/t";

/// Two members: ada (session 1, subscription 4) and bob (session 2, subscription 8).
fn members() -> Fold {
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    fold.subscribe(1, 4, GROUP);
    fold.connect(2, "bob");
    fold.subscribe(2, 8, GROUP);
    fold
}

fn orphans(fold: &Fold, n: u64) -> Vec<(u64, u64, String)> {
    let ended = fold.state.ended(session(n)).expect("it left something");
    let all = ended.orphans();
    all.map(|(number, orphan, filter)| (number.get(), orphan.lsn.get(), filter.to_owned()))
        .collect()
}

#[test]
fn a_subscription_is_made_replaced_and_removed() {
    //= MQTT5-3.8.4-3
    //= MQTT5-3.10.4-1
    //= MQTT311-3.8.4-3
    //= MQTT311-3.10.4-1
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    assert_eq!(fold.subscribe(1, 2, "a"), ["subscribed s1 f2 a"]);
    assert_eq!(fold.subscribe(1, 7, "a"), ["replaced s1 f2 a"], "it keeps its number");
    let sub = fold.session(1).subscriptions().get("a").copied().unwrap();
    assert_eq!(sub.id.map(zzq_types::SubscriptionId::get), Some(7), "the rest is new");
    assert!(fold.subscribe(1, 2, "b").is_empty(), "a number is never used again");
    assert_eq!(fold.subscribe(1, 3, "b"), ["subscribed s1 f3 b"]);
    assert_eq!(fold.session(1).next_subscription(), SubNumber::new(4));
    assert!(fold.unsubscribe(1, "A").is_empty());
    assert_eq!(fold.unsubscribe(1, "a"), ["unsubscribed s1 f2 a"]);
    assert!(fold.unsubscribe(1, "a").is_empty());
    let ignored = fold.state.counters();
    assert_eq!(ignored.get(Ignored::StaleSubscription), 1);
    assert_eq!(ignored.get(Ignored::UnknownFilter), 2);
}

/// A report against another broker: the unanswered messages of a member that ended were dropped.
#[test]
fn what_a_member_did_not_answer_waits_for_another() {
    let mut fold = members();
    fold.publish_picked(1, Q1, 4);
    fold.publish_picked(1, Q2, 4);
    fold.publish_picked(1, Q1, 4);
    fold.receipt(1, Closing::Closed, 1, 1);
    fold.down(1, 1);
    assert_eq!(fold.end(1), ["unsubscribed s1 f4 $share/g/t", "ended s1 ada", "orphans s1"]);
    assert_eq!(orphans(&fold, 1), [(2, 6, GROUP.to_owned()), (3, 7, GROUP.to_owned())]);
    // Each is given on: the new place holds it before the old one lets it go.
    assert_eq!(
        fold.late(2, 6, Some(8), Some((1, 2))),
        ["queued s2 q1 @6 qos 1 late", "released @6"]
    );
    assert_eq!(
        fold.late(2, 7, Some(8), Some((1, 3))),
        ["queued s2 q2 @7 qos 1 late", "released @7"]
    );
    assert_eq!(orphans(&fold, 1), []);
    assert!(fold.forget(1).is_empty());
    assert!(fold.state.ended(session(1)).is_none());
    // The new member ends too: they wait again.
    fold.down(2, 0);
    fold.end(2);
    assert_eq!(orphans(&fold, 2).len(), 2);
    assert_eq!(fold.forget(2), ["released @6", "released @7"], "nobody is left");
}

#[test]
fn nobody_else_gets_what_may_have_been_sent_at_qos_2() {
    //= MQTT5-4.8.2-4
    //= MQTT5-4.8.2-5
    let mut fold = members();
    for qos in [Q2, Q1, Q2, Q2] {
        fold.publish_picked(1, qos, 4);
    }
    fold.receipt(1, Closing::Taken, 1, 1);
    fold.down(1, 3);
    let effects = fold.end(1);
    assert_eq!(effects[0], "released @7", "sent, and nobody knows whether it came");
    assert_eq!(orphans(&fold, 1), [(2, 6, GROUP.to_owned()), (4, 8, GROUP.to_owned())]);
}

/// The picks of a member that ended are applied behind its end: they were decided before other
/// lanes knew.
#[test]
fn a_pick_behind_the_end_of_its_session_waits_too() {
    let mut fold = members();
    fold.down(1, 0);
    assert_eq!(fold.end(1), ["unsubscribed s1 f4 $share/g/t", "ended s1 ada"]);
    assert_eq!(fold.publish_picked(1, Q2, 4), ["orphaned s1 q1 @7"]);
    assert!(fold.publish_picked(1, Q1, 5).is_empty(), "no such share");
    assert_eq!(fold.late(2, 7, Some(8), Some((1, 1))).len(), 2);
    // A late decision, too, may find that its member has ended.
    fold.down(2, 0);
    fold.end(2);
    assert_eq!(fold.late(2, 7, Some(8), None), ["orphaned s2 q2 @7"]);
    assert_eq!(orphans(&fold, 2), [(1, 7, GROUP.to_owned()), (2, 7, GROUP.to_owned())]);
}

#[test]
fn a_member_that_unsubscribed_keeps_its_picks_and_leaves_them_to_the_group() {
    //= MQTT5-3.10.4-2
    //= MQTT5-3.10.4-3
    let mut fold = members();
    fold.publish_picked(1, Q1, 4);
    fold.unsubscribe(1, GROUP);
    assert_eq!(fold.queue(1), [1]);
    assert_eq!(fold.publish_picked(1, Q1, 4), ["queued s1 q2 @7 qos 1"], "decided before");
    fold.subscribe(1, 5, GROUP);
    fold.publish_picked(1, Q1, 5);
    fold.connect(3, "ada");
    assert_eq!(orphans(&fold, 1).len(), 3);
}

#[test]
fn what_is_left_of_subscriptions_is_bounded_but_for_picks_that_wait() {
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    fold.subscribe(1, 0, GROUP);
    fold.publish_picked(1, Q1, 0);
    fold.unsubscribe(1, GROUP);
    for number in 1..100 {
        fold.subscribe(1, number, GROUP);
        fold.unsubscribe(1, GROUP);
    }
    let numbers: Vec<u32> = fold.session(1).left().iter().map(|(left, _)| left.get()).collect();
    assert_eq!(numbers.len(), 16);
    assert_eq!((numbers[0], numbers[15]), (0, 99));
    assert_eq!(fold.session(1).shared_filter(SubNumber::new(0)), Some(GROUP));
}

#[test]
fn a_start_forgets_who_ended_without_orphans() {
    let mut fold = members();
    fold.publish_picked(1, Q1, 4);
    fold.down(1, 0);
    fold.end(1);
    fold.down(2, 0);
    fold.end(2);
    fold.start(true);
    assert!(fold.state.ended(session(2)).is_none());
    assert_eq!(orphans(&fold, 1).len(), 1);
    assert_eq!(fold.receipt(1, Closing::Expired, 1, 1), ["released @5"]);
    fold.start(true);
    assert_eq!(fold.state.all_ended().count(), 0);
}

#[test]
fn what_came_by_no_pick_ends_with_its_session() {
    let mut fold = members();
    fold.publish(&super::fold::MESSAGE, &[(1, Q1)]);
    assert_eq!(
        fold.connect(3, "ada"),
        ["released @5", "unsubscribed s1 f4 $share/g/t", "ended s1 ada", "opened s3 ada"]
    );
}

/// A volatile session joins a group that owns its messages. The lane has known it for long, the
/// log learns of it now; from then on both give the same numbers, and a crash leaves what was
/// picked for it to the group.
#[test]
fn a_volatile_member_joins_the_log() {
    let mut fold = Fold::new();
    let mut live = Fold::new();
    for fold in [&mut fold, &mut live] {
        fold.connect(2, "bob");
        fold.subscribe(2, 0, GROUP);
    }
    let at = live.lsn;
    live.unlogged(|live| {
        live.connect_with(1, "ada", 0, None);
        live.publish(&super::fold::MESSAGE, &[(1, Q1)]);
        live.publish(&super::fold::MESSAGE, &[(1, Q2)]);
    });
    assert_eq!(live.lsn, at);
    let joined = live.join(1, "ada", 1000);
    assert!(joined.is_empty(), "{joined:?}");
    assert_eq!(fold.join(1, "ada", 1000), ["opened s1 ada"]);
    assert_eq!(live.queue(1), [1, 2], "what waits is not touched");
    for fold in [&mut fold, &mut live] {
        fold.subscribe(1, 0, GROUP);
        assert_eq!(fold.publish_picked(1, Q1, 0), ["queued s1 q1001 @5 qos 1"]);
        fold.start(true);
        assert_eq!(orphans(fold, 1), [(1001, 5, GROUP.to_owned())]);
    }
}
