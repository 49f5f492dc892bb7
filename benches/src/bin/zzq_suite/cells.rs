//! The cells of the tables: what is done to each broker, and what is asked of ours.

use std::time::Duration;

use zzq_bench::load::{Load, Pattern, Plan};
use zzq_types::QoS;

use crate::state::State;

/// One cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// How it is asked for.
    pub(crate) name: &'static str,
    /// How it stands in a table.
    pub(crate) title: &'static str,
    pub(crate) section: Section,
    pub(crate) work: Work,
    pub(crate) asked: &'static [Asked],
    pub(crate) headline: bool,
    /// Whether all peers are measured in it, not only those that are measured everywhere.
    pub(crate) common: bool,
}

/// Of the common cells those in which all peers are measured by a run that is to be short.
pub(crate) const FIRST: [&str; 2] = ["1-1-q1", "disk-1x16"];

impl Cell {
    /// To how many each of its messages goes.
    pub(crate) fn receivers(&self) -> u32 {
        match &self.work {
            Work::Stream(Stream { pattern: Pattern::FanOut(receivers), .. }) => *receivers,
            _ => 1,
        }
    }

    /// What its messages are published and subscribed with, if it has any.
    pub(crate) fn qos(&self) -> QoS {
        match &self.work {
            Work::Stream(stream) => stream.qos,
            Work::State(_) => QoS::AtMostOnce,
        }
    }

    /// Whether brokers have storage.
    pub(crate) fn stores(&self) -> bool {
        match &self.work {
            Work::Stream(_) => self.section == Section::Storage,
            Work::State(state) => state.stores(),
        }
    }
}

/// A table of its own, and whether brokers have storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Memory,
    Storage,
    State,
}

#[derive(Clone, Debug)]
pub(crate) enum Work {
    Stream(Stream),
    State(State),
}

/// Work of the load generator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    pattern: Pattern,
    qos: QoS,
    payload: usize,
    window: u16,
    rate: Option<f64>,
    topics: u32,
    persistent: bool,
}

impl Stream {
    /// What is promised is awaited for longer than what is not.
    pub(crate) fn plan(&self, seconds: f64) -> Plan {
        Plan {
            topics: self.topics,
            payload: self.payload,
            window: self.window,
            load: self.rate.map_or(Load::Closed, Load::Paced),
            duration: Duration::from_secs_f64(seconds),
            persistent: self.persistent,
            patience: Duration::from_secs(if self.qos == QoS::AtMostOnce { 3 } else { 10 }),
            ..Plan::plain(self.pattern, self.qos)
        }
    }
}

/// A target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Asked {
    pub(crate) measure: &'static str,
    pub(crate) of: Of,
    /// At most, or at least where more is better.
    pub(crate) bound: f64,
}

/// What a target is a part of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Of {
    /// Of a peer's figure, by the peer's family.
    Peer(&'static str),
    /// It is the figure itself.
    Itself,
}

/// The measures that have columns, in their order, and whether more of them is better.
pub(crate) const CPU: &str = "broker us/delivery";
pub(crate) const RATE: &str = "delivered/s";
pub(crate) const ACK: &str = "ack p50 us";
pub(crate) const DELIVER: &str = "deliver p50 us";
pub(crate) const PEAK: &str = "peak KiB";

pub(crate) fn more_is_better(measure: &str) -> bool {
    measure.ends_with("/s")
}

/// The family of the peer that a target is a part of.
pub(crate) fn of_peer(asked: &Asked) -> Option<&'static str> {
    match asked.of {
        Of::Peer(family) => Some(family),
        Of::Itself => None,
    }
}

const fn of_published(measure: &'static str, bound: f64) -> Asked {
    Asked { measure, of: Of::Peer("zzq-broker"), bound }
}

const fn itself(measure: &'static str, bound: f64) -> Asked {
    Asked { measure, of: Of::Itself, bound }
}

const CPU_QOS0: &[Asked] = &[of_published(CPU, 0.9)];
const CPU_ACKED: &[Asked] = &[of_published(CPU, 0.75)];
const CPU_APART: &[Asked] = &[of_published(CPU, 0.95)];
const CPU_STATE: &[Asked] = &[of_published(CPU, 0.6)];
const SLOW: &[Asked] = &[Asked { measure: CPU, of: Of::Peer("mosquitto"), bound: 0.8 }];

/// What is asked with storage: p50 to the acknowledgement, and rate.
macro_rules! durable {
    ($p50:expr, $rate:expr) => {
        &[of_published(ACK, $p50), of_published(RATE, $rate), of_published(DELIVER, 1.0)]
    };
}

/// One to one at QoS 0, from which the others differ.
const ONE: Stream = Stream {
    pattern: Pattern::Pairs(1),
    qos: QoS::AtMostOnce,
    payload: 64,
    window: 100,
    rate: None,
    topics: 1,
    persistent: false,
};
const Q1: Stream = Stream { qos: QoS::AtLeastOnce, ..ONE };
const Q2: Stream = Stream { qos: QoS::ExactlyOnce, ..ONE };

const fn memory(
    name: &'static str,
    title: &'static str,
    stream: Stream,
    asked: &'static [Asked],
) -> Cell {
    Cell {
        name,
        title,
        section: Section::Memory,
        work: Work::Stream(stream),
        asked,
        headline: false,
        common: false,
    }
}

const fn storage(
    name: &'static str,
    title: &'static str,
    (publishers, window): (u32, u16),
    asked: &'static [Asked],
) -> Cell {
    let pattern = Pattern::Pairs(publishers);
    stored(name, title, Stream { pattern, window, ..Q1 }, asked)
}

const fn stored(
    name: &'static str,
    title: &'static str,
    stream: Stream,
    asked: &'static [Asked],
) -> Cell {
    Cell {
        name,
        title,
        section: Section::Storage,
        work: Work::Stream(Stream { persistent: true, ..stream }),
        asked,
        headline: false,
        common: false,
    }
}

const fn state(
    name: &'static str,
    title: &'static str,
    state: State,
    asked: &'static [Asked],
) -> Cell {
    let work = Work::State(state);
    Cell { name, title, section: Section::State, work, asked, headline: false, common: false }
}

const fn headline(cell: Cell) -> Cell {
    Cell { headline: true, ..cell }
}

const fn common(cell: Cell) -> Cell {
    Cell { common: true, ..cell }
}

const OUT: Pattern = Pattern::FanOut(10);
const INTO: Pattern = Pattern::FanIn(10);
const PAIRS: Pattern = Pattern::Pairs(100);
const CROWD: Pattern = Pattern::FanOut(1000);

/// All of them, in the order in which they are measured and told.
pub(crate) const CELLS: &[Cell] = &[
    headline(common(memory("1-1-q0", "1 to 1, QoS 0", ONE, CPU_QOS0))),
    headline(common(memory("1-1-q1", "1 to 1, QoS 1, window 100", Q1, CPU_ACKED))),
    headline(common(memory("1-1-q2", "1 to 1, QoS 2, window 100", Q2, CPU_ACKED))),
    headline(common(memory("1-10-q0", "1 to 10, QoS 0", Stream { pattern: OUT, ..ONE }, CPU_QOS0))),
    headline(common(memory("1-10-q1", "1 to 10, QoS 1", Stream { pattern: OUT, ..Q1 }, CPU_ACKED))),
    headline(common(memory("1-10-q2", "1 to 10, QoS 2", Stream { pattern: OUT, ..Q2 }, CPU_ACKED))),
    headline(common(memory(
        "10-1-q0",
        "10 to 1, QoS 0",
        Stream { pattern: INTO, ..ONE },
        CPU_QOS0,
    ))),
    headline(common(memory(
        "10-1-q1",
        "10 to 1, QoS 1",
        Stream { pattern: INTO, ..Q1 },
        CPU_ACKED,
    ))),
    headline(common(memory(
        "10-1-q2",
        "10 to 1, QoS 2",
        Stream { pattern: INTO, ..Q2 },
        CPU_ACKED,
    ))),
    headline(memory(
        "slow-q1",
        "1 to 1, QoS 1, 2000 a second",
        Stream { rate: Some(2000.0), ..Q1 },
        SLOW,
    )),
    headline(storage("disk-1x1", "1 publisher, window 1", (1, 1), durable!(0.8, 1.3))),
    headline(common(storage("disk-1x16", "1 publisher, window 16", (1, 16), durable!(0.7, 1.8)))),
    headline(storage("disk-1x1024", "1 publisher, window 1024", (1, 1024), durable!(0.6, 1.8))),
    headline(storage("disk-100x16", "100 publishers, window 16", (100, 16), durable!(0.6, 1.8))),
    memory("slow-q0", "1 to 1, QoS 0, 2000 a second", Stream { rate: Some(2000.0), ..ONE }, SLOW),
    memory("100-100-q0", "100 to 100, QoS 0", Stream { pattern: PAIRS, ..ONE }, CPU_QOS0),
    memory("100-100-q1", "100 to 100, QoS 1", Stream { pattern: PAIRS, ..Q1 }, CPU_ACKED),
    memory(
        "100-100-w1",
        "100 to 100, QoS 1, window 1",
        Stream { pattern: PAIRS, window: 1, ..Q1 },
        CPU_APART,
    ),
    memory("1-1000-q0", "1 to 1000, QoS 0", Stream { pattern: CROWD, ..ONE }, CPU_QOS0),
    memory("1-1000-q1", "1 to 1000, QoS 1", Stream { pattern: CROWD, ..Q1 }, CPU_ACKED),
    memory("1k-q0", "1 to 1, QoS 0, 1 KiB", Stream { payload: 1 << 10, ..ONE }, CPU_QOS0),
    memory("1k-q1", "1 to 1, QoS 1, 1 KiB", Stream { payload: 1 << 10, ..Q1 }, CPU_ACKED),
    common(memory("4k-q0", "1 to 1, QoS 0, 4 KiB", Stream { payload: 4 << 10, ..ONE }, CPU_QOS0)),
    common(memory("4k-q1", "1 to 1, QoS 1, 4 KiB", Stream { payload: 4 << 10, ..Q1 }, CPU_ACKED)),
    common(memory(
        "4k-1-10-q1",
        "1 to 10, QoS 1, 4 KiB",
        Stream { pattern: OUT, payload: 4 << 10, ..Q1 },
        CPU_ACKED,
    )),
    common(memory(
        "4k-10-1-q1",
        "10 to 1, QoS 1, 4 KiB",
        Stream { pattern: INTO, payload: 4 << 10, ..Q1 },
        CPU_ACKED,
    )),
    memory("16k-q0", "1 to 1, QoS 0, 16 KiB", Stream { payload: 16 << 10, ..ONE }, CPU_QOS0),
    memory("16k-q1", "1 to 1, QoS 1, 16 KiB", Stream { payload: 16 << 10, ..Q1 }, CPU_ACKED),
    memory(
        "topics-q0",
        "1 to 1, QoS 0, 1 M topics in turns",
        Stream { topics: 1_000_000, ..ONE },
        CPU_STATE,
    ),
    memory(
        "topics-q1",
        "1 to 1, QoS 1, 1 M topics in turns",
        Stream { topics: 1_000_000, ..Q1 },
        CPU_STATE,
    ),
    common(stored(
        "disk-1-10",
        "1 publisher to 10, window 16",
        Stream { pattern: OUT, window: 16, ..Q1 },
        &[],
    )),
    common(stored(
        "disk-10-1",
        "10 publishers to 1, window 16",
        Stream { pattern: INTO, window: 16, ..Q1 },
        &[],
    )),
    common(stored(
        "disk-4k",
        "1 publisher, window 16, 4 KiB",
        Stream { payload: 4 << 10, window: 16, ..Q1 },
        &[],
    )),
    storage("disk-1x256", "1 publisher, window 256", (1, 256), durable!(0.6, 1.8)),
    storage("disk-10x1", "10 publishers, window 1", (10, 1), durable!(0.6, 1.4)),
    storage("disk-10x16", "10 publishers, window 16", (10, 16), durable!(0.6, 1.8)),
    storage("disk-100x1", "100 publishers, window 1", (100, 1), durable!(0.7, 1.4)),
    state(
        "churn",
        "CPU of a SUBSCRIBE and an UNSUBSCRIBE, us",
        State::Churn,
        &[of_published(State::Churn.measure(), 0.6)],
    ),
    state(
        "idle",
        "memory of an idle connection with a subscription, bytes",
        State::Idle,
        &[itself(State::Idle.measure(), 1000.0)],
    ),
    state(
        "offline",
        "memory of an offline session with storage, bytes",
        State::Offline,
        &[itself(State::Offline.measure(), 1024.0)],
    ),
    state(
        "start",
        "first start on an empty directory, ms",
        State::FirstStart,
        &[itself(State::FirstStart.measure(), 150.0)],
    ),
    state(
        "recovery",
        "start over sessions and retained messages, ms",
        State::Recovery,
        &[of_published(State::Recovery.measure(), 0.5)],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_cell_has_a_name_of_its_own() {
        let names: BTreeSet<_> = CELLS.iter().map(|cell| cell.name).collect();
        assert_eq!(names.len(), CELLS.len());
    }

    #[test]
    fn what_a_short_run_measures_of_all_peers_is_common() {
        for name in FIRST {
            assert!(CELLS.iter().any(|cell| cell.name == name && cell.common), "{name}");
        }
    }

    #[test]
    fn sections_stand_together_and_say_whether_there_is_storage() {
        for cell in CELLS {
            let Work::Stream(stream) = &cell.work else { continue };
            assert_eq!(stream.persistent, cell.section == Section::Storage, "{}", cell.name);
        }
    }
}
