//! The second phase: nothing goes wrong any more, so everything must come to its end, and every
//! promise can be asked for.

use zzq_lanes::driver::Rest;
use zzq_types::{ProtocolVersion, QoS};

use super::{CALM, World};
use crate::client::{Client, TOPICS};
use crate::history::{ClientId, Death, Event};
use crate::plan::{ClientPlan, Faults, Keeps};

/// True time that everything may take to heal.
const PATIENCE_MS: u64 = 120_000;
/// Nobody has anything to do for so long.
const QUIET_MS: u64 = 700;

impl World {
    /// Everything heals, then what should be there is asked for; once more after a clean stop.
    pub(super) fn heal(&mut self) {
        self.calm = true;
        self.faults = Faults::NONE;
        self.network.weather = CALM;
        self.node.device.heal();
        self.node.device.hurry();
        self.space_comes_at = None;
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
        if self.node.broker.is_some() && !self.is_broken() {
            self.stopping = true;
            self.node.stop();
            while self.node.broker.is_some() && !self.is_broken() {
                self.step();
            }
        }
        self.settle();
        self.verify("verifier-2");
        self.settle();
        let folds = self.node.fold();
        self.note_folds(folds);
        self.note_waits();
    }

    /// Until everybody has been at rest for a while, or patience ends.
    fn settle(&mut self) {
        let end = self.now() + PATIENCE_MS;
        let mut quiet_since = None;
        while self.now() < end && !self.is_broken() {
            self.step();
            if !self.is_at_rest() {
                quiet_since = None;
                continue;
            }
            let since = *quiet_since.get_or_insert(self.now());
            if self.now() >= since + QUIET_MS {
                return;
            }
        }
    }

    fn is_at_rest(&mut self) -> bool {
        let Some(broker) = &mut self.node.broker else { return false };
        let lanes_rest = (0..broker.lanes()).all(|lane| broker.rest(lane) != Rest::Now);
        lanes_rest
            && !broker.log().is_read_only()
            && !self.stopping
            && self.node.device.in_flight() == 0
            && self.network.is_idle()
            && self.clients.iter().all(Client::is_at_rest)
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
        let at = self.clients.len();
        let plan = ClientPlan {
            version: ProtocolVersion::V5,
            keeps: Keeps::Never,
            window: 1000,
            under_way: 1,
            keep_alive: 0,
            weights: [0; 8],
            pause_ms: 1,
            late_answer: 0,
        };
        let id = ClientId(u16::try_from(at).unwrap_or(u16::MAX));
        self.history.names.push(name.into());
        let mut client = Client::new(id, name.into(), plan, self.seed);
        client.rest_until(self.now());
        self.clients.push(client);
        self.settle();
        let (client, mut desk) = self.client(at);
        client.verify(&mut desk, "#");
        self.send(at);
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
