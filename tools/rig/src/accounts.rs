//! What clients have said and were told, and what a broker owes them for it.
//!
//! Owns: the sum of all entries, from which each client knows how to go on, and the judgement.
//! Does not know: connections, processes, files.
//!
//! What was not acknowledged is unknown, never absent: it may come or not, and its publisher sends
//! it again.

mod book;
mod churn;
mod entry;
mod runs;

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use zzq_types::QoS;

pub use self::book::Book;
use self::churn::Churn;
pub use self::churn::Stage;
pub use self::entry::Entry;
pub use self::runs::Runs;
use crate::cast::{AUDIENCES, PUBLISHERS, RECEIVERS, Receiver, Who, audience_of, kept_for};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its name.
    pub promise: &'static str,
    /// By what.
    pub what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.promise, self.what)
    }
}

/// The sum of all entries.
#[derive(Clone, Debug)]
pub struct Accounts {
    publishers: Vec<Published>,
    receivers: Vec<Held>,
    /// For each audience, what it has of each publisher.
    got: Vec<Vec<Runs>>,
    /// For each audience, what each publisher had sent when the first of it was subscribed: only
    /// what came behind that is owed. For who only hears, when it was last connected.
    since: Vec<Option<Vec<u64>>>,
    /// Of the receiver that comes and goes.
    churn: Churn,
    broken: Vec<Broken>,
}

/// A publisher's side.
#[derive(Clone, Debug, Default)]
pub struct Published {
    began: bool,
    sent: u64,
    acked: Runs,
    refused: Runs,
    open: VecDeque<Open>,
    /// The will of the connection, once the broker has it.
    entrusted: Option<u64>,
}

/// A message whose handshake is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// The publisher's count.
    pub seq: u64,
    /// Its packet identifier.
    pub id: u16,
    /// PUBREC has come.
    pub received: bool,
}

/// A receiver's side.
#[derive(Clone, Debug, Default)]
struct Held {
    began: bool,
    subscribed: bool,
    /// Identifiers of QoS 2 messages that it has and that were not released.
    taken: BTreeSet<u16>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self {
            publishers: vec![Published::default(); PUBLISHERS.len()],
            receivers: vec![Held::default(); RECEIVERS.len()],
            got: vec![vec![Runs::default(); PUBLISHERS.len()]; AUDIENCES.len()],
            since: vec![None; AUDIENCES.len()],
            churn: Churn::default(),
            broken: Vec::new(),
        }
    }
}

impl Accounts {
    /// Takes the next entry into account. One about nobody changes nothing.
    pub fn apply(&mut self, entry: &Entry) {
        match *entry {
            Entry::Began { who: Who::Publisher(at) } => {
                self.with_publisher(at, |publisher| publisher.began = true);
            }
            Entry::Began { who: Who::Receiver(at) } => {
                self.with_receiver(at, |receiver| receiver.began = true);
                if only_hears(at) && self.subscribed(at) {
                    self.owe_anew(at);
                }
            }
            Entry::Sent { by, seq, id } => self.with_publisher(by, |publisher| {
                publisher.sent = publisher.sent.max(seq);
                if id != 0 {
                    publisher.open.push_back(Open { seq, id, received: false });
                }
            }),
            Entry::Entrusted { by, seq } => {
                self.with_publisher(by, |publisher| publisher.entrusted = Some(seq));
            }
            Entry::Leaving { by, .. } => {
                self.with_publisher(by, |publisher| publisher.entrusted = None);
            }
            Entry::Acked { by, seq } => {
                self.with_publisher(by, |publisher| {
                    publisher.entrusted = None;
                    publisher.acked.insert(seq);
                    if let Some(open) = publisher.open.iter_mut().find(|open| open.seq == seq) {
                        open.received = true;
                    }
                });
                if by < self.publishers.len() {
                    self.churn.acked(by, seq);
                }
            }
            Entry::Done { by, seq } => self.with_publisher(by, |publisher| {
                publisher.open.retain(|open| open.seq != seq);
            }),
            Entry::Refused { by, seq } => self.with_publisher(by, |publisher| {
                publisher.refused.insert(seq);
                publisher.open.retain(|open| open.seq != seq);
            }),
            Entry::Subscribing { who } => self.churn(who, Stage::Asking),
            Entry::Unsubscribing { who } => self.churn(who, Stage::Leaving),
            Entry::Unsubscribed { who } => self.churn(who, Stage::Out),
            Entry::Subscribed { who } if comes_and_goes(who) => self.churn(who, Stage::In),
            Entry::Subscribed { who } => {
                self.with_receiver(who, |receiver| receiver.subscribed = true);
                if only_hears(who) { self.owe_anew(who) } else { self.owe(who) }
            }
            Entry::Took { who, id, qos, by, seq } => {
                if qos == 2 {
                    self.with_receiver(who, |receiver| {
                        receiver.taken.insert(id);
                    });
                }
                self.took(who, qos, by, seq);
            }
            Entry::Released { who, id } => self.with_receiver(who, |receiver| {
                receiver.taken.remove(&id);
            }),
        }
    }

    fn with_publisher(&mut self, at: usize, change: impl FnOnce(&mut Published)) {
        if let Some(publisher) = self.publishers.get_mut(at) {
            change(publisher);
        }
    }

    fn with_receiver(&mut self, at: usize, change: impl FnOnce(&mut Held)) {
        if let Some(receiver) = self.receivers.get_mut(at) {
            change(receiver);
        }
    }

    fn churn(&mut self, who: usize, stage: Stage) {
        if comes_and_goes(who) {
            self.churn.enter(stage, &self.publishers);
        }
    }

    /// From now on all is owed to the audience of this receiver.
    fn owe(&mut self, who: usize) {
        if let Some(audience) = audience_of(who) {
            let sent = self.publishers.iter().map(Published::sent);
            self.since[audience].get_or_insert_with(|| sent.collect());
        }
    }

    /// Only what is sent from now on is owed to the audience of this receiver.
    fn owe_anew(&mut self, who: usize) {
        if let Some(audience) = audience_of(who) {
            self.since[audience] = Some(self.publishers.iter().map(Published::sent).collect());
        }
    }

    fn took(&mut self, who: usize, qos: u8, by: usize, seq: u64) {
        let Some(audience) = audience_of(who) else { return };
        let Some(publisher) = self.publishers.get(by) else { return };
        let told = |what: &str| {
            format!("{}: message {seq} of {} {what}", RECEIVERS[who].name, PUBLISHERS[by].name)
        };
        let mut broken = Vec::new();
        if seq == 0 || seq > publisher.sent {
            broken.push(("nothing invented", told("was never sent")));
        }
        if publisher.refused.contains(seq) {
            broken.push(("refused is absent", told("was refused and has come")));
        }
        if comes_and_goes(who) && self.churn.is_unasked(by, seq) {
            broken.push(("unsubscribed is unsubscribed", told("came, and was not asked for")));
        }
        let got = &mut self.got[audience][by];
        let last = got.last().unwrap_or_default();
        let is_fresh = got.insert(seq);
        // Sent again by a publisher that was not answered, it is another message.
        let is_repeated = qos == 1 || qos == 0 && PUBLISHERS[by].qos == QoS::AtLeastOnce;
        if !is_fresh && !is_repeated {
            broken.push(("at most once", told(&format!("has come twice at QoS {qos}"))));
        }
        // A first copy may have gone by a subscription that was not there, and the next one not.
        let is_alone = AUDIENCES[audience].len() == 1 && !comes_and_goes(who);
        // Who only hears has missed it then, and hears what is sent again.
        let is_missed = only_hears(who) && PUBLISHERS[by].qos == QoS::AtLeastOnce;
        let is_ordered = is_alone && !is_missed && !PUBLISHERS[by].is_mourned;
        if is_fresh && seq < last && is_ordered {
            broken.push(("order", told(&format!("has come behind {last}"))));
        }
        for (promise, what) in broken {
            self.accuse(promise, what);
        }
    }

    /// Takes down that a promise was broken.
    pub fn accuse(&mut self, promise: &'static str, what: String) {
        self.broken.push(Broken { promise, what });
    }

    /// All that was found broken so far.
    pub fn broken(&self) -> &[Broken] {
        &self.broken
    }

    /// A publisher's side.
    pub fn publisher(&self, at: usize) -> &Published {
        &self.publishers[at]
    }

    /// Whether a client's session was there when it was last told.
    pub fn began(&self, who: Who) -> bool {
        match who {
            Who::Publisher(at) => self.publishers[at].began,
            Who::Receiver(at) => self.receivers[at].began,
        }
    }

    /// Whether a receiver's subscription was acknowledged.
    pub fn subscribed(&self, receiver: usize) -> bool {
        self.receivers[receiver].subscribed
    }

    /// How far the receiver that comes and goes is with its subscription.
    pub fn stage(&self) -> Stage {
        self.churn.stage()
    }

    /// Whether an identifier names a QoS 2 message that the receiver has.
    pub fn is_taken(&self, receiver: usize, id: u16) -> bool {
        self.receivers[receiver].taken.contains(&id)
    }

    /// Messages that were acknowledged to their publishers, by PUBACK or PUBREC.
    pub fn acknowledged(&self) -> u64 {
        self.publishers.iter().map(|publisher| publisher.acked.len()).sum()
    }

    /// Messages that were refused to their publishers; wills that were taken back are none.
    pub fn refused(&self) -> u64 {
        let publishers = self.publishers.iter().zip(PUBLISHERS).filter(|(_, one)| !one.is_mourned);
        publishers.map(|(publisher, _)| publisher.refused.len()).sum()
    }

    /// Messages that audiences have, each once for each audience.
    pub fn received(&self) -> u64 {
        self.got.iter().flatten().map(Runs::len).sum()
    }

    /// Acknowledged messages, once for each audience that they are kept for, and how many of these
    /// the audiences have.
    pub fn owed_and_found(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        for (audience, since) in kept_for().map(|audience| (audience, &self.since[audience])) {
            let publishers = self.publishers.iter().zip(since.iter().flatten()).enumerate();
            let live = publishers.filter(|(by, _)| PUBLISHERS[*by].kept.is_none());
            let owed: u64 = live.map(|(_, (one, since))| one.acked.count_behind(*since)).sum();
            let churned = self.churned(audience).iter().map(Runs::len).sum::<u64>();
            let owed = owed + churned;
            sum.0 += owed;
            sum.1 += owed - self.missing(audience).count() as u64;
        }
        sum
    }

    /// Messages whose handshake is not over.
    pub fn open(&self) -> usize {
        self.publishers.iter().map(|publisher| publisher.open.len()).sum()
    }

    /// What an audience should have and has not: publisher and count.
    pub fn missing(&self, audience: usize) -> impl Iterator<Item = (usize, u64)> + '_ {
        let got = &self.got[audience];
        let since = self.since[audience].iter().flatten();
        let publishers = self.publishers.iter().zip(got).zip(since).enumerate();
        let live = publishers.filter(|(by, _)| PUBLISHERS[*by].kept.is_none());
        let live = live.flat_map(|(by, ((publisher, got), since))| {
            let owed = publisher.acked.without(got).skip_while(|seq| *seq <= *since);
            owed.map(move |seq| (by, seq))
        });
        let churned = self.churned(audience).iter().zip(got).enumerate();
        live.chain(
            churned.flat_map(|(by, (owed, got))| owed.without(got).map(move |seq| (by, seq))),
        )
    }

    /// How many acknowledged messages some audience should have and has not; who is away is asked
    /// `with_away` only.
    pub fn absent(&self, with_away: bool) -> u64 {
        let all = (0..AUDIENCES.len()).filter(|audience| is_asked(*audience, with_away));
        all.flat_map(|audience| self.missing(audience)).collect::<BTreeSet<_>>().len() as u64
    }

    /// What is owed to an audience that comes and goes.
    fn churned(&self, audience: usize) -> &[Runs] {
        let churns = AUDIENCES[audience].iter().any(|member| comes_and_goes(*member));
        if churns { self.churn.owed() } else { &[] }
    }

    /// Takes down all that is missing: it was waited for long enough.
    pub fn accuse_missing(&mut self, audience: usize) {
        const LISTED: usize = 8;
        let missing: Vec<_> = self.missing(audience).collect();
        if missing.is_empty() {
            return;
        }
        let name = |(by, seq): &(usize, u64)| format!("{seq} of {}", PUBLISHERS[*by].name);
        let listed: Vec<_> = missing.iter().take(LISTED).map(name).collect();
        let more = if missing.len() > LISTED { ", ..." } else { "" };
        let whose: Vec<_> =
            AUDIENCES[audience].iter().map(|member| RECEIVERS[*member].name).collect();
        let (count, listed, whose) = (missing.len(), listed.join(", "), whose.join(" or "));
        let what = format!("{whose} never got {count} acknowledged: {listed}{more}");
        self.accuse("nothing lost", what);
    }

    /// What a retained topic may hold: the last acknowledged message, or any later one that may
    /// have arrived.
    pub fn may_be_kept(&self, by: usize, topic: &str) -> Kept {
        let publisher = &self.publishers[by];
        let on_topic = |seq: &u64| PUBLISHERS[by].topic(by, *seq) == topic;
        let round = PUBLISHERS[by].kept.unwrap_or_default();
        let acked = publisher.acked.last().unwrap_or_default();
        // The last ones of each topic lie within a round of the last acknowledged one, and the
        // window of what is open.
        let from = acked.saturating_sub(round + publisher.open.len() as u64 + WINDOW as u64);
        let last = (from..=acked).rev().filter(on_topic).find(|seq| publisher.acked.contains(*seq));
        let open = publisher.open.iter().map(|open| open.seq).filter(on_topic);
        let open = open.filter(|seq| last.is_none_or(|last| *seq > last)).collect();
        Kept { last, open }
    }
}

/// Whether an audience is there, or one of it: some come only when those who are away do.
pub fn is_asked(audience: usize, with_away: bool) -> bool {
    with_away || AUDIENCES[audience].iter().any(|member| !RECEIVERS[*member].is_away)
}

fn comes_and_goes(receiver: usize) -> bool {
    RECEIVERS.get(receiver).is_some_and(|receiver| receiver.comes_and_goes)
}

fn only_hears(receiver: usize) -> bool {
    RECEIVERS.get(receiver).is_some_and(Receiver::only_hears)
}

/// Messages that a publisher has under way at most.
pub const WINDOW: usize = 32;

/// See [`Accounts::may_be_kept`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// It, or one of the following, must be there.
    pub last: Option<u64>,
    /// These may be.
    pub open: Vec<u64>,
}

impl Kept {
    /// Whether this may be found.
    pub fn allows(&self, found: Option<u64>) -> bool {
        found == self.last || found.is_some_and(|found| self.open.contains(&found))
    }
}

impl Published {
    /// How many it has sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The will that the broker has of a connection that is not known to have ended.
    pub fn entrusted(&self) -> Option<u64> {
        self.entrusted
    }

    /// Whether this one was acknowledged, or has to come.
    pub fn is_owed(&self, seq: u64) -> bool {
        self.acked.contains(seq)
    }

    /// Those whose handshake is not over, oldest first.
    pub fn open(&self) -> impl Iterator<Item = Open> + '_ {
        self.open.iter().copied()
    }

    /// Whether it may send another.
    pub fn has_room(&self) -> bool {
        self.open.len() < WINDOW
    }

    /// The one that an answer with this identifier belongs to.
    pub fn named(&self, id: u16) -> Option<Open> {
        self.open().find(|open| open.id == id)
    }

    /// An identifier that names nothing: the lowest, so that each is used again and again.
    pub fn free_id(&self, qos: QoS) -> u16 {
        if qos == QoS::AtMostOnce {
            return 0;
        }
        let is_free = |id: &u16| self.open.iter().all(|open| open.id != *id);
        (1..=u16::MAX).find(is_free).unwrap_or(u16::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: usize = 0;
    const LESS: usize = 1;
    const MEMBERS: [usize; 2] = [3, 4];
    const HEARS: usize = 6;
    /// Publishers of QoS 1, 2, 0, and of retained messages at QoS 1.
    const ONE: usize = 0;
    const TWO: usize = 2;
    const NONE: usize = 4;
    const KEEPER: usize = 6;
    const MOURNED: usize = 8;

    fn sum(entries: &[Entry]) -> Accounts {
        let mut accounts = Accounts::default();
        for entry in entries {
            accounts.apply(entry);
        }
        accounts
    }

    fn sent(by: usize, seqs: std::ops::RangeInclusive<u64>) -> Vec<Entry> {
        let id = |seq: u64| u16::try_from(seq).unwrap_or_default() * u16::from(by != NONE);
        seqs.map(|seq| Entry::Sent { by, seq, id: id(seq) }).collect()
    }

    fn took(who: usize, qos: u8, by: usize, seq: u64) -> Entry {
        let id = u16::try_from(seq).unwrap_or_default();
        Entry::Took { who, id, qos, by, seq }
    }

    /// After messages 1 to 3 of this publisher, exactly these promises are broken.
    fn breaks(by: usize, entries: &[Entry]) -> Vec<&'static str> {
        let mut accounts = sum(&[subscribed(), sent(by, 1..=3), entries.to_vec()].concat());
        for audience in 0..AUDIENCES.len() {
            accounts.accuse_missing(audience);
        }
        accounts.broken().iter().map(|broken| broken.promise).collect()
    }

    fn subscribed() -> Vec<Entry> {
        (0..RECEIVERS.len()).map(|who| Entry::Subscribed { who }).collect()
    }

    fn by_all(qos: u8, by: usize, seq: u64) -> Vec<Entry> {
        AUDIENCES.iter().map(|members| took(members[0], qos, by, seq)).collect()
    }

    #[test]
    fn an_acknowledged_message_that_never_comes_is_lost_and_an_unknown_one_is_not() {
        let acked = [Entry::Acked { by: ONE, seq: 2 }];
        assert_eq!(breaks(ONE, &acked), ["nothing lost"; AUDIENCES.len()]);
        assert_eq!(breaks(ONE, &[&acked[..], &by_all(1, ONE, 2)].concat()), [""; 0]);
        assert_eq!(breaks(ONE, &[]), [""; 0], "nothing was acknowledged");
        assert_eq!(breaks(ONE, &by_all(1, ONE, 3)), [""; 0], "an unknown one may come");
        let others = [ALL, LESS, 2, 5, HEARS, 7].map(|who| took(who, 1, ONE, 2));
        let broken = breaks(ONE, &[&acked[..], &others].concat());
        assert_eq!(broken, ["nothing lost"], "the group has it not");
    }

    #[test]
    fn nothing_is_owed_that_was_sent_before_the_subscription_was_acknowledged() {
        let acked = |seqs: std::ops::RangeInclusive<u64>| {
            seqs.map(|seq| Entry::Acked { by: ONE, seq }).collect::<Vec<_>>()
        };
        let early = [sent(ONE, 1..=3), acked(1..=2)].concat();
        let late = [sent(ONE, 4..=5), acked(3..=5)].concat();
        let owed = |entries: &[Vec<Entry>], audience| {
            sum(&entries.concat()).missing(audience).collect::<Vec<_>>()
        };
        assert_eq!(owed(&[early.clone(), late.clone()], ALL), [], "nobody has subscribed");
        let all = vec![Entry::Subscribed { who: ALL }, Entry::Subscribed { who: ALL }];
        let mixed = [early.clone(), all, late.clone()];
        assert_eq!(owed(&mixed, ALL), [(ONE, 4), (ONE, 5)]);
        let some = [mixed.concat(), vec![took(ALL, 1, ONE, 2), took(ALL, 1, ONE, 4)]].concat();
        assert_eq!(sum(&some).owed_and_found(), (2, 1));
        assert_eq!(owed(&mixed, LESS), []);
        let second = vec![Entry::Subscribed { who: MEMBERS[1] }];
        let first = vec![Entry::Subscribed { who: MEMBERS[0] }];
        let group = AUDIENCES.len() - 1;
        assert_eq!(owed(&[early, second, late, first], group), [(ONE, 4), (ONE, 5)]);
    }

    #[test]
    fn one_member_of_a_group_is_enough_and_two_are_one_too_many() {
        let [first, second] = MEMBERS;
        let mut entries = by_all(2, TWO, 1);
        entries.push(Entry::Acked { by: TWO, seq: 1 });
        assert_eq!(breaks(TWO, &entries), [""; 0]);
        assert!(entries.contains(&took(first, 2, TWO, 1)));
        entries.push(took(second, 2, TWO, 1));
        assert_eq!(breaks(TWO, &entries), ["at most once"]);
    }

    #[test]
    fn twice_is_once_too_many_but_at_qos_1() {
        for (qos, by, broken) in [(0, NONE, 1), (1, ONE, 0), (2, TWO, 1)] {
            let entries = [took(ALL, qos, by, 1), took(ALL, qos, by, 1)];
            assert_eq!(breaks(by, &entries), vec!["at most once"; broken], "QoS {qos}");
        }
    }

    /// Nothing is kept at QoS 0: who hears only is owed what is sent while it is connected.
    #[test]
    fn who_only_hears_is_owed_what_was_sent_since_it_was_connected() {
        let began = Entry::Began { who: Who::Receiver(HEARS) };
        let subscribed = Entry::Subscribed { who: HEARS };
        let acked = |seq| Entry::Acked { by: ONE, seq };
        let audience = audience_of(HEARS).unwrap();
        let owed =
            |entries: &[Vec<Entry>]| sum(&entries.concat()).missing(audience).collect::<Vec<_>>();
        let first = [vec![began, subscribed], sent(ONE, 1..=2), vec![acked(1)]].concat();
        assert_eq!(owed(std::slice::from_ref(&first)), [(ONE, 1)]);
        // Its connection has ended, whenever that was.
        let again = [vec![began, acked(2)], sent(ONE, 3..=3), vec![acked(3)]].concat();
        assert_eq!(owed(&[first.clone(), again.clone()]), [(ONE, 3)]);
        let came = vec![took(HEARS, 0, ONE, 3)];
        assert_eq!(owed(&[first.clone(), again.clone(), came]), []);
        assert_eq!(sum(&[first, again].concat()).owed_and_found(), (0, 0), "nothing is kept");
    }

    #[test]
    fn who_only_hears_gets_again_what_its_publisher_sends_again_and_nothing_else() {
        let twice = |by| [took(HEARS, 0, by, 1), took(HEARS, 0, by, 1)];
        assert_eq!(breaks(ONE, &twice(ONE)), [""; 0]);
        assert_eq!(breaks(TWO, &twice(TWO)), ["at most once"]);
        assert_eq!(breaks(NONE, &twice(NONE)), ["at most once"]);
        let late = |by| [took(HEARS, 0, by, 3), took(HEARS, 0, by, 1)];
        assert_eq!(breaks(ONE, &late(ONE)), [""; 0]);
        assert_eq!(breaks(TWO, &late(TWO)), ["order"]);
        assert_eq!(breaks(NONE, &late(NONE)), ["order"]);
    }

    #[test]
    fn first_arrivals_come_in_order_and_repeats_anyhow() {
        assert_eq!(breaks(ONE, &[took(ALL, 1, ONE, 2), took(ALL, 1, ONE, 1)]), ["order"]);
        let repeats = [1, 2, 1, 2, 3].map(|seq| took(ALL, 1, ONE, seq));
        assert_eq!(breaks(ONE, &repeats), [""; 0]);
        let shared = [took(MEMBERS[0], 1, ONE, 2), took(MEMBERS[1], 1, ONE, 1)];
        assert_eq!(breaks(ONE, &shared), [""; 0], "members of a group have no order between them");
    }

    #[test]
    fn nothing_comes_that_was_not_sent_or_was_refused() {
        assert_eq!(breaks(ONE, &[took(ALL, 1, ONE, 4)]), ["nothing invented"]);
        let refused = [Entry::Refused { by: ONE, seq: 3 }, took(ALL, 1, ONE, 3)];
        assert_eq!(breaks(ONE, &refused), ["refused is absent"]);
    }

    #[test]
    fn a_will_that_was_taken_back_is_no_refusal() {
        let refused = [Entry::Refused { by: ONE, seq: 3 }, Entry::Refused { by: MOURNED, seq: 3 }];
        assert_eq!(sum(&refused).refused(), 1);
    }

    #[test]
    fn who_comes_and_goes_is_owed_what_was_acknowledged_while_it_was_there_and_nothing_else() {
        let churner = RECEIVERS.iter().position(|one| one.comes_and_goes).unwrap();
        let audience = audience_of(churner).unwrap();
        let acked = |seq| Entry::Acked { by: ONE, seq };
        let story = [
            vec![Entry::Subscribing { who: churner }],
            sent(ONE, 1..=1),
            vec![Entry::Subscribed { who: churner }, acked(1)],
            sent(ONE, 2..=3),
            vec![acked(2), Entry::Unsubscribing { who: churner }, acked(3)],
            sent(ONE, 4..=4),
            vec![Entry::Unsubscribed { who: churner }, acked(4)],
            sent(ONE, 5..=6),
            vec![acked(5), Entry::Subscribing { who: churner }, acked(6)],
        ];
        let story = story.concat();
        let missing = |more: &[Entry]| {
            let accounts = sum(&[&story[..], more].concat());
            (accounts.missing(audience).collect::<Vec<_>>(), accounts.broken().len())
        };
        assert_eq!(missing(&[]), (vec![(ONE, 2)], 0));
        for seq in 1..=6 {
            let came = missing(&[took(churner, 1, ONE, 2), took(churner, 1, ONE, seq)]);
            assert_eq!(came, (vec![], usize::from(seq == 5)), "{seq}");
        }
        assert_eq!(sum(&story).stage(), Stage::Asking);
        assert_eq!(sum(&story).owed_and_found(), (1, 0));
    }

    #[test]
    fn a_retained_topic_holds_the_last_acknowledged_message_or_a_later_one() {
        let mut entries = sent(KEEPER, 1..=20);
        entries.extend(
            (1..=13).flat_map(|seq| {
                [Entry::Acked { by: KEEPER, seq }, Entry::Done { by: KEEPER, seq }]
            }),
        );
        let accounts = sum(&entries);
        let topic = PUBLISHERS[KEEPER].topic(KEEPER, 12);
        let kept = accounts.may_be_kept(KEEPER, &topic);
        assert_eq!(kept, Kept { last: Some(12), open: vec![19] });
        let allowed = [None, Some(5), Some(12), Some(19), Some(20)].map(|seq| kept.allows(seq));
        assert_eq!(allowed, [false, false, true, true, false]);
        assert_eq!(accounts.missing(ALL).count(), 0, "nobody subscribes to these");
        let none = Accounts::default().may_be_kept(KEEPER, &topic);
        assert!(none.allows(None) && !none.allows(Some(5)));
    }

    #[test]
    fn a_publisher_goes_on_from_its_entries() {
        let mut entries = sent(TWO, 1..=3);
        entries.push(Entry::Acked { by: TWO, seq: 1 });
        entries.push(Entry::Acked { by: TWO, seq: 2 });
        entries.push(Entry::Done { by: TWO, seq: 1 });
        let accounts = sum(&entries);
        let publisher = accounts.publisher(TWO);
        let open: Vec<_> = publisher.open().map(|open| (open.seq, open.received)).collect();
        assert_eq!(open, [(2, true), (3, false)]);
        assert_eq!((publisher.sent(), publisher.free_id(QoS::ExactlyOnce)), (3, 1));
        assert_eq!(publisher.free_id(QoS::AtMostOnce), 0);
        assert_eq!((accounts.acknowledged(), accounts.open()), (2, 2));
    }

    #[test]
    fn a_will_is_owed_when_its_connection_has_ended_without_a_word_and_never_when_its_client_left()
    {
        let will = |rest: &[Entry]| {
            let entrusted = Entry::Entrusted { by: MOURNED, seq: 3 };
            breaks(MOURNED, &[&[entrusted], rest].concat())
        };
        let ended = Entry::Acked { by: MOURNED, seq: 3 };
        assert_eq!(will(&[]), [""; 0], "its connection may stand");
        assert_eq!(will(&[ended]), ["nothing lost"; AUDIENCES.len() - 1]);
        assert_eq!(will(&[&[ended][..], &by_all(2, MOURNED, 3)].concat()), [""; 0]);
        let leaving = Entry::Leaving { by: MOURNED, seq: 3 };
        assert_eq!(will(&[leaving]), [""; 0]);
        assert_eq!(will(&[leaving, took(ALL, 2, MOURNED, 3)]), [""; 0], "not known to have left");
        let left = Entry::Refused { by: MOURNED, seq: 3 };
        assert_eq!(will(&[leaving, left, took(ALL, 2, MOURNED, 3)]), ["refused is absent"]);
        let both = [took(ALL, 2, MOURNED, 3), took(ALL, 2, MOURNED, 2)];
        assert_eq!(will(&both), [""; 0], "wills have no order");
    }

    #[test]
    fn a_receiver_goes_on_from_its_entries() {
        let who = Who::Receiver(ALL);
        let entries = [
            Entry::Began { who },
            Entry::Subscribed { who: ALL },
            took(ALL, 2, TWO, 1),
            took(ALL, 2, TWO, 2),
            Entry::Released { who: ALL, id: 1 },
        ];
        let accounts = sum(&[&sent(TWO, 1..=2)[..], &entries].concat());
        assert!(accounts.began(who) && accounts.subscribed(ALL));
        assert_eq!([1, 2].map(|id| accounts.is_taken(ALL, id)), [false, true]);
    }

    #[test]
    fn entries_about_nobody_change_nothing() {
        let accounts =
            sum(&[took(99, 2, 0, 1), took(0, 2, 99, 1), Entry::Acked { by: 99, seq: 1 }]);
        assert_eq!((accounts.received(), accounts.acknowledged()), (0, 0));
    }
}
