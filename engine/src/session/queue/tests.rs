//! The queue against a plain model, by enumeration where the space is small.

use std::collections::BTreeMap;

use super::*;

fn message(lsn: u64, qos: QoS) -> Incoming {
    Incoming {
        lsn: Lsn::new(lsn),
        qos,
        retain: false,
        size: 100,
        late: None,
        placed: false,
        extra: None,
    }
}

fn expiring(lsn: u64, qos: QoS, expires_ms: u64) -> Incoming {
    let extra = Extra { expires_ms: Some(expires_ms), ..Extra::default() };
    Incoming { extra: Some(extra), ..message(lsn, qos) }
}

fn range(first: u64, last: u64) -> NumberRange {
    NumberRange { first: QueueNumber::new(first), last: QueueNumber::new(last) }
}

fn numbers(queue: &Queue) -> Vec<u64> {
    queue.iter().map(|waiting| waiting.number.get()).collect()
}

fn queue_of(qos: &[QoS]) -> Queue {
    let mut queue = Queue::default();
    for (at, &qos) in qos.iter().enumerate() {
        queue.push(message(u64::try_from(at).unwrap() + 1, qos)).unwrap();
    }
    queue
}

const Q1: QoS = QoS::AtLeastOnce;
const Q2: QoS = QoS::ExactlyOnce;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Model {
    Waiting(QoS),
    Taken,
}

/// All histories of four steps, each one of: push at QoS 1 or 2, take, close or give up one of
/// the first three numbers, jump. The model keeps only what is open.
#[test]
fn all_short_histories_agree_with_a_model() {
    const OPS: u32 = 12;
    for history in 0..OPS.pow(4) {
        let mut queue = queue_of(&[Q1, Q2]);
        let mut model = BTreeMap::from([(1, Model::Waiting(Q1)), (2, Model::Waiting(Q2))]);
        let (mut last, mut held, mut rest) = (2, 2, history);
        for _ in 0..4 {
            let op = rest % OPS;
            rest /= OPS;
            let number = u64::from(op % 3) + 1;
            let mut released = 0;
            match op {
                0..=2 => {
                    queue.take(range(number, number), |_| released += 1);
                    if model.get(&number) == Some(&Model::Waiting(Q2)) {
                        model.insert(number, Model::Taken);
                        held -= 1;
                    }
                }
                3..=5 => {
                    queue.close(range(number, number), |_| released += 1);
                    held -= u64::from(!matches!(model.remove(&number), Some(Model::Taken) | None));
                }
                6..=8 => {
                    queue.give_up(range(number, number), |_| released += 1);
                    if matches!(model.get(&number), Some(Model::Waiting(_))) {
                        model.remove(&number);
                        held -= 1;
                    }
                }
                9 | 10 => {
                    let qos = if op == 9 { Q1 } else { Q2 };
                    assert_eq!(queue.push(message(9, qos)), Some(QueueNumber::new(last + 1)));
                    last += 1;
                    held += 1;
                    model.insert(last, Model::Waiting(qos));
                }
                _ => {
                    assert!(queue.jump());
                    last += JUMP;
                }
            }
            assert_eq!(queue.check(), Ok(()), "history {history}");
            assert_eq!(queue.last().get(), last);
            assert_eq!(queue.bytes(), held * 112, "history {history}");
            let open: Vec<_> = queue
                .iter()
                .map(|one| {
                    let taken = if one.taken { Model::Taken } else { Model::Waiting(one.qos) };
                    (one.number.get(), taken)
                })
                .collect();
            assert!(open.iter().copied().eq(model.clone()), "history {history}");
            let first = model.keys().next().copied().unwrap_or(last + 1);
            assert_eq!(queue.first_open().get(), first);
            for number in 0..=last.min(6) {
                let at = QueueNumber::new(number);
                assert_eq!(queue.get(at).is_some(), model.contains_key(&number));
            }
        }
    }
}

#[test]
fn receipts_come_in_any_order_and_holes_are_swept_out() {
    let mut queue = queue_of(&[Q1; 1000]);
    for number in (2..=1000).rev() {
        assert_eq!(queue.close(range(number, number), |_| {}), 0);
        assert_eq!(queue.check(), Ok(()));
    }
    assert_eq!(numbers(&queue), [1]);
    assert!(queue.entries.len() <= SWEEP_MIN + 2, "{} entries for one", queue.entries.len());
    assert_eq!(queue.push(message(1, Q1)), Some(QueueNumber::new(1001)));
    assert_eq!(queue.close(range(1, 1), |_| {}), 0);
    assert_eq!(numbers(&queue), [1001]);
}

#[test]
fn a_range_that_names_all_numbers_closes_what_is_there() {
    let mut queue = queue_of(&[Q1, Q2, Q1]);
    let mut released = Vec::new();
    let all = NumberRange { first: QueueNumber::ZERO, last: QueueNumber::MAX };
    assert_eq!(queue.take(all, |lsn| released.push(lsn.get())), 2);
    assert_eq!(released, [2]);
    assert_eq!(queue.close(all, |lsn| released.push(lsn.get())), 0);
    assert_eq!(released, [2, 1, 3]);
    assert!(queue.is_empty() && queue.bytes() == 0 && queue.last().get() == 3);
}

#[test]
fn a_million_messages_take_16_bytes_each() {
    let mut queue = Queue::default();
    for lsn in 1..=1_000_000 {
        queue.push(message(lsn, Q1)).unwrap();
    }
    let bytes = queue.entries.capacity() * size_of::<Entry>();
    assert!(bytes <= 32 << 20, "{bytes} bytes");
    assert!(queue.extras.is_none());
    assert_eq!(queue.get(QueueNumber::new(777_777)).map(|one| one.lsn), Some(Lsn::new(777_777)));
    queue.close(range(1, 1_000_000), |_| {});
    assert!(queue.entries.capacity() <= SWEEP_MIN, "an empty queue gives its memory back");
}

#[test]
fn sizes_round_up_to_16_and_end_at_the_largest_packet() {
    for (size, weight) in [(0, 0), (1, 16), (16, 16), (17, 32), (268_435_455, 268_435_440)] {
        let mut queue = Queue::default();
        queue.push(Incoming { size, ..message(1, Q1) }).unwrap();
        assert_eq!(queue.bytes(), weight, "{size}");
        queue.close(range(1, 1), |_| {});
        assert_eq!(queue.bytes(), 0, "{size}");
    }
}

/// A client that crashes the broker for ever while one message stays open.
#[test]
fn jumps_end_before_numbers_can_no_longer_be_told_apart() {
    let mut queue = queue_of(&[Q1]);
    let jumps = (0..SPAN_MAX).take_while(|_| queue.jump()).count();
    assert_eq!(u64::try_from(jumps).unwrap(), SPAN_MAX / JUMP - 1);
    assert_eq!(queue.get(QueueNumber::new(1)).map(|one| one.lsn), Some(Lsn::new(1)));
    let next = queue.push(message(2, Q1)).unwrap();
    assert_eq!(numbers(&queue), [1, next.get()]);
    assert_eq!(queue.check(), Ok(()));
    queue.close(range(1, 1), |_| {});
    assert!(queue.jump(), "once it is closed numbers go on");
    assert_eq!(queue.first_open(), next);
}

#[test]
fn numbers_end_at_the_highest_that_a_record_may_name() {
    let mut queue = Queue::default();
    assert!(queue.skip_to(QueueNumber::new(QueueNumber::MAX.get() - 1)));
    assert_eq!(queue.push(message(1, Q1)), Some(QueueNumber::MAX));
    assert_eq!(queue.push(message(2, Q1)), None);
    assert!(!queue.jump());
    assert_eq!((queue.check(), queue.len()), (Ok(()), 1));
}

#[test]
fn a_known_end_marks_what_was_sent() {
    let mut queue = queue_of(&[Q2; 6]);
    queue.went_down(Some(QueueNumber::new(4)), 2);
    assert_eq!((queue.dup_through().get(), queue.doubtful().get()), (4, 4));
    queue.went_down(Some(QueueNumber::new(2)), 2);
    assert_eq!((queue.dup_through().get(), queue.doubtful().get()), (4, 4), "marks stay");
    queue.went_down(Some(QueueNumber::new(99)), 2);
    assert_eq!((queue.dup_through().get(), queue.doubtful().get()), (6, 6), "nothing more exists");
}

/// After a crash everything open goes out with DUP, and as many of the first QoS 2 numbers
/// without PUBREC as the window let through may have been sent.
#[test]
fn an_unknown_end_leaves_the_first_of_the_window_in_doubt() {
    //= MQTT5-4.3.3-7
    for window in 1..=4_u16 {
        let mut queue = queue_of(&[Q2, Q1, Q2, Q2, Q1, Q2]);
        queue.take(range(3, 3), |_| {});
        queue.went_down(None, window);
        assert_eq!(queue.dup_through().get(), 6);
        // Without PUBREC are 1, 4 and 6.
        let doubtful = [1, 4, 6, 6][usize::from(window) - 1];
        assert_eq!(queue.doubtful().get(), doubtful, "window {window}");
        let kept = queue.give_up(range(1, 6), |_| {});
        let left: Vec<u64> =
            [1, 3, 4, 6].into_iter().filter(|&n| n <= doubtful || n == 3).collect();
        assert_eq!(numbers(&queue), left, "window {window}");
        assert_eq!(kept, u64::try_from(left.len()).unwrap());
    }
}

#[test]
fn what_expired_is_named_in_ranges_but_not_what_may_have_been_sent_at_qos_2() {
    //= MQTT5-3.3.2-5
    //= MQTT5-4.3.3-7
    let mut queue = Queue::default();
    for (lsn, qos, expires_ms) in
        [(1, Q1, 10), (2, Q2, 10), (3, Q1, 30), (4, Q2, 5), (5, Q1, 20), (6, Q1, 9)]
    {
        queue.push(expiring(lsn, qos, expires_ms)).unwrap();
    }
    assert_eq!(queue.next_expiry_ms(), Some(5));
    assert_eq!(queue.expired(4, QueueNumber::ZERO), []);
    assert_eq!(queue.expired(20, QueueNumber::ZERO), [range(1, 2), range(4, 6)]);
    assert_eq!(queue.expired(20, QueueNumber::new(2)), [range(1, 1), range(4, 6)]);
    queue.went_down(Some(QueueNumber::new(4)), 1);
    assert_eq!(queue.expired(20, QueueNumber::ZERO), [range(1, 1), range(5, 6)]);
    assert_eq!(queue.next_expiry_ms(), Some(9), "what may have been sent asks for nothing");
    queue.close(range(1, 6), |_| {});
    assert_eq!(queue.next_expiry_ms(), None);
    assert!(queue.extras.is_none(), "nothing is kept for what is closed");
}

#[test]
fn a_taken_message_is_held_no_more_but_its_number_is() {
    //= MQTT5-4.3.3-6
    let mut queue = Queue::default();
    queue.push(expiring(7, Q2, 10)).unwrap();
    let mut released = Vec::new();
    queue.take(range(1, 1), |lsn| released.push(lsn));
    assert_eq!(released, [Lsn::new(7)]);
    assert_eq!((queue.len(), queue.bytes(), queue.next_expiry_ms()), (1, 0, None));
    assert_eq!(queue.give_up(range(1, 1), |_| {}), 1, "PUBREL is owed for ever");
    assert_eq!(queue.take(range(1, 1), |_| {}), 1);
    assert_eq!(queue.estate().count(), 0);
    assert_eq!(queue.close(range(1, 1), |lsn| released.push(lsn)), 0);
    assert_eq!(released.len(), 1);
}

#[test]
fn late_messages_wait_for_the_newest_late_decision() {
    let mut queue = queue_of(&[Q1]);
    for late in [20, 30] {
        queue.push(Incoming { late: Some(Lsn::new(late)), ..message(5, Q1) }).unwrap();
    }
    let queued_at: Vec<_> = queue.iter().map(|one| one.queued_at.get()).collect();
    assert_eq!(queued_at, [1, 30, 30]);
}
