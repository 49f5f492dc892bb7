//! Load on a broker: publishers and subscribers in one or two threads of this process, every
//! message marked, so that each loss, repetition and change of order is counted.
//!
//! A run connects everybody, subscribes, and only then starts the clock. Latencies of paced runs
//! count from the time a message was due, not from when it could be sent: a broker that stalls
//! answers for what waited.

mod account;
mod clock;
mod engine;
mod figures;
mod link;
mod plan;
mod process;
mod publisher;
mod report;
mod run;
mod setup;
mod stamp;
mod subscriber;
mod versus;

pub use account::{Counts, Tracker};
pub use figures::{Figures, Latency};
pub use plan::{Load, Pattern, Plan, TOPIC_DIGITS};
pub use process::{Broker, Usage, busy, raise_file_limit, usage};
pub use report::{table, versus_table};
pub use run::{Progress, RunError, Target, run, run_watched};
pub use setup::host_in_turn;
pub use stamp::{STAMP_LEN, Stamp};
pub use versus::{Ratio, Versus, measures, ratios};
