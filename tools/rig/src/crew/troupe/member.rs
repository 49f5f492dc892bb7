//! A member of the troupe: one name in one group, with the connection and the session it has.
//!
//! Owns: what it has in hand, what it answers, and that nothing comes to it that it has not asked
//! for. Does not know: who else is in the group; the [`Ledger`] judges what comes to all of them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use zzq_codec::{Ack, Packet};
use zzq_types::{PacketId, QoS};

use super::ledger::Ledger;
use super::name::Name;
use crate::crew::caller::{Caller, Heard, PUBREL};

const FILTER: &str = "$share/troupe/troupe/#";

/// See the file.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) qos: QoS,
    /// Its session stays.
    pub(super) stays: bool,
    pub(super) caller: Option<Caller>,
    pub(super) has_session: bool,
    pub(super) subscription: Subscription,
    /// QoS 2 messages that it has and that were not released.
    pub(super) taken: BTreeMap<PacketId, Name>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subscription {
    /// Nothing comes that was published from this message on.
    Out(Name),
    Asked,
    In,
    Leaving,
}

impl Member {
    /// One that has not subscribed; `next` is the message that is published next.
    pub(super) fn new(name: String, qos: QoS, stays: bool, next: Name) -> Self {
        Self {
            name,
            qos,
            stays,
            caller: None,
            has_session: false,
            subscription: Subscription::Out(next),
            taken: BTreeMap::new(),
        }
    }

    /// It has to subscribe before it is owed anything.
    pub(super) fn is_new(&self) -> bool {
        self.stays && matches!(self.subscription, Subscription::Out(_))
    }

    /// It waits for no answer about its subscription.
    pub(super) fn is_answered(&self) -> bool {
        !matches!(self.subscription, Subscription::Asked | Subscription::Leaving)
    }

    pub(super) fn ask(&mut self) -> Result<()> {
        self.subscription = Subscription::Asked;
        self.caller.as_mut().context("a connection")?.ask_for(FILTER, self.qos)
    }

    pub(super) fn ask_no_more(&mut self) -> Result<()> {
        self.subscription = Subscription::Leaving;
        self.caller.as_mut().context("a connection")?.ask_no_more(FILTER)
    }

    /// What it has heard, and what it says to that.
    pub(super) fn packet(
        &mut self,
        heard: &Heard,
        ledger: &mut Ledger,
    ) -> Result<Option<Packet<'static>>> {
        match heard {
            Heard::Granted(qos) => {
                ensure!(*qos == self.qos, "granted {qos:?}");
                self.subscription = Subscription::In;
                Ok(None)
            }
            Heard::Unsubscribed => {
                self.subscription = Subscription::Out(ledger.next());
                Ok(None)
            }
            Heard::Answer(PUBREL, id) => {
                self.taken.remove(id);
                Ok(Some(Packet::PubComp(Ack::success(*id))))
            }
            Heard::Message { topic, payload, qos, id, is_repeated } => {
                let name = Name::of(payload).with_context(|| format!("not ours: {heard:?}"))?;
                ensure!(*topic == name.topic(), "not as it was sent: {heard:?}");
                if let Subscription::Out(from) = self.subscription {
                    ensure!(name < from, "{name:?} was not asked for");
                }
                let until_released = id.filter(|_| *qos == QoS::ExactlyOnce);
                match until_released.and_then(|id| self.taken.insert(id, name)) {
                    Some(before) => {
                        let is_it = *is_repeated && before == name;
                        ensure!(is_it, "its identifier is that of {before:?}: {heard:?}");
                    }
                    None => ledger.came(name, self.qos, *qos)?,
                }
                Ok(id.map(|id| match qos {
                    QoS::AtLeastOnce => Packet::PubAck(Ack::success(id)),
                    _ => Packet::PubRec(Ack::success(id)),
                }))
            }
            other => bail!("{other:?} has come"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A group with messages at QoS 2, all acknowledged, and a member that is granted it.
    fn group(messages: u16) -> (Ledger, Member) {
        let mut ledger = Ledger::default();
        ledger.begin();
        let name = "troupe-0".to_owned();
        let mut member = Member::new(name, QoS::ExactlyOnce, true, ledger.next());
        for number in 1..=messages {
            ledger.publish(QoS::ExactlyOnce);
            ledger.acknowledge(number).unwrap();
        }
        member.packet(&Heard::Granted(QoS::ExactlyOnce), &mut ledger).unwrap();
        (ledger, member)
    }

    /// This message of the first act comes at QoS 2.
    fn message(number: u16, id: u16, is_repeated: bool) -> Heard {
        let name = Name { act: 1, number };
        Heard::Message {
            topic: name.topic(),
            payload: name.to_payload().into_bytes(),
            qos: QoS::ExactlyOnce,
            id: PacketId::new(id),
            is_repeated,
        }
    }

    fn released(id: u16) -> Heard {
        Heard::Answer(PUBREL, PacketId::new(id).unwrap())
    }

    #[test]
    fn a_message_that_comes_to_nobody_is_missed() {
        let (mut ledger, mut member) = group(3);
        for number in [1, 3] {
            member.packet(&message(number, number, false), &mut ledger).unwrap();
        }
        assert_eq!(ledger.owed().collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn a_message_at_qos_2_is_repeated_until_it_is_released_and_never_comes_again() {
        let (mut ledger, mut member) = group(1);
        member.packet(&message(1, 7, false), &mut ledger).unwrap();
        member.packet(&message(1, 7, true), &mut ledger).unwrap();
        member.packet(&message(1, 7, false), &mut ledger).unwrap_err();
        member.packet(&message(1, 8, true), &mut ledger).unwrap_err();
        member.packet(&released(7), &mut ledger).unwrap();
        member.packet(&message(1, 7, true), &mut ledger).unwrap_err();
    }

    #[test]
    fn an_identifier_that_is_not_released_names_no_other_message() {
        let (mut ledger, mut member) = group(2);
        member.packet(&message(1, 7, false), &mut ledger).unwrap();
        member.packet(&message(2, 7, true), &mut ledger).unwrap_err();
    }

    #[test]
    fn a_message_comes_once_whoever_of_the_group_it_comes_to() {
        let (mut ledger, mut member) = group(1);
        let mut other = Member::new("troupe-1".to_owned(), member.qos, true, ledger.next());
        other.packet(&Heard::Granted(other.qos), &mut ledger).unwrap();
        member.packet(&message(1, 7, false), &mut ledger).unwrap();
        other.packet(&message(1, 7, false), &mut ledger).unwrap_err();
    }

    #[test]
    fn who_is_no_member_gets_nothing_that_was_published_since() {
        let (mut ledger, mut member) = group(1);
        member.packet(&Heard::Unsubscribed, &mut ledger).unwrap();
        ledger.publish(QoS::ExactlyOnce);
        member.packet(&message(2, 7, false), &mut ledger).unwrap_err();
        member.packet(&message(1, 7, false), &mut ledger).unwrap();

        let never = ledger.next();
        let mut stranger = Member::new("troupe-1".to_owned(), QoS::AtLeastOnce, true, never);
        ledger.publish(QoS::ExactlyOnce);
        stranger.packet(&message(never.number, 7, false), &mut ledger).unwrap_err();
    }
}
