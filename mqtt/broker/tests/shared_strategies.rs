//! How shared groups choose, over several lanes: whatever lanes publishers and members are on, all
//! of them choose as one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use Version::{V4, V5};
use support::{Broker, Client, Version, payloads_up_to};

/// Clients of one kind, so that each of three lanes has some.
const MANY: usize = 9;

/// Runs a test over three lanes without a log and with one, side by side. Groups choose by
/// `strategy`, those named "turns" one after the other.
fn with_strategy(strategy: &str, test: impl Fn(&Broker) + Sync) {
    thread::scope(|scope| {
        for logged in [false, true] {
            let test = &test;
            scope.spawn(move || {
                let by_name = "turns=round-robin";
                let flags =
                    ["--lanes", "3", "--shared-strategy", strategy, "--shared-strategy", by_name];
                test(&Broker::start(logged, &flags));
            });
        }
    });
}

fn many(broker: &Broker, version: Version, kind: &str, count: usize) -> Vec<Client> {
    (0..count).map(|n| Client::connect(broker, version, &format!("{kind} {n}"))).collect()
}

fn members(broker: &Broker, filter: &str, count: usize) -> Vec<Client> {
    let mut members = many(broker, V5, "member", count);
    for member in &mut members {
        member.subscribe(filter, 1);
    }
    members
}

/// What each member has got so far; all of it is acknowledged.
fn got(broker: &Broker, members: &mut [Client]) -> Vec<Vec<String>> {
    let mut marker = Client::connect(broker, V4, "marker");
    let mut read = |(n, member): (usize, &mut Client)| {
        let topic = format!("marker/{n}");
        member.subscribe(&topic, 1);
        marker.say(&topic, "end", 1);
        let payloads = payloads_up_to(member, "end");
        member.unsubscribe(&[&topic]);
        payloads
    };
    members.iter_mut().enumerate().map(&mut read).collect()
}

/// Publishes from clients of all lanes, in turn; each message says who it is from and where to.
fn publish(publishers: &mut [Client], rounds: usize) -> usize {
    for round in 0..rounds {
        for (n, publisher) in publishers.iter_mut().enumerate() {
            let topic = format!("t/{}", (n + round) % 7);
            publisher.say(&topic, &format!("{n} {topic} {round}"), 1);
        }
    }
    rounds * publishers.len()
}

#[test]
fn turns_are_even_over_all_lanes() {
    with_strategy("round-robin", |broker| {
        let mut members = members(broker, "$share/g/t/#", 4);
        let mut publishers = many(broker, V4, "publisher", MANY);
        let sent = publish(&mut publishers, 8);
        let counts: Vec<usize> = got(broker, &mut members).iter().map(Vec::len).collect();
        assert_eq!(counts.iter().sum::<usize>(), sent);
        // Each lane is even up to one message.
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(most - least <= 3, "{counts:?}");
    });
}

#[test]
fn a_group_sticks_to_one_member_on_all_lanes_until_it_leaves() {
    with_strategy("sticky", |broker| {
        let mut members = members(broker, "$share/g/t/#", 4);
        let mut publishers = many(broker, V4, "publisher", MANY);
        let mut before = None;
        for _ in 0..members.len() - 1 {
            let sent = publish(&mut publishers, 2);
            let got = got(broker, &mut members);
            let who: Vec<usize> = (0..got.len()).filter(|&n| !got[n].is_empty()).collect();
            assert_eq!(who.len(), 1, "{got:?}");
            assert_eq!(got[who[0]].len(), sent);
            assert_ne!(before, Some(who[0]), "it has left");
            // No lane picks it any more when its UNSUBACK is there.
            members[who[0]].unsubscribe(&["$share/g/t/#"]);
            before = Some(who[0]);
        }
    });
}

#[test]
fn a_group_of_a_name_chooses_in_its_own_way() {
    with_strategy("sticky", |broker| {
        let mut members = members(broker, "$share/turns/t/#", 3);
        let mut publisher = Client::connect(broker, V5, "publisher");
        for n in 0..9 {
            publisher.say("t/x", &n.to_string(), 1);
        }
        assert!(got(broker, &mut members).iter().all(|got| got.len() == 3));
    });
}

/// Who has got the messages that agree in one word of theirs.
fn by_word(got: &[Vec<String>], word: usize) -> BTreeMap<String, BTreeSet<usize>> {
    let mut takers: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for (member, got) in got.iter().enumerate() {
        for payload in got {
            let key = payload.split(' ').nth(word).unwrap();
            takers.entry(key.to_owned()).or_default().insert(member);
        }
    }
    takers
}

#[test]
fn all_messages_of_a_client_come_to_one_member_also_when_it_has_been_away() {
    with_strategy("hash-client", |broker| {
        let mut members = members(broker, "$share/g/t/#", 4);
        let mut all = vec![Vec::new(); 4];
        for _ in 0..2 {
            let mut publishers = many(broker, V4, "publisher", MANY);
            publish(&mut publishers, 3);
            for (all, got) in all.iter_mut().zip(got(broker, &mut members)) {
                all.extend(got);
            }
            publishers.into_iter().for_each(Client::disconnect);
        }
        let takers = by_word(&all, 0);
        assert!(takers.len() == MANY && takers.values().all(|who| who.len() == 1), "{takers:?}");
        assert!(takers.values().collect::<BTreeSet<_>>().len() > 1, "{takers:?}");
    });
}

#[test]
fn all_messages_of_a_topic_come_to_one_member_whatever_lanes_they_come_from() {
    with_strategy("hash-topic", |broker| {
        let mut members = members(broker, "$share/g/t/#", 3);
        let mut publishers = many(broker, V4, "publisher", MANY);
        publish(&mut publishers, 7);
        let takers = by_word(&got(broker, &mut members), 1);
        assert!(takers.len() == 7 && takers.values().all(|who| who.len() == 1), "{takers:?}");
    });
}

#[test]
fn a_member_that_does_not_answer_gets_little_where_the_least_owed_is_picked() {
    with_strategy("least-inflight", |broker| {
        let mut members = members(broker, "$share/g/t/#", 3);
        let mut stuck = members.pop().unwrap();
        let mut publishers = many(broker, V4, "publisher", MANY);
        let mut answered = 0;
        let mut sent = 0;
        for _ in 0..10 {
            sent += publish(&mut publishers, 3);
            answered += got(broker, &mut members).iter().map(Vec::len).sum::<usize>();
            // Its answers are applied before what it publishes behind them.
            for member in &mut members {
                member.say("behind", "x", 1);
            }
        }
        let kept = sent - answered;
        stuck.subscribe("marker", 0);
        publishers[0].say("marker", "end", 0);
        assert_eq!(payloads_up_to(&mut stuck, "end").len(), kept);
        assert!(kept > 0 && kept <= sent / 6, "{kept} of {sent}: a third would be its turn");
    });
}
