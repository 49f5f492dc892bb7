//! The members of a shared group, of every version and QoS, that come, go and are taken over, while
//! somebody publishes to all of them.
//!
//! Owns: who is there when. Does not know: what each [`Member`] has in hand, and what the group
//! must have of each message, which the [`Ledger`] says.
//!
//! It plays in acts. At the end of each everybody who keeps a session is there and all that was
//! acknowledged has come. Only a session at QoS 1 may end before: its messages go on to others, and
//! so may come again. What has gone out at QoS 2, or to a connection at QoS 0, goes to nobody else
//! (MQTT 5.0, 4.8.2), so who takes these ends when nothing is under way, or unsubscribes first.

mod ledger;
mod member;
mod name;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use zzq_types::QoS;
use zzq_wal::sim_disk::Random;

use self::ledger::Ledger;
use self::member::{Member, Subscription};
use super::caller::{Caller, Heard, LEVELS, PUBACK, PUBREC, VERSIONS, hear};
use crate::gate::Gate;

/// What a member is granted, and whether its session stays when its connection ends.
const PARTS: [(QoS, bool); 7] = [
    (QoS::ExactlyOnce, true),
    (QoS::ExactlyOnce, true),
    (QoS::AtLeastOnce, true),
    (QoS::AtLeastOnce, true),
    (QoS::AtLeastOnce, false),
    (QoS::AtLeastOnce, false),
    (QoS::AtMostOnce, false),
];
/// What is done in one act, and one more than the least of it.
const STEPS: u64 = 60;

/// One act after the other, each through `gate`, until `stop`; then all retire. How often somebody
/// came.
///
/// # Errors
/// What the group was not given, or should not have been.
pub fn play(address: SocketAddr, seed: u64, gate: &Gate, stop: &AtomicBool) -> Result<u64> {
    let random = Random::about(seed, u64::from_le_bytes(*b"troupe!!"));
    let mut troupe = Troupe::new(address, random);
    while !stop.load(Ordering::Acquire) {
        let _inside = gate.enter();
        troupe.ledger.begin();
        let act = troupe.ledger.begun();
        troupe.act().with_context(|| format!("act {act} of the troupe"))?;
    }
    let _inside = gate.enter();
    for at in 0..PARTS.len() {
        troupe.retire(at).context("the end of the troupe")?;
    }
    Ok(troupe.visits)
}

struct Troupe {
    address: SocketAddr,
    random: Random,
    publisher: Option<Caller>,
    members: Vec<Member>,
    ledger: Ledger,
    visits: u64,
}

impl Troupe {
    fn new(address: SocketAddr, random: Random) -> Self {
        let ledger = Ledger::default();
        let member = |(at, &(qos, stays)): (usize, &(QoS, bool))| {
            Member::new(format!("troupe-{at}"), qos, stays, ledger.next())
        };
        let members = PARTS.iter().enumerate().map(member).collect();
        Self { address, random, publisher: None, members, ledger, visits: 0 }
    }

    fn act(&mut self) -> Result<()> {
        let version = self.random.pick(&VERSIONS);
        let publisher = Caller::enter(self.address, version, "troupe", true, Some(false))?;
        self.publisher = Some(publisher);
        // There is always somebody to whom a message may go, there or not.
        for at in 0..PARTS.len() {
            if self.members[at].is_new() || self.random.one_in(2) {
                self.come(at)?;
            }
        }
        self.wait(|troupe| troupe.members.iter().all(Member::is_answered))?;
        for _ in 0..=self.random.below(STEPS) {
            let at = self.random.index(PARTS.len());
            match self.random.below(6) {
                0 => self.come(at)?,
                1 => self.go(at),
                _ => self.publish()?,
            }
            self.hear_all()?;
        }
        self.settle()?;
        if self.random.one_in(4) {
            let at = self.random.index(PARTS.len());
            self.retire(at)?;
            self.publish()?;
            self.settle()?;
        }
        for at in 0..PARTS.len() {
            if self.random.one_in(3) {
                self.go(at);
            } else {
                self.part(at)?;
            }
        }
        // Who was not free to go.
        for at in 0..PARTS.len() {
            self.part(at)?;
        }
        self.publisher.take().context("a publisher")?.leave()
    }

    fn publish(&mut self) -> Result<()> {
        let (name, qos) = (self.ledger.next(), self.random.pick(&LEVELS));
        self.ledger.publish(qos);
        let payload = name.to_payload();
        let publisher = self.publisher.as_mut().context("a publisher")?;
        publisher.publish(&name.topic(), qos, name.number, payload.as_bytes())
    }

    /// It comes, by taking over its connection if it is there.
    fn come(&mut self, at: usize) -> Result<()> {
        let version = self.random.pick(&VERSIONS);
        let member = &mut self.members[at];
        if member.caller.is_some() && member.qos == QoS::AtMostOnce {
            return Ok(());
        }
        let had_session = member.stays && member.has_session;
        let entered =
            Caller::enter(self.address, version, &member.name, !member.stays, Some(had_session));
        member.caller = Some(entered.with_context(|| member.name.clone())?);
        member.has_session = true;
        self.visits += 1;
        if member.stays && member.subscription == Subscription::In {
            return Ok(());
        }
        member.ask()
    }

    /// It drops its connection, with all that was on its way, if that may be.
    fn go(&mut self, at: usize) {
        let member = &mut self.members[at];
        if member.qos != QoS::AtMostOnce && member.is_answered() {
            member.caller = None;
        }
    }

    /// It says that it goes, and takes what comes until the broker has heard.
    fn part(&mut self, at: usize) -> Result<()> {
        let Some(mut caller) = self.members[at].caller.take() else { return Ok(()) };
        caller.say_farewell()?;
        loop {
            match caller.hear()? {
                Heard::Closed => return Ok(()),
                heard => drop(self.members[at].packet(&heard, &mut self.ledger)?),
            }
        }
    }

    /// It unsubscribes, and its session ends when nothing of it is under way.
    fn retire(&mut self, at: usize) -> Result<()> {
        if self.members[at].is_new() {
            return Ok(());
        }
        if self.members[at].caller.is_none() {
            self.come(at)?;
            self.wait(|troupe| troupe.members[at].is_answered())?;
        }
        self.members[at].ask_no_more()?;
        self.wait(|troupe| troupe.members[at].is_answered())?;
        // What is published now goes to others.
        if self.publisher.is_some() {
            self.publish()?;
            self.settle()?;
        }
        self.part(at)?;
        let member = &mut self.members[at];
        if member.stays {
            let version = self.random.pick(&VERSIONS);
            Caller::enter(self.address, version, &member.name, true, Some(false))?.leave()?;
        }
        member.has_session = false;
        member.taken.clear();
        Ok(())
    }

    /// Everybody who keeps a session comes, and all that was acknowledged has to.
    fn settle(&mut self) -> Result<()> {
        for at in 0..PARTS.len() {
            let member = &self.members[at];
            if member.stays && member.has_session && member.caller.is_none() {
                self.come(at)?;
            }
        }
        let settled = self.wait(|troupe| {
            troupe.publisher.as_ref().is_some_and(Caller::is_done)
                && troupe.ledger.owed().next().is_none()
                && troupe.members.iter().all(Member::is_answered)
                && troupe.members.iter().all(|member| member.taken.is_empty())
        });
        settled.with_context(|| {
            let owed: Vec<_> = self.ledger.owed().collect();
            format!("messages {owed:?} were acknowledged, and came to nobody")
        })
    }

    /// Takes what comes until this holds.
    fn wait(&mut self, is_over: impl Fn(&Self) -> bool) -> Result<()> {
        while !is_over(self) {
            let mut whose = Vec::new();
            let mut callers = Vec::new();
            if let Some(publisher) = &mut self.publisher {
                whose.push(None);
                callers.push(publisher);
            }
            for (at, member) in self.members.iter_mut().enumerate() {
                if let Some(caller) = &mut member.caller {
                    whose.push(Some(at));
                    callers.push(caller);
                }
            }
            let (place, heard) = hear(&mut callers)?;
            self.take(whose[place], &heard)?;
        }
        Ok(())
    }

    /// Takes what has come.
    fn hear_all(&mut self) -> Result<()> {
        for at in [None].into_iter().chain((0..PARTS.len()).map(Some)) {
            loop {
                let caller = match at {
                    None => self.publisher.as_mut(),
                    Some(at) => self.members[at].caller.as_mut(),
                };
                let Some(heard) = caller.map(Caller::heard_now).transpose()?.flatten() else {
                    break;
                };
                self.take(at, &heard)?;
            }
        }
        Ok(())
    }

    /// What a member has heard, or the publisher.
    fn take(&mut self, whose: Option<usize>, heard: &Heard) -> Result<()> {
        let Some(at) = whose else {
            self.publisher.as_mut().context("a publisher")?.go_on(heard)?;
            if let Heard::Answer(PUBACK | PUBREC, id) = heard {
                self.ledger.acknowledge(id.get())?;
            }
            return Ok(());
        };
        let member = &mut self.members[at];
        let answer = member.packet(heard, &mut self.ledger);
        let answer = answer.with_context(|| format!("{} at {:?}", member.name, member.qos))?;
        match (answer, &mut member.caller) {
            (Some(answer), Some(caller)) => caller.say(&answer),
            _ => Ok(()),
        }
    }
}
