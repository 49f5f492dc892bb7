//! A publish becomes a decision: which sessions get it, at which QoS, with which identifiers.
//!
//! Owns: what overlapping subscriptions of a session add up to, and the pick of each shared group.
//! Does not know: payloads, who is allowed to publish, where a session's connection is. Once its
//! buffers have grown, a route allocates nothing.

use zzq_types::{QoS, SubscriptionId, TopicName};

use crate::index::{Draw, Hashes, Head, Index, SessionFlags, Sub};
use crate::{DecisionBuf, SessionNumber, SubNumber};

/// A publish as far as routing cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publication<'a> {
    /// Where to.
    pub topic: TopicName<'a>,
    /// Whose; `None` for the broker's own.
    pub publisher: Option<SessionNumber>,
    /// Of its client's identifier, by which groups may choose; zero where there is none.
    pub client_hash: u32,
    /// As published.
    pub qos: QoS,
    /// As published.
    pub retain: bool,
}

/// What a decision amounts to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Routed {
    /// How many destinations it has.
    pub destinations: usize,
    /// Their lanes, one bit each.
    pub lanes: u64,
    /// Whether a destination that outlives its connection gets it at QoS 1 or 2.
    pub kept: bool,
    /// [`SessionFlags::FULL`] and [`SessionFlags::LAGGING`] if some destination that gets it at
    /// QoS 1 or 2 is, and [`SessionFlags::OVER_HIGH_WATER`] if one that gets it at QoS 0 is and is
    /// waited for. The publisher's own session does not count, for nobody is held for itself.
    pub held: SessionFlags,
    /// The publisher's own session gets it at QoS 1 or 2 and is [`SessionFlags::FULL`].
    pub own_full: bool,
}

/// Makes decisions for one lane; holds the memory for it, and the last publish, for runs.
#[derive(Debug, Default)]
pub struct Router {
    found: Vec<u32>,
    hits: Vec<Hit>,
    ids: Vec<SubscriptionId>,
    last: Last,
}

/// The publish that was routed last, whose matches are still in `found`.
#[derive(Debug, Default)]
struct Last {
    /// Empty before the first; a topic never is.
    topic: String,
    topic_hash: u32,
    publisher: Option<SessionNumber>,
    qos: QoS,
    retain: bool,
    generation: u64,
    /// Whether a group picks, so that the decision is made anew.
    shared: bool,
    routed: Routed,
}

/// A subscription that matched. Ordered by session, its own subscriptions before picks, each in
/// the order in which they were made.
#[derive(Clone, Copy, Debug)]
struct Hit {
    session: SessionNumber,
    picked: bool,
    sub: Sub,
}

impl Router {
    /// One that has not routed yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decides where a publish goes; the decision is put into `out`, which is cleared first.
    pub fn route(
        &mut self,
        index: &mut Index,
        publication: Publication<'_>,
        out: &mut DecisionBuf,
    ) -> Routed {
        let topic_hash = index.matches(publication.topic, &mut self.found);
        let last = &mut self.last;
        last.topic.clear();
        last.topic.push_str(publication.topic.as_str());
        last.topic_hash = topic_hash;
        last.publisher = publication.publisher;
        last.qos = publication.qos;
        last.retain = publication.retain;
        last.generation = index.generation();
        last.shared = self.found.iter().any(|&entry| index.has_groups(entry));
        let routed = self.decide(index, publication, out);
        self.last.routed = routed;
        routed
    }

    /// [`Router::route`] for a publish that is probably like the one before: if it is, and no
    /// subscription changed, `out` is left as it is, or only picks are made anew.
    ///
    /// # Panics
    /// If `out` does not hold the decision of the last call.
    pub fn route_same(
        &mut self,
        index: &mut Index,
        publication: Publication<'_>,
        out: &mut DecisionBuf,
    ) -> Routed {
        if !self.last.is(publication) || self.last.generation != index.generation() {
            return self.route(index, publication, out);
        }
        assert!(out.len() == self.last.routed.destinations, "a run keeps its decision");
        if self.last.shared {
            self.last.routed = self.decide(index, publication, out);
        }
        self.last.routed
    }

    /// The message of the last decision was taken: the picks of its groups count. One that is
    /// offered again, and decided anew, has used up nobody's turn.
    pub fn taken(&self, index: &mut Index) {
        if self.last.shared && self.last.generation == index.generation() {
            for &entry in &self.found {
                index.taken(entry, self.last.qos);
            }
        }
    }

    /// Whether a group had a pick to make in the last decision: the next publish, though like that
    /// one, may go elsewhere.
    pub const fn has_picked(&self) -> bool {
        self.last.shared
    }

    /// Turns the entries found into a decision.
    fn decide(
        &mut self,
        index: &mut Index,
        publication: Publication<'_>,
        out: &mut DecisionBuf,
    ) -> Routed {
        out.clear();
        let mut routed = Routed::default();
        if let ([entry], false) = (&self.found[..], self.last.shared) {
            // One filter, so each session once and in order.
            index.for_each_sub(*entry, |head, sub| {
                let hit = Hit { session: head.number, picked: false, sub };
                if hit.wants(publication) {
                    let (qos, retain) = (hit.qos(publication), hit.retain(publication));
                    routed.add(head, publication, qos);
                    out.push(hit.session, qos, retain, None, sub.terms.id());
                }
            });
        } else if !self.found.is_empty() {
            self.gather(index, publication);
            self.merge(index, publication, &mut routed, out);
        }
        routed.destinations = out.len();
        routed
    }

    /// Collects all subscriptions that match, and picks, in order.
    fn gather(&mut self, index: &mut Index, publication: Publication<'_>) {
        let draw = Draw {
            qos: publication.qos,
            hashes: Some(Hashes { client: publication.client_hash, topic: self.last.topic_hash }),
        };
        let hits = &mut self.hits;
        hits.clear();
        let mut in_order = true;
        for &entry in &self.found {
            let own = hits.len();
            index.for_each_sub(entry, |head, sub| {
                hits.push(Hit { session: head.number, picked: false, sub });
            });
            in_order = in_order && put_in_order(hits, own);
            let picks = hits.len();
            index.draw(entry, draw, |head, sub| {
                hits.push(Hit { session: head.number, picked: true, sub });
            });
            in_order = in_order && put_in_order(hits, picks);
        }
        if !in_order {
            hits.sort_unstable_by_key(Hit::place);
        }
        hits.retain(|hit| hit.wants(publication));
    }

    /// Puts one destination for each session's own subscriptions, and one for each pick.
    //= MQTT311-3.3.5-1
    //= MQTT5-3.3.4-2
    //= MQTT5-3.3.4-3
    //= MQTT5-3.3.4-4
    fn merge(
        &mut self,
        index: &Index,
        publication: Publication<'_>,
        routed: &mut Routed,
        out: &mut DecisionBuf,
    ) {
        let same = |a: &Hit, b: &Hit| a.session == b.session && !a.picked && !b.picked;
        for hits in self.hits.chunk_by(same) {
            let first = hits[0];
            let qos = hits.iter().map(|hit| hit.qos(publication)).max().unwrap_or_default();
            let retain = hits.iter().any(|hit| hit.retain(publication));
            let pick = first.picked.then_some(first.sub.number);
            self.ids.clear();
            self.ids.extend(hits.iter().filter_map(|hit| hit.sub.terms.id()));
            routed.add(index.head(first.sub), publication, qos);
            out.push(first.session, qos, retain, pick, self.ids.iter().copied());
        }
    }
}

/// Puts the hits from `start` on where they belong among those before, which are in order, if they
/// are few: who watches everything comes on top of many. False if they are left at the end.
fn put_in_order(hits: &mut [Hit], start: usize) -> bool {
    const FEW: usize = 8;
    if hits.len() - start > FEW {
        return hits[start.saturating_sub(1)..].is_sorted_by_key(Hit::place);
    }
    for at in start..hits.len() {
        let place = hits[at].place();
        let before = &hits[..at];
        if before.last().is_some_and(|last| last.place() > place) {
            let to = before.partition_point(|hit| hit.place() < place);
            hits[to..=at].rotate_right(1);
        }
    }
    true
}

impl Last {
    fn is(&self, publication: Publication<'_>) -> bool {
        self.publisher == publication.publisher
            && self.qos == publication.qos
            && self.retain == publication.retain
            && self.topic == publication.topic.as_str()
    }
}

impl Hit {
    fn place(&self) -> (SessionNumber, bool, SubNumber) {
        (self.session, self.picked, self.sub.number)
    }

    /// Whether the publish may come to this subscription at all. A pick, which cannot have No
    /// Local, stands: nobody else would get the message.
    //= MQTT5-3.8.3-3
    fn wants(self, publication: Publication<'_>) -> bool {
        self.picked || !self.sub.terms.no_local() || publication.publisher != Some(self.session)
    }

    //= MQTT311-3.8.4-6
    //= MQTT5-3.8.4-8
    //= MQTT5-4.8.2-3
    fn qos(self, publication: Publication<'_>) -> QoS {
        self.sub.terms.qos().min(publication.qos)
    }

    //= MQTT311-3.3.1-9
    //= MQTT5-3.3.1-12
    //= MQTT5-3.3.1-13
    fn retain(self, publication: Publication<'_>) -> bool {
        publication.retain && self.sub.terms.retain_as_published()
    }
}

impl Routed {
    fn add(&mut self, head: &Head, publication: Publication<'_>, qos: QoS) {
        self.lanes |= 1 << head.lane;
        self.kept |= qos.is_acknowledged() && head.flags.contains(SessionFlags::PERSISTENT);
        // What is acknowledged waits in the queue, whatever the connection takes; at QoS 0 nothing
        // enters a queue.
        let most = if qos.is_acknowledged() {
            SessionFlags::FULL.with(SessionFlags::LAGGING)
        } else if head.flags.contains(SessionFlags::SLOW) {
            SessionFlags::NONE
        } else {
            SessionFlags::OVER_HIGH_WATER
        };
        let stops = head.flags.only(most);
        if publication.publisher == Some(head.number) {
            self.own_full |= stops.contains(SessionFlags::FULL);
        } else {
            self.held = self.held.with(stops);
        }
    }
}

#[cfg(test)]
mod tests;
