//! The broker's machine: one start of the broker after the other over one disk.
//!
//! Owns: starts, deaths, and the comparison of live state with the fold of the log at each death.
//! Does not know: clients.

use std::ops::ControlFlow;
use std::time::Duration;

use zzq_broker::stepped::{Making, Stepped, SteppedOptions};
use zzq_broker::{BrokerOptions, StartError};
use zzq_engine::image::{Sections, Select};
use zzq_engine::{NoEffects, Record, Shard, State};
use zzq_lanes::{LaneWaker, Limits as LaneLimits};
use zzq_types::Lsn;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Log, Options as LogOptions, read_facts};

use crate::chance::Chance;
use crate::clock::SimClock;
use crate::device::Device;
use crate::guard::Guard;
use crate::history::Death;
use crate::images::{Folded, Images, look_at_all, newest, stated_images};
use crate::plan::Plan;

/// A broker of the simulation.
pub type Broker = Stepped<SimDisk, SimClock>;

/// The machine.
pub struct Node {
    /// Its disk.
    pub device: Device,
    /// Its clocks.
    pub clock: SimClock,
    /// Runs, or not.
    pub broker: Option<Broker>,
    /// Who decides what clients may do, if anybody.
    pub guard: Option<Guard>,
    lanes: u16,
    limits: LaneLimits,
    group_size: usize,
    leaves_from: usize,
    in_memory: bool,
    options: BrokerOptions,
    /// The fold of the log up to the newest image.
    folded: Folded,
    chance: Chance,
}

/// What comparing a lane's state with the log gave.
#[derive(Clone, Debug)]
pub enum Fold {
    /// They agree, or differ in this.
    Compared(Result<(), String>),
    /// The log that is left does not reach as far as the lane got.
    Short,
}

impl Node {
    /// A machine without a broker.
    pub fn new(plan: &Plan, clock: SimClock, seed: u64) -> Self {
        Self {
            device: Device::new(plan.write_ms, plan.disk_bytes, Chance::new(seed, "device")),
            clock,
            broker: None,
            guard: plan.guard.map(|plan| Guard::new(plan, seed)),
            lanes: plan.lanes,
            limits: LaneLimits {
                ring: plan.ring,
                messages_per_turn: plan.messages_per_turn,
                input_patience: plan.input_patience(),
                ..LaneLimits::default()
            },
            group_size: plan.group_size,
            leaves_from: plan.leaves_from,
            in_memory: plan.in_memory,
            options: plan.options.clone(),
            folded: Folded::default(),
            chance: Chance::new(seed, "node"),
        }
    }

    /// Starts a broker over what the disk holds, or in memory.
    ///
    /// # Panics
    /// One runs.
    pub fn start(&mut self) -> Result<(), StartError> {
        assert!(self.broker.is_none(), "one broker at a time");
        let hooks = self.guard.as_ref().map(|guard| guard.hooks(self.clock.clone()));
        let options = SteppedOptions {
            lanes: self.lanes,
            broker: self.options.clone(),
            hooks: hooks.unwrap_or_default(),
            log: (!self.in_memory).then(|| self.log_options()),
            random: self.chance.draw(),
            limits: self.limits,
            leaves_from: self.leaves_from,
        };
        let disk = self.device.disk.clone();
        let (device, clock) = (&mut self.device, self.clock.clone());
        let mut patience = 10_000_u32;
        let mut wait = |log: &Log<_>| {
            device.release_some();
            log.helper_step(clock.reading().boot_ms);
            patience -= 1;
            patience > 0 && !device.disk.is_off()
        };
        let broker = Stepped::start(disk, options, self.clock.clone(), &mut wait)?;
        let wakers = broker.wakers();
        self.device.disk.on_completion(move |_| wakers.iter().for_each(LaneWaker::wake));
        self.broker = Some(broker);
        Ok(())
    }

    /// Starts a broker of one lane over another disk, by these salts: what a start makes of it.
    pub fn start_on(&self, disk: &SimDisk, salts: u64) -> Result<Broker, StartError> {
        let options = SteppedOptions {
            lanes: 1,
            broker: self.options.clone(),
            limits: self.limits,
            leaves_from: self.leaves_from,
            ..SteppedOptions::new(self.log_options_by(salts))
        };
        let clock = self.clock.clone();
        let mut patience = 10_000_u32;
        let mut wait = |log: &Log<_>| {
            log.helper_step(clock.reading().boot_ms);
            patience -= 1;
            patience > 0
        };
        Stepped::start(disk.clone(), options, self.clock.clone(), &mut wait)
    }

    /// The broker is gone, and the disk as it is then. What is not stopped in order says how its
    /// state and its log compare.
    pub fn die(&mut self, how: Death) -> Vec<Fold> {
        let salts = self.chance.draw();
        let folds = self.fold(salts);
        let stopped = self.broker.take();
        if let Some(guard) = &self.guard {
            guard.forget();
        }
        let disk = match how {
            Death::PowerCut => {
                self.clock.boot();
                self.device.disk.crash(self.chance.draw())
            }
            Death::Killed => self.device.disk.restart(),
            Death::Stopped => {
                if let Some(log) = stopped.as_ref().and_then(Broker::log) {
                    // A log that cannot say so is read as one that was killed.
                    let _ = log.mark_durable();
                }
                self.device.disk.restart()
            }
        };
        self.device.replace(disk);
        folds
    }

    /// Begins an image, or one for the space that it brings where space is low; what it covers will
    /// be compared. `None`: there is nothing to be made, or the disk does not let it.
    pub fn begin_image(&mut self, for_space: bool) -> Option<Result<Making<SimDisk>, String>> {
        let broker = self.broker.as_mut()?;
        match self.folded.follow(broker.log()?) {
            Ok(true) => {}
            Ok(false) => return None,
            Err(error) => return Some(Err(error)),
        }
        let begun = if for_space { broker.begin_room() } else { broker.begin_image() };
        begun.map(Ok)
    }

    /// The image is made, or not; how it compares with the fold of the whole log. One that does not
    /// cover all of that has no fold to be compared with.
    pub fn end_image(
        &mut self,
        making: Making<SimDisk>,
        made: Result<Option<Lsn>, String>,
    ) -> Option<Result<bool, String>> {
        let broker = self.broker.as_mut()?;
        broker.end_image(making);
        match made.ok()? {
            None => Some(Ok(false)),
            Some(_) if self.device.disk.is_off() => None,
            Some(lsn) => {
                // A copy has no faults to come.
                let (copy, log) = (self.device.disk.restart(), broker.log()?);
                let compared = if lsn < self.folded.applied() {
                    look_at_all(&copy, log).map(drop)
                } else {
                    self.folded.compare(&copy, log)
                };
                Some(compared.map(|()| true))
            }
        }
    }

    /// Lets the broker make an image at once; whether it did, and how that compares. `None`: the
    /// disk did not let it.
    pub fn image(&mut self) -> Option<Result<bool, String>> {
        let mut making = match self.begin_image(false)? {
            Ok(making) => making,
            Err(error) => return Some(Err(error)),
        };
        let made = making.make(&|| ControlFlow::Continue(()));
        self.end_image(making, made)
    }

    /// Changes a bit of the newest image where the one before it is as good. False: there are not
    /// two.
    pub fn spoil_newest_image(&mut self) -> bool {
        let disk = &self.device.disk;
        let Ok(facts) = read_facts(disk) else { return false };
        let Ok((images, ..)) = stated_images(disk, &facts) else { return false };
        let Some(newest) = images.newest().filter(|_| images.images().count() > 1) else {
            return false;
        };
        let Ok(bytes) = disk.bytes(newest.name()) else { return false };
        let (at, bit) = (self.chance.below(bytes.len() as u64), self.chance.below(8));
        disk.flip(newest.name(), at, u8::try_from(bit).unwrap_or(0)).is_ok()
    }

    /// The fold of all that is committed, and its last record. `None`: there is no log, or its disk
    /// did not let it.
    pub fn fold_so_far(&mut self) -> Option<Result<(Lsn, State), String>> {
        let log = self.broker.as_ref()?.log()?;
        match self.folded.follow(log) {
            Ok(false) => None,
            Ok(true) => {
                let at = self.folded.applied();
                Some(self.folded.part(Shard::WHOLE).map(|state| (at, state)))
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// The state that a start finds on a disk with this log.
    pub fn state_on(&mut self, disk: &SimDisk) -> Result<State, String> {
        let salts = self.chance.draw();
        self.state_up_to(disk, Lsn::new(u64::MAX), salts)
    }

    /// The same, up to a record.
    pub fn state_up_to(&self, disk: &SimDisk, last: Lsn, salts: u64) -> Result<State, String> {
        let disk = disk.restart();
        let facts = read_facts(&disk).map_err(|error| error.to_string())?;
        let (mut state, covered) = newest(&disk, &facts)?;
        let visit_from = zzq_wal::Lsn::new(covered.next().get());
        let options = LogOptions { visit_from, ..self.log_options_by(salts) };
        let mut visit = |found: zzq_wal::RecoveredRecord<'_>| {
            let lsn = Lsn::new(found.lsn.get());
            if lsn <= last {
                let record = Record::decode(found.kind, found.body)?;
                state.apply(lsn, found.time_ms, &record, &mut NoEffects);
            }
            Ok(())
        };
        let now = self.clock.reading().wall_ms;
        Log::open(disk, options, now, &mut visit).map_err(|error| error.to_string())?;
        Ok(state)
    }

    /// Tells the broker to stop.
    pub fn stop(&mut self) {
        if let Some(broker) = &mut self.broker {
            broker.stop(Duration::from_secs(5));
        }
    }

    /// Folds what the log holds, writes in flight included, up to where each lane got: from the
    /// first record on, never from an image. `salts` are those of the copy on which it is read.
    pub fn fold(&mut self, salts: u64) -> Vec<Fold> {
        let from = self.folded.applied().next();
        let visit_from = zzq_wal::Lsn::new(from.get());
        let options = LogOptions { visit_from, ..self.log_options_by(salts) };
        let Some(broker) = &self.broker else { return Vec::new() };
        let Some(log) = broker.log() else { return Vec::new() };
        let lanes = broker.lanes();
        let applied: Vec<Lsn> = (0..lanes).map(|lane| broker.applied(lane)).collect();
        let count = u32::try_from(lanes).unwrap_or(u32::MAX);
        let parts = (0..count).map(|lane| self.folded.part(Shard::new(lane, count)));
        let mut states: Vec<State> = match parts.collect() {
            Ok(states) => states,
            Err(why) => return vec![Fold::Compared(Err(why)); lanes],
        };
        let mut visit = |found: zzq_wal::RecoveredRecord<'_>| {
            let lsn = Lsn::new(found.lsn.get());
            let record = Record::decode(found.kind, found.body)?;
            for (state, applied) in states.iter_mut().zip(&applied) {
                if lsn <= *applied {
                    state.apply(lsn, found.time_ms, &record, &mut NoEffects);
                }
            }
            Ok(())
        };
        let now = self.clock.reading().wall_ms;
        let copy = self.device.disk.restart();
        copy.set_capacity(u64::MAX);
        let images = Images::new(&copy, log);
        let opened = Log::open(copy, options, now, &mut visit);
        let last = match opened {
            Ok((_, recovery)) => Lsn::new(recovery.last_lsn.get()),
            Err(error) if broker.is_read_only() => {
                drop(error);
                return vec![Fold::Short; lanes];
            }
            Err(error) => {
                let why = format!("the log cannot be read: {error}");
                return vec![Fold::Compared(Err(why)); lanes];
            }
        };
        (0..lanes)
            .map(|lane| {
                // A lane that is behind the newest image has no fold to be compared with.
                if applied[lane] > last || applied[lane] < self.folded.applied() {
                    return Fold::Short;
                }
                Fold::Compared(compare(broker.state(lane), &states[lane], &images))
            })
            .collect()
    }

    /// Small sizes, so that segments roll soon; salts that differ from start to start.
    fn log_options(&mut self) -> LogOptions {
        let salts = self.chance.draw();
        self.log_options_by(salts)
    }

    fn log_options_by(&self, salts: u64) -> LogOptions {
        let mut salts = Chance::new(salts, "salts");
        let salts =
            move || (u128::from(salts.draw()) << 64 | u128::from(salts.draw())).to_le_bytes();
        LogOptions {
            segment_size: 8 * self.group_size as u64,
            group_size: self.group_size,
            chunk_size: self.group_size / 8,
            part_size: 8192,
            ..LogOptions::new(Box::new(salts))
        }
    }
}

/// What a log cannot know is left out: sessions that it never saw. What stayed in an image of the
/// live state is read there.
fn compare(live: &State, folded: &State, images: &Images) -> Result<(), String> {
    let live = images.whole(live, Select::Persistent)?;
    let folded = Sections::of(folded, Select::Persistent);
    if live == folded { Ok(()) } else { Err(differences(&live, &folded)) }
}

/// Where two images differ, for people: the first is live, the second folded.
pub(crate) fn differences(live: &Sections, folded: &Sections) -> String {
    let mut differ = Vec::new();
    for section in zzq_engine::image::Section::ALL {
        let entries = |sections: &Sections| {
            let entries = sections.entries(section).filter_map(Result::ok);
            entries.map(|(key, value)| (key.to_vec(), value.to_vec())).collect::<Vec<_>>()
        };
        let (live, folded) = (entries(live), entries(folded));
        for one in live.iter().filter(|one| !folded.contains(one)).take(2) {
            differ.push(format!("{section:?} live {:x?} = {:x?}", one.0, one.1));
        }
        for one in folded.iter().filter(|one| !live.contains(one)).take(2) {
            differ.push(format!("{section:?} folded {:x?} = {:x?}", one.0, one.1));
        }
    }
    differ.join("; ")
}

#[cfg(test)]
mod tests {
    use zzq_engine::SessionNumber;
    use zzq_engine::record::Connect;

    use super::*;

    fn state(expiry_s: u32) -> State {
        let mut state = State::new(Shard::new(0, 1));
        let session = SessionNumber::FIRST;
        let connect =
            Connect { session, client: "c", expiry_s, window: 9, joins: None, will: None };
        state.apply(Lsn::new(1), 0, &Record::Connect(connect), &mut NoEffects);
        state
    }

    #[test]
    fn states_that_differ_are_told_apart() {
        let none = Images::default();
        assert_eq!(compare(&state(7), &state(7), &none), Ok(()));
        let why = compare(&state(7), &state(8), &none).unwrap_err();
        assert!(why.contains("Sessions live") && why.contains("Sessions folded"), "{why}");
    }
}
