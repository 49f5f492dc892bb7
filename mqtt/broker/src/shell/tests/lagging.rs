//! Receivers that fall behind slow down who publishes to them, above QoS 0 and in all versions, on
//! their own lane and on others: nobody is refused or closed for it, and nothing is lost.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use zzq_codec::Packet;
use zzq_types::ProtocolVersion::{self, V5};
use zzq_types::QoS::{self, AtLeastOnce, ExactlyOnce};

use super::harness::*;
use super::held::{answer, drain};
use super::queue_total::name_on;
use crate::options::QueueFull;

/// Queues of so many messages: half of them are the high-water mark.
const MOST: u16 = 20;
const HIGH: u16 = MOST / 2;
/// A tenth of [`MOST`] lower.
const LOW: u16 = HIGH - MOST / 10;
const MAX_HOLD_MS: u64 = 5000;

fn narrow(version: ProtocolVersion, lanes: u16, in_memory: bool) -> Setup {
    let mut setup = Setup { lanes, in_memory, ..Setup::new(version) };
    setup.options.limits.max_queued_messages = MOST.into();
    setup.options.limits.max_hold = Duration::from_millis(MAX_HOLD_MS);
    setup
}

/// A publisher on the lane of its receivers, and on another.
fn each(test: impl Fn(World, &mut Client, &str)) {
    for version in VERSIONS {
        for lanes in [1, 2] {
            for in_memory in [false, true] {
                let mut world = narrow(version, lanes, in_memory).start();
                let name = name_on(&world, usize::from(lanes) - 1);
                let mut publisher = world.guest(&name);
                let what = format!("{version:?}, {lanes} lanes, in memory: {in_memory}");
                test(world, &mut publisher, &what);
            }
        }
    }
}

/// A receiver on the first lane that answers messages when it is told to.
struct Slow {
    name: String,
    client: Client,
    unanswered: VecDeque<String>,
}

impl Slow {
    fn new(world: &mut World, qos: QoS) -> Self {
        let mut names = (0..).map(|n| format!("slow-{n}"));
        let name = names.find(|name| world.shell(0).home(name).index() == 0).unwrap();
        let mut client = world.member(&name);
        world.subscribe(&mut client, "t", qos);
        Self { name, client, unanswered: VecDeque::new() }
    }

    /// Answers so many messages to the end.
    fn take(&mut self, world: &mut World, count: u16) {
        self.read();
        for line in self.unanswered.drain(..usize::from(count)) {
            answer(&mut self.client, &line);
        }
        world.pass(20);
        self.read();
        world.pass(20);
    }

    fn read(&mut self) {
        for line in self.client.got() {
            if line.starts_with("PUBREL") {
                answer(&mut self.client, &line);
            } else {
                self.unanswered.push_back(line);
            }
        }
    }
}

/// Publishes these, each when all has settled behind the one before; returns the answers.
fn publish(
    world: &mut World,
    client: &mut Client,
    qos: QoS,
    ids: RangeInclusive<u16>,
) -> Vec<String> {
    for id in ids {
        client.publish(Line::new("t", &id.to_string(), qos, id));
        world.pass(20);
    }
    client.got()
}

fn answers(qos: QoS, ids: RangeInclusive<u16>) -> Vec<String> {
    let kind = if qos == ExactlyOnce { "PUBREC" } else { "PUBACK" };
    ids.map(|id| format!("{kind} {id}")).collect()
}

#[test]
fn a_receiver_over_its_high_water_mark_holds_its_publishers_until_it_is_at_the_low_one() {
    const LAST: u16 = 40;
    for qos in [AtLeastOnce, ExactlyOnce] {
        each(|mut world, publisher, what| {
            let mut slow = Slow::new(&mut world, qos);
            let got = publish(&mut world, publisher, qos, 1..=LAST);
            assert_eq!(got, answers(qos, 1..=HIGH + 1), "{what}");
            assert_eq!(world.queued(&slow.name), usize::from(HIGH) + 1, "{what}");
            // The rest of what its client sends is read.
            publisher.send(&Packet::PingReq);
            world.pass(1000);
            assert_eq!(publisher.got(), ["PINGRESP"], "{what}");
            slow.take(&mut world, HIGH - LOW);
            assert_eq!(publisher.got(), [""; 0], "{what}");
            assert_eq!(world.queued(&slow.name), usize::from(LOW) + 1, "{what}");
            slow.take(&mut world, 1);
            assert_ne!(publisher.got(), [""; 0], "{what}");
            let mut left = Vec::from(std::mem::take(&mut slow.unanswered));
            for line in &left {
                answer(&mut slow.client, line);
            }
            let [mut got, _] =
                drain(&mut world, &mut [&mut slow.client, publisher]).try_into().unwrap();
            left.append(&mut got);
            let came = left.iter().filter(|line| line.starts_with("t=")).count();
            assert_eq!(came, usize::from(LAST - (HIGH - LOW) - 1), "{what}: {left:?}");
            assert!(world.owes_nothing(&slow.name), "{what}");
        });
    }
}

/// And then the next begins.
#[test]
fn a_hold_ends_when_it_was_long_enough() {
    each(|mut world, publisher, what| {
        let _slow = Slow::new(&mut world, AtLeastOnce);
        publish(&mut world, publisher, AtLeastOnce, 1..=HIGH + 1);
        world.pass(50);
        // Each turn of this takes as long as a hold.
        for first in (HIGH + 2..MOST).step_by(3) {
            let three = first..=first + 2;
            let got = publish(&mut world, publisher, AtLeastOnce, three.clone());
            assert_eq!(got, [""; 0], "{what}");
            world.pass(MAX_HOLD_MS - 3 * 20 - 150);
            assert_eq!(publisher.got(), [""; 0], "{what}");
            world.pass(150);
            assert_eq!(publisher.got(), answers(AtLeastOnce, three), "{what}");
        }
        // The queue is full, which has its own rules.
        let mut got = publish(&mut world, publisher, AtLeastOnce, MOST + 1..=MOST + 1);
        world.pass(2 * MAX_HOLD_MS);
        got.extend(publisher.got());
        let is_v5 = world.setup.version == V5;
        let refused = if is_v5 { vec![format!("PUBACK {} failed", MOST + 1)] } else { vec![] };
        assert_eq!(got, refused, "{what}");
    });
}

#[test]
fn nobody_is_held_where_the_option_says_so_or_the_receiver_is_to_pay() {
    for lanes in [1, 2] {
        for (policy, max_hold_ms) in [
            (QueueFull::Refuse, 0),
            (QueueFull::DropNewest, MAX_HOLD_MS),
            (QueueFull::DropOldest, MAX_HOLD_MS),
            (QueueFull::EndSession, MAX_HOLD_MS),
        ] {
            let mut setup = narrow(V5, lanes, false);
            setup.options.limits.queue_full = policy;
            setup.options.limits.max_hold = Duration::from_millis(max_hold_ms);
            let mut world = setup.start();
            let _slow = Slow::new(&mut world, AtLeastOnce);
            let mut publisher = world.guest("publisher");
            let got = publish(&mut world, &mut publisher, AtLeastOnce, 1..=MOST);
            assert_eq!(got, answers(AtLeastOnce, 1..=MOST), "{policy:?}, {lanes} lanes");
        }
    }
}

#[test]
fn nobody_is_held_for_a_receiver_that_is_away_or_goes() {
    each(|mut world, publisher, what| {
        let mut slow = Slow::new(&mut world, AtLeastOnce);
        let held = HIGH + 2..=HIGH + 3;
        let got = publish(&mut world, publisher, AtLeastOnce, 1..=HIGH + 3);
        assert_eq!(got, answers(AtLeastOnce, 1..=HIGH + 1), "{what}");
        slow.client.disconnect();
        world.pass(20);
        assert_eq!(publisher.got(), answers(AtLeastOnce, held), "{what}");
        let more = HIGH + 4..=MOST;
        let got = publish(&mut world, publisher, AtLeastOnce, more.clone());
        assert_eq!(got, answers(AtLeastOnce, more), "{what}");
        // It comes back with all of that, and others wait for it again.
        let mut slow = world.call(&Hello::member(&slow.name));
        let got = publish(&mut world, publisher, AtLeastOnce, 1..=1);
        assert_eq!(got, [""; 0], "{what}");
        let got = drain(&mut world, &mut [&mut slow, publisher]);
        assert_eq!(got[1], ["PUBACK 1"], "{what}: {:?}", got[0]);
    });
}

#[test]
fn nobody_is_held_for_itself() {
    for version in VERSIONS {
        for in_memory in [false, true] {
            let mut world = narrow(version, 1, in_memory).start();
            let mut client = world.guest("self");
            world.subscribe(&mut client, "t", AtLeastOnce);
            let got = publish(&mut world, &mut client, AtLeastOnce, 1..=MOST);
            let acks = got.iter().filter(|line| line.starts_with("PUBACK")).count();
            assert_eq!(acks, usize::from(MOST), "{version:?}, in memory: {in_memory}: {got:?}");
        }
    }
}

#[test]
fn two_that_publish_to_each_other_wait_for_each_other_and_go_on() {
    const EACH: u16 = 60;
    for version in VERSIONS {
        for lanes in [1, 2, 3] {
            for in_memory in [false, true] {
                let mut world = narrow(version, lanes, in_memory).start();
                let mut clients = ["to-a", "to-b"].map(|name| {
                    let mut client = world.guest(name);
                    world.subscribe(&mut client, name, AtLeastOnce);
                    client
                });
                for (client, topic) in clients.iter_mut().zip(["to-b", "to-a"]) {
                    client.gather();
                    for id in 1..=EACH {
                        client.publish(Line::new(topic, &long(id.into(), 50), AtLeastOnce, id));
                    }
                    client.flush();
                }
                let [a, b] = &mut clients;
                let mut got = vec![Vec::new(); 2];
                for _ in 0..4 {
                    for (all, more) in got.iter_mut().zip(drain(&mut world, &mut [a, b])) {
                        all.extend(more);
                    }
                }
                for got in got {
                    let of =
                        |start: &str| got.iter().filter(|line| line.starts_with(start)).count();
                    let what = format!("{version:?}, {lanes} lanes, in memory: {in_memory}");
                    let counts = (of("to-"), of("PUBACK"));
                    assert_eq!(counts, (EACH.into(), EACH.into()), "{what}: {got:?}");
                    assert!(got.iter().all(|line| !line.contains("failed")), "{what}: {got:?}");
                }
            }
        }
    }
}

#[test]
fn a_group_passes_a_member_that_lags_by() {
    for lanes in [1, 2] {
        let mut world = narrow(V5, lanes, false).start();
        let mut slow = Slow::new(&mut world, AtLeastOnce);
        let mut publisher = world.guest("publisher");
        publish(&mut world, &mut publisher, AtLeastOnce, 1..=HIGH + 1);
        let mut other = world.guest("other");
        for member in [&mut slow.client, &mut other] {
            member.got();
            world.subscribe(member, "$share/g/u", AtLeastOnce);
        }
        for id in 1..=4 {
            world.publish(&mut publisher, Line::new("u", "x", AtLeastOnce, id));
        }
        assert_eq!(other.got().len(), 4, "{lanes} lanes");
    }
}
