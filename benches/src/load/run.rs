//! One run from the first connection to the figures.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use thiserror::Error;
use zzq_codec::{DecodeError, EncodeError};

use super::account::Counts;
use super::clock::Clock;
use super::engine::{Engine, Role, Shared};
use super::figures::{Figures, Recorder};
use super::link::Link;
use super::plan::{Pattern, Plan};
use super::process::{Usage, usage};
use super::publisher::Publisher;
use super::setup;
use super::subscriber::Subscriber;

/// Why there are no figures.
#[derive(Debug, Error)]
pub enum RunError {
    /// A socket, or /proc.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The plan cannot be put into packets.
    #[error("cannot be sent: {0}")]
    Encode(#[from] EncodeError),
    /// The broker sends what is no MQTT.
    #[error("cannot be read: {0}")]
    Decode(#[from] DecodeError),
    /// The broker says something else than expected.
    #[error("the broker answers {0}")]
    Answer(String),
    /// The broker closes a connection.
    #[error("the broker closed a connection")]
    Closed,
    /// A thread of the load has ended in a panic.
    #[error("a thread panicked")]
    Panic,
}

/// What load is put on.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its process, to be watched.
    pub pid: Option<u32>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Since the first message could be sent.
    pub elapsed: Duration,
    /// Messages sent.
    pub sent: u64,
    /// Messages delivered, repeated ones once.
    pub delivered: u64,
}

/// Runs a plan.
pub fn run(plan: &Plan, target: Target) -> Result<Figures, RunError> {
    run_watched(plan, target, Duration::MAX, &mut |_| {})
}

/// Runs a plan and says how far it is, so often and once at the end.
pub fn run_watched(
    plan: &Plan,
    target: Target,
    every: Duration,
    say: &mut (dyn FnMut(Progress) + Send),
) -> Result<Figures, RunError> {
    let subscribers = (0..plan.subscribers())
        .map(|number| {
            let link = setup::subscriber(target.address, plan, number)?;
            Ok((link, Role::Subscriber(Subscriber::new(plan, number))))
        })
        .collect::<Result<Vec<_>, RunError>>()?;
    let publishers = (0..plan.publishers())
        .map(|number| {
            let link = setup::publisher(target.address, plan, number)?;
            Ok((link, Role::Publisher(Publisher::new(plan, number)?)))
        })
        .collect::<Result<Vec<_>, RunError>>()?;
    thread::sleep(plan.settle);
    let used = |pid: Option<u32>| pid.map(|pid| usage(&pid.to_string())).transpose();
    let before = (used(target.pid)?, usage("self")?);
    let (shared, clock) = (Shared::default(), Clock::start());
    let crews = split(plan, publishers, subscribers);
    let engines = drive(plan, &shared, clock, crews, (every, say))?;
    let after = (used(target.pid)?, usage("self")?);
    let broker = before.0.zip(after.0).map(|(before, after)| spent(before, after));
    Ok(figures(plan, engines, broker, spent(before.1, after.1)))
}

/// The connections of each thread.
fn split(
    plan: &Plan,
    mut publishers: Vec<(Link, Role)>,
    subscribers: Vec<(Link, Role)>,
) -> Vec<Vec<(Link, Role)>> {
    if plan.threads > 1 {
        return vec![publishers, subscribers];
    }
    publishers.extend(subscribers);
    vec![publishers]
}

fn drive<'a>(
    plan: &'a Plan,
    shared: &'a Shared,
    clock: Clock,
    crews: Vec<Vec<(Link, Role)>>,
    (every, say): (Duration, &mut (dyn FnMut(Progress) + Send)),
) -> Result<Vec<Engine<'a>>, RunError> {
    let run = |ends| -> Result<Engine<'a>, RunError> {
        let mut engine = Engine::new(plan, shared, clock, ends)?;
        engine.run()?;
        Ok(engine)
    };
    thread::scope(|scope| {
        let (going_on, ended) = mpsc::channel::<()>();
        let watch = move || {
            // Nothing is ever sent: the other end is dropped at the end.
            while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                say(progress(shared, clock));
            }
            say(progress(shared, clock));
        };
        scope.spawn(watch);
        let threads: Vec<_> =
            crews.into_iter().map(|ends| scope.spawn(move || run(ends))).collect();
        let engines = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Err(RunError::Panic)))
            .collect();
        drop(going_on);
        engines
    })
}

fn progress(shared: &Shared, clock: Clock) -> Progress {
    let (sent, delivered) = shared.so_far();
    Progress { elapsed: Duration::from_nanos(clock.now()), sent, delivered }
}

fn spent(before: Usage, after: Usage) -> Usage {
    Usage { cpu_seconds: after.cpu_seconds - before.cpu_seconds, ..after }
}

/// What became of all messages, given up to which number each publisher was promised delivery: all
/// that it sent at QoS 0, all that was acknowledged above.
fn account(plan: &Plan, engines: &mut [Engine<'_>], promised: &[u64]) -> Counts {
    let mut subscribers = engines.iter_mut().flat_map(Engine::subscribers);
    if matches!(plan.pattern, Pattern::Shared(_))
        && let Some(all) = subscribers.next()
    {
        subscribers.for_each(|member| all.join(member));
        return all.counts(promised).at(plan.qos);
    }
    let mut counts = Counts::default();
    for subscriber in subscribers {
        counts += subscriber.counts(promised);
    }
    counts.at(plan.qos)
}

#[expect(clippy::cast_precision_loss, reason = "counts and times of a run are below 2^53")]
fn figures(
    plan: &Plan,
    mut engines: Vec<Engine<'_>>,
    broker: Option<Usage>,
    own: Usage,
) -> Figures {
    let promised: Vec<u64> =
        engines.iter().flat_map(Engine::publishers).map(Publisher::promised).collect();
    let published: u64 = engines.iter().flat_map(Engine::publishers).map(|one| one.sent).sum();
    let kept: u64 = promised.iter().sum();
    let acknowledged =
        engines.iter().flat_map(Engine::publishers).map(|one| one.acknowledged).sum::<u64>();
    let numbered = engines.iter().any(Engine::is_numbered);
    let counts = account(plan, &mut engines, &promised);
    let (mut acks, mut deliveries) = (Recorder::new(), Recorder::new());
    let (mut last_ack, mut last_delivery) = (0, 0);
    for engine in engines {
        last_ack = last_ack.max(engine.last_ack);
        last_delivery = last_delivery.max(engine.last_delivery);
        acks.merge(engine.acks);
        deliveries.merge(engine.deliveries);
    }
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let per = |count: u64, nanos: u64| if nanos == 0 { 0.0 } else { count as f64 / seconds(nanos) };
    let delivered = counts.delivered.max(1) as f64;
    let done = if numbered { acknowledged } else { published };
    Figures {
        published,
        acknowledged,
        unacknowledged: if numbered { published - acknowledged } else { published - kept },
        counts,
        publish_seconds: seconds(last_ack),
        deliver_seconds: seconds(last_delivery),
        published_per_second: per(done, last_ack),
        delivered_per_second: per(counts.delivered, last_delivery),
        deliver: deliveries.latency(),
        ack: acks.latency(),
        broker,
        broker_us_per_delivery: broker.map(|used| used.cpu_seconds * 1e6 / delivered),
        own_us_per_delivery: own.cpu_seconds * 1e6 / delivered,
    }
}
