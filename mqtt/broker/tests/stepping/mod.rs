//! A broker that is stepped in the thread of the test, where what it allocates is counted: over a
//! disk that keeps nothing, by a clock that stands still.

use zzq_broker::clock::{Clock, Reading};
use zzq_broker::stepped::{Stepped, SteppedOptions};
use zzq_wal::sim_disk::VoidDisk;

/// Nothing calls a lane when this disk has taken what it wrote: after so many turns in vain all is
/// done.
pub(crate) const IDLE: u32 = 4;

pub(crate) type Broker = Stepped<VoidDisk, Still>;

#[derive(Clone, Copy)]
pub(crate) struct Still;

impl Clock for Still {
    fn read(&mut self) -> Reading {
        Reading { boot_ms: 0, wall_ms: 1_700_000_000_000 }
    }
}

pub(crate) fn start(options: SteppedOptions) -> Broker {
    let mut wait = |log: &zzq_wal::Log<VoidDisk>| {
        log.helper_step(0);
        true
    };
    Stepped::start(VoidDisk::default(), options, Still, &mut wait).unwrap()
}
