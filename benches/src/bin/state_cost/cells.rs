//! The cells: what each does to a broker, and which figures come of it.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::process::Signal;
use zzq_bench::client::{Client, leave, spread};
use zzq_bench::load::{Load, Pattern, Plan, Target, run};
use zzq_types::QoS;

use crate::server::Server;

pub(crate) type Start<'s> = dyn Fn(&[&str]) -> Result<Server> + 's;

/// A figure, and the bound that it has to keep, if it has one.
pub(crate) struct Figure {
    what: String,
    value: f64,
    unit: &'static str,
    bound: Option<Bound>,
}

#[derive(Clone, Copy)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Figure {
    pub(crate) fn new(what: &str, value: f64, unit: &'static str) -> Self {
        Self { what: what.to_owned(), value, unit, bound: None }
    }

    pub(crate) fn at_most(self, bound: f64) -> Self {
        Self { bound: Some(Bound::AtMost(bound)), ..self }
    }

    pub(crate) fn at_least(self, bound: f64) -> Self {
        Self { bound: Some(Bound::AtLeast(bound)), ..self }
    }

    /// Whether it keeps its bound.
    pub(crate) fn holds(&self) -> bool {
        self.bound.is_none_or(|bound| match bound {
            Bound::AtMost(most) => self.value <= most,
            Bound::AtLeast(least) => self.value >= least,
        })
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:<64}{:>12.2} {:<10}", self.what, self.value, self.unit)?;
        match self.bound {
            Some(Bound::AtMost(most)) if self.holds() => write!(out, "at most {most}"),
            Some(Bound::AtMost(most)) => write!(out, "ABOVE {most}"),
            Some(Bound::AtLeast(least)) if self.holds() => write!(out, "at least {least}"),
            Some(Bound::AtLeast(least)) => write!(out, "BELOW {least}"),
            None => Ok(()),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn mib_of_kib(kib: u64) -> f64 {
    mib(kib * 1024)
}

/// Images are made when they are asked for, and not else.
const ON_DEMAND: [&str; 2] = ["--snapshot-every=1000GiB", "--recovery-budget=1h"];

pub(crate) fn footprint(start: &Start<'_>) -> Result<Vec<Figure>> {
    let server = start(&[])?;
    let empty = mib(server.footprint()?);
    leave(server.address(), "one", "#")?;
    Client::connect(server.address(), "p", false)?.publish(16, 64, true, |n| format!("r/{n}"))?;
    Ok(vec![
        Figure::new("disk of an empty broker", empty, "MiB").at_most(8.0),
        Figure::new("disk with a session and 16 retained", mib(server.footprint()?), "MiB"),
    ])
}

/// Bytes of a payload of the cells with many messages.
const SMALL: usize = 100;

pub(crate) fn queue(start: &Start<'_>, messages: u32) -> Result<Vec<Figure>> {
    let mut server = start(&[])?;
    leave(server.address(), "away", "queue")?;
    let before = server.usage()?.resident_kib;
    let began = Instant::now();
    let mut publisher = Client::connect(server.address(), "p", false)?;
    publisher.publish(messages, SMALL, false, |_| "queue".to_owned())?;
    let filling = began.elapsed();
    let after = server.usage()?.resident_kib;
    let growth = mib_of_kib(after.saturating_sub(before));
    let mut figures =
        vec![Figure::new("memory for messages that wait", growth, "MiB").at_most(32.0)];
    for (signal, name) in
        [(Signal::KILL, "a kill"), (Signal::TERM, "a stop"), (Signal::KILL, "another kill")]
    {
        let took = server.restart(signal)?;
        let usage = server.usage()?;
        let held = mib_of_kib(usage.resident_kib.saturating_sub(before));
        figures.push(Figure::new(&format!("start after {name}"), took.as_secs_f64(), "s"));
        let what = format!("memory after {name}, above an empty broker");
        figures.push(Figure::new(&what, held, "MiB").at_most(32.0));
    }
    let began = Instant::now();
    Client::connect(server.address(), "away", true)?.take(messages)?;
    let ratio = began.elapsed().as_secs_f64() / filling.as_secs_f64();
    figures.push(Figure::new("time to take them, of that to publish them", ratio, "x"));
    Ok(figures)
}

/// Sessions that are away, a hundred of them with messages, and retained messages.
fn fill(server: &Server, sessions: u32, messages: u32) -> Result<()> {
    const WAITING: u32 = 100;
    spread(sessions, |from, to| {
        (from..to)
            .try_for_each(|n| leave(server.address(), &format!("s{n}"), &format!("queue/{n}")))
    })?;
    let waiting = WAITING.min(sessions);
    let mut publisher = Client::connect(server.address(), "p", false)?;
    publisher.publish(messages, SMALL, false, |n| format!("queue/{}", n % waiting))?;
    publisher.publish(messages, 16, true, |n| format!("retained/{}/{n}", n % 1000))
}

pub(crate) fn recovery(start: &Start<'_>, sessions: u32, messages: u32) -> Result<Vec<Figure>> {
    let mut server = start(&ON_DEMAND)?;
    fill(&server, sessions, messages)?;
    let log = server.restart(Signal::KILL)?;
    let log_bytes = mib(server.bytes_of("log")?);
    let (memory, took) = server.image()?;
    let mut figures = vec![
        Figure::new("start over the log alone", log.as_secs_f64(), "s"),
        Figure::new("the log then", log_bytes, "MiB"),
        Figure::new("memory to make an image of it", mib_of_kib(memory), "MiB").at_most(64.0),
        Figure::new("time to make it, held to its rate", took.as_secs_f64(), "s"),
        Figure::new("the image", mib(server.bytes_of("image")?), "MiB"),
    ];
    let mut took: Vec<Duration> = Vec::new();
    for _ in 0..3 {
        took.push(server.restart(Signal::KILL)?);
    }
    took.sort_unstable();
    let usage = server.usage()?;
    #[expect(clippy::cast_precision_loss, reason = "memory is far below 2^53 KiB")]
    let peak = usage.peak_kib as f64 / usage.resident_kib as f64;
    figures.push(Figure::new("start over an image", took[1].as_secs_f64(), "s").at_most(3.0));
    figures.push(Figure::new("memory then", mib_of_kib(usage.resident_kib), "MiB"));
    figures.push(Figure::new("the most of it, of what stays", peak, "x").at_most(1.2));
    Ok(figures)
}

pub(crate) fn amplification(start: &Start<'_>) -> Result<Vec<Figure>> {
    const PAYLOAD: usize = 4096;
    const ROUNDS: u32 = 10;
    // 1 GiB together.
    const EACH: u32 = 262_144 / ROUNDS;
    let server =
        start(&["--snapshot-every=1000GiB", "--recovery-budget=1h", "--max-queued-bytes=2GiB"])?;
    leave(server.address(), "away", "queue")?;
    let before = server.written()?;
    for _ in 0..ROUNDS {
        let mut publisher = Client::connect(server.address(), "p", false)?;
        publisher.publish(EACH, PAYLOAD, false, |_| "queue".to_owned())?;
        server.image()?;
    }
    let written = mib(server.written()? - before);
    let payloads = mib(u64::from(ROUNDS * EACH) * PAYLOAD as u64);
    let figure = Figure::new("bytes written for what waits", written / payloads, "x");
    Ok(vec![figure.at_most(2.0)])
}

pub(crate) fn latency(start: &Start<'_>, messages: u32) -> Result<Vec<Figure>> {
    const WINDOWS: u32 = 20;
    let server = start(&ON_DEMAND)?;
    // So that making an image takes about as long as a window.
    fill(&server, 1000, messages)?;
    let target = || Target { address: server.address(), pid: Some(server.pid()) };
    let plan = |load, seconds| Plan {
        load,
        duration: Duration::from_secs(seconds),
        ..Plan::plain(Pattern::Pairs(4), QoS::AtLeastOnce)
    };
    let most = run(&plan(Load::Closed, 3), target())?.delivered_per_second;
    let mut found = [Vec::new(), Vec::new()];
    for window in 0..WINDOWS {
        let with = window % 2 == 1;
        if with {
            server.begin_image()?;
        }
        let figures = run(&plan(Load::Paced(most / 2.0), 2), target())?;
        found[usize::from(with)].push((figures.ack.p50_us, figures.ack.p99_us));
    }
    let median = |with: usize, of: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = found[with].iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let ratio = |of: fn(&(f64, f64)) -> f64| median(1, of) / median(0, of);
    let (p50, p99) = (ratio(|pair| pair.0), ratio(|pair| pair.1));
    Ok(vec![
        Figure::new("p50 of publishes with an image being made, of without", p50, "x").at_most(1.1),
        Figure::new("p99 of publishes with an image being made, of without", p99, "x").at_most(1.5),
    ])
}
