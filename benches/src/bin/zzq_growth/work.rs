//! What is done at a point of each axis, on a broker that was started for it.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use zzq_bench::client::{Client, leave, spread};
use zzq_bench::load::{Broker, Figures, Pattern, Plan, Target, busy, host_in_turn, run, usage};
use zzq_bench::spread::Spread;
use zzq_types::QoS;

use crate::axes::name;

type Measures = BTreeMap<&'static str, f64>;

/// What is measured, and how long.
pub(crate) struct Bench<'a> {
    pub(crate) program: &'a Path,
    /// Where data directories are made.
    pub(crate) place: &'a Path,
    /// Of each stream of messages.
    pub(crate) seconds: f64,
}

/// Of every broker. A lane that looks for work before it sleeps takes processor time that belongs
/// to no message.
pub(crate) const SETTINGS: &str = "--busy-poll off";

/// Filters of one session.
const EACH_SESSION: u32 = 10_000;

/// SUBSCRIBEs, publishes and the like whose cost is measured beside what stands.
const SAMPLE: u32 = 20_000;

/// Of those that are waited for one by one.
const SINGLES: u32 = 200;

impl Bench<'_> {
    fn start(&self, lanes: u64, flags: &str) -> Result<Broker> {
        // It listens in this order, and the last one is waited for.
        let command = format!(
            "{} {flags} --bind tcp://127.0.0.1:{{port}} --lanes {lanes} {SETTINGS} --log-level \
             error",
            self.program.display()
        );
        Ok(Broker::start(&command, Some(self.place))?)
    }

    /// A stream of messages from which others differ.
    fn plan(&self, pattern: Pattern, qos: QoS) -> Plan {
        Plan {
            duration: Duration::from_secs_f64(self.seconds),
            patience: Duration::from_secs(20),
            ..Plan::plain(pattern, qos)
        }
    }
}

/// A run of which no message was lost, with the broker's CPU for each.
fn load(broker: &Broker, plan: &Plan) -> Result<(Figures, f64)> {
    let figures = run(plan, Target { address: broker.address(), pid: Some(broker.pid()) })?;
    ensure!(figures.is_complete(), "messages are missing: {figures:?}");
    Ok((figures, figures.broker_us_per_delivery.unwrap_or(f64::NAN)))
}

/// Memory held, in bytes.
#[expect(clippy::cast_precision_loss, reason = "memory is far below 2^53 bytes")]
fn resident(broker: &Broker) -> Result<f64> {
    Ok(usage(&broker.pid().to_string())?.resident_kib as f64 * 1024.0)
}

/// Memory held at most, in bytes.
#[expect(clippy::cast_precision_loss, reason = "memory is far below 2^53 bytes")]
fn peak(broker: &Broker) -> Result<f64> {
    Ok(usage(&broker.pid().to_string())?.peak_kib as f64 * 1024.0)
}

const MIB: f64 = 1_048_576.0;

/// The broker's CPU for each of `count` pieces of some work, in microseconds.
fn cpu_of(broker: &Broker, count: u32, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = busy(broker.pid())?;
    work()?;
    let spent = busy(broker.pid())?.saturating_sub(before);
    Ok(spent.as_secs_f64() * 1e6 / f64::from(count))
}

/// The median of what `each` takes, in microseconds.
fn p50(mut each: impl FnMut(u32) -> Result<Duration>) -> Result<f64> {
    let times = (0..SINGLES).map(|at| Ok(each(at)?.as_secs_f64() * 1e6));
    Ok(Spread::of(times.collect::<Result<Vec<f64>>>()?.into_iter()).median)
}

/// What the first clients bring along is not that of those who are counted.
fn warm(broker: &Broker) -> Result<Client> {
    let mut client = Client::connect(broker.address(), "warm", false)?;
    client.churn(1000, |at| format!("warm/{at}/+"))?;
    Ok(client)
}

pub(crate) fn connections(bench: &Bench<'_>, point: u64) -> Result<Measures> {
    /// Addresses that the broker listens at.
    const HOSTS: u8 = 3;
    /// Deliveries of one message to all are enough.
    const DELIVERIES: u64 = 20_000_000;
    /// So that a broker has seen all connections in, whose CONNECT it awaited for two seconds.
    const SETTLE: Duration = Duration::from_millis(2200);
    let count = u32::try_from(point)?;
    let flags = "--max-connections 19000 --connect-timeout 2s --bind tcp://127.0.0.2:{port} \
                 --bind tcp://127.0.0.3:{port}";
    let start = || bench.start(1, flags);
    let plan = |pattern, qos| Plan { settle: SETTLE, hosts: HOSTS, ..bench.plan(pattern, qos) };
    let broker = start()?;
    let _warm = warm(&broker)?;
    let before = resident(&broker)?;
    let mut all = Vec::new();
    let join = cpu_of(&broker, count, || {
        for at in 0..count {
            let address = host_in_turn(broker.address(), u32::from(HOSTS), at);
            let mut client = Client::connect(address, &format!("idle-{at}"), false)?;
            client.subscribe(&format!("idle/{at}"))?;
            all.push(client);
        }
        Ok(())
    })?;
    thread::sleep(SETTLE);
    let bytes = (resident(&broker)? - before) / f64::from(count);
    let pair = Plan { window: 1, ..plan(Pattern::Pairs(1), QoS::AtLeastOnce) };
    let (figures, beside) = load(&broker, &pair)?;
    drop((all, broker));
    let broker = start()?;
    let before = resident(&broker)?;
    let messages = (DELIVERIES / point).max(3000);
    let to_all = plan(Pattern::FanOut(count), QoS::AtMostOnce);
    let to_all = load(&broker, &Plan { count: Some(messages), ..to_all })?.1;
    let memory = (peak(&broker)? - before) / MIB;
    let pairs = plan(Pattern::Pairs((count / 2).max(1)), QoS::AtLeastOnce);
    let pairs = load(&start()?, &Plan { window: 1, ..pairs })?.1;
    Ok([
        (name::JOIN, join),
        (name::CONNECTION, bytes),
        (name::BESIDE, beside),
        (name::BESIDE_ACK, figures.ack.p50_us),
        (name::TO_ALL, to_all),
        (name::TO_ALL_MEMORY, memory),
        (name::PAIRS, pairs),
    ]
    .into())
}

/// Clients that hold so many filters together. These lie below the topics that streams take: whole
/// ones, and with a wildcard.
fn filters(broker: &Broker, count: u32) -> Result<Vec<Client>> {
    /// As many as the topics of a stream, so that these lead through them.
    const TOPICS: u32 = 1_000_000;
    let apart = (TOPICS / count).max(1);
    let filter = |at: u32| {
        let end = if at.is_multiple_of(2) { "x" } else { "+/y" };
        format!("load/0/{:08}/{end}", at * apart)
    };
    let sessions = (0..count).step_by(EACH_SESSION as usize);
    let client = |from: u32| {
        let mut client = Client::connect(broker.address(), &format!("filters-{from}"), false)?;
        let own = EACH_SESSION.min(count - from);
        client.subscribe_all(own, |at| filter(from + at))?;
        Ok(client)
    };
    sessions.map(client).collect()
}

pub(crate) fn subscriptions(bench: &Bench<'_>, point: u64) -> Result<Measures> {
    let count = u32::try_from(point)?;
    let broker = bench.start(1, "")?;
    let mut other = warm(&broker)?;
    let before = resident(&broker)?;
    let _clients = filters(&broker, count)?;
    let bytes = (resident(&broker)? - before) / f64::from(count);
    let churn = cpu_of(&broker, SAMPLE, || other.churn(SAMPLE, |at| format!("load/1/{at:08}/+")))?;
    let suback = p50(|at| {
        let began = Instant::now();
        other.subscribe(&format!("load/2/{at:08}/+"))?;
        Ok(began.elapsed())
    })?;
    let stream = |topics| Plan { topics, ..bench.plan(Pattern::Pairs(1), QoS::AtMostOnce) };
    let known = load(&broker, &stream(1000))?.1;
    let new = load(&broker, &stream(1_000_000))?.1;
    Ok([
        (name::SUBSCRIPTION, bytes),
        (name::CHURN, churn),
        (name::SUBACK, suback),
        (name::KNOWN, known),
        (name::NEW, new),
    ]
    .into())
}

pub(crate) fn topics(bench: &Bench<'_>, point: u64) -> Result<Measures> {
    /// What a stream of a second goes through in any case.
    const MANY: u64 = 1_000_000;
    let broker = bench.start(1, "")?;
    let _warm = warm(&broker)?;
    let before = resident(&broker)?;
    let mut measures = Measures::new();
    for (name, qos) in [(name::QOS0, QoS::AtMostOnce), (name::QOS1, QoS::AtLeastOnce)] {
        let mut plan = Plan { topics: u32::try_from(point)?, ..bench.plan(Pattern::Pairs(1), qos) };
        if point >= MANY {
            // Each once, however long that takes.
            (plan.count, plan.duration) = (Some(point), Duration::from_mins(5));
        }
        measures.insert(name, load(&broker, &plan)?.1);
    }
    measures.insert(name::MEMORY, (peak(&broker)? - before) / MIB);
    Ok(measures)
}

pub(crate) fn retained(bench: &Bench<'_>, point: u64) -> Result<Measures> {
    const BYTES: usize = 16;
    let count = u32::try_from(point)?;
    let topic = |at: u32| format!("retained/{}/{}", at / 10, at % 10);
    // Goes through all of them, far apart: the step is a prime that no count has as a factor.
    let anywhere = |at: u32| at * 7919 % count;
    let broker = bench.start(1, "")?;
    let mut client = warm(&broker)?;
    let before = resident(&broker)?;
    client.publish(count, BYTES, true, topic)?;
    let bytes = (resident(&broker)? - before) / f64::from(count);
    let replace =
        cpu_of(&broker, SAMPLE, || client.publish(SAMPLE, BYTES, true, |at| topic(anywhere(at))))?;
    let by_topic = p50(|at| client.fetch(&topic(anywhere(at)), 1))?;
    let level = |at: u32| format!("retained/{}/+", anywhere(at) / 10);
    let by_level = p50(|at| client.fetch(&level(at), count.min(10)))?;
    // As often as it takes to see it.
    let times = (SAMPLE / count).max(1);
    let by_all = cpu_of(&broker, times * count, || {
        (0..times).try_for_each(|_| client.fetch("retained/#", count).map(drop))
    })?;
    Ok([
        (name::RETAINED, bytes),
        (name::REPLACE, replace),
        (name::BY_TOPIC, by_topic),
        (name::BY_LEVEL, by_level),
        (name::BY_ALL, by_all),
    ]
    .into())
}

pub(crate) fn payload(bench: &Bench<'_>, point: u64) -> Result<Measures> {
    let payload = usize::try_from(point)?;
    let flags = "--max-packet-size 17MiB";
    let broker = bench.start(1, flags)?;
    let _warm = warm(&broker)?;
    let before = resident(&broker)?;
    let stream = |qos, window| Plan { payload, window, ..bench.plan(Pattern::Pairs(1), qos) };
    let qos0 = load(&broker, &stream(QoS::AtMostOnce, 1))?.1;
    let (acked, qos1) = load(&broker, &stream(QoS::AtLeastOnce, 1))?;
    let memory = (peak(&broker)? - before) / MIB;
    let broker = bench.start(1, &format!("{flags} --data-dir {{dir}}"))?;
    let plan = Plan { persistent: true, ..stream(QoS::AtLeastOnce, 1) };
    let (stored, stored_cpu) = load(&broker, &plan)?;
    Ok([
        (name::QOS0, qos0),
        (name::QOS1, qos1),
        (name::ACK, acked.ack.p50_us),
        (name::MEMORY, memory),
        (name::STORED, stored_cpu),
        (name::STORED_ACK, stored.ack.p50_us),
    ]
    .into())
}

pub(crate) fn lanes(bench: &Bench<'_>, point: u64) -> Result<Measures> {
    const PAIRS: Pattern = Pattern::Pairs(16);
    const FILTERS: u32 = 100_000;
    let broker = bench.start(point, "")?;
    let empty = resident(&broker)?;
    let qos0 = load(&broker, &bench.plan(PAIRS, QoS::AtMostOnce))?.1;
    let qos1 = load(&broker, &bench.plan(PAIRS, QoS::AtLeastOnce))?.1;
    let broker = bench.start(point, "")?;
    let mut other = warm(&broker)?;
    let before = resident(&broker)?;
    let _clients = filters(&broker, FILTERS)?;
    let bytes = (resident(&broker)? - before) / f64::from(FILTERS);
    let churn = cpu_of(&broker, SAMPLE, || other.churn(SAMPLE, |at| format!("load/1/{at:08}/+")))?;
    Ok([
        (name::QOS0, qos0),
        (name::QOS1, qos1),
        (name::SUBSCRIPTION, bytes),
        (name::CHURN, churn),
        (name::EMPTY, empty / MIB),
    ]
    .into())
}

pub(crate) fn sessions(bench: &Bench<'_>, point: u64) -> Result<Measures> {
    let count = u32::try_from(point)?;
    let mut broker = bench.start(1, "--data-dir {dir}")?;
    leave(broker.address(), "warm", "warm/#")?;
    let before = resident(&broker)?;
    let come_and_go = cpu_of(&broker, count, || {
        spread(count, |from, to| {
            (from..to).try_for_each(|at| {
                leave(broker.address(), &format!("s{at}"), &format!("away/{at}"))
            })
        })
    })?;
    let bytes = (resident(&broker)? - before) / f64::from(count);
    let start = broker.kill_and_restart()?.as_secs_f64() * 1e6 / f64::from(count);
    Ok([(name::SESSION, bytes), (name::COME_AND_GO, come_and_go), (name::START, start)].into())
}
