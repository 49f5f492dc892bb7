//! What a client sends in one piece does what it does packet by packet.

use proptest::prelude::*;
use zzq_codec::AckKind;
use zzq_types::QoS;
use zzq_types::QoS::{AtLeastOnce, AtMostOnce, ExactlyOnce};

use super::harness::*;
use crate::metrics::Counts;
use crate::options::LogPolicy;

const ALL_QOS: [QoS; 3] = [AtMostOnce, AtLeastOnce, ExactlyOnce];

/// What of a broker makes a difference to runs.
#[derive(Clone, Debug)]
struct Case {
    lanes: u16,
    log: LogPolicy,
    publisher: usize,
    window: u16,
    queued_most: usize,
    /// Texts, some to another topic, retained, repeated or under an identifier in use.
    stream: Vec<(u8, usize)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let log = prop_oneof![Just(LogPolicy::Needed), Just(LogPolicy::All)];
    let stream = prop::collection::vec((0..24_u8, 0..40_usize), 2..24);
    let limits = (prop_oneof![Just(3_u16), Just(1024)], prop_oneof![Just(7_usize), Just(1000)]);
    (1..3_u16, log, 0..2_usize, limits, stream).prop_map(
        |(lanes, log, publisher, limits, stream)| {
            let (window, queued_most) = limits;
            // Elsewhere a full queue is known a turn later: more enters of what comes together.
            let at_once = lanes == 1 && log == LogPolicy::Needed;
            let queued_most = if at_once { queued_most } else { 1000 };
            Case { lanes, log, publisher, window, queued_most, stream }
        },
    )
}

/// A broker with receivers of both versions and each QoS, one who is away, and a publisher who
/// subscribes as well.
struct Stage {
    world: World,
    publisher: Client,
    receivers: Vec<Client>,
    together: bool,
}

impl Stage {
    fn new(case: &Case, together: bool) -> Self {
        let mut setup = Setup { lanes: case.lanes, ..Setup::new(VERSIONS[case.publisher]) };
        setup.options.log = case.log;
        setup.options.limits.max_inflight = case.window;
        setup.options.limits.max_queued_messages = case.queued_most;
        let mut world = setup.start();
        let mut publisher = world.guest("publisher");
        world.subscribe(&mut publisher, "t", AtLeastOnce);
        let mut receivers = Vec::new();
        for version in VERSIONS {
            world.setup.version = version;
            for qos in ALL_QOS {
                let mut receiver = world.guest(&format!("{version:?} {qos:?}"));
                world.subscribe(&mut receiver, "t", qos);
                receivers.push(receiver);
            }
        }
        Self { world, publisher, receivers, together }
    }

    fn publish(&mut self, case: &Case, qos: QoS) {
        if self.together {
            self.publisher.gather();
        }
        for (n, &(kind, len)) in (1..).zip(&case.stream) {
            let text = "x".repeat(len);
            let id = if kind == 3 && n > 2 { n - 2 } else { n };
            let line = Line::new(if kind == 0 { "u" } else { "t" }, &text, qos, id);
            self.publisher.publish(match kind {
                // Where the log has only some, what it has may be overtaken.
                1 if case.log == LogPolicy::All => line.retained(),
                2 | 3 if qos != AtMostOnce => line.again(),
                _ => line,
            });
            self.step();
        }
        if self.together {
            self.publisher.flush();
        }
        self.world.pass(50);
    }

    /// Without it all that is sent goes together.
    fn step(&mut self) {
        if !self.together {
            self.world.settle();
        }
    }

    /// Everybody answers what has come, in one piece or not.
    fn answer(&mut self, got: &[Vec<String>]) {
        let everybody = self.receivers.iter_mut().chain([&mut self.publisher]);
        for (client, lines) in everybody.zip(got) {
            if self.together {
                client.gather();
            }
            for line in lines {
                if let Some((kind, id)) = answer_to(line) {
                    client.ack(kind, id);
                    if !self.together {
                        self.world.settle();
                    }
                }
            }
            if self.together {
                client.flush();
            }
            self.world.settle();
        }
        self.world.pass(50);
    }

    /// What has come for everybody, the publisher last.
    fn got(&mut self) -> Vec<Vec<String>> {
        self.receivers.iter_mut().chain([&mut self.publisher]).map(Client::got).collect()
    }

    fn counts(&self, case: &Case) -> Vec<Counts> {
        (0..usize::from(case.lanes)).map(|lane| self.world.shell(lane).counts).collect()
    }
}

fn answer_to(line: &str) -> Option<(AckKind, u16)> {
    let number = |text: &str| text.split([' ', '#']).next_back()?.parse().ok();
    if let Some(id) = line.strip_prefix("PUBREC ") {
        return Some((AckKind::PubRel, number(id)?));
    }
    if let Some(id) = line.strip_prefix("PUBREL ") {
        return Some((AckKind::PubComp, number(id)?));
    }
    let (_, id) = line.split_once('#')?;
    let id = id.split(' ').next()?.parse().ok()?;
    Some((if line.contains(" q2 ") { AckKind::PubRec } else { AckKind::PubAck }, id))
}

/// Records and groups are fewer where packets go together.
fn without_the_log(counts: &Counts) -> Counts {
    Counts { records: 0, groups: 0, commits_timed: 0, commit_ms: 0, ..*counts }
}

/// One order for what comes of two kinds to one client: messages and answers cross each other.
fn apart(lines: &[String]) -> (Vec<String>, Vec<String>) {
    lines.iter().cloned().partition(|line| line.contains('='))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn a_run_comes_out_as_its_packets_do_one_by_one(case in cases()) {
        for qos in ALL_QOS {
            let mut whole = Stage::new(&case, true);
            let mut single = Stage::new(&case, false);
            whole.publish(&case, qos);
            single.publish(&case, qos);
            for round in 0.. {
                let (by_run, one_by_one) = (whole.got(), single.got());
                let ordered = |got: &[Vec<String>]| -> Vec<_> {
                    got.iter().map(|lines| apart(lines)).collect()
                };
                prop_assert_eq!(ordered(&by_run), ordered(&one_by_one), "{:?} {}", qos, round);
                if by_run.iter().all(Vec::is_empty) {
                    break;
                }
                whole.answer(&by_run);
                single.answer(&one_by_one);
            }
            let strip = |counts: Vec<Counts>| -> Vec<Counts> {
                counts.iter().map(without_the_log).collect()
            };
            prop_assert_eq!(strip(whole.counts(&case)), strip(single.counts(&case)));
        }
    }
}
