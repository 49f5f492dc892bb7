//! What the clients of a seed are like: what they speak, keep and do.

use zzq_types::ProtocolVersion::{self, V5, V31, V311};
use zzq_types::QoS;

use crate::chance::Chance;

/// What one client is like.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one client")]
pub struct ClientPlan {
    /// What it speaks.
    pub version: ProtocolVersion,
    /// Its sessions outlive connections: always, or as chance wants.
    pub keeps: Keeps,
    /// QoS 1 and 2 messages it takes at once; MQTT 5 alone.
    pub window: u16,
    /// Topic aliases that it takes; MQTT 5 alone.
    pub aliases: u16,
    /// Once in so many messages it gives a topic an alias, if the broker takes any; 0: it does not.
    pub names: u64,
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
    /// All it does is to read what was published, from the beginning on.
    pub reads_history: bool,
    /// It reads it from a place or a time on.
    pub has_cursors: bool,
    /// All it does is to subscribe to topics while others begin to publish there.
    pub joins: bool,
    /// Its subscriptions are those of one group, which gets all that is published.
    pub shares: bool,
    /// What it asks for is served without a log.
    pub needs_no_log: bool,
    /// What it subscribes to it takes by itself, above QoS 0.
    pub certain: bool,
    /// It takes all that is published, at QoS 1.
    pub holds: bool,
    /// All that it publishes is at this level.
    pub publishes_at: Option<QoS>,
    /// What it subscribes to it takes at QoS 0.
    pub listens: bool,
    /// It publishes where others are joining.
    pub welcomes: bool,
    /// Once in so many messages where others are joining one is retained.
    pub retains: u64,
    /// For so long in ms clients join others in one topic, and then in the next.
    pub joining_ms: u64,
    /// Once in so many acts it says much at once to all who chat; 0: it does not.
    pub chats: u64,
    /// Now and then it publishes nothing for a while.
    pub pauses: bool,
    /// Once in so many messages at QoS 1 and 2 it refuses one; MQTT 5 alone.
    pub refuses: u64,
    /// Once in so many messages one is large.
    pub large: u64,
    /// Bytes of the largest.
    pub largest: usize,
    /// Once in so many wills one is large; 0: none is.
    pub large_wills: u64,
    /// It tries what it may not.
    pub trespasses: bool,
    /// It authenticates by a method; MQTT 5 alone.
    pub authenticates: bool,
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
    /// All of them, by three seconds; and each connection has a will that waits for two.
    Briefly,
}

impl ClientPlan {
    /// What the others begin from. It does nothing, for long, and is always there again.
    pub(crate) const PLAIN: Self = Self {
        version: V5,
        keeps: Keeps::Always,
        window: 1000,
        aliases: 0,
        names: 0,
        under_way: 1,
        keep_alive: 0,
        weights: [0; 9],
        pause_ms: 200,
        late_answer: 0,
        reads_history: false,
        has_cursors: false,
        joins: false,
        shares: false,
        needs_no_log: false,
        certain: false,
        holds: false,
        publishes_at: None,
        listens: false,
        welcomes: false,
        retains: 4,
        joining_ms: 600,
        chats: 0,
        pauses: false,
        refuses: 0,
        large: 40,
        largest: 40_000,
        large_wills: 0,
        trespasses: false,
        authenticates: false,
    };

    pub(super) fn new(at: u64, chance: &mut Chance) -> Self {
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
            under_way: usize::try_from(chance.within(1, 20)).unwrap_or(1),
            keep_alive: *chance.pick(&[0, 2, 10, 60]),
            weights,
            pause_ms: *chance.pick(&[5, 40, 200]),
            late_answer: *chance.pick(&[0, 3, 10]),
            ..Self::PLAIN
        }
    }

    /// A client that reads history.
    pub(super) fn of_reader(chance: &mut Chance) -> Self {
        Self {
            window: *chance.pick(&[1, 3, 20, 1000]),
            weights: [0, 4, *chance.pick(&[0, 0, 1, 2]), 3, 3, 2, 40, 1, 0],
            pause_ms: *chance.pick(&[5, 40, 200]),
            late_answer: *chance.pick(&[0, 3, 10]),
            reads_history: true,
            ..Self::PLAIN
        }
    }

    /// One that reads it from a place or a time on, and then from another.
    pub(super) fn of_seeker(chance: &mut Chance) -> Self {
        let weights = [0, 4, *chance.pick(&[1, 3]), 1, 2, 1, 40, 1, 0];
        Self { weights, has_cursors: true, ..Self::of_reader(chance) }
    }

    /// One that is soon where nothing is left of the past, and begins again.
    pub(super) const fn of_eager_reader() -> Self {
        Self {
            window: 1000,
            weights: [0, 2, 1, 0, 0, 0, 60, 0, 0],
            pause_ms: 40,
            reads_history: true,
            ..Self::PLAIN
        }
    }

    /// One that is soon where nothing is left of the past, and stays there.
    pub(super) const fn of_steady_reader() -> Self {
        Self { weights: [0, 2, 0, 0, 0, 0, 60, 0, 0], late_answer: 2, ..Self::of_eager_reader() }
    }

    /// One that takes all that is published above QoS 0, and answers late: what it holds when a
    /// connection ends has a name yet. Most of the time it has nothing to do.
    pub(super) fn of_holder(chance: &mut Chance) -> Self {
        Self {
            version: *chance.pick(&[V311, V5]),
            weights: [0, 4, 0, 0, 0, 0, 1, 0, 40],
            pause_ms: 40,
            late_answer: 1,
            holds: true,
            ..Self::PLAIN
        }
    }

    /// One that takes all that is published above QoS 0, and is mostly away: what waits for it is
    /// much.
    pub(super) const fn of_absentee() -> Self {
        Self { weights: [0, 10, 0, 4, 4, 0, 10, 0, 0], pause_ms: 400, holds: true, ..Self::PLAIN }
    }

    /// One that takes all at QoS 0.
    pub(super) fn of_listener(chance: &mut Chance) -> Self {
        Self {
            version: *chance.pick(&[V311, V5]),
            weights: [0, 1, 0, 0, 0, 0, 20, 0, 0],
            pause_ms: 40,
            listens: true,
            ..Self::PLAIN
        }
    }

    /// One that publishes and keeps nothing: what a crash takes of it is not sent again, and others
    /// get its place.
    pub(super) fn of_forgetful(chance: &mut Chance) -> Self {
        Self {
            version: *chance.pick(&[V311, V5]),
            keeps: Keeps::Never,
            under_way: 20,
            weights: [60, 0, 0, 1, 1, 1, 10, 0, 0],
            pause_ms: 40,
            ..Self::PLAIN
        }
    }

    /// One of a crew that shares all that is published: it stays, or ends with its connection, and
    /// leaves to the others what it was sent and has not answered.
    pub(super) fn of_crew(stays: bool, chance: &mut Chance) -> Self {
        Self {
            version: *chance.pick(&[V311, V5]),
            keeps: if stays { Keeps::Always } else { Keeps::Never },
            window: *chance.pick(&[3, 20]),
            weights: if stays {
                [0, 4, 0, 1, 2, 1, 40, 1, 0]
            } else {
                [0, 20, 0, 1, 4, 1, 4, 1, 0]
            },
            pause_ms: *chance.pick(&[40, 200]),
            late_answer: if stays { 0 } else { 3 },
            shares: true,
            ..Self::PLAIN
        }
    }

    /// One that takes all that is published above QoS 0, few messages at a time, and answers late,
    /// or does not read for long and then takes what it has missed. Its session ends with its
    /// connection, so no image has it: what waits for it grows old.
    pub(super) fn of_sluggard(chance: &mut Chance) -> Self {
        let (answers, is_deaf, rests) = *chance.pick(&[(5, 0, 40), (20, 0, 40), (80, 1, 0)]);
        Self {
            keeps: Keeps::Never,
            window: *chance.pick(&[1, 3]),
            weights: [0, 1, 0, 0, 0, 0, answers, is_deaf, rests],
            pause_ms: 40,
            late_answer: 2,
            holds: true,
            ..Self::PLAIN
        }
    }

    /// One that asks for nothing that a log has to hold, and comes often.
    pub(super) fn without_log(chance: &mut Chance) -> Self {
        Self {
            // MQTT 3 has one word for all that a broker lacks.
            version: *chance.pick(&[V31, V5, V5, V5]),
            keeps: Keeps::Never,
            weights: [10, 5, 2, 6, 3, 3, 20, 0, 0],
            pause_ms: *chance.pick(&[5, 40]),
            needs_no_log: true,
            ..Self::PLAIN
        }
    }

    /// A client that joins others. It is there for long: what it is owed is owed to a session.
    pub(super) fn of_joiner(chance: &mut Chance) -> Self {
        Self {
            version: *chance.pick(&[V311, V5]),
            weights: [0, 20, 0, 0, 0, 0, 20, 0, 0],
            pause_ms: *chance.pick(&[40, 200]),
            late_answer: *chance.pick(&[0, 10]),
            joins: true,
            ..Self::PLAIN
        }
    }
}
