//! The load generator against a stand-in that forwards, or does so badly: what goes wrong is
//! counted, what does not is not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod stand_in;

use std::time::Duration;

use zzq_bench::load::{Figures, Load, Pattern, Plan, Progress, Target, run, run_watched};
use zzq_types::{ProtocolVersion, QoS};

use stand_in::{Forward, IGNORED, stand_in};

/// Long enough for a busy machine to bring what is on its way; what is lost is awaited so long.
const LOST: Duration = Duration::from_secs(10);

fn plan(pattern: Pattern, qos: QoS) -> Plan {
    Plan {
        payload: 32,
        window: 20,
        // The count ends it.
        duration: Duration::from_mins(5),
        count: Some(1000),
        patience: Duration::from_mins(1),
        ..Plan::plain(pattern, qos)
    }
}

fn figures(plan: &Plan, forward: Forward) -> Figures {
    run(plan, Target { address: stand_in(forward), pid: Some(std::process::id()) }).unwrap()
}

#[test]
fn nothing_is_wrong_with_a_broker_that_forwards() {
    for (pattern, published, delivered) in [
        (Pattern::Pairs(3), 3000, 3000),
        (Pattern::FanOut(3), 1000, 3000),
        (Pattern::FanIn(3), 3000, 3000),
    ] {
        for (qos, acknowledged) in
            [(QoS::AtMostOnce, 0), (QoS::AtLeastOnce, published), (QoS::ExactlyOnce, published)]
        {
            for threads in [1, 2] {
                let figures = figures(&Plan { threads, ..plan(pattern, qos) }, |_| 1);
                assert!(figures.is_complete(), "{pattern:?} {qos:?}: {figures:?}");
                assert_eq!(figures.published, published);
                assert_eq!(figures.acknowledged, acknowledged);
                assert_eq!(figures.counts.delivered, delivered);
                assert_eq!(figures.deliver.samples, delivered);
                assert_eq!(figures.ack.samples, acknowledged);
                assert!(figures.broker.is_some());
            }
        }
    }
}

#[test]
fn version_5_is_spoken_as_well() {
    let plan = Plan {
        version: ProtocolVersion::V5,
        persistent: true,
        ..plan(Pattern::Pairs(2), QoS::ExactlyOnce)
    };
    let figures = figures(&plan, |_| 1);
    assert!(figures.is_complete(), "{figures:?}");
    assert_eq!(figures.counts.delivered, 2000);
}

#[test]
fn what_is_not_forwarded_is_lost() {
    let plan = Plan { patience: LOST, ..plan(Pattern::Pairs(2), QoS::AtLeastOnce) };
    let figures = figures(&plan, |n| usize::from(n % 10 != 0));
    assert_eq!((figures.counts.lost, figures.counts.delivered), (200, 1800));
    assert_eq!((figures.counts.doubled, figures.counts.reordered), (0, 0));
    assert!(!figures.is_sound());
}

#[test]
fn what_is_not_forwarded_at_qos_0_is_dropped() {
    let plan = Plan { patience: LOST, ..plan(Pattern::Pairs(2), QoS::AtMostOnce) };
    let figures = figures(&plan, |n| usize::from(n % 10 != 0));
    assert_eq!((figures.counts.dropped, figures.counts.lost), (200, 0));
    assert!(figures.is_sound() && !figures.is_complete(), "{figures:?}");
}

#[test]
fn what_is_never_acknowledged_is_not_lost() {
    // What is not answered keeps a run from ending with its count.
    let duration = Duration::from_secs(1);
    let plan = plan(Pattern::Pairs(1), QoS::AtLeastOnce);
    let plan = Plan { patience: LOST, duration, ..plan };
    let figures = figures(&plan, |n| if n == 1 { IGNORED } else { 1 });
    assert_eq!((figures.counts.lost, figures.unacknowledged), (0, 1));
    assert!(figures.is_sound() && !figures.is_complete(), "{figures:?}");
}

#[test]
fn payloads_of_nothing_and_of_many_reads_come() {
    for payload in [0, 1, 1_000_000] {
        let plan = Plan { payload, count: Some(20), ..plan(Pattern::Pairs(1), QoS::AtLeastOnce) };
        let figures = figures(&plan, |_| 1);
        assert!(figures.is_complete(), "{payload}: {figures:?}");
        assert_eq!((figures.acknowledged, figures.counts.delivered), (20, 20), "{payload}");
    }
}

#[test]
fn what_is_forwarded_twice_is_doubled() {
    let plan = plan(Pattern::FanOut(2), QoS::AtMostOnce);
    let figures = figures(&plan, |n| 1 + usize::from(n % 100 == 50));
    assert_eq!((figures.counts.doubled, figures.counts.delivered), (20, 2020));
    assert_eq!((figures.counts.lost, figures.counts.dropped), (0, 0));
    assert!(!figures.is_sound());
}

#[test]
fn what_is_forwarded_twice_at_qos_1_is_repeated() {
    let plan = plan(Pattern::FanOut(2), QoS::AtLeastOnce);
    let figures = figures(&plan, |n| 1 + usize::from(n % 100 == 50));
    assert_eq!((figures.counts.repeated, figures.counts.doubled), (20, 0));
    assert!(figures.is_sound() && !figures.is_complete(), "{figures:?}");
}

#[test]
fn many_topics_are_heard_by_a_filter() {
    let plan = Plan { topics: 300, ..plan(Pattern::FanIn(2), QoS::AtLeastOnce) };
    let figures = figures(&plan, |_| 1);
    assert!(figures.is_complete(), "{figures:?}");
    assert_eq!(figures.counts.delivered, 2000);
}

#[test]
fn subscribers_that_stall_get_everything_later() {
    let stall = Duration::from_millis(50);
    let plan = Plan { stall, ..plan(Pattern::FanOut(2), QoS::AtLeastOnce) };
    let figures = figures(&plan, |_| 1);
    assert!(figures.is_complete(), "{figures:?}");
    // What came did so behind the stall, whenever it was sent.
    assert!(figures.deliver_seconds >= 0.05, "{figures:?}");
}

#[test]
fn a_group_shares_what_is_published() {
    let plan = plan(Pattern::Shared(3), QoS::AtLeastOnce);
    let all = figures(&plan, |_| 1);
    assert!(all.is_complete(), "{all:?}");
    assert_eq!((all.counts.delivered, all.deliver.samples), (1000, 1000));
    // Every tenth message goes to nobody, every hundredth to two of them.
    let uneven = |n: u64| match n % 100 {
        50 => 2,
        _ => usize::from(!n.is_multiple_of(10)),
    };
    let counts = figures(&Plan { patience: LOST, ..plan }, uneven).counts;
    assert_eq!((counts.delivered, counts.lost, counts.repeated), (920, 90, 10));
}

#[test]
fn progress_ends_with_all_that_was_delivered() {
    let target = Target { address: stand_in(|_| 1), pid: None };
    let mut last = None;
    let plan = plan(Pattern::FanOut(2), QoS::AtMostOnce);
    let mut say = |progress| last = Some(progress);
    run_watched(&plan, target, Duration::from_millis(1), &mut say).unwrap();
    let last: Progress = last.unwrap();
    assert_eq!((last.sent, last.delivered), (1000, 2000));
}

#[test]
fn a_pace_is_kept() {
    let plan = Plan {
        load: Load::Paced(2000.0),
        count: Some(200),
        ..plan(Pattern::FanIn(4), QoS::AtLeastOnce)
    };
    let figures = figures(&plan, |_| 1);
    assert!(figures.is_complete(), "{figures:?}");
    assert_eq!(figures.published, 800);
    // The last is due after 399.5 ms: sooner would be no pace, later is the machine's affair.
    assert!(figures.publish_seconds >= 0.399, "{figures:?}");
}
