//! What clients may do: the authoriser is asked for each thing, and most answer at once.
//!
//! Assumes: without an authoriser everything is allowed, for the cost of a look.

use std::sync::Arc;

use zzq_codec::Subscribe;
use zzq_lanes::ConnId;
use zzq_types::{QoS, TopicName};
use zzq_wal::disk::Disk;

use super::questions::{Publishable, Question};
use super::{Flow, Io, Shell};
use crate::hooks::{
    Answer, Authoriser, Client, Event, NoAnswer, Permit, Publishing, Receiving, Right, Subscribing,
    all_of,
};
use crate::planted::{self, Bug};
use crate::replay::ask;

/// What a client may of the filters of one SUBSCRIBE.
#[derive(Debug)]
pub(super) enum Permits {
    /// All of them.
    All,
    /// This of each.
    Each(Vec<Permit>),
    /// Nobody has said.
    Unanswered,
}

impl Permits {
    /// Of the filter at this place; `None`: nobody has said.
    pub(super) fn of(&self, at: usize) -> Option<Permit> {
        match self {
            Self::All => Some(Permit::Allow),
            Self::Each(permits) => permits.get(at).copied(),
            Self::Unanswered => None,
        }
    }

    pub(super) fn disconnects(&self) -> bool {
        matches!(self, Self::Each(permits) if permits.contains(&Permit::Disconnect))
    }
}

impl<D: Disk> Shell<D> {
    /// Whether a client may publish this, its next publish; `None`: it is asked.
    pub(super) fn may_publish(
        &mut self,
        io: &Io<'_, D>,
        conn: ConnId,
        publishing: &Publishing<'_>,
    ) -> Option<Result<Permit, NoAnswer>> {
        let Some(authoriser) = &self.shared.hooks.authoriser else {
            return Some(Ok(Permit::Allow));
        };
        let Some(link) = self.links.get_mut(conn) else { return Some(Err(NoAnswer)) };
        let Some(who) = &link.who else { return Some(Ok(Permit::Deny)) };
        let pending = match std::mem::take(&mut link.publishable) {
            Publishable::Yes => return Some(Ok(Permit::Allow)),
            Publishable::Asked(mut pending) => match pending.poll(io.now()).transpose() {
                Some(answer) => return Some(self.note_publish_right(conn, answer, publishing)),
                None => pending,
            },
            Publishable::Unknown => match authoriser.publish(who, publishing) {
                Answer::Now(Permit::Allow) => return Some(Ok(Permit::Allow)),
                answer => match self.settle_answer(io, conn, answer) {
                    Ok(permit) => {
                        return Some(self.note_publish_right(conn, Ok(permit), publishing));
                    }
                    Err(pending) => pending,
                },
            },
        };
        if let Some(link) = self.links.get_mut(conn) {
            link.publishable = Publishable::Asked(pending);
        }
        None
    }

    fn note_publish_right(
        &mut self,
        conn: ConnId,
        answer: Result<Permit, NoAnswer>,
        publishing: &Publishing<'_>,
    ) -> Result<Permit, NoAnswer> {
        match answer {
            Ok(Permit::Allow) => {
                if let Some(link) = self.links.get_mut(conn) {
                    link.publishable = Publishable::Yes;
                }
            }
            Ok(Permit::Deny | Permit::Disconnect) => {
                self.counts.denied_publishes += 1;
                self.tell_denied(conn, Right::Publish, publishing.topic);
            }
            Err(NoAnswer) => self.counts.unanswered += 1,
        }
        answer
    }

    /// Whether a client may publish to this topic for all that is known now: so a run may go.
    pub(super) fn may_publish_at_once(&self, conn: ConnId, topic: TopicName<'_>, qos: QoS) -> bool {
        let Some(authoriser) = &self.shared.hooks.authoriser else { return true };
        let Some(link) = self.links.get(conn) else { return false };
        let (Some(who), Publishable::Unknown) = (&link.who, &link.publishable) else {
            return false;
        };
        let publishing = Publishing { topic: topic.as_str(), qos, retain: false, is_will: false };
        matches!(authoriser.publish(who, &publishing), Answer::Now(Permit::Allow))
    }

    /// What a client may of the filters of its SUBSCRIBE; `from` is where all of them start, if
    /// that is in the past. `Err`: it waits for an answer.
    pub(super) fn may_subscribe(
        &mut self,
        io: &mut Io<'_, D>,
        conn: ConnId,
        subscribe: &Subscribe<'_>,
        from: Option<&str>,
    ) -> Result<Permits, Flow> {
        let Some(authoriser) = &self.shared.hooks.authoriser else { return Ok(Permits::All) };
        let Some(link) = self.links.get_mut(conn) else { return Err(Flow::End) };
        let Some(who) = &link.who else { return Ok(Permits::Unanswered) };
        let pending = match std::mem::take(&mut link.question) {
            Question::MaySubscribe(permits) => return Ok(Permits::Each(permits)),
            Question::Subscribe(mut pending) => match pending.poll(io.now()).transpose() {
                Some(answer) => {
                    return Ok(self.note_subscribe_rights(conn, answer, subscribe, from));
                }
                None => pending,
            },
            _ => {
                let answers = ask_for_each(&**authoriser, who, subscribe, from);
                match self.settle_answer(io, conn, answers) {
                    Ok(permits) => {
                        return Ok(self.note_subscribe_rights(conn, Ok(permits), subscribe, from));
                    }
                    Err(pending) => pending,
                }
            }
        };
        if let Some(link) = self.links.get_mut(conn) {
            link.question = Question::Subscribe(pending);
        }
        Err(self.await_answer(io, conn))
    }

    /// A SUBSCRIBE whose permits are known is offered again.
    pub(super) fn keep_permits(&mut self, conn: ConnId, permits: Permits) {
        let Some(link) = self.links.get_mut(conn) else { return };
        if let Permits::Each(permits) = permits {
            link.question = Question::MaySubscribe(permits);
        }
    }

    fn note_subscribe_rights(
        &mut self,
        conn: ConnId,
        answer: Result<Vec<Permit>, NoAnswer>,
        subscribe: &Subscribe<'_>,
        from: Option<&str>,
    ) -> Permits {
        let Ok(permits) = answer else {
            self.counts.unanswered += 1;
            return Permits::Unanswered;
        };
        for (entry, permit) in subscribe.subscriptions.into_iter().zip(&permits) {
            if *permit != Permit::Allow {
                self.counts.denied_filters += 1;
                let replays = ask::ask(entry.text, from).is_ok_and(|asked| asked.is_some());
                let right = if replays { Right::Replay } else { Right::Subscribe };
                self.tell_denied(conn, right, entry.text);
            }
        }
        Permits::Each(permits)
    }

    fn tell_denied(&mut self, conn: ConnId, right: Right, topic: &str) {
        self.tell(conn, |client| Event::Denied { client, right, topic: topic.into() });
    }
}

/// Asks for all filters of a SUBSCRIBE. What is no filter is refused anyway.
fn ask_for_each(
    authoriser: &dyn Authoriser,
    who: &Arc<Client>,
    subscribe: &Subscribe<'_>,
    from: Option<&str>,
) -> Answer<Vec<Permit>> {
    let mut answers = Vec::new();
    for entry in subscribe.subscriptions {
        let qos = entry.options.qos;
        let (group, plain) = match entry.filter {
            Ok(filter) => (filter.group(), filter.topic_filter().as_str()),
            Err(_) => (None, entry.text),
        };
        // A filter that starts in the past says so in its first levels.
        let asked = ask::ask(entry.text, from).ok().flatten();
        let filter = asked.map_or(plain, |asked| asked.filter.as_str());
        let subscribing = Subscribing { filter, group, qos };
        let may = authoriser.subscribe(who, &subscribing);
        let history = asked.map(|_| authoriser.replay(who, &subscribing));
        answers.push(match history {
            None => may,
            Some(history) => both(may, history),
        });
    }
    all_of(answers)
}

/// Both must be allowed.
fn both(one: Answer<Permit>, other: Answer<Permit>) -> Answer<Permit> {
    let joined = |permits: &[Permit]| {
        let most = |permit| permits.contains(&permit).then_some(permit);
        most(Permit::Disconnect).or(most(Permit::Deny)).unwrap_or(Permit::Allow)
    };
    match all_of(vec![one, other]) {
        Answer::Now(permits) => Answer::Now(joined(&permits)),
        Answer::Later(permits) => Answer::later(async move { joined(&permits.await) }),
    }
}

/// Whether a message may go to who is at the other end of a connection.
#[inline]
pub(super) fn may_receive(
    authoriser: Option<&dyn Authoriser>,
    who: Option<&Arc<Client>>,
    topic: TopicName<'_>,
    qos: QoS,
) -> Answer<bool> {
    match (authoriser, who) {
        (None, _) => Answer::Now(true),
        _ if planted::is(Bug::DeniedDelivered) => Answer::Now(true),
        (Some(_), None) => Answer::Now(false),
        (Some(authoriser), Some(who)) => {
            authoriser.receive(who, &Receiving { topic: topic.as_str(), qos })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_takes_both_rights() {
        use Permit::{Allow, Deny, Disconnect};
        let of = |one, other| match both(Answer::Now(one), Answer::Now(other)) {
            Answer::Now(permit) => permit,
            Answer::Later(_) => panic!("both are there"),
        };
        assert_eq!(of(Allow, Allow), Allow);
        assert_eq!((of(Allow, Deny), of(Deny, Allow)), (Deny, Deny));
        assert_eq!((of(Deny, Disconnect), of(Disconnect, Allow)), (Disconnect, Disconnect));
    }
}
