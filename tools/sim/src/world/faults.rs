//! What goes wrong, and when.

use zzq_broker::StartError;
use zzq_types::Lsn;
use zzq_wal::{End, Why};

use super::World;
use crate::history::{Conn, Death, Event};
use crate::node::Broker;

impl World {
    /// Client operations bring faults, each kind by its own chance. A crash comes some steps later,
    /// so that it can come between any two.
    pub(super) fn count(&mut self) {
        let operations = self.coverage.operations();
        while self.counted < operations {
            self.counted += 1;
            if let Some(since) = self.starts.last_mut() {
                *since += 1;
            }
            if !self.calm {
                self.roll();
            }
        }
    }

    fn roll(&mut self) {
        let faults = self.faults;
        let now = self.now();
        for (once_in, how) in [(faults.kill, Death::Killed), (faults.power_cut, Death::PowerCut)] {
            if self.chance.once_in(once_in) && self.dies_in.is_none() {
                self.dies_in = Some((self.chance.below(80), how));
            }
        }
        if self.chance.once_in(faults.power_cut_at_operation) && self.node.broker.is_some() {
            self.node.device.disk.cut_power(self.chance.within(1, 30));
            self.power_counts = true;
        }
        if self.chance.once_in(faults.stop) && self.node.broker.is_some() {
            self.tell_to_stop();
        }
        if self.chance.once_in(faults.cut) {
            self.cut_something();
        }
        if self.chance.once_in(faults.step_fails) {
            self.disk_may_fail = true;
            self.node.device.fail_a_step();
        }
        if self.chance.once_in(faults.disk_full) && self.space_comes_at.is_none() {
            self.disk_may_fail = true;
            self.node.device.fill();
            self.space_comes_at = Some(now + self.chance.within(500, 8000));
        }
        if self.chance.once_in(faults.disk_read_only) && self.space_comes_at.is_none() {
            self.disk_may_fail = true;
            self.node.device.turn_read_only();
            self.space_comes_at = Some(now + self.chance.within(500, 8000));
        }
        if self.images.once_in(faults.image) && self.node.broker.is_some() {
            self.make_image();
        }
        if self.copies.once_in(faults.copy) && self.node.broker.is_some() {
            self.copy();
        }
        if self.chance.once_in(faults.clock_step) {
            self.step_clock();
        }
        if self.plan.lanes > 1 && self.chance.once_in(faults.lane_sleeps) {
            // What the others do meanwhile waits in its rings, and in the log.
            self.coverage.hit("lane sleeps");
            if self.plan.holds_up {
                self.coverage.hit("lane falls behind");
            }
            let lane = self.chance.index(usize::from(self.plan.lanes));
            self.asleep = Some((lane, now + self.chance.within(1, faults.sleep_ms)));
        }
    }

    pub(super) fn tell_to_stop(&mut self) {
        self.stopping = true;
        self.note(Event::ToldToStop);
        self.node.stop();
    }

    /// An image is made between any two steps; the power may go with any operation of it.
    fn make_image(&mut self) {
        if self.imaging {
            return;
        }
        if self.images.once_in(self.faults.in_image) {
            self.node.device.disk.cut_power(self.images.within(1, 25));
            self.power_counts = true;
        }
        self.image(false);
    }

    /// The power goes when somebody holds a message that the disk may not have, and has not
    /// answered it; or need not, for it has come at QoS 0. What has come is noted from `since` on.
    pub(super) fn strike_ahead(&mut self, at: usize, since: usize) {
        let for_good = self.history.has_come_for_good(since);
        let holds = for_good || self.clients[at].owes_an_answer();
        // What was published at QoS 2 is rarely taken at QoS 0.
        let once_in = if for_good { 2 } else { self.faults.behind_delivery };
        if holds
            && self.faults.behind_delivery > 0
            && self.may_lose_what_is_in_flight()
            && self.ahead.once_in(once_in)
        {
            self.coverage.hit("crash behind a delivery");
            self.dies_in = Some((self.ahead.below(3), Death::PowerCut));
        }
    }

    /// The power goes when a repeat was answered and the disk may not have what it repeats.
    pub(super) fn strike_behind_repeat(&mut self, since: usize) {
        if self.faults.power_cut > 0
            && self.may_lose_what_is_in_flight()
            && self.history.has_repeat_been_answered(since)
            && self.repeated.once_in(2)
        {
            self.coverage.hit("crash behind a repeat");
            self.dies_in = Some((self.repeated.below(3), Death::PowerCut));
        }
    }

    /// Whether the power can go while the disk has not all that was written.
    fn may_lose_what_is_in_flight(&self) -> bool {
        let is_up = self.node.broker.is_some() && self.dies_in.is_none();
        !self.calm && is_up && self.node.device.in_flight() > 0
    }

    fn cut_something(&mut self) {
        let uncut = self.network.uncut();
        if uncut.is_empty() {
            return;
        }
        let conn = *self.chance.pick(&uncut);
        let now = self.now();
        let mut told = |kind, coverage: &mut crate::coverage::Coverage| {
            let never = self.chance.once_in(4);
            if never {
                coverage.hit(kind);
            }
            (!never).then(|| self.chance.within(0, 3000))
        };
        self.coverage.hit("net cut");
        let broker = told("net half-open for the broker", &mut self.coverage);
        let client = told("net half-open for the client", &mut self.coverage);
        self.network.cut(conn, now, broker, client);
        self.note_cut(conn);
    }

    fn step_clock(&mut self) {
        let by = i64::try_from(self.chance.within(1000, 3_600_000)).unwrap_or(0);
        let by_ms = if self.chance.once_in(2) { by } else { -by };
        self.coverage.hit(if by_ms > 0 { "clock step forward" } else { "clock step back" });
        self.clock.set_wall(by_ms);
        self.note(Event::WallSet { by_ms });
    }

    /// What comes whoever went last.
    pub(super) fn strike(&mut self) {
        self.look_at_space();
        self.look_at_history();
        if self.node.device.disk.is_off() && self.node.broker.is_some() {
            self.coverage.hit("crash at an operation of the disk");
            self.die(Death::PowerCut);
            return;
        }
        if let Some((steps, how)) = self.dies_in {
            if self.node.broker.is_none() {
                self.dies_in = None;
            } else if steps == 0 {
                self.die(how);
            } else {
                self.dies_in = Some((steps - 1, how));
            }
        }
        let read_only = self.node.broker.as_ref().is_some_and(Broker::is_read_only);
        if read_only && !self.told_read_only {
            self.told_read_only = true;
            self.unlogged_from = Conn(self.next_conn);
            self.note(Event::ReadOnly);
            self.coverage.hit("log read-only");
            // Whoever runs the broker sees it and starts it again.
            let steps = self.chance.within(1, 2000);
            self.dies_in = self.dies_in.or(Some((steps, Death::Killed)));
        }
    }

    /// Which ways the recovery has gone.
    fn mark_recovery(&mut self) {
        let Some((found, covered)) = self.node.broker.as_ref().and_then(Broker::recovery) else {
            return;
        };
        let ends = |is: fn(&End) -> bool| found.segments.iter().any(|segment| is(&segment.end));
        let cleared = |why| found.cleared.iter().any(|cleared| cleared.why == why);
        let log = self.node.broker.as_ref().and_then(Broker::log);
        let is_within = log.is_some_and(|log| {
            let first = log.segments().first().map(|segment| segment.first);
            first.is_some_and(|first| first < log.first_whole())
        });
        let ways = [
            ("recovery within a record", is_within),
            ("recovery clean end", ends(|end| matches!(end, End::Clean { .. }))),
            ("recovery torn end", ends(|end| matches!(end, End::Torn { .. }))),
            ("recovery void segment", ends(|end| matches!(end, End::Void))),
            ("recovery skips a segment", ends(|end| matches!(end, End::Skipped))),
            ("recovery over segments", ends(|end| matches!(end, End::Continued { .. }))),
            ("recovery unfinished record", found.unfinished > 0),
            ("recovery renews groups", found.renewed.is_some()),
            ("recovery takes back what is void", cleared(Why::Void)),
            ("recovery takes back what was trimmed", cleared(Why::Trimmed)),
            ("recovery takes back what was not used", cleared(Why::Unused)),
            ("recovery from an image", covered > Lsn::ZERO),
        ];
        for (way, _) in ways.into_iter().filter(|(_, has_gone)| *has_gone) {
            self.coverage.hit(way);
        }
    }

    /// A removal that has failed may bring an image back of which nothing else is there any more.
    fn spoil_an_image(&mut self) -> bool {
        let is_sound = !self.calm && !self.history.disk_may_fail;
        is_sound && self.images.once_in(self.faults.spoils_image) && self.node.spoil_newest_image()
    }

    pub(super) fn start(&mut self) {
        if !self.calm && self.chance.once_in(self.faults.in_recovery) {
            self.node.device.disk.cut_power(self.chance.within(1, 12));
            self.power_counts = true;
        }
        let is_spoilt = self.spoil_an_image();
        let started = self.node.start();
        self.node.device.note_failed(&mut self.coverage);
        let now = self.now();
        match started {
            Ok(()) => {
                self.starts.push(0);
                let wall_ms = self.clock.reading().wall_ms;
                self.note(Event::Started { wall_ms });
                self.mark_recovery();
                if is_spoilt {
                    self.coverage.hit("recovery from the image before");
                }
                // What was recovered is compared before anything is done with it.
                let folds = self.node.fold(self.starts.len() as u64);
                self.note_folds(folds);
                self.helper_waits = true;
                self.reader_waits = true;
            }
            Err(error) if self.node.device.disk.is_off() => {
                self.note(Event::StartFailed { why: error.to_string() });
                self.coverage.hit("crash in recovery");
                self.node.die(Death::PowerCut);
                self.power_counts = false;
                self.start_at = now + self.chance.within(1, 500);
            }
            Err(error @ (StartError::Store { .. } | StartError::Lanes(_)))
                if self.disk_may_fail || self.plan.disk_bytes.is_some() =>
            {
                self.note(Event::StartFailed { why: error.to_string() });
                self.coverage.hit("start fails on a fault");
                self.node.device.heal(&mut self.coverage);
                // Whoever runs it makes space: a start needs some of its own.
                self.node.device.grow(32 * self.plan.group_size as u64);
                self.space_comes_at = None;
                self.disk_may_fail = false;
                // The process has ended, with what it had begun to write.
                self.node.die(Death::Killed);
                self.start_at = now + self.chance.within(1, 500);
            }
            Err(error) => {
                self.starts_no_more = true;
                self.note(Event::NotStarted { why: error.to_string() });
            }
        }
    }
}
