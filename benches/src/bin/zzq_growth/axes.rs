//! The axes: which work grows, by which points, what is measured there, and what the structure
//! implies of it.

use std::collections::BTreeMap;

use anyhow::Result;
use zzq_bench::growth::Implied;

use crate::work::{self, Bench};

/// Work that grows.
pub(crate) struct Axis {
    /// How it is asked for, and how its chart is called.
    pub(crate) name: &'static str,
    /// How it stands on the page.
    pub(crate) title: &'static str,
    /// What is done at a point, and with which limits.
    pub(crate) says: &'static str,
    unit: Unit,
    /// Upwards.
    pub(crate) points: &'static [u64],
    /// Seconds that a unit takes, beside the streams of messages.
    each: f64,
    /// Files of this process that a unit takes.
    files: u64,
    pub(crate) work: Work,
    pub(crate) measures: &'static [Measure],
}

/// Measures a point on a broker of its own.
pub(crate) type Work = fn(&Bench<'_>, u64) -> Result<BTreeMap<&'static str, f64>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Count,
    Bytes,
}

/// A cost.
pub(crate) struct Measure {
    /// How it is kept, and how it stands on the page.
    pub(crate) name: &'static str,
    pub(crate) implied: Implied,
    /// The least point that counts: below it another cost covers this one.
    pub(crate) from: u64,
    /// That other cost is worth telling.
    pub(crate) told: bool,
    /// Why the structure implies that.
    pub(crate) why: &'static str,
}

impl Axis {
    /// A point as it stands on the page.
    pub(crate) fn label(&self, point: u64) -> String {
        const MEBI: u64 = 1 << 20;
        match (self.unit, point) {
            (Unit::Bytes, MEBI..) => format!("{} MiB", point / MEBI),
            (Unit::Bytes, 1024..) => format!("{} KiB", point / 1024),
            (Unit::Bytes, _) => format!("{point} B"),
            (Unit::Count, 1_000_000..) => format!("{} M", point / 1_000_000),
            (Unit::Count, 1000..) => format!("{} k", point / 1000),
            (Unit::Count, _) => point.to_string(),
        }
    }

    /// The points in the order of a round.
    pub(crate) fn in_turn(&self, round: u32) -> Vec<u64> {
        let mut points = self.points.to_vec();
        if round % 2 == 1 {
            points.reverse();
        }
        points
    }

    /// Whether so many open files are enough for a point.
    pub(crate) fn fits(&self, point: u64, files: u64) -> bool {
        const OTHERS: u64 = 64;
        point.saturating_mul(self.files).saturating_add(OTHERS) < files
    }

    /// About how long a point takes, with streams of so many seconds.
    #[expect(clippy::cast_precision_loss, reason = "points are far below 2^53")]
    pub(crate) fn seconds_of(&self, point: u64, seconds: f64) -> f64 {
        4.0 + 4.0 * seconds + point as f64 * self.each
    }
}

/// Names of measures, each where it is put and where it is told.
pub(crate) mod name {
    pub(crate) const JOIN: &str = "CPU to connect and subscribe, us";
    pub(crate) const CONNECTION: &str = "memory of a connection, bytes";
    pub(crate) const BESIDE: &str = "CPU of a message of one pair beside them, us";
    pub(crate) const BESIDE_ACK: &str = "its p50 to the acknowledgement, us";
    pub(crate) const TO_ALL: &str = "CPU of a delivery, one to all, us";
    pub(crate) const TO_ALL_MEMORY: &str = "memory at most, one to all, MiB";
    pub(crate) const PAIRS: &str = "CPU of a message, all in pairs, us";
    pub(crate) const SUBSCRIPTION: &str = "memory of a subscription, bytes";
    pub(crate) const CHURN: &str = "CPU of a SUBSCRIBE and an UNSUBSCRIBE, us";
    pub(crate) const SUBACK: &str = "p50 to the SUBACK, us";
    pub(crate) const KNOWN: &str = "CPU of a message, a thousand topics, us";
    pub(crate) const NEW: &str = "CPU of a message, a million topics, us";
    pub(crate) const QOS0: &str = "CPU of a message at QoS 0, us";
    pub(crate) const QOS1: &str = "CPU of a message at QoS 1, us";
    pub(crate) const ACK: &str = "p50 to the acknowledgement, us";
    pub(crate) const MEMORY: &str = "memory above an empty broker, MiB";
    pub(crate) const RETAINED: &str = "memory of a retained message, bytes";
    pub(crate) const REPLACE: &str = "CPU to replace one, us";
    pub(crate) const BY_TOPIC: &str = "p50 until one has come by its topic, us";
    pub(crate) const BY_LEVEL: &str = "p50 until the ten of a level have come, us";
    pub(crate) const BY_ALL: &str = "CPU of each of all, us";
    pub(crate) const STORED: &str = "CPU of a message at QoS 1 with storage, us";
    pub(crate) const STORED_ACK: &str = "p50 to the acknowledgement with storage, us";
    pub(crate) const EMPTY: &str = "memory of an empty broker, MiB";
    pub(crate) const SESSION: &str = "memory of a session, bytes";
    pub(crate) const COME_AND_GO: &str = "CPU to come, subscribe and leave, us";
    pub(crate) const START: &str = "start over them, us for each";
}

const fn steady(name: &'static str, from: u64, why: &'static str) -> Measure {
    Measure { name, implied: Implied::Steady, from, told: true, why }
}

const fn logarithmic(name: &'static str, from: u64, why: &'static str) -> Measure {
    Measure { name, implied: Implied::Logarithmic, from, told: true, why }
}

const fn linear(name: &'static str, from: u64, why: &'static str) -> Measure {
    Measure { name, implied: Implied::Linear, from, told: true, why }
}

const fn times(name: &'static str, most: f64, why: &'static str) -> Measure {
    Measure { name, implied: Implied::Times(most), from: 1, told: true, why }
}

/// Memory of one of many: where there are few it is lost among pages.
const fn each(name: &'static str, from: u64, why: &'static str) -> Measure {
    Measure { told: false, ..steady(name, from, why) }
}

/// All of them, in the order in which they are measured and told.
pub(crate) const AXES: &[Axis] = &[
    Axis {
        name: "connections",
        title: "Connections",
        says: "So many idle connections with a subscription each, and one pair at QoS 1 beside \
               them, window 1; then one publisher at QoS 0 to as many subscribers; then as many \
               connections in pairs at QoS 1, window 1. `--max-connections 19000 --connect-timeout \
               2s`.",
        unit: Unit::Count,
        points: &[1, 10, 100, 1000, 5000, 18_000],
        each: 8e-4,
        files: 1,
        work: work::connections,
        measures: &[
            steady(name::JOIN, 100, "nothing is searched among connections"),
            each(name::CONNECTION, 100, "each has what it has"),
            steady(name::BESIDE, 1, "epoll does not look at who is idle"),
            steady(name::BESIDE_ACK, 1, "as its CPU"),
            steady(name::TO_ALL, 100, "a receiver is an entry of a list and a write"),
            Measure {
                name: name::TO_ALL_MEMORY,
                implied: Implied::Within(256.0, 0.034),
                from: 1,
                told: true,
                why: "`--max-output-total`, and 32 KiB beside it with its connection",
            },
            steady(name::PAIRS, 100, "each message is an event, a read and a write"),
        ],
    },
    Axis {
        name: "subscriptions",
        title: "Subscriptions",
        says: "So many filters, every second one with a wildcard, in sessions of up to 10 000 \
               filters; then SUBSCRIBE and UNSUBSCRIBE of others, and one pair at QoS 0 whose \
               topics lead through the levels of these filters to another one.",
        unit: Unit::Count,
        points: &[1, 10, 100, 1000, 10_000, 100_000, 1_000_000],
        each: 1.2e-5,
        files: 0,
        work: work::subscriptions,
        measures: &[
            each(name::SUBSCRIPTION, 10_000, "an entry, its text, and at most two nodes"),
            steady(name::CHURN, 1, "tables of hashes, for whole topics and for levels"),
            steady(name::SUBACK, 1, "as its CPU"),
            steady(name::KNOWN, 1, "the answer for a topic is remembered"),
            steady(name::NEW, 1, "a look-up for each level, whatever lies beside"),
        ],
    },
    Axis {
        name: "topics",
        title: "Topics",
        says: "One pair whose publisher takes so many topics in turns, its subscriber one filter \
               for all; at QoS 1 with a window of 100. Below 10 a message goes with the one before \
               and is not routed.",
        unit: Unit::Count,
        points: &[1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000],
        each: 3e-6,
        files: 0,
        work: work::topics,
        measures: &[
            steady(name::QOS0, 10, "a topic is remembered, or looked up level by level"),
            steady(name::QOS1, 10, "as at QoS 0"),
            Measure {
                name: name::MEMORY,
                implied: Implied::AtMost(16.0),
                from: 1,
                told: true,
                why: "answers are remembered in 4 MiB; output and buffers are bounded too",
            },
        ],
    },
    Axis {
        name: "retained",
        title: "Retained messages",
        says: "So many retained messages of 16 bytes, ten to a level; then others in their place, \
               and subscriptions that find one, ten and all of them.",
        unit: Unit::Count,
        points: &[1, 10, 100, 1000, 10_000, 100_000, 1_000_000],
        each: 1.2e-5,
        files: 0,
        work: work::retained,
        measures: &[
            each(name::RETAINED, 10_000, "an entry and its topic in a tree, a payload"),
            logarithmic(name::REPLACE, 10, "a tree of topics"),
            logarithmic(name::BY_TOPIC, 10, "a tree of topics"),
            logarithmic(name::BY_LEVEL, 10, "those of a level lie together"),
            steady(name::BY_ALL, 100, "a walk through the tree"),
        ],
    },
    Axis {
        name: "payload",
        title: "Payload",
        says: "One pair with payloads of so many bytes: at QoS 0 as fast as it goes, at QoS 1 one \
               message at a time, and that with storage too. `--max-packet-size 17MiB`.",
        unit: Unit::Bytes,
        points: &[0, 64, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20],
        each: 2e-7,
        files: 0,
        work: work::payload,
        measures: &[
            linear(name::QOS0, 16 << 10, "copies, beyond what a message costs"),
            linear(name::QOS1, 16 << 10, "copies, beyond what a message costs"),
            linear(name::ACK, 16 << 10, "as its CPU"),
            linear(name::STORED, 16 << 10, "copies and checksums"),
            linear(name::STORED_ACK, 16 << 10, "writes of the log"),
            linear(name::MEMORY, 1 << 20, "some messages whole, in and out"),
        ],
    },
    Axis {
        name: "lanes",
        title: "Lanes",
        says: "16 pairs with so many lanes, at QoS 1 with a window of 100, and 100 000 filters. \
               There are as many processors as the machine has, and the load takes its part.",
        unit: Unit::Count,
        points: &[1, 2, 3, 4],
        each: 2.0,
        files: 0,
        work: work::lanes,
        measures: &[
            times(name::QOS0, 2.0, "all but 1/lanes cross to another lane, and wake it"),
            times(name::QOS1, 2.0, "all but 1/lanes cross to another lane, and wake it"),
            times(name::SUBSCRIPTION, 4.0, "each lane has a copy of the index"),
            times(name::CHURN, 4.0, "each lane is told, and woken"),
            times(name::EMPTY, 4.0, "each lane has its buffers"),
        ],
    },
    Axis {
        name: "sessions",
        title: "Sessions that are away",
        says: "So many sessions with a subscription each and nobody there, with storage; then the \
               broker is killed and started.",
        unit: Unit::Count,
        points: &[100, 1000, 10_000, 100_000],
        each: 4e-4,
        files: 0,
        work: work::sessions,
        measures: &[
            each(name::SESSION, 1000, "each has what it has"),
            steady(name::COME_AND_GO, 100, "tables of hashes, and records of the log"),
            steady(name::START, 1000, "a record after the other"),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn axis(name: &str) -> &'static Axis {
        AXES.iter().find(|axis| axis.name == name).unwrap()
    }

    #[test]
    fn axes_and_their_measures_have_names_of_their_own_and_points_go_upwards() {
        let names: BTreeSet<_> = AXES.iter().map(|axis| axis.name).collect();
        assert_eq!(names.len(), AXES.len());
        for axis in AXES {
            assert!(axis.points.is_sorted_by(|a, b| a < b), "{}", axis.name);
            let labels: BTreeSet<_> = axis.points.iter().map(|at| axis.label(*at)).collect();
            assert_eq!(labels.len(), axis.points.len(), "{labels:?}");
            let names: BTreeSet<_> = axis.measures.iter().map(|measure| measure.name).collect();
            assert_eq!(names.len(), axis.measures.len(), "{}", axis.name);
            for measure in axis.measures {
                let counts = axis.points.iter().filter(|point| **point >= measure.from).count();
                assert!(counts >= 2, "{} has a slope", measure.name);
            }
        }
    }

    #[test]
    fn the_axes_span_what_is_asked() {
        let span = |name| (axis(name).points[0], *axis(name).points.last().unwrap());
        assert_eq!(span("connections"), (1, 18_000));
        assert_eq!(span("subscriptions"), (1, 1_000_000));
        assert_eq!(span("topics"), (1, 10_000_000));
        assert_eq!(span("retained"), (1, 1_000_000));
        assert_eq!(span("payload"), (0, 16 << 20));
        assert_eq!(span("lanes"), (1, 4));
    }

    #[test]
    fn points_have_short_labels() {
        let label = |name, point| axis(name).label(point);
        assert_eq!(label("topics", 100), "100");
        assert_eq!(label("connections", 18_000), "18 k");
        assert_eq!(label("topics", 10_000_000), "10 M");
        assert_eq!(["0 B", "16 KiB", "4 MiB"], [0, 16384, 4 << 20].map(|at| label("payload", at)));
    }

    #[test]
    fn a_point_needs_files_and_time() {
        let connections = axis("connections");
        assert!(connections.fits(18_000, 20_000) && !connections.fits(18_000, 18_050));
        assert!(axis("topics").fits(10_000_000, 1024));
        assert!(connections.seconds_of(18_000, 1.0) > connections.seconds_of(1, 1.0) + 10.0);
        assert_eq!(axis("lanes").in_turn(0), [1, 2, 3, 4]);
        assert_eq!(axis("lanes").in_turn(1), [4, 3, 2, 1]);
    }
}
