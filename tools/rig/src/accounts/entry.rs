//! What can stand in the accounts, a line each.
//!
//! Owns: the words. Does not know: who is right.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, bail};

use crate::cast::Who;

/// One thing that a client has said or was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// CONNACK: the client has a session that outlives its connections.
    Began {
        /// Which client.
        who: Who,
    },
    /// A publisher is about to send a message for the first time.
    Sent {
        /// Which publisher.
        by: usize,
        /// Its count.
        seq: u64,
        /// Its packet identifier; 0 without one.
        id: u16,
    },
    /// CONNACK: the broker has the will of this connection.
    Entrusted {
        /// Whose will.
        by: usize,
        /// Its count.
        seq: u64,
    },
    /// The client is about to say that it leaves: its will may come or not.
    Leaving {
        /// Whose will.
        by: usize,
        /// Its count.
        seq: u64,
    },
    /// PUBACK or PUBREC: the broker has the message. Of a will: its connection has ended without a
    /// word.
    Acked {
        /// Which publisher.
        by: usize,
        /// Its count.
        seq: u64,
    },
    /// The handshake is over, and the identifier free.
    Done {
        /// Which publisher.
        by: usize,
        /// Its count.
        seq: u64,
    },
    /// The broker has said that it does not take the message. Of a will: the client has left.
    Refused {
        /// Which publisher.
        by: usize,
        /// Its count.
        seq: u64,
    },
    /// A receiver that comes and goes is about to subscribe.
    Subscribing {
        /// Which receiver.
        who: usize,
    },
    /// It is about to unsubscribe.
    Unsubscribing {
        /// Which receiver.
        who: usize,
    },
    /// UNSUBACK.
    Unsubscribed {
        /// Which receiver.
        who: usize,
    },
    /// SUBACK.
    Subscribed {
        /// Which receiver.
        who: usize,
    },
    /// A receiver has a message, and is about to say so.
    Took {
        /// Which receiver.
        who: usize,
        /// The packet identifier by which it was sent; 0 at QoS 0.
        id: u16,
        /// At which QoS.
        qos: u8,
        /// Whose message.
        by: usize,
        /// That publisher's count.
        seq: u64,
    },
    /// PUBREL: the identifier names no message any more.
    Released {
        /// Which receiver.
        who: usize,
        /// Its packet identifier.
        id: u16,
    },
}

impl fmt::Display for Entry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began { who: Who::Publisher(at) } => write!(out, "began publisher {at}"),
            Self::Began { who: Who::Receiver(at) } => write!(out, "began receiver {at}"),
            Self::Sent { by, seq, id } => write!(out, "sent {by} {seq} {id}"),
            Self::Entrusted { by, seq } => write!(out, "entrusted {by} {seq}"),
            Self::Leaving { by, seq } => write!(out, "leaving {by} {seq}"),
            Self::Acked { by, seq } => write!(out, "acked {by} {seq}"),
            Self::Done { by, seq } => write!(out, "done {by} {seq}"),
            Self::Refused { by, seq } => write!(out, "refused {by} {seq}"),
            Self::Subscribing { who } => write!(out, "subscribing {who}"),
            Self::Unsubscribing { who } => write!(out, "unsubscribing {who}"),
            Self::Unsubscribed { who } => write!(out, "unsubscribed {who}"),
            Self::Subscribed { who } => write!(out, "subscribed {who}"),
            Self::Took { who, id, qos, by, seq } => {
                write!(out, "took {who} {id} {qos} {by} {seq}")
            }
            Self::Released { who, id } => write!(out, "released {who} {id}"),
        }
    }
}

impl FromStr for Entry {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        let (word, rest) = line.split_once(' ').context("an entry of two words or more")?;
        if word == "began" {
            let (kind, at) = rest.split_once(' ').context("a client's number")?;
            let at = at.parse()?;
            return match kind {
                "publisher" => Ok(Self::Began { who: Who::Publisher(at) }),
                "receiver" => Ok(Self::Began { who: Who::Receiver(at) }),
                _ => bail!("no client: {line:?}"),
            };
        }
        let numbers = rest.split(' ').map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        let place = |number: u64| usize::try_from(number).context("a client's number");
        let id = |number: u64| u16::try_from(number).context("a packet identifier");
        Ok(match (word, numbers.as_slice()) {
            ("sent", &[by, seq, name]) => Self::Sent { by: place(by)?, seq, id: id(name)? },
            ("entrusted", &[by, seq]) => Self::Entrusted { by: place(by)?, seq },
            ("leaving", &[by, seq]) => Self::Leaving { by: place(by)?, seq },
            ("acked", &[by, seq]) => Self::Acked { by: place(by)?, seq },
            ("done", &[by, seq]) => Self::Done { by: place(by)?, seq },
            ("refused", &[by, seq]) => Self::Refused { by: place(by)?, seq },
            ("subscribing", &[who]) => Self::Subscribing { who: place(who)? },
            ("unsubscribing", &[who]) => Self::Unsubscribing { who: place(who)? },
            ("unsubscribed", &[who]) => Self::Unsubscribed { who: place(who)? },
            ("subscribed", &[who]) => Self::Subscribed { who: place(who)? },
            ("took", &[who, name, qos, by, seq]) => {
                let qos = u8::try_from(qos)?;
                Self::Took { who: place(who)?, id: id(name)?, qos, by: place(by)?, seq }
            }
            ("released", &[who, name]) => Self::Released { who: place(who)?, id: id(name)? },
            _ => bail!("no entry: {line:?}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_were_written() {
        let entries = [
            Entry::Began { who: Who::Publisher(3) },
            Entry::Began { who: Who::Receiver(1) },
            Entry::Sent { by: 1, seq: 2, id: 3 },
            Entry::Entrusted { by: 1, seq: 2 },
            Entry::Leaving { by: 3, seq: 4 },
            Entry::Acked { by: 4, seq: 5 },
            Entry::Done { by: 6, seq: 7 },
            Entry::Refused { by: 8, seq: 9 },
            Entry::Subscribed { who: 2 },
            Entry::Subscribing { who: 5 },
            Entry::Unsubscribing { who: 5 },
            Entry::Unsubscribed { who: 5 },
            Entry::Took { who: 1, id: 2, qos: 1, by: 3, seq: 4 },
            Entry::Released { who: 5, id: 6 },
        ];
        for entry in entries {
            assert_eq!(entry.to_string().parse::<Entry>().unwrap(), entry);
        }
        for line in ["", "sent", "sent 1 2", "acked x 1", "began nobody 1", "took 1 99999 1 1 1"] {
            assert!(line.parse::<Entry>().is_err(), "{line:?}");
        }
    }
}
