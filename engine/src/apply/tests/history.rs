//! Subscriptions that start in the past: what the log has comes once, in its order, and then what
//! is published.

use zzq_types::{Lsn, SubscribeOptions};

use super::fold::{Fold, Q0, Q1};
use crate::image::{Sections, Select};
use crate::record::{
    History, LateItem, LateItemsBuf, Record, Subscribe, SubscribeItem, SubscribeItemsBuf,
};
use crate::session::Replay;
use crate::shard::Shard;
use crate::testing::session;
use crate::{SubNumber, SubscriptionIds};

const EMPTY: [&str; 0] = [];
const TEXT: &str = "$replay/all/t";

impl Fold {
    fn replays(&mut self, next: u64) -> Vec<String> {
        let mut items = SubscribeItemsBuf::new();
        let (number, filter, options) = (SubNumber::new(0), TEXT, SubscribeOptions::with_qos(Q1));
        let replay = Some(Replay::new(Lsn::new(next), 0));
        items.push(&SubscribeItem { number, filter, options, id: None, replay });
        self.apply(&Record::Subscribe(Subscribe { session: session(1), items: items.as_list() }))
    }

    fn history(&mut self, from: u64, next: u64, all: bool, lsns: &[u64]) -> Vec<String> {
        let mut items = LateItemsBuf::new();
        for &lsn in lsns {
            items.push(&LateItem {
                lsn: Lsn::new(lsn),
                qos: Q1,
                retain: false,
                size: 2,
                expires_ms: None,
                pick: None,
                orphan: None,
                ids: SubscriptionIds::NONE,
            });
        }
        self.apply(&Record::History(History {
            session: session(1),
            sub: SubNumber::new(0),
            from: Lsn::new(from),
            next: Lsn::new(next),
            may_be_all: all,
            items: items.as_list(),
        }))
    }

    fn replay(&self) -> Replay {
        *self.state.session(session(1)).unwrap().replay(SubNumber::new(0)).unwrap()
    }

    fn places(&self) -> Vec<(u64, bool)> {
        let queue = self.state.session(session(1)).unwrap().queue();
        queue.iter().map(|waiting| (waiting.lsn.get(), waiting.placed)).collect()
    }
}

#[test]
fn history_comes_first_and_what_is_published_meanwhile_comes_by_it() {
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    fold.replays(1);
    let passed = fold.publish_picked(1, Q1, 0);
    assert_eq!(passed, EMPTY, "it is in the log, as record 3");
    assert_eq!(fold.history(1, 3, true, &[1]), ["queued s1 q1 @1 qos 1 late"]);
    assert!(!fold.replay().is_live, "record 3 was passed by");
    fold.publish_picked(1, Q0, 0);
    assert_eq!(fold.history(3, 6, true, &[3]), ["queued s1 q2 @3 qos 1 late"]);
    assert!(fold.replay().is_live);
    assert_eq!(fold.publish_picked(1, Q1, 0), ["queued s1 q3 @7 qos 1"]);
    assert_eq!(fold.publish_picked(1, Q0, 0), ["deliver s1 @8 retain false placed ids 0"]);
    assert_eq!(fold.places(), [(1, true), (3, true), (7, true)]);
}

#[test]
fn history_that_was_begun_anew_or_given_up_is_not_taken_twice() {
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    fold.replays(1);
    assert_eq!(fold.history(1, 9, false, &[5]).len(), 1);
    assert_eq!(fold.history(1, 9, false, &[5]), EMPTY, "the same again");
    fold.replays(1);
    assert_eq!(fold.history(9, 20, true, &[9]), EMPTY, "of the one before");
    assert_eq!(fold.history(1, 9, false, &[5]).len(), 1);
    fold.unsubscribe(1, TEXT);
    assert_eq!(fold.history(9, 20, true, &[9]), EMPTY);
    assert!(fold.state.session(session(1)).unwrap().replays().next().is_none());
}

#[test]
fn an_image_knows_how_far_history_is() {
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    fold.replays(1);
    fold.publish_picked(1, Q1, 0);
    fold.history(1, 3, false, &[1, 2]);
    let image = Sections::of(&fold.state, Select::All);
    let state = image.load(Shard::WHOLE).unwrap();
    assert_eq!(Sections::of(&state, Select::All), image);
    let known = state.session(session(1)).unwrap();
    assert_eq!(known.replay(SubNumber::new(0)), Some(&fold.replay()));
    assert_eq!(fold.replay().passed_by, Lsn::new(3));
    assert!(known.queue().iter().all(|waiting| waiting.placed));
}

#[test]
fn what_the_log_does_not_have_is_no_history() {
    let mut fold = Fold::new();
    fold.connect(1, "ada");
    fold.replays(1);
    fold.lsn = Lsn::new(1 << 62);
    fold.unlogged(|fold| assert_eq!(fold.publish_picked(1, Q1, 0), EMPTY));
    assert_eq!(fold.replay().passed_by, Lsn::ZERO);
}
