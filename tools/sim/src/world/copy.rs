//! Copies of the log that another process makes while the broker serves, and a start on one.
//!
//! Owns: when they are made, and what goes on meanwhile. Does not know: how they are made.

use zzq_engine::State;
use zzq_engine::image::{Sections, Select};
use zzq_journal::{Taken, Wish, copy_log};
use zzq_types::Lsn;
use zzq_wal::sim_disk::SimDisk;

use super::World;
use crate::history::Event;
use crate::images::follow_to;
use crate::node::Broker;

impl World {
    /// The log is copied while everything goes on: to its end, or restored to a record.
    pub(super) fn copy(&mut self) {
        let (at, before) = match self.node.fold_so_far() {
            _ if self.copying => return,
            None => return,
            Some(Ok(fold)) => fold,
            Some(Err(error)) => return self.note(Event::Copied { outcome: Err(error) }),
        };
        self.copying = true;
        let (starts, images) = (self.starts.len(), self.images_made());
        let disk = self.node.device.disk.clone();
        let target = SimDisk::new();
        let to_end = self.copies.once_in(2);
        let wish = if to_end || at == Lsn::ZERO {
            Wish::End
        } else {
            Wish::Offset(zzq_wal::Lsn::new(at.get()))
        };
        let steps = self.copies.within(1, 60);
        let outcome = copy_log(&|| Ok(disk.clone()), &target, wish, &mut |_| {
            (0..steps).for_each(|_| self.step());
        });
        if let Ok(taken) = &outcome {
            // What the disk had may be committed a little later.
            self.step_until_committed(Lsn::new(taken.last_lsn));
        }
        self.copying = false;
        let has_died = self.node.broker.is_none() || self.starts.len() != starts || disk.is_off();
        let outcome = match outcome {
            // What it wanted may be gone each time that it comes back for it.
            Err(_) if has_died || self.disk_may_fail || self.images_made() > images => None,
            Err(error) => Some(Err(error.to_string())),
            Ok(taken) if has_died => {
                drop(taken);
                None
            }
            Ok(taken) => self.compare((at, before), &taken, &target).transpose(),
        };
        let Some(outcome) = outcome else {
            self.coverage.hit("copy not compared");
            return;
        };
        self.coverage.hit(match wish {
            Wish::End => "copy made",
            _ => "copy restored to a record",
        });
        self.note(Event::Copied { outcome });
    }

    fn step_until_committed(&mut self, last: Lsn) {
        for _ in 0..500 {
            let log = self.node.broker.as_ref().and_then(Broker::log);
            if log.is_none_or(|log| log.committed().get() >= last.get()) {
                return;
            }
            self.step();
        }
    }

    fn images_made(&self) -> u64 {
        self.coverage.count("image made") + self.coverage.count("image made for space")
    }

    /// Whether a copy holds what the log held at the record at which it ends, which is none before
    /// that of `state`; `None`: the log does not have it any more.
    fn compare(
        &mut self,
        (at, mut state): (Lsn, State),
        taken: &Taken,
        copy: &SimDisk,
    ) -> Result<Option<()>, String> {
        let last = Lsn::new(taken.last_lsn);
        if last < at {
            return Err(format!("it ends at {last}, and {at} was committed before"));
        }
        let log = self.node.broker.as_ref().and_then(Broker::log).cloned();
        let Some(log) = log else { return Ok(None) };
        if !follow_to(&mut state, &log, at, last)? {
            return Ok(None);
        }
        let copied = self.node.state_on(copy)?;
        let (live, copied) =
            (Sections::of(&state, Select::All), Sections::of(&copied, Select::All));
        if live == copied {
            return Ok(Some(()));
        }
        Err(crate::node::differences(&live, &copied))
    }

    /// The next start is on a copy of the disk. Without one there is nothing to say.
    pub(super) fn move_to_a_copy(&mut self) {
        let (disk, target) = (self.node.device.disk.clone(), SimDisk::new());
        match copy_log(&|| Ok(disk.clone()), &target, Wish::End, &mut |_| {}) {
            Ok(_) => {
                self.coverage.hit("start on a copy");
                // A copy has no strangers.
                self.plan.has_strangers = false;
                self.node.device.replace(target.restart());
            }
            Err(error) => self.note(Event::Copied { outcome: Err(error.to_string()) }),
        }
    }
}
