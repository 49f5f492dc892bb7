//! Starts on copies of the disk that are damaged as no fault of an operation damages them: the life
//! itself goes on with the disk as it was.
//!
//! Owns: when that is tried, and the starts. Does not know: what has to follow.

use std::hash::{DefaultHasher, Hash, Hasher};

use zzq_broker::StartError;
use zzq_engine::image::{Sections, Select};
use zzq_wal::Log;
use zzq_wal::sim_disk::SimDisk;

use super::World;
use crate::damage::{Change, Expected, Outcome, Served, Store, judge};
use crate::history::Event;
use crate::images::Images;
use crate::node::{Broker, differences};

/// Copies of one disk.
const COPIES: usize = 2;

impl World {
    /// At a death, before the next start.
    pub(super) fn damage_copies(&mut self) {
        if self.calm || !self.damages.once_in(self.faults.damage) {
            return;
        }
        let disk = self.node.device.disk.restart();
        // What a start needs of space is asked elsewhere.
        disk.set_capacity(u64::MAX);
        let Some(mut store) = Store::look(&disk) else { return };
        if store.quotes {
            self.coverage.hit("copy of a group within a group");
        }
        store.may_lack = self.history.disk_may_fail;
        let salts = self.damages.draw();
        // One that cannot be started on as it is shows nothing.
        let Ok(sound) = self.serve(&disk.restart(), salts) else { return };
        store.end_with(sound.last);
        let Some(sound) = sound.state else { return };
        for _ in 0..COPIES {
            let change = store.draw(&mut self.damages);
            let copy = disk.restart();
            let change = change.filter(|change| change.carry_out(&store, &copy).unwrap_or(false));
            if let Some(change) = change {
                self.try_on(&change, &store, &copy, &sound, salts);
            }
        }
    }

    fn try_on(
        &mut self,
        change: &Change,
        store: &Store,
        copy: &SimDisk,
        sound: &Sections,
        salts: u64,
    ) {
        let expected = store.expected(change);
        let outcome = match self.serve(copy, salts) {
            Ok(Trial { state, served, .. }) => {
                let differs = state.filter(|state| state != sound);
                let differs = differs.map(|state| differences(&state, sound));
                Outcome::Served(Served { differs, ..served })
            }
            Err(error @ StartError::Damaged { .. }) => Outcome::Refused(error.to_string()),
            Err(error) => Outcome::Fell(error.to_string()),
        };
        self.coverage.hit(change.kind());
        self.coverage.hit(match (&outcome, &expected) {
            (Outcome::Refused(_) | Outcome::Fell(_), _) => "start on damage refused",
            (_, Expected::Prefix(..)) => "start on damage ends early",
            _ => "start on damage has all",
        });
        let outcome = judge(&expected, store, &outcome);
        self.note(Event::Damaged { what: change.to_string(), outcome });
    }

    /// What a broker has that is started on this disk.
    fn serve(&self, disk: &SimDisk, salts: u64) -> Result<Trial, StartError> {
        let broker = self.node.start_on(disk, salts)?;
        let mut served = Served::default();
        let (Some(log), Some((found, _))) = (broker.log(), broker.recovery()) else {
            return Ok(Trial { state: None, last: 0, served });
        };
        let last = found.last_lsn.get();
        read_through(log, &mut served);
        let live = Images::new(disk, log).whole(broker.state(0), Select::Persistent);
        let folded = self.node.state_up_to(disk, broker.applied(0), salts.rotate_left(1));
        let state = match (live, folded) {
            (Ok(live), Ok(folded)) => {
                let folded = Sections::of(&folded, Select::Persistent);
                let unfolded = live != folded;
                served.unfolded = unfolded.then(|| differences(&live, &folded));
                Some(live)
            }
            (Err(why), _) | (_, Err(why)) => {
                served.unfolded = Some(why);
                None
            }
        };
        drop::<Broker>(broker);
        Ok(Trial { state, last, served })
    }
}

struct Trial {
    /// `None`: it has none that can be told.
    state: Option<Sections>,
    /// The last record that it has found.
    last: u64,
    served: Served,
}

/// Reads each segment of a log by itself: what cannot be read in one says nothing of others.
fn read_through(log: &Log<SimDisk>, served: &mut Served) {
    for segment in log.whole_segments() {
        let mut read = || {
            let mut reader = log.reader(segment.first)?;
            while let Some(found) = reader.next_record()? {
                if found.lsn > segment.last {
                    break;
                }
                let mut hasher = DefaultHasher::new();
                (found.time_ms, found.kind, found.body).hash(&mut hasher);
                served.records.insert(found.lsn.get(), hasher.finish());
            }
            Ok::<_, zzq_wal::ReadError>(())
        };
        if let Err(error) = read() {
            served.stops.get_or_insert(error.to_string());
        }
    }
}
