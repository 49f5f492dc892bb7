//! What the broker tells of full queues: how much they have lost, and whose session it has ended.
//!
//! Assumes: it is looked at around each turn of a lane, in which nothing else happens.

use zzq_broker::QueueFull;
use zzq_engine::SessionNumber;

use super::World;
use crate::history::{ClientId, Event};

/// What was counted so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    dropped: u64,
    ended: u64,
    refused: u64,
}

impl World {
    /// The sessions of a lane before its turn.
    pub(super) fn sessions_before(&self, lane: usize) -> Vec<(ClientId, SessionNumber)> {
        let Some(broker) = self.node.broker.as_ref().filter(|_| self.plan.is_limited()) else {
            return Vec::new();
        };
        let clients = self.history.names.iter().zip(0_u16..);
        let found = clients.filter_map(|(name, at)| {
            let session = broker.state(lane).session_of(name)?;
            Some((ClientId(at), session.number()))
        });
        found.collect()
    }

    /// Sessions that the broker has begun to end when it dies: it has said so to whoever runs it,
    /// and what of that is in the log is found by the next start.
    pub(super) fn note_ending(&mut self) {
        let Some(broker) = self.node.broker.as_ref().filter(|_| self.plan.is_limited()) else {
            return;
        };
        let client_of = |lane: usize, session: SessionNumber| {
            let name = broker.state(lane).session(session)?.client();
            let mut clients = self.history.names.iter().zip(0_u16..);
            clients.find(|(known, _)| *known == name).map(|(_, at)| ClientId(at))
        };
        let lanes = 0..broker.lanes();
        let ending = lanes.flat_map(|lane| {
            broker.ending_full(lane).into_iter().filter_map(move |session| client_of(lane, session))
        });
        for client in ending.collect::<Vec<_>>() {
            self.clients[usize::from(client.0)].session_ended();
            self.note(Event::EndedFull { client, certain: false });
        }
    }

    /// What the lane has lost or ended in its turn.
    pub(super) fn note_full(&mut self, lane: usize, before: &[(ClientId, SessionNumber)]) {
        let Some(broker) = self.node.broker.as_ref().filter(|_| self.plan.is_limited()) else {
            return;
        };
        let counts = broker.counts();
        let seen = Seen {
            dropped: counts.dropped_full,
            ended: counts.ended_full,
            refused: counts.refused_total,
        };
        if seen.refused > self.full.refused {
            self.coverage.hit("all queues refuse");
        }
        let (messages, ended) = (seen.dropped - self.full.dropped, seen.ended - self.full.ended);
        self.full = seen;
        let state = broker.state(lane);
        let gone = before.iter().filter(|(_, number)| state.session(*number).is_none());
        let gone: Vec<ClientId> = gone.map(|(client, _)| *client).collect();
        if messages > 0 {
            self.coverage.hit(match self.history.queue_full {
                QueueFull::DropNewest => "full queue drops the newest",
                _ => "full queue drops its oldest",
            });
            self.note(Event::Dropped { messages });
        }
        if ended > 0 {
            self.coverage.hit(match self.history.queue_full {
                _ if self.plan.bounds_all_queues() => "all queues end a session",
                QueueFull::Refuse => "full queue outlasts its grace",
                _ => "full queue ends its session",
            });
            let certain = gone.len() as u64 == ended;
            for client in gone {
                self.clients[usize::from(client.0)].session_ended();
                self.note(Event::EndedFull { client, certain });
            }
        }
    }
}
