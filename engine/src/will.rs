//! Wills: what is published when a connection ends and its client did not take it back.

use std::sync::Arc;

use zzq_types::Lsn;

/// The will of a session; its message is held at the record that set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Will {
    /// The Connect or `WillSet` record that holds the message.
    pub lsn: Lsn,
    /// How long it waits behind the end of the connection, in seconds.
    pub delay_s: u32,
    /// When it is to be published, in log time, once the session is down.
    pub due_ms: Option<u64>,
}

/// A will whose session has ended, or was taken over before it was published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachedWill {
    /// Whose it was.
    pub client: Arc<str>,
    /// When it is to be published, in log time: it waits for nothing else.
    pub due_ms: u64,
}
