//! Clients that come, do something whole, and go: in any version of the protocol, with a session
//! that stays or without, leaving in order, without a word, or by their own next connection.
//!
//! Owns: what such a client must be told, to the packet: it has its topic to itself.
//! Does not know: the accounts, in which none of this stands.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use zzq_types::QoS;
use zzq_wal::sim_disk::Random;

use super::caller::{Caller, Heard, LEVELS, OWN, VERSIONS};
use crate::gate::Gate;

/// Client identifiers of one passer.
const NAMES: usize = 8;
/// Messages of one visit, and one less.
const MESSAGES: u64 = 12;

/// One visitor after the other, each through `gate`, until `stop`; how many there were.
///
/// # Errors
/// What one of them was not told, or should not have been.
pub fn pass(
    number: usize,
    address: SocketAddr,
    seed: u64,
    gate: &Gate,
    stop: &AtomicBool,
) -> Result<u64> {
    let random = Random::about(seed, number as u64);
    let mut passer = Passer { number, address, random, stays: [Some(false); NAMES], visits: 0 };
    while !stop.load(Ordering::Acquire) {
        let _inside = gate.enter();
        passer.visits += 1;
        let visits = passer.visits;
        passer.visit().with_context(|| format!("visit {visits} of passer {number}"))?;
    }
    Ok(passer.visits)
}

struct Passer {
    number: usize,
    address: SocketAddr,
    random: Random,
    /// Which names have a session; `None`: the broker may not have noticed yet that it is over.
    stays: [Option<bool>; NAMES],
    visits: u64,
}

impl Passer {
    fn visit(&mut self) -> Result<()> {
        let (which, version) = (self.random.index(NAMES), self.random.pick(&VERSIONS));
        let (clean, level) = (self.random.one_in(2), self.random.pick(&LEVELS));
        let name = format!("passer-{}-{which}", self.number);
        let topic = format!("passers/{name}");
        let had_session = if clean { Some(false) } else { self.stays[which] };
        let mut caller = Caller::enter(self.address, version, &name, clean, had_session)?;
        self.stays[which] = Some(!clean);
        caller.subscribe(&topic, level)?;
        for message in 0..=self.random.below(MESSAGES) {
            let payload = format!("{name} {} {message}", self.visits);
            say(&mut caller, &topic, self.random.pick(&LEVELS), level, payload.as_bytes())?;
        }
        caller.ping()?;
        match self.random.below(3) {
            0 => caller.leave(),
            1 => {
                self.stays[which] = (!clean).then_some(true);
                Ok(())
            }
            _ => {
                // Its own next connection, of the same kind, ends this one.
                let again = Caller::enter(self.address, version, &name, clean, Some(!clean))?;
                caller.lose_session()?;
                again.leave()
            }
        }
    }
}

/// Publishes, and takes what comes of it, both handshakes to their ends, in whatever order.
fn say(caller: &mut Caller, topic: &str, qos: QoS, granted: QoS, payload: &[u8]) -> Result<()> {
    caller.publish(topic, qos, OWN, payload)?;
    let mut came = false;
    while !came || !caller.is_done() {
        let heard = caller.hear()?;
        let Heard::Message { topic: to, payload: bytes, qos: at, id, is_repeated } = &heard else {
            caller.go_on(&heard)?;
            continue;
        };
        ensure!(!came && !is_repeated, "it comes twice: {heard:?}");
        let is_it = to == topic && bytes == payload && *at == qos.min(granted);
        ensure!(is_it, "another message: {heard:?}");
        came = true;
        caller.receive(*at, *id)?;
    }
    Ok(())
}
