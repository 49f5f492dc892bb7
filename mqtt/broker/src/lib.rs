//! The durable broker: connections and sessions on lanes, joined to the log and the state.
//!
//! Owns: the protocol machines, the wiring of lanes, engine and wal, the binary.
//! Does not know: unsafe code, what the disk looks like.
//!
//! ```
//! use zzq_broker::{Broker, BrokerOptions, Context};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let ctx = Context::new()?;
//! let broker = Broker::new(&ctx, BrokerOptions::default()).await?;
//! let bound = broker.bind("tcp://127.0.0.1:0").await?;
//! assert_ne!(bound.addr.port(), 0);
//! broker.shutdown(std::time::Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().build()?.block_on(run())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With [`BrokerOptions::data_dir`] every acknowledged publish is in the log before its
//! acknowledgement leaves, and a broker that is killed and started again has lost none.

#![forbid(unsafe_code)]

mod api;
pub mod clock;
mod exit;
mod fetch;
pub mod hooks;
mod images;
mod load;
mod metrics;
mod options;
#[cfg(not(feature = "planted-bugs"))]
mod planted;
#[cfg(feature = "planted-bugs")]
pub mod planted;
mod progress;
mod queue_total;
mod replay;
mod retained_order;
mod retained_room;
mod seeds;
mod seldom;
pub mod service;
mod session_total;
mod shared;
mod shell;
#[cfg(test)]
mod small_log;
mod standing;
mod start;
pub mod stepped;
mod sys;
pub mod units;

pub use api::Broker;
pub use exit::{EXIT_STATUS_HELP, ExitStatus};
pub use hooks::Hooks;
pub use metrics::Counts;
pub use options::{
    BrokerOptions, DeliverPolicy, DiskBackend, DiskLimits, Limits, LogPolicy, Qos0Full, QueueFull,
    Redirect, Retention,
};
pub use start::StartError;
pub use zzq_engine::{GroupStrategies, GroupStrategy};
pub use zzq_lanes::{BindError, Bound, BusyPoll, Context, DriverKind, EndpointError};
#[cfg(feature = "tls")]
pub use zzq_lanes::{
    ClientCerts, FileFault, HandshakeFault, TlsError, TlsFiles, TlsPart, TlsServer, TlsStats,
};
pub use zzq_types::{ProtocolVersion, QoS, ReasonCode};
