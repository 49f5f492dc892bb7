//! One connection's sending, over the wrap of identifiers, crashes and resumes.

use super::*;
use crate::record::NumberRange;
use crate::session::queue::Incoming;

mod lives;
mod runs;
mod wrap;

const Q1: QoS = QoS::AtLeastOnce;
const Q2: QoS = QoS::ExactlyOnce;
const ALL: Lsn = Lsn::new(u64::MAX);

pub(super) fn push(queue: &mut Queue, lsn: u64, qos: QoS) -> QueueNumber {
    let lsn = Lsn::new(lsn);
    queue
        .push(Incoming { lsn, qos, retain: false, size: 1, late: None, placed: false, extra: None })
        .unwrap()
}

fn close(queue: &mut Queue, number: u64) {
    queue.close(NumberRange::one(QueueNumber::new(number)), |_| {});
}

/// Sends all it may; returns the numbers and what stopped it.
fn send_all(out: &mut Outbound, queue: &Queue, committed: Lsn) -> (Vec<u64>, Outgoing) {
    let mut numbers = Vec::new();
    loop {
        let outgoing = out.next(queue, at(ALL, committed));
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

fn at(applied: Lsn, committed: Lsn) -> Progress {
    Progress { applied, committed, unlogged: ALL }
}

fn closed(number: u64) -> Answered {
    Answered::Closed(QueueNumber::new(number))
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
    assert_eq!(out.acknowledged(id(1)), closed(1));
    assert_eq!(send_all(&mut out, &queue, ALL), (vec![3], Outgoing::Window));
    // A PUBREC gives nothing back, the PUBCOMP does, once the PUBREL was sent.
    assert_eq!(out.received(id(2), false), Received::Taken(QueueNumber::new(2)));
    assert_eq!(send_all(&mut out, &queue, ALL), (vec![], Outgoing::Window));
    assert_eq!(out.completed(id(2)), Answered::Unfit);
    out.released(QueueNumber::new(2));
    assert_eq!(out.completed(id(2)), closed(2));
    assert_eq!(send_all(&mut out, &queue, ALL), (vec![4], Outgoing::Window));
    assert_eq!((out.in_flight(), out.highest_sent().get()), (2, 4));
}

#[test]
fn answers_that_fit_nothing_change_nothing() {
    let mut queue = Queue::default();
    push(&mut queue, 1, Q1);
    push(&mut queue, 2, Q2);
    let mut out = Outbound::new(&queue, 10);
    assert_eq!(out.acknowledged(id(1)), Answered::Unknown, "nothing was sent");
    send_all(&mut out, &queue, ALL);
    assert_eq!(out.acknowledged(id(2)), Answered::Unfit, "PUBACK for QoS 2");
    assert_eq!(out.received(id(1), false), Received::Unfit, "PUBREC for QoS 1");
    assert_eq!(out.completed(id(1)), Answered::Unfit, "PUBCOMP for QoS 1");
    assert_eq!(out.completed(id(2)), Answered::Unfit, "PUBCOMP without PUBREL");
    assert_eq!(out.acknowledged(id(3)), Answered::Unknown, "an identifier that was not sent");
    assert_eq!(out.acknowledged(PacketId::new(65_535).unwrap()), Answered::Unknown);
    assert_eq!(out.acknowledged(id(1)), closed(1));
    assert_eq!(out.acknowledged(id(1)), Answered::Unknown, "a second PUBACK");
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
    assert_eq!(out.received(id(1), false), Received::Pending, "the commit brings it");
    out.released(number);
    assert_eq!(out.received(id(1), false), Received::Again(number));
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
        let outgoing = out.next(&queue, at(ALL, ALL));
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
    assert_eq!(out.completed(id(2)), closed(2));
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
    assert_eq!(out.acknowledged(id(5)), closed(5));
    close(&mut queue, 5);
    assert_eq!(send_all(&mut out, &queue, ALL), (vec![], Outgoing::Identifier));
    assert_eq!(out.acknowledged(id(1)), closed(1), "by its identifier");
    close(&mut queue, 1);
    // The receipt is applied at 70 000 and not committed yet.
    assert_eq!(
        out.next(&queue, at(Lsn::new(70_000), Lsn::new(69_999))),
        Outgoing::Commit(Lsn::new(70_000))
    );
    let outgoing = out.next(&queue, at(Lsn::new(70_001), Lsn::new(70_000)));
    assert!(
        matches!(outgoing, Outgoing::Publish { waiting, .. } if waiting.number.get() == 65_536)
    );
    out.sent(&outgoing);
    // Its answer closes it and not number 1.
    assert_eq!(out.acknowledged(id(1)), closed(65_536));
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
            assert_eq!(out.acknowledged(id(number)), closed(number));
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
    queue
        .push(Incoming { lsn, qos: Q1, retain: true, size: 1, late, placed: false, extra: None })
        .unwrap();
    let mut out = Outbound::new(&queue, 10);
    let outgoing = out.next(&queue, at(Lsn::new(9), Lsn::new(4)));
    assert!(matches!(outgoing, Outgoing::Publish { committed: false, .. }));
    out.sent(&outgoing);
    assert_eq!(out.next(&queue, at(Lsn::new(9), Lsn::new(8))), Outgoing::Commit(Lsn::new(9)));
    let outgoing = out.next(&queue, at(Lsn::new(9), Lsn::new(9)));
    assert!(matches!(outgoing, Outgoing::Publish { committed: true, .. }));
}

/// A message at QoS 1 expires after it was sent: no other gets its identifier before its PUBACK,
/// which would be taken for that of the other.
#[test]
fn an_identifier_is_kept_until_its_answer_though_its_message_is_given_up() {
    //= MQTT5-2.2.1-4
    //= MQTT311-2.3.1-4
    let mut queue = Queue::default();
    for lsn in 1..=65_536 {
        push(&mut queue, lsn, Q1);
    }
    let mut out = Outbound::new(&queue, u16::MAX);
    assert_eq!(send_all(&mut out, &queue, ALL).0.len(), 65_535);
    for number in 2..=65_535 {
        assert_eq!(out.acknowledged(id(number)), closed(number));
    }
    let all = NumberRange { first: QueueNumber::new(1), last: QueueNumber::new(65_535) };
    queue.close(all, |_| {});
    assert_eq!(send_all(&mut out, &queue, ALL), (vec![], Outgoing::Identifier));
    assert_eq!(out.acknowledged(id(1)), closed(1));
    assert_eq!(send_all(&mut out, &queue, ALL).0, [65_536]);
    assert_eq!(out.acknowledged(id(65_536)), closed(65_536));
}

/// Messages that stay unanswered over crashes, which make numbers jump: identifiers are unique
/// among all of them.
#[test]
fn identifiers_are_unique_over_jumps() {
    //= MQTT5-2.2.1-4
    //= MQTT311-2.3.1-4
    let mut queue = Queue::default();
    for last in [3, 40_000, 65_535, 131_072] {
        while queue.last().get() < last {
            let lsn = queue.last().get() + 1;
            push(&mut queue, lsn, Q1);
            if lsn > 3 {
                queue.skip_to(QueueNumber::new(last));
            }
        }
    }
    push(&mut queue, 131_073, Q1);
    // 65 536 has the identifier of 1, 131 073 that of 3.
    let mut out = Outbound::new(&queue, 100);
    assert_eq!(send_all(&mut out, &queue, ALL), (vec![1, 2, 3, 4, 40_001], Outgoing::Identifier));
    assert_eq!(out.acknowledged(id(1)), closed(1));
    assert_eq!(send_all(&mut out, &queue, ALL).1, Outgoing::Identifier, "its receipt is due");
    close(&mut queue, 1);
    close(&mut queue, 40_001);
    // Under load there is always more applied than committed: it waits for one commit only.
    let free = out.next(&queue, at(Lsn::new(11), Lsn::new(10)));
    assert_eq!(free, Outgoing::Commit(Lsn::new(11)));
    let free = out.next(&queue, at(Lsn::new(12), Lsn::new(10)));
    assert_eq!(free, Outgoing::Commit(Lsn::new(11)));
    let free = out.next(&queue, at(Lsn::new(13), Lsn::new(11)));
    assert!(matches!(free, Outgoing::Publish { waiting, .. } if waiting.number.get() == 65_536));
    assert_eq!(send_all(&mut out, &queue, ALL), (vec![65_536], Outgoing::Identifier));
    for number in [2, 4, 65_536, 40_001, 3] {
        assert_eq!(out.acknowledged(id(number)), closed(number));
        close(&mut queue, number);
    }
    assert_eq!(send_all(&mut out, &queue, ALL), (vec![131_073], Outgoing::Nothing));
    assert_eq!(out.acknowledged(id(3)), closed(131_073));
    assert_eq!((out.in_flight(), out.flight.len()), (0, 0));
}

#[test]
fn what_no_log_has_is_final_at_once() {
    let own = Lsn::new(1 << 62);
    let at = |committed| Progress { applied: Lsn::ZERO, committed, unlogged: own };
    let mut queue = Queue::default();
    push(&mut queue, 7, Q1);
    for at in 0..40_000 {
        push(&mut queue, own.get() + at, Q1);
    }
    let mut out = Outbound::new(&queue, u16::MAX);
    let mut finals = Vec::new();
    loop {
        let outgoing = out.next(&queue, at(Lsn::new(6)));
        let Outgoing::Publish { committed, .. } = outgoing else { break };
        finals.push(committed);
        out.sent(&outgoing);
    }
    assert_eq!(finals.len(), 40_001);
    assert!(!finals[0] && finals[1..].iter().all(|committed| *committed));
    // One number is not final: with its commit all before the last are settled.
    for lsn in 8..=32_775 {
        push(&mut queue, lsn, Q1);
    }
    let mut out = Outbound::new(&queue, u16::MAX);
    let mut send_at = |committed| {
        let mut sent = 0;
        loop {
            let outgoing = out.next(&queue, at(Lsn::new(committed)));
            if !matches!(outgoing, Outgoing::Publish { .. }) {
                return (sent, outgoing);
            }
            out.sent(&outgoing);
            sent += 1;
        }
    };
    assert_eq!(send_at(6), (40_001, Outgoing::Commit(Lsn::new(8))));
    let (sent, stopped) = send_at(7);
    assert_eq!((sent, stopped), (25_534, Outgoing::Window));
}

#[test]
fn what_comes_again_is_known_before_it_comes() {
    //= MQTT311-4.3.3-1
    let mut queue = Queue::with_marks(65_533, 0, 0, Lsn::ZERO);
    for (lsn, qos) in [(1, Q1), (2, Q2), (3, Q2), (4, Q2), (5, Q2)] {
        push(&mut queue, lsn, qos);
    }
    queue.take(NumberRange::one(QueueNumber::new(65_536)), |_| {});
    queue.went_down(Some(QueueNumber::new(65_537)), 10);
    let mut out = Outbound::new(&queue, 1);
    let known = |out: &Outbound| -> Vec<u64> {
        (65_534..=65_538).filter(|&number| out.comes_again(&queue, id(number))).collect()
    };
    assert_eq!(known(&out), [65_535, 65_536, 65_537], "QoS 2, and perhaps sent before");
    assert!(!out.comes_again(&queue, id(65_533)), "none has this identifier");
    assert_eq!(send_all(&mut out, &queue, ALL), (vec![65_534], Outgoing::Window));
    assert_eq!(known(&out), [65_535, 65_536, 65_537]);
    assert_eq!(out.acknowledged(id(65_534)), closed(65_534));
    assert_eq!(send_all(&mut out, &queue, ALL), (vec![65_535, 65_536], Outgoing::Window));
    assert_eq!(known(&out), [65_537], "the others have come");
}

#[test]
fn what_is_given_up_is_passed_over() {
    let mut queue = Queue::default();
    push(&mut queue, 1, Q1);
    push(&mut queue, 2, Q1);
    let mut out = Outbound::new(&queue, 10);
    out.pass_over(&queue.get(QueueNumber::new(1)).unwrap());
    assert_eq!(send_all(&mut out, &queue, ALL).0, [2]);
    assert_eq!(out.acknowledged(id(1)), Answered::Unknown);
    assert_eq!(out.acknowledged(id(2)), closed(2));
}

/// At QoS 2 what was given up counts as under way until that is committed.
#[test]
fn what_is_sent_stays_within_the_window_of_what_a_crash_may_bring_back() {
    let mut queue = Queue::default();
    for lsn in 1..=5 {
        push(&mut queue, lsn, if lsn == 4 { Q1 } else { Q2 });
    }
    let waiting = |number| queue.get(QueueNumber::new(number)).unwrap();
    let mut out = Outbound::new(&queue, 2);
    let (applied, committed) = (Lsn::new(9), Lsn::new(5));
    out.pass_over(&waiting(1));
    let wait = out.waits_for_given_up(&queue, &waiting(2), at(applied, committed));
    assert_eq!(wait, None, "it is the second");
    out.pass_over(&waiting(2));
    let third = waiting(3);
    let wait = out.waits_for_given_up(&queue, &third, at(applied, committed));
    assert_eq!(wait, Some(Outgoing::Identifier), "their record is to be applied");
    let wait = out.waits_for_given_up(&queue, &waiting(4), at(applied, committed));
    assert_eq!(wait, None, "at QoS 1 nothing is begun");
    close(&mut queue, 1);
    let wait = out.waits_for_given_up(&queue, &third, at(applied, committed));
    assert_eq!(wait, Some(Outgoing::Identifier), "and that of both");
    close(&mut queue, 2);
    let wait = out.waits_for_given_up(&queue, &third, at(applied, committed));
    assert_eq!(wait, Some(Outgoing::Commit(applied)));
    // More is applied than committed, always: it waits for one commit only.
    let wait = out.waits_for_given_up(&queue, &third, at(Lsn::new(20), Lsn::new(8)));
    assert_eq!(wait, Some(Outgoing::Commit(applied)));
    let wait = out.waits_for_given_up(&queue, &third, at(Lsn::new(30), applied));
    assert_eq!(wait, None);
}
