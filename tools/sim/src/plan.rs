//! What a seed is like: how many lanes and clients, which limits, which faults and how often. Drawn
//! once at its beginning, so that seeds differ in kind and not only in order.

use std::time::Duration;

use zzq_broker::{BrokerOptions, DeliverPolicy, LogPolicy};
use zzq_types::ProtocolVersion;

use crate::chance::Chance;
use crate::network::Weather;

/// A seed's plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Lanes of the broker.
    pub lanes: u16,
    /// Slots of each ring between lanes, and how many of them are for receipts alone.
    pub ring: (usize, usize),
    /// Messages that a lane takes from each ring in one turn.
    pub messages_per_turn: usize,
    /// Bytes of the log's largest group; a segment is eight of them.
    pub group_size: usize,
    /// The broker's options.
    pub options: BrokerOptions,
    /// The network while things go wrong.
    pub weather: Weather,
    /// One for each client.
    pub clients: Vec<ClientPlan>,
    /// Client operations before everything heals.
    pub operations: u64,
    /// Faults, each once in so many client operations; 0: never.
    pub faults: Faults,
    /// The longest time a write takes, in ms.
    pub write_ms: u64,
    /// Parts in a million by which the wall clock drifts.
    pub drift: i64,
}

/// How often what goes wrong.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the kinds of faults by their names")]
pub struct Faults {
    pub kill: u64,
    pub power_cut: u64,
    pub power_cut_at_operation: u64,
    pub stop: u64,
    pub cut: u64,
    pub write_fails: u64,
    pub step_fails: u64,
    pub disk_full: u64,
    pub clock_step: u64,
    pub lane_sleeps: u64,
    /// Once in so many starts the power goes while the log is recovered.
    pub in_recovery: u64,
    /// An image of the state is made; that is no fault, but faults meet it.
    pub image: u64,
    /// Once in so many images the power goes while one is made.
    pub in_image: u64,
}

/// What one client is like.
#[derive(Clone, Debug)]
pub struct ClientPlan {
    /// What it speaks.
    pub version: ProtocolVersion,
    /// Its sessions outlive connections: always, or as chance wants.
    pub keeps: Keeps,
    /// QoS 1 and 2 messages it takes at once; MQTT 5 alone.
    pub window: u16,
    /// Topic aliases that it takes; MQTT 5 alone.
    pub aliases: u16,
    /// Messages it has under way at most.
    pub under_way: usize,
    /// In seconds.
    pub keep_alive: u16,
    /// Weights of what it does: publish, subscribe, unsubscribe, leave, drop, take over, answer
    /// what it owes, stop reading, repeat a message on the same connection.
    pub weights: [u64; 9],
    /// How long it waits between two things at most, in ms.
    pub pause_ms: u64,
    /// Once in so many answers one is not given at once.
    pub late_answer: u64,
}

/// Whether sessions outlive their connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// All of them.
    Always,
    /// None.
    Never,
    /// It differs from CONNECT to CONNECT.
    Changes,
}

impl Plan {
    /// The plan of a seed; `lanes` overrides what it would draw.
    pub fn new(seed: u64, lanes: Option<u16>) -> Self {
        let mut chance = Chance::new(seed, "plan");
        let drawn = *chance.pick(&[1, 2, 2, 3]);
        let mut options =
            BrokerOptions { sys_interval: Duration::ZERO, ..BrokerOptions::default() };
        if chance.once_in(3) {
            options.deliver = DeliverPolicy::Committed;
        }
        if chance.once_in(6) {
            options.log = LogPolicy::Everything;
        }
        options.limits.max_inflight = *chance.pick(&[2, 10, 1024, 1024]);
        let is_limited = chance.once_in(5);
        let few = usize::try_from(chance.within(10, 60)).unwrap_or(60);
        if is_limited {
            options.limits.max_queued_messages = few;
            options.limits.max_held_bytes = *chance.pick(&[200, 2000, 1 << 20]);
        }
        let weather = Weather {
            delay_ms: *chance.pick(&[1, 5, 40]),
            late_once_in: *chance.pick(&[0, 0, 300]),
            room: *chance.pick(&[700, 4096, 65_536, 65_536]),
            piece: *chance.pick(&[3, 50, 1 << 16, 1 << 16, 1 << 16]),
        };
        let count = chance.within(3, 6);
        let clients = (0..count).map(|at| ClientPlan::new(at, &mut chance));
        let mut clients: Vec<_> = clients.collect();
        let mut aliases = Chance::new(seed, "aliases");
        for client in clients.iter_mut().filter(|client| client.version.is_v5()) {
            client.aliases = *aliases.pick(&[0, 1, 2, 10]);
        }
        let mut images = Chance::new(seed, "images");
        let mut crowd = Chance::new(seed, "crowd");
        Self {
            lanes: lanes.unwrap_or(drawn),
            ring: *crowd.pick(&[(1024, 256), (16, 4), (3, 1)]),
            messages_per_turn: *crowd.pick(&[1, 256]),
            group_size: *chance.pick(&[32 * 1024, 64 * 1024]),
            options,
            weather,
            clients,
            operations: chance.within(450, 900),
            faults: Faults {
                image: *images.pick(&[0, 25, 60, 150]),
                in_image: *images.pick(&[0, 3, 8]),
                lane_sleeps: *crowd.pick(&[0, 10, 60]),
                ..Faults::new(&mut chance)
            },
            write_ms: *chance.pick(&[1, 10, 60, 200]),
            drift: *chance.pick(&[0, 0, 300, -300]),
        }
    }

    /// Whether queues may become full.
    pub fn is_limited(&self) -> bool {
        let usual = BrokerOptions::default().limits.max_queued_messages;
        self.options.limits.max_queued_messages < usual
    }
}

impl Faults {
    /// Never.
    pub const NONE: Self = Self {
        kill: 0,
        power_cut: 0,
        power_cut_at_operation: 0,
        stop: 0,
        cut: 0,
        write_fails: 0,
        step_fails: 0,
        disk_full: 0,
        clock_step: 0,
        lane_sleeps: 0,
        in_recovery: 0,
        image: 0,
        in_image: 0,
    };

    /// Each kind is often there, rarely or not at all: what happens too often hides the rest.
    fn new(chance: &mut Chance) -> Self {
        let mut draw = |often: &[u64]| *chance.pick(often);
        Self {
            kill: draw(&[120, 300, 300]),
            power_cut: draw(&[120, 300, 300]),
            power_cut_at_operation: draw(&[0, 150, 400]),
            stop: draw(&[0, 300, 600]),
            cut: draw(&[15, 40, 100]),
            write_fails: draw(&[0, 0, 100, 400]),
            step_fails: draw(&[0, 0, 0, 300]),
            disk_full: draw(&[0, 0, 300]),
            clock_step: draw(&[0, 0, 0, 200]),
            in_recovery: draw(&[0, 3, 6]),
            ..Self::NONE
        }
    }
}

impl ClientPlan {
    fn new(at: u64, chance: &mut Chance) -> Self {
        use ProtocolVersion::{V5, V31, V311};
        let version = *chance.pick(&[V31, V311, V311, V5, V5, V5]);
        let keeps = match chance.below(8) {
            // Somebody is there to keep promises to.
            _ if at == 0 => Keeps::Always,
            0..5 => Keeps::Always,
            5 => Keeps::Never,
            // MQTT 3.1 does not tell whether a session is present.
            _ if version == V31 => Keeps::Never,
            _ => Keeps::Changes,
        };
        let mut weights = match chance.below(4) {
            0 => [60, 3, 1, 2, 3, 2, 10, 1, 0],
            1 => [10, 10, 4, 3, 5, 3, 20, 3, 0],
            _ => [40, 6, 3, 2, 4, 3, 15, 1, 0],
        };
        if version == V31 {
            // From MQTT 3.1.1 on nothing is sent again but on a new connection (MQTT311-4.4.0-1).
            weights[8] = 30;
        }
        Self {
            version,
            keeps,
            window: *chance.pick(&[1, 3, 20, 1000]),
            aliases: 0,
            under_way: usize::try_from(chance.within(1, 20)).unwrap_or(1),
            keep_alive: *chance.pick(&[0, 2, 10, 60]),
            weights,
            pause_ms: *chance.pick(&[5, 40, 200]),
            late_answer: *chance.pick(&[0, 3, 10]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_repeat_and_somebody_always_keeps_a_session() {
        for seed in 0..50 {
            let plan = Plan::new(seed, None);
            assert_eq!(format!("{plan:?}"), format!("{:?}", Plan::new(seed, None)));
            assert_eq!(plan.clients[0].keeps, Keeps::Always);
            assert!(plan.faults.kill > 0);
        }
        assert_eq!(Plan::new(1, Some(3)).lanes, 3);
    }
}
