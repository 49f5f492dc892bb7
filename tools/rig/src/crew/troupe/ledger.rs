//! What the members of a group must have between them.
//!
//! Owns: the messages of the last acts, and the judgement about each copy that comes of one.
//! Does not know: who is in the group, and when.
//!
//! A message is one member's. When the session of a member ends, what it was given goes on to
//! another one, unless it may have it for good: so it comes again only behind QoS 1. It goes on as
//! an orphan, which has the level of the delivery that did not come about and no longer that of its
//! publisher: what a member at QoS 1 leaves of a message at QoS 2 comes to one at QoS 2 at QoS 1,
//! for it may have come before. What has gone out at QoS 2 is never an orphan.

use std::collections::VecDeque;

use anyhow::{Context, Result, ensure};
use zzq_types::QoS;

use super::name::Name;

/// Acts of which something may come again. All that a session holds comes in the act behind it.
const ACTS: usize = 64;

/// See the file.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The last ones.
    acts: VecDeque<Vec<Message>>,
    /// How many have begun.
    begun: u64,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    qos: QoS,
    is_acknowledged: bool,
    /// At which QoS it came last.
    came: Option<QoS>,
}

impl Ledger {
    pub(super) fn begin(&mut self) {
        self.begun += 1;
        self.acts.push_back(Vec::new());
        if self.acts.len() > ACTS {
            self.acts.pop_front();
        }
    }

    /// How many acts have begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// The name of the message that is published next.
    pub(super) fn next(&self) -> Name {
        let count = self.acts.back().map_or(0, Vec::len);
        Name { act: self.begun, number: u16::try_from(count + 1).unwrap_or(u16::MAX) }
    }

    pub(super) fn publish(&mut self, qos: QoS) {
        if let Some(act) = self.acts.back_mut() {
            act.push(Message { qos, is_acknowledged: false, came: None });
        }
    }

    /// Of this act.
    pub(super) fn acknowledge(&mut self, number: u16) -> Result<()> {
        let name = Name { act: self.begun, number };
        self.message(name)?.is_acknowledged = true;
        Ok(())
    }

    /// It has come to a member that was granted a QoS.
    pub(super) fn came(&mut self, name: Name, granted: QoS, at: QoS) -> Result<()> {
        let message = self.message(name)?;
        let due = message.qos.min(granted);
        // Whoever leaves it need not have got it: that it comes for the first time says nothing.
        let is_left = at == QoS::AtLeastOnce && due == QoS::ExactlyOnce;
        ensure!(at == due || is_left, "{name:?} comes at {at:?} instead of {due:?}");
        let before = message.came.replace(at);
        let is_open = before.is_none_or(|before| before == QoS::AtLeastOnce);
        ensure!(is_open, "{name:?} has come at {before:?}, and comes again at {at:?}");
        Ok(())
    }

    /// What was acknowledged in this act, at QoS 1 or 2, and has not come to anybody.
    pub(super) fn owed(&self) -> impl Iterator<Item = usize> + '_ {
        let messages = self.acts.back().into_iter().flatten().zip(1..);
        let owed = messages.filter(|(one, _)| one.is_acknowledged && one.came.is_none());
        owed.map(|(_, number)| number)
    }

    fn message(&mut self, name: Name) -> Result<&mut Message> {
        let first = self.begun + 1 - self.acts.len() as u64;
        let act = name.act.checked_sub(first).and_then(|act| usize::try_from(act).ok());
        let number = name.number.checked_sub(1).map(usize::from);
        let message = act.zip(number).and_then(|(act, at)| self.acts.get_mut(act)?.get_mut(at));
        message.with_context(|| format!("{name:?} is nobody's, or was settled long ago"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [QoS; 3] = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];

    fn published(qos: QoS) -> (Ledger, Name) {
        let mut ledger = Ledger::default();
        ledger.begin();
        let name = ledger.next();
        ledger.publish(qos);
        (ledger, name)
    }

    #[test]
    fn what_was_acknowledged_is_owed_until_a_member_has_it() {
        let (mut ledger, name) = published(QoS::ExactlyOnce);
        assert_eq!(ledger.owed().count(), 0, "an unknown one may come or not");
        ledger.acknowledge(name.number).unwrap();
        assert_eq!(ledger.owed().collect::<Vec<_>>(), [1]);
        ledger.came(name, QoS::AtMostOnce, QoS::AtMostOnce).unwrap();
        assert_eq!(ledger.owed().count(), 0);
    }

    /// For each pair of levels: whether what has come at the first may come at the second.
    #[test]
    fn a_message_comes_again_only_if_it_went_out_at_qos_1() {
        for published_at in LEVELS {
            for first in LEVELS.into_iter().filter(|one| *one <= published_at) {
                for second in LEVELS.into_iter().filter(|one| *one <= published_at) {
                    let (mut ledger, name) = published(published_at);
                    ledger.came(name, first, first).unwrap();
                    let again = ledger.came(name, second, second);
                    let may = first == QoS::AtLeastOnce;
                    assert_eq!(again.is_ok(), may, "{published_at:?} {first:?} {second:?}");
                }
            }
        }
        let (mut ledger, name) = published(QoS::ExactlyOnce);
        for at in [QoS::AtLeastOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
            ledger.came(name, at, at).unwrap();
        }
        ledger.came(name, QoS::AtLeastOnce, QoS::AtLeastOnce).unwrap_err();
    }

    #[test]
    fn a_message_comes_at_the_lesser_level_of_publisher_and_member() {
        let (mut ledger, name) = published(QoS::AtLeastOnce);
        ledger.came(name, QoS::ExactlyOnce, QoS::ExactlyOnce).unwrap_err();
        let (mut ledger, name) = published(QoS::AtLeastOnce);
        ledger.came(name, QoS::AtLeastOnce, QoS::AtMostOnce).unwrap_err();
    }

    #[test]
    fn nothing_comes_that_nobody_has_sent_or_that_was_settled_long_ago() {
        let (mut ledger, name) = published(QoS::AtLeastOnce);
        let comes = |ledger: &mut Ledger, name| {
            ledger.came(name, QoS::AtLeastOnce, QoS::AtLeastOnce).is_ok()
        };
        for (act, number) in [(0, 1), (1, 0), (1, 2), (2, 1)] {
            assert!(!comes(&mut ledger, Name { act, number }), "{act} {number}");
        }
        for _ in 1..ACTS {
            ledger.begin();
            assert!(comes(&mut ledger, name));
        }
        ledger.begin();
        assert!(!comes(&mut ledger, name));
    }
}
