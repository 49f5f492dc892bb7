//! One connection's sending, over the wrap of identifiers, crashes and resumes.

use super::*;
use crate::record::NumberRange;
use crate::session::queue::Incoming;

mod lives;

const Q1: QoS = QoS::AtLeastOnce;
const Q2: QoS = QoS::ExactlyOnce;
const ALL: Lsn = Lsn::new(u64::MAX);

pub(super) fn push(queue: &mut Queue, lsn: u64, qos: QoS) -> QueueNumber {
    let lsn = Lsn::new(lsn);
    queue.push(Incoming { lsn, qos, retain: false, size: 1, late: None, extra: None }).unwrap()
}

fn close(queue: &mut Queue, number: u64) {
    queue.close(NumberRange::one(QueueNumber::new(number)), |_| {});
}

/// Sends all it may; returns the numbers and what stopped it.
fn send_all(out: &mut Outbound, queue: &Queue, committed: Lsn) -> (Vec<u64>, Outgoing) {
    let mut numbers = Vec::new();
    loop {
        let outgoing = out.next(queue, ALL, committed);
        match outgoing {
            Outgoing::Publish { waiting, id, .. } => {
                assert_eq!(id, PacketId::of_queue_number(waiting.number.get()));
                numbers.push(waiting.number.get());
            }
            Outgoing::Release { number, .. } => numbers.push(number.get()),
            _ => return (numbers, outgoing),
        }
        out.sent(&outgoing);
    }
}

fn id(number: u64) -> PacketId {
    PacketId::of_queue_number(number)
}

#[test]
fn the_window_bounds_what_is_unanswered() {
    //= MQTT5-3.3.4-9
    //= MQTT5-4.9.0-2
    let mut queue = Queue::default();
    for lsn in 1..=5 {
        push(&mut queue, lsn, if lsn == 2 { Q2 } else { Q1 });
    }
    let mut out = Outbound::new(&queue, 2);
    assert_eq!(send_all(&mut out, &queue, ALL), (vec![1, 2], Outgoing::Window));
    assert_eq!(out.acknowledged(id(1)), Some(QueueNumber::new(1)));
    assert_eq!(send_all(&mut out, &queue, ALL), (vec![3], Outgoing::Window));
    // A PUBREC gives nothing back, the PUBCOMP does, once the PUBREL was sent.
    assert_eq!(out.received(id(2), false), Received::Taken(QueueNumber::new(2)));
    assert_eq!(send_all(&mut out, &queue, ALL), (vec![], Outgoing::Window));
    assert_eq!(out.completed(id(2)), None);
    out.released(QueueNumber::new(2));
    assert_eq!(out.completed(id(2)), Some(QueueNumber::new(2)));
    assert_eq!(send_all(&mut out, &queue, ALL), (vec![4], Outgoing::Window));
    assert_eq!((out.in_flight(), out.highest_sent().get()), (2, 4));
}

#[test]
fn answers_that_fit_nothing_change_nothing() {
    let mut queue = Queue::default();
    push(&mut queue, 1, Q1);
    push(&mut queue, 2, Q2);
    let mut out = Outbound::new(&queue, 10);
    assert_eq!(out.acknowledged(id(1)), None, "nothing was sent");
    send_all(&mut out, &queue, ALL);
    assert_eq!(out.acknowledged(id(2)), None, "PUBACK for QoS 2");
    assert_eq!(out.received(id(1), false), Received::Unknown, "PUBREC for QoS 1");
    assert_eq!(out.completed(id(2)), None, "PUBCOMP without PUBREL");
    assert_eq!(out.acknowledged(id(3)), None, "an identifier that was not sent");
    assert_eq!(out.acknowledged(PacketId::new(65_535).unwrap()), None);
    assert_eq!(out.acknowledged(id(1)), Some(QueueNumber::new(1)));
    assert_eq!(out.acknowledged(id(1)), None, "a second PUBACK");
    assert_eq!(out.received(id(2), true), Received::Refused(QueueNumber::new(2)));
    assert_eq!(out.received(id(2), false), Received::Unknown, "PUBREC behind a refusal");
    assert_eq!(out.in_flight(), 0);
}

#[test]
fn a_repeated_pubrec_asks_for_the_same_pubrel() {
    let mut queue = Queue::default();
    push(&mut queue, 1, Q2);
    let mut out = Outbound::new(&queue, 10);
    send_all(&mut out, &queue, ALL);
    let number = QueueNumber::new(1);
    assert_eq!(out.received(id(1), false), Received::Taken(number));
    assert_eq!(out.received(id(1), false), Received::Again(number));
    out.released(number);
    assert_eq!(out.received(id(1), true), Received::Again(number), "too late to refuse");
}

#[test]
fn a_resumed_session_gets_pubrel_or_publish_with_dup_in_order() {
    //= MQTT5-4.4.0-1
    //= MQTT5-3.3.1-1
    //= MQTT311-4.4.0-1
    //= MQTT311-3.3.1-1
    let mut queue = Queue::default();
    for (lsn, qos) in [(1, Q1), (2, Q2), (3, Q2), (4, Q1)] {
        push(&mut queue, lsn, qos);
    }
    queue.take(NumberRange::one(QueueNumber::new(2)), |_| {});
    queue.went_down(Some(QueueNumber::new(3)), 10);
    let mut out = Outbound::new(&queue, 10);
    let mut seen = Vec::new();
    loop {
        let outgoing = out.next(&queue, ALL, ALL);
        match outgoing {
            Outgoing::Publish { waiting, dup, .. } => seen.push((waiting.number.get(), dup)),
            Outgoing::Release { number, id } => {
                assert_eq!(id, PacketId::of_queue_number(number.get()));
                seen.push((number.get() + 100, false));
            }
            _ => break,
        }
        out.sent(&outgoing);
    }
    assert_eq!(seen, [(1, true), (102, false), (3, true), (4, false)]);
    assert_eq!(out.in_flight(), 3, "a PUBREL from before is no part of the window");
    assert_eq!(out.completed(id(2)), Some(QueueNumber::new(2)));
    assert_eq!(out.in_flight(), 3);
}

/// Identifiers come round: every number over two wraps is sent exactly when the one before with
/// its identifier is closed for good.
#[test]
fn no_identifier_is_used_twice_at_once() {
    //= MQTT5-2.2.1-4
    //= MQTT5-4.3.2-1
    //= MQTT5-4.3.3-1
    //= MQTT311-2.3.1-4
    let mut queue = Queue::default();
    for lsn in 1..=65_540 {
        push(&mut queue, lsn, Q1);
    }
    let mut out = Outbound::new(&queue, u16::MAX);
    let (sent, stopped) = send_all(&mut out, &queue, ALL);
    assert_eq!((sent.len(), stopped), (65_535, Outgoing::Window));
    // The window has room again, but number 1 is open: 65 536 would have its identifier.
    assert_eq!(out.acknowledged(id(5)), Some(QueueNumber::new(5)));
    close(&mut queue, 5);
    assert_eq!(send_all(&mut out, &queue, ALL), (vec![], Outgoing::Identifier));
    assert_eq!(out.acknowledged(id(1)), Some(QueueNumber::new(1)), "by its identifier");
    close(&mut queue, 1);
    // The receipt is applied at 70 000 and not committed yet.
    assert_eq!(out.next(&queue, Lsn::new(70_000), Lsn::new(69_999)), Outgoing::Identifier);
    let outgoing = out.next(&queue, Lsn::new(70_001), Lsn::new(70_000));
    assert!(
        matches!(outgoing, Outgoing::Publish { waiting, .. } if waiting.number.get() == 65_536)
    );
    out.sent(&outgoing);
    // Its answer closes it and not number 1.
    assert_eq!(out.acknowledged(id(1)), Some(QueueNumber::new(65_536)));
    assert_eq!(send_all(&mut out, &queue, ALL), (vec![], Outgoing::Identifier));
}

#[test]
fn answers_find_their_number_over_every_wrap() {
    for start in (65_500..65_600).chain(131_040..131_100) {
        let mut queue = Queue::with_marks(start, 0, 0, Lsn::ZERO);
        let mut out = Outbound::new(&queue, 100);
        let numbers: Vec<u64> = (1..=100).map(|lsn| push(&mut queue, lsn, Q1).get()).collect();
        assert_eq!(send_all(&mut out, &queue, ALL).0, numbers);
        for &number in numbers.iter().rev() {
            assert_eq!(out.acknowledged(id(number)), Some(QueueNumber::new(number)));
        }
        assert_eq!((out.in_flight(), out.flight.len()), (0, 0));
    }
}

#[test]
fn no_more_is_sent_early_than_a_crash_skips() {
    let mut queue = Queue::default();
    for lsn in 1..=40_000 {
        push(&mut queue, lsn, Q1);
    }
    let mut out = Outbound::new(&queue, u16::MAX);
    let (sent, stopped) = send_all(&mut out, &queue, Lsn::ZERO);
    assert_eq!(sent.len(), 32_767);
    assert_eq!(stopped, Outgoing::Commit(Lsn::new(32_768)));
    // Ten are committed: which ones is known of the first and of the last that were sent.
    let (sent, stopped) = send_all(&mut out, &queue, Lsn::new(10));
    assert_eq!((sent, stopped), (vec![32_768], Outgoing::Commit(Lsn::new(32_769))));
    let (sent, _) = send_all(&mut out, &queue, Lsn::new(33_000));
    assert_eq!(sent.last(), Some(&40_000));
}

#[test]
fn late_messages_wait_for_their_commit_and_say_when_numbers_are_final() {
    let mut queue = Queue::default();
    push(&mut queue, 5, Q1);
    let late = Some(Lsn::new(9));
    let lsn = Lsn::new(2);
    queue.push(Incoming { lsn, qos: Q1, retain: true, size: 1, late, extra: None }).unwrap();
    let mut out = Outbound::new(&queue, 10);
    let outgoing = out.next(&queue, Lsn::new(9), Lsn::new(4));
    assert!(matches!(outgoing, Outgoing::Publish { committed: false, .. }));
    out.sent(&outgoing);
    assert_eq!(out.next(&queue, Lsn::new(9), Lsn::new(8)), Outgoing::Commit(Lsn::new(9)));
    let outgoing = out.next(&queue, Lsn::new(9), Lsn::new(9));
    assert!(matches!(outgoing, Outgoing::Publish { committed: true, .. }));
}

#[test]
fn what_is_given_up_is_passed_over() {
    let mut queue = Queue::default();
    push(&mut queue, 1, Q1);
    push(&mut queue, 2, Q1);
    let mut out = Outbound::new(&queue, 10);
    out.pass_over(QueueNumber::new(1));
    assert_eq!(send_all(&mut out, &queue, ALL).0, [2]);
    assert_eq!(out.acknowledged(id(1)), None);
    assert_eq!(out.acknowledged(id(2)), Some(QueueNumber::new(2)));
}
