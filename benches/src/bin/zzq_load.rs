//! The load generator as a command.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command speaks")]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Parser, ValueEnum};
use zzq_bench::load::{
    Broker, Figures, Load, Pattern, Plan, Progress, STAMP_LEN, Target, Versus, raise_file_limit,
    ratios, run_watched, table, versus_table,
};
use zzq_types::{ProtocolVersion, QoS};

/// Puts load on an MQTT broker and counts what becomes of every message.
///
/// A broker is started for each run by `--broker 'CMD'`, in which {port} and {dir} are filled in,
/// or is named by `--address`. With `--versus 'CMD'` a second one takes turns with it.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    #[command(flatten)]
    pattern: PatternOptions,
    /// Topics of each publisher, in turns; subscribers hear them by a filter with a wildcard.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..100_000_000))]
    topics: u32,
    /// Quality of service of publishes and subscriptions.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=2))]
    qos: u8,
    /// Bytes of a payload; 20 of them are the mark.
    #[arg(long, default_value_t = 64)]
    payload: usize,
    /// Unacknowledged publishes of each publisher, at QoS 1 and 2.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..))]
    window: u16,
    /// Messages a second from all publishers together, each sent when it is due and its latency
    /// counted from then; without it, as fast as windows and sockets allow.
    #[arg(long)]
    rate: Option<f64>,
    /// Seconds of publishing.
    #[arg(long, default_value_t = 5.0)]
    duration: f64,
    /// Messages of each publisher, if fewer than the duration allows.
    #[arg(long)]
    count: Option<u64>,
    /// Version of MQTT.
    #[arg(long, default_value = "3.1.1")]
    mqtt: Version,
    /// Subscribers have sessions that outlive their connection.
    #[arg(long)]
    persistent: bool,
    /// Threads of the load: 2 gives subscribers one of their own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    threads: u8,
    /// Subscribers read nothing for so many seconds at the start, of those of publishing.
    #[arg(long, default_value_t = 0.0)]
    stall: f64,
    #[command(flatten)]
    target: TargetOptions,
    /// A second broker, which takes turns with the first.
    #[arg(long, requires = "broker")]
    versus: Option<String>,
    /// Rounds of both brokers.
    #[arg(long, default_value_t = 9)]
    rounds: u32,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
struct PatternOptions {
    /// Publishers, each with a subscriber of its own (the default, with 1).
    #[arg(long)]
    pairs: Option<u32>,
    /// One publisher and this many subscribers.
    #[arg(long)]
    fan_out: Option<u32>,
    /// This many publishers and one subscriber.
    #[arg(long)]
    fan_in: Option<u32>,
    /// One publisher and a group of this many subscribers, one of which gets each message.
    #[arg(long)]
    shared: Option<u32>,
}

#[derive(Debug, Args)]
struct TargetOptions {
    /// The command line of a broker, with {port} and {dir}.
    #[arg(long, required_unless_present = "address", conflicts_with = "address")]
    broker: Option<String>,
    /// Where {dir} is made; otherwise among temporary files.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// A broker that runs already.
    #[arg(long)]
    address: Option<SocketAddr>,
    /// Its process, to be watched.
    #[arg(long, requires = "address")]
    pid: Option<u32>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Version {
    #[value(name = "3.1")]
    V31,
    #[value(name = "3.1.1")]
    V311,
    #[value(name = "5")]
    V5,
}

impl Options {
    fn plan(&self) -> Result<Plan> {
        ensure!(self.payload >= STAMP_LEN, "a payload has at least {STAMP_LEN} bytes");
        ensure!(self.stall <= self.duration, "a stall ends before the publishing does");
        ensure!(self.rate.is_none_or(|rate| rate > 0.0), "a rate is above zero");
        let PatternOptions { pairs, fan_out, fan_in, shared } = self.pattern;
        let pairs = Pattern::Pairs(pairs.unwrap_or(1));
        let pattern = fan_out.map(Pattern::FanOut);
        let pattern = pattern.or(fan_in.map(Pattern::FanIn)).or(shared.map(Pattern::Shared));
        let pattern = pattern.unwrap_or(pairs);
        let plan = Plan {
            pattern,
            topics: self.topics,
            qos: QoS::from_bits(self.qos).context("a quality of service")?,
            payload: self.payload,
            window: self.window,
            load: self.rate.map_or(Load::Closed, Load::Paced),
            duration: Duration::try_from_secs_f64(self.duration).context("a duration")?,
            count: self.count,
            version: match self.mqtt {
                Version::V31 => ProtocolVersion::V31,
                Version::V311 => ProtocolVersion::V311,
                Version::V5 => ProtocolVersion::V5,
            },
            persistent: self.persistent,
            threads: self.threads,
            stall: Duration::try_from_secs_f64(self.stall).context("a stall")?,
            settle: Duration::ZERO,
            hosts: 1,
            patience: Duration::from_secs(3),
        };
        ensure!(plan.publishers() > 0 && plan.subscribers() > 0, "a pattern has two ends");
        Ok(plan)
    }

    fn on_new_broker(&self, plan: &Plan, command: &str) -> Result<Figures> {
        let broker = Broker::start(command, self.target.dir.as_deref())
            .with_context(|| format!("starting {command}"))?;
        let target = Target { address: broker.address(), pid: Some(broker.pid()) };
        watched(plan, target).with_context(|| format!("load on {command}"))
    }

    fn once(&self, plan: &Plan) -> Result<Figures> {
        match (&self.target.broker, self.target.address) {
            (Some(command), _) => self.on_new_broker(plan, command),
            (None, Some(address)) => watched(plan, Target { address, pid: self.target.pid }),
            (None, None) => bail!("no broker"),
        }
    }

    fn in_turns(&self, plan: &Plan, first: &str, second: &str) -> Result<Versus> {
        let mut rounds = Vec::new();
        for round in 0..self.rounds {
            // Who comes first changes, so that neither always finds the machine warm.
            let pair = if round % 2 == 0 {
                let pair = self.on_new_broker(plan, first)?;
                (pair, self.on_new_broker(plan, second)?)
            } else {
                let pair = self.on_new_broker(plan, second)?;
                (self.on_new_broker(plan, first)?, pair)
            };
            let rates = (pair.0.delivered_per_second, pair.1.delivered_per_second);
            eprintln!("round {}: {:.0} and {:.0} delivered/s", round + 1, rates.0, rates.1);
            rounds.push(pair);
        }
        let ratios = ratios(&rounds);
        Ok(Versus { rounds, ratios })
    }
}

/// A run that says on stderr how far it is, if it is long.
fn watched(plan: &Plan, target: Target) -> Result<Figures> {
    const EVERY: Duration = Duration::from_secs(2);
    let mut last = Progress { elapsed: Duration::ZERO, sent: 0, delivered: 0 };
    let mut say = |now: Progress| {
        let rate = (now.delivered - last.delivered) / EVERY.as_secs();
        if now.elapsed >= last.elapsed + EVERY {
            let seconds = now.elapsed.as_secs();
            eprintln!("{seconds} s: {} sent, {} delivered, {rate}/s", now.sent, now.delivered);
            last = now;
        }
    };
    Ok(run_watched(plan, target, EVERY, &mut say)?)
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let plan = options.plan()?;
    let (files, wanted) = (raise_file_limit()?, plan.publishers() + plan.subscribers());
    ensure!(files > u64::from(wanted) + 32, "{wanted} connections, and {files} files at most");
    let sound = if let (Some(first), Some(second)) = (&options.target.broker, &options.versus) {
        let versus = options.in_turns(&plan, first, second)?;
        print(options.json, &versus, || versus_table(&versus.ratios) + &faults(&versus.rounds))?;
        versus.rounds.iter().all(|(first, _)| first.is_complete())
    } else {
        let figures = options.once(&plan)?;
        print(options.json, &figures, || table(&figures))?;
        figures.is_complete()
    };
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(json: bool, result: &impl serde::Serialize, text: impl Fn() -> String) -> Result<()> {
    let text = if json { serde_json::to_string_pretty(result)? + "\n" } else { text() };
    print!("{text}");
    Ok(())
}

/// Which runs were not what they seem, so that no ratio hides it.
fn faults(rounds: &[(Figures, Figures)]) -> String {
    let count = |which: &dyn Fn(&(Figures, Figures)) -> bool| {
        rounds.iter().filter(|pair| which(pair)).count()
    };
    let first = count(&|pair| !pair.0.is_sound());
    let second = count(&|pair| !pair.1.is_sound());
    let first_open = count(&|pair| !pair.0.is_complete()) - first;
    let second_open = count(&|pair| !pair.1.is_complete()) - second;
    format!(
        "runs with faults: {first} of the first broker, {second} of the second\n\
         runs that dropped, repeated or left unanswered what MQTT lets them: {first_open}, \
         {second_open}\n"
    )
}
