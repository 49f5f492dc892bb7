//! Publish, Release, Receipt, Expire: how messages come in and leave.

use zzq_types::{Lsn, PacketId, SubscriptionId};

use super::fold::{Fold, MESSAGE, Message, Q0, Q1, Q2, range};
use crate::counters::Ignored;
use crate::deadline::Due;
use crate::decision::DecisionBuf;
use crate::number::QueueNumber;
use crate::record::Closing;
use crate::testing::{session, topic};

#[test]
fn each_destination_gets_the_message_at_its_own_qos() {
    //= MQTT5-4.5.0-1
    //= MQTT5-3.8.4-8
    //= MQTT311-4.5.0-1
    //= MQTT311-3.8.4-6
    let mut fold = Fold::new();
    for (n, client) in [(1, "ada"), (2, "bob"), (3, "cyd"), (4, "dan")] {
        fold.connect(n, client);
    }
    fold.down(4, 0);
    let to = [(1, Q0), (2, Q1), (3, Q2), (4, Q0), (4, Q1)];
    assert_eq!(
        fold.publish(&MESSAGE, &to),
        [
            "deliver s1 @6 retain false ids 0",
            "queued s2 q1 @6 qos 1",
            "queued s3 q1 @6 qos 2",
            "queued s4 q1 @6 qos 1",
        ]
    );
    assert_eq!(fold.state.references(), [(Lsn::new(6), 3)].into());
}

#[test]
fn a_delivery_carries_its_flags_and_identifiers() {
    //= MQTT5-3.3.4-3
    //= MQTT5-3.3.4-4
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    let ids = [9, 3].map(|id| SubscriptionId::new(id).unwrap());
    let mut decision = DecisionBuf::new();
    decision.push(session(1), Q0, true, None, ids);
    decision.push(session(1), Q1, true, None, ids);
    assert_eq!(
        fold.publish_decided(&MESSAGE, decision.as_decision()),
        ["deliver s1 @2 retain true ids 2", "queued s1 q1 @2 qos 1"]
    );
    let queue = fold.session(1).queue();
    let number = QueueNumber::new(1);
    assert!(queue.get(number).is_some_and(|waiting| waiting.retain));
    assert_eq!(queue.ids(number).into_iter().collect::<Vec<_>>(), ids, "in their order");
}

/// All orders of a publish, its repeat and its release, for two identifiers.
#[test]
fn an_identifier_is_published_once_until_it_is_released() {
    //= MQTT5-4.3.3-10
    //= MQTT5-4.3.3-11
    //= MQTT5-4.3.3-12
    //= MQTT311-4.3.3-2
    for history in 0..4_u32.pow(5) {
        let mut fold = Fold::new();
        fold.connect(1, "ada");
        fold.connect(2, "bob");
        let mut open = std::collections::BTreeSet::new();
        let (mut rest, mut delivered) = (history, 0);
        for _ in 0..5 {
            let id = u16::try_from(rest / 2 % 2 + 1).unwrap();
            if rest % 2 == 0 {
                let message = Message { from: Some((1, Some(id))), ..MESSAGE };
                let effects = fold.publish(&message, &[(2, Q2)]);
                let new = open.insert(id);
                assert_eq!(effects.len(), usize::from(new), "history {history}");
                delivered += usize::from(new);
            } else {
                fold.release(1, id);
                open.remove(&id);
            }
            rest /= 4;
            let inbound = fold.session(1).inbound();
            assert!(inbound.iter().map(PacketId::get).eq(open.iter().copied()));
        }
        assert_eq!(fold.session(2).queue().len(), delivered, "history {history}");
        let ignored = fold.state.counters();
        let repeats = ignored.get(Ignored::RepeatedPublish);
        let frees = ignored.get(Ignored::UnknownIdentifier);
        assert!(repeats + frees <= 5);
    }
}

#[test]
fn identifiers_of_a_publisher_that_ended_are_free() {
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    fold.connect(3, "bob");
    let from = |n| Message { from: Some((n, Some(5))), ..MESSAGE };
    fold.publish(&from(1), &[(3, Q2)]);
    fold.connect(2, "ada");
    assert_eq!(fold.publish(&from(2), &[(3, Q2)]), ["queued s3 q2 @5 qos 2"]);
    assert!(fold.release(1, 5).is_empty());
    assert!(fold.session(2).inbound().contains(PacketId::new(5).unwrap()), "not the new one's");
}

#[test]
fn receipts_take_and_close() {
    //= MQTT5-4.3.2-3
    //= MQTT5-4.3.3-3
    //= MQTT5-4.3.3-5
    //= MQTT5-4.4.0-2
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    for qos in [Q1, Q2, Q2] {
        fold.publish(&MESSAGE, &[(1, qos)]);
    }
    assert_eq!(fold.receipt(1, Closing::Closed, 1, 1), ["released @2"]);
    assert_eq!(fold.receipt(1, Closing::Taken, 2, 2), ["released @3"]);
    assert_eq!(fold.queue(1), [2, 3], "a PUBREL is owed");
    assert!(fold.receipt(1, Closing::Closed, 2, 2).is_empty(), "nothing more is held");
    assert_eq!(fold.receipt(1, Closing::Closed, 3, 3), ["released @4"], "a PUBREC that refuses");
    assert!(fold.session(1).queue().is_empty());
    assert!(fold.receipt(1, Closing::Closed, 1, 9).is_empty());
    assert!(fold.receipt(7, Closing::Closed, 1, 9).is_empty());
    assert_eq!(fold.state.counters().total(), 1, "only the session is unknown");
}

#[test]
fn what_expired_leaves_an_offline_session_unless_it_may_have_been_sent() {
    //= MQTT5-3.3.2-5
    //= MQTT5-4.3.3-7
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    let short = Message { expiry_s: Some(10), ..MESSAGE };
    for qos in [Q2, Q1, Q2] {
        fold.publish(&short, &[(1, qos)]);
    }
    fold.publish(&MESSAGE, &[(1, Q1)]);
    fold.down(1, 1);
    assert_eq!(fold.state.next_deadline(), Some(10_000));
    let due: Vec<_> = fold.state.due(10_000).cloned().collect();
    assert_eq!(due, [Due::Messages { session: session(1) }]);
    let expired = fold.state.expired(session(1), 10_000, QueueNumber::ZERO);
    assert_eq!(expired, [range(2, 3)]);
    assert_eq!(
        fold.receipt(1, Closing::Expired, 1, 4),
        ["released @3", "released @4", "released @5"]
    );
    assert_eq!(fold.queue(1), [1]);
    assert_eq!(fold.state.counters().get(Ignored::MayHaveBeenSent), 1);
    assert_eq!(fold.state.next_deadline(), None);
}

#[test]
fn expiry_counts_from_the_time_of_the_record() {
    //= MQTT5-3.3.2-6
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    fold.time_ms = 7000;
    fold.publish(&Message { expiry_s: Some(3), retain: true, ..MESSAGE }, &[(1, Q1)]);
    assert_eq!(fold.session(1).queue().expires_ms(QueueNumber::new(1)), Some(10_000));
    let retained = fold.state.retained().get(topic("t")).unwrap();
    assert_eq!((retained.time_ms, retained.expiry), (7000, Some(3)));
}

#[test]
fn a_retained_message_is_the_last_one_and_an_empty_one_removes_it() {
    //= MQTT5-3.3.1-5
    //= MQTT5-3.3.1-6
    //= MQTT5-3.3.1-7
    //= MQTT5-3.3.1-8
    //= MQTT311-3.3.1-5
    //= MQTT311-3.3.1-10
    //= MQTT311-3.3.1-11
    //= MQTT311-3.3.1-12
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    let retained = Message { retain: true, ..MESSAGE };
    assert_eq!(fold.publish(&retained, &[]), ["retained t @2"]);
    assert_eq!(fold.publish(&retained, &[]), ["retained t @3", "released @2"]);
    assert!(fold.publish(&MESSAGE, &[]).is_empty(), "without the flag nothing changes");
    let empty = Message { payload: b"", ..retained };
    assert_eq!(
        fold.publish(&empty, &[(1, Q1)]),
        ["unretained t", "released @3", "queued s1 q1 @5 qos 1"]
    );
    assert!(fold.publish(&empty, &[]).is_empty());
    assert!(fold.state.retained().is_empty());
}

#[test]
fn retained_messages_outlive_who_published_them() {
    //= MQTT311-3.1.2-7
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    fold.publish(&Message { retain: true, from: Some((1, None)), ..MESSAGE }, &[]);
    fold.end(1);
    assert_eq!(fold.state.retained().len(), 1);
}

#[test]
fn only_the_retained_message_that_is_meant_expires() {
    //= MQTT5-3.3.2-5
    let mut fold = Fold::new();
    let short = Message { retain: true, expiry_s: Some(1), ..MESSAGE };
    fold.publish(&short, &[]);
    assert_eq!(
        fold.state.due(1000).cloned().collect::<Vec<_>>(),
        [Due::Retained { topic: "t".into() }]
    );
    // It is replaced while the record that expires it is under way.
    fold.publish(&short, &[]);
    assert!(fold.expire_topic("t", 1).is_empty());
    assert_eq!(fold.state.counters().get(Ignored::UnknownRetained), 1);
    assert_eq!(fold.expire_topic("t", 2), ["unretained t", "released @2"]);
    assert_eq!(fold.state.next_deadline(), None);
}
