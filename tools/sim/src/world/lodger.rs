//! What ends by time alone, where nothing goes wrong: a session that expires, a will that waits.
//!
//! Owns: one client that is lost twice, once for less than its will waits, and once for longer than
//! its session lasts and anybody can doubt it; another who is there to get the wills.
//! Does not know: what the broker makes of that.

use super::World;
use crate::plan::{ClientPlan, Keeps};

/// How long it is away: see the file.
const AWAY_MS: [u64; 2] = [1000, 15_000];

impl World {
    pub(super) fn lodge(&mut self) {
        let neighbour = self.join("neighbour", |plan| ClientPlan { keeps: Keeps::Always, ..plan });
        self.ask_for_all(neighbour);
        let lodger = self.join("lodger", |plan| ClientPlan { keeps: Keeps::Briefly, ..plan });
        self.settle();
        for away_ms in AWAY_MS {
            self.drop_for(lodger, away_ms);
            self.settle();
        }
    }

    /// A client lets its connection go, of which the broker hears at once.
    fn drop_for(&mut self, at: usize, away_ms: u64) {
        let now = self.now();
        let (client, mut desk) = self.client(at);
        let Some(conn) = client.drop_until(&mut desk, now + away_ms) else { return };
        self.network.abandon(conn, now, 0);
        self.conns.remove(&conn);
    }
}
