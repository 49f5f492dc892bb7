//! Cells that no stream of messages makes: what connections and sessions cost, and starts.

use anyhow::Result;
use zzq_bench::client::{Client, leave, spread};
use zzq_bench::load::{Broker, usage};

/// Which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Churn,
    Idle,
    Offline,
    FirstStart,
    Recovery,
}

/// How much of each kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) churn: u32,
    pub(crate) connections: u32,
    pub(crate) sessions: u32,
    pub(crate) retained: u32,
}

impl Sizes {
    pub(crate) const FULL: Self =
        Self { churn: 50_000, connections: 4000, sessions: 4000, retained: 20_000 };
    pub(crate) const QUICK: Self =
        Self { churn: 10_000, connections: 1000, sessions: 1000, retained: 5000 };
}

impl State {
    /// What its figure is called among results.
    pub(crate) const fn measure(self) -> &'static str {
        match self {
            Self::Churn => "churn us",
            Self::Idle => "idle bytes",
            Self::Offline => "offline bytes",
            Self::FirstStart => "first start ms",
            Self::Recovery => "recovery ms",
        }
    }

    /// Whether brokers have storage.
    pub(crate) const fn stores(self) -> bool {
        matches!(self, Self::Offline | Self::FirstStart | Self::Recovery)
    }

    /// Its figure on a new broker.
    pub(crate) fn figure(self, broker: &mut Broker, sizes: Sizes) -> Result<f64> {
        match self {
            Self::Churn => churn(broker, sizes.churn),
            Self::Idle => idle(broker, sizes.connections),
            Self::Offline => {
                let before = resident(broker)?;
                leave_all(broker, sizes.sessions)?;
                Ok((resident(broker)? - before) / f64::from(sizes.sessions))
            }
            Self::FirstStart => Ok(broker.started_in().as_secs_f64() * 1e3),
            Self::Recovery => {
                leave_all(broker, sizes.sessions)?;
                let mut publisher = Client::connect(broker.address(), "p", false)?;
                let topic = |n| format!("retained/{}/{n}", n % 100);
                publisher.publish(sizes.retained, 64, true, topic)?;
                Ok(broker.kill_and_restart()?.as_secs_f64() * 1e3)
            }
        }
    }
}

fn churn(broker: &Broker, count: u32) -> Result<f64> {
    let cpu = || Ok::<_, std::io::Error>(usage(&broker.pid().to_string())?.cpu_seconds);
    let mut client = Client::connect(broker.address(), "churn", false)?;
    let before = cpu()?;
    client.churn(count, |n| format!("plant/{n}/+/state"))?;
    Ok((cpu()? - before) * 1e6 / f64::from(count))
}

fn idle(broker: &Broker, count: u32) -> Result<f64> {
    let join = |n: u32| {
        let mut client = Client::connect(broker.address(), &format!("idle-{n}"), false)?;
        client.subscribe(&format!("idle/{n}"))?;
        Ok(client)
    };
    // What the first ones bring along is not theirs.
    let _first = (0..10).map(join).collect::<Result<Vec<_>>>()?;
    let before = resident(broker)?;
    let all = (10..10 + count).map(join).collect::<Result<Vec<_>>>()?;
    let after = resident(broker)?;
    drop(all);
    Ok((after - before) / f64::from(count))
}

fn leave_all(broker: &Broker, sessions: u32) -> Result<()> {
    spread(sessions, |from, to| {
        (from..to).try_for_each(|n| leave(broker.address(), &format!("s{n}"), &format!("away/{n}")))
    })
}

/// Memory held, in bytes.
#[expect(clippy::cast_precision_loss, reason = "memory is far below 2^53 bytes")]
fn resident(broker: &Broker) -> Result<f64> {
    Ok(usage(&broker.pid().to_string())?.resident_kib as f64 * 1024.0)
}
