//! The second phase: nothing goes wrong any more, so everything must come to its end, and every
//! promise can be asked for.

use zzq_lanes::driver::Rest;
use zzq_types::QoS;

use super::World;
use crate::client::{Client, TOPICS};
use crate::history::{ClientId, Death, Event};
use crate::node::Broker;
use crate::plan::{ClientPlan, Faults, Keeps};

/// True time that everything may take to heal.
const PATIENCE_MS: u64 = 120_000;
/// Nobody has anything to do for so long.
const QUIET_MS: u64 = 700;

impl World {
    /// Everything heals, then what should be there is asked for; once more after a clean stop.
    pub(super) fn heal(&mut self) {
        if self.is_broken() {
            return;
        }
        self.calm = true;
        self.faults = Faults::NONE;
        if let Some(guard) = &self.node.guard {
            guard.calm();
        }
        self.network.calm();
        self.node.device.widen(&mut self.coverage);
        self.node.device.hurry();
        (self.space_comes_at, self.asleep) = (None, None);
        (self.dies_in, self.told_read_only) = (None, false);
        if self.power_counts && self.node.broker.is_some() {
            self.die(Death::Killed);
        }
        self.note(Event::Healed);
        self.settle();
        self.probe();
        self.settle();
        self.verify("verifier-1");
        self.settle();
        self.lodge();
        if self.plan.retains() {
            self.read_history();
        }
        // Without a log nothing outlives a stop.
        if self.node.broker.is_some() && !self.is_broken() && !self.plan.in_memory {
            self.tell_to_stop();
            self.await_stop();
            if self.plan.faults.copy > 0 && self.node.broker.is_none() {
                self.move_to_a_copy();
            }
        }
        self.settle();
        self.verify("verifier-2");
        self.settle();
        if self.is_broken() {
            return;
        }
        self.look_at_what_stays();
        let folds = self.node.fold(0);
        self.note_folds(folds);
        self.note_waits();
        self.look_at_strangers();
    }

    /// Until nobody has waited or seen anything for a while, and nothing is under way: a PINGREQ
    /// now and then is no unrest. That it does not come to that is told once: whatever is asked
    /// for behind it waits for the same.
    pub(super) fn settle(&mut self) {
        let end = self.now() + if self.is_unsettled { 0 } else { PATIENCE_MS };
        let (mut seen, mut since) = (self.history.entries.len(), self.now());
        while self.now() < end && !self.is_broken() {
            self.step();
            if self.who_waits().is_some() || self.history.entries.len() > seen {
                (seen, since) = (self.history.entries.len(), self.now());
            } else if self.now() >= since + QUIET_MS && self.what_moves().is_none() {
                return;
            }
        }
        self.note_unsettled();
    }

    /// Until the broker that was told to stop has stopped.
    fn await_stop(&mut self) {
        let end = self.now() + PATIENCE_MS;
        while self.node.broker.is_some() && self.now() < end && !self.is_broken() {
            self.step();
        }
        if self.node.broker.is_some() {
            self.note_unsettled();
        }
    }

    fn note_unsettled(&mut self) {
        if self.is_broken() || self.is_unsettled {
            return;
        }
        let what = self.who_waits().or_else(|| self.what_moves());
        let what = what.unwrap_or_else(|| "something happens now and then".into());
        self.is_unsettled = true;
        self.note(Event::Unsettled { what });
    }

    /// Who waits for something.
    fn who_waits(&self) -> Option<String> {
        let Some(broker) = &self.node.broker else { return Some("there is no broker".into()) };
        if self.stopping {
            return Some("the broker stops".into());
        }
        if broker.is_read_only() {
            return Some("the log is read-only".into());
        }
        let busy = self.clients.iter().find(|client| !client.is_at_rest())?;
        let waits = busy.waits_for_what().unwrap_or_default();
        Some(format!("{} waits for {waits}", self.history.names[usize::from(busy.id().0)]))
    }

    /// Notes that all has come to rest, once behind what has happened: nobody waits who is
    /// connected, nothing is under way, and the disk has taken all there is.
    pub(super) fn note_rest(&mut self) {
        let happened = self.history.entries.len() > self.rested;
        let is_well = !self.stopping && !self.is_full && self.space_comes_at.is_none();
        if self.calm || !happened || !is_well || !self.clients.iter().all(Client::is_quiet) {
            return;
        }
        let Some(broker) = &self.node.broker else { return };
        let is_written = broker.log().is_none_or(|log| log.appended() == log.committed());
        if is_written && !broker.is_read_only() && self.what_moves().is_none() {
            self.note(Event::AtRest);
            self.coverage.hit("at rest");
            self.rested = self.history.entries.len();
        }
    }

    /// What is under way.
    fn what_moves(&mut self) -> Option<String> {
        let broker = self.node.broker.as_mut()?;
        if let Some(lane) = (0..broker.lanes()).find(|lane| broker.rest(*lane) == Rest::Now) {
            return Some(format!("lane {lane} takes turns"));
        }
        if self.node.device.in_flight() > 0 {
            return Some("a write is in flight".into());
        }
        if self.history.lacks_input && self.network.has_unread() {
            // At QoS 0 nobody waits for what stands in line.
            return Some("the broker has not read all".into());
        }
        (!self.network.is_idle()).then(|| "bytes are on their way".into())
    }

    /// One message for each topic and QoS, from the first client.
    fn probe(&mut self) {
        for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
            for topic in TOPICS {
                let (client, mut desk) = self.client(0);
                client.probe(&mut desk, topic, qos);
                self.send(0);
                self.settle();
            }
        }
    }

    /// A client that nobody has seen asks for everything.
    fn verify(&mut self, name: &str) {
        let at = self.join(name, |plan| plan);
        self.ask_for_all(at);
    }

    pub(super) fn ask_for_all(&mut self, at: usize) {
        self.settle();
        let (client, mut desk) = self.client(at);
        client.verify(&mut desk, "#");
        self.send(at);
    }

    /// Another one asks for everything that ever was.
    fn read_history(&mut self) {
        let reads = |plan| ClientPlan { keeps: Keeps::Always, reads_history: true, ..plan };
        if let Some(log) = self.node.broker.as_ref().and_then(Broker::log) {
            let first = log.first_whole().get();
            self.note(Event::Oldest { first });
        }
        self.join("historian", reads);
        self.settle();
    }

    /// Another client, which has nothing to do by itself but what `change` says.
    pub(super) fn join(
        &mut self,
        name: &str,
        change: impl FnOnce(ClientPlan) -> ClientPlan,
    ) -> usize {
        let at = self.clients.len();
        let plan = change(ClientPlan { keeps: Keeps::Never, pause_ms: 1, ..ClientPlan::PLAIN });
        let id = ClientId(u16::try_from(at).unwrap_or(u16::MAX));
        self.history.names.push(name.into());
        let mut client = Client::new(id, name.into(), plan, self.seed);
        client.rest_until(self.now());
        self.clients.push(client);
        at
    }

    fn note_waits(&mut self) {
        for at in 0..self.clients.len() {
            if let Some(what) = self.clients[at].waits_for_what() {
                let client = self.clients[at].id();
                self.note(Event::Waits { client, what });
            }
        }
    }
}
