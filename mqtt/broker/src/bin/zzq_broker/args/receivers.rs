//! Flags of who gets a message: of a shared group, and at QoS 0 when a receiver is slow.

use clap::{Args, ValueEnum};
use zzq_broker::{GroupStrategies, GroupStrategy, Qos0Full};

/// See the file.
#[derive(Debug, Args)]
pub(crate) struct ReceiverFlags {
    /// What becomes of QoS 0 messages to a receiver whose output is full (--max-output).
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Full0::Slow)]
    pub(crate) qos0_full: Full0,

    /// How shared groups choose among the members that can take a message: STRATEGY for all of
    /// them, GROUP=STRATEGY for those of one name; may be given several times.
    ///
    /// round-robin: one after the other. least-inflight: who is owed the fewest QoS 1 and 2
    /// messages. sticky: the same one, who has been connected for longest. hash-client: the same
    /// one for a publishing client. hash-topic: the same one for a topic.
    #[arg(long, value_name = "[GROUP=]STRATEGY", default_value = "round-robin",
          value_parser = parse_shared)]
    pub(crate) shared_strategy: Vec<(Option<Box<str>>, GroupStrategy)>,
}

impl ReceiverFlags {
    /// What stands later for the same groups counts.
    pub(super) fn group_strategies(&self) -> GroupStrategies {
        let mut all = GroupStrategies::default();
        for (group, strategy) in &self.shared_strategy {
            match group {
                Some(group) => drop(all.named.insert(group.clone(), *strategy)),
                None => all.others = *strategy,
            }
        }
        all
    }
}

/// `--qos0-full`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Full0 {
    /// Their publishers are slowed down, for up to --max-hold; then they are dropped until the
    /// receiver has read what waits.
    Slow,
    /// They are dropped at once.
    Drop,
}

impl From<Full0> for Qos0Full {
    fn from(flag: Full0) -> Self {
        match flag {
            Full0::Slow => Self::Slow,
            Full0::Drop => Self::Drop,
        }
    }
}

/// `--shared-strategy`: the group it is for, if it is not for all.
fn parse_shared(text: &str) -> Result<(Option<Box<str>>, GroupStrategy), String> {
    // A group's name may hold any character but those of filters.
    let (group, name) = text.rsplit_once('=').map_or((None, text), |(g, name)| (Some(g), name));
    if let Some(group) = group
        && (group.is_empty() || group.contains(['/', '+', '#']))
    {
        return Err(format!("'{group}' is no name of a group"));
    }
    let strategies = [
        ("round-robin", GroupStrategy::RoundRobin),
        ("least-inflight", GroupStrategy::LeastInflight),
        ("sticky", GroupStrategy::Sticky),
        ("hash-client", GroupStrategy::HashClient),
        ("hash-topic", GroupStrategy::HashTopic),
    ];
    let found = strategies.iter().find(|(known, _)| *known == name).map(|(_, one)| *one);
    let names = strategies.map(|(known, _)| known).join(", ");
    found
        .map(|strategy| (group.map(Into::into), strategy))
        .ok_or_else(|| format!("'{name}' is no strategy: {names}"))
}
