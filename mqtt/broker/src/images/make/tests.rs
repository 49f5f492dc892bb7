//! Images that are made of a log of records as lanes write them, without lanes.

use zzq_engine::record::{Connect, LateDecision, LateItem, LateItemsBuf, Publish};
use zzq_engine::{Decision, SessionNumber, SubscriptionIds};
use zzq_snapshot::{Listing, at_full_speed};
use zzq_types::{Properties, QoS, TopicName};
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Producer, Staging};

use super::*;
use crate::small_log::small_log;

const AWAY: SessionNumber = SessionNumber::new(1).unwrap();

struct Life {
    log: Log<SimDisk>,
    lane: Producer<SimDisk>,
    images: Images<SimDisk>,
}

impl Life {
    fn begin() -> Self {
        let (log, lane) = small_log();
        let (there, identity) = (Listing::default(), log.facts().identity);
        let disk = &**log.disk();
        let (shelf, _) = Shelf::open(disk, &there, &identity, None, at_full_speed()).unwrap();
        let (cold, _) = ColdShelf::open(disk, &there, &identity, &[], 0).unwrap();
        let images = Images::new(log.clone(), shelf, cold, Replay::default());
        Self { log, lane, images }
    }

    /// The record, committed.
    fn append(&mut self, record: &Record<'_>) -> Lsn {
        let how = Staging { kind: record.kind(), waits: true, ..Staging::default() };
        self.lane.stage(&how, |out| record.encode_body(out)).unwrap();
        while self.lane.durable() < self.lane.handed() {
            self.lane.drive(0);
            self.log.helper_step(0);
        }
        self.committed()
    }

    fn committed(&self) -> Lsn {
        Lsn::new(self.log.committed().get())
    }

    fn retain(&mut self, payload: &[u8]) -> Lsn {
        let topic = TopicName::new("kept").unwrap();
        self.append(&publish(topic, true, payload))
    }

    /// So much that nobody needs that segments end.
    fn pass_by(&mut self) {
        let (nobody, payload) = (TopicName::new("nobody").unwrap(), vec![7; 20_000]);
        for _ in 0..20 {
            self.append(&publish(nobody, false, &payload));
        }
    }

    fn decide_late(&mut self, lsn: Lsn) {
        let mut items = LateItemsBuf::default();
        items.push(&LateItem {
            lsn,
            qos: QoS::AtLeastOnce,
            retain: true,
            size: 1,
            expires_ms: None,
            pick: None,
            orphan: None,
            ids: SubscriptionIds::NONE,
        });
        self.append(&Record::LateDecision(LateDecision { session: AWAY, items: items.as_list() }));
    }

    fn image(&mut self) {
        let settled = self.committed();
        assert!(self.images.make(&settled.into(), at_full_speed()).unwrap().is_some());
        while self.log.helper_step(0) {}
    }

    fn has(&self, lsn: Lsn) -> bool {
        let mut found = false;
        let read = self.images.past().read(&[lsn], |_, _, _| {
            found = true;
            Ok(())
        });
        read.is_ok() && found
    }
}

fn publish<'a>(topic: TopicName<'a>, retain: bool, payload: &'a [u8]) -> Record<'a> {
    Record::Publish(Publish {
        publisher: None,
        inbound: None,
        will_of: None,
        qos: QoS::AtLeastOnce,
        retain,
        decision: Decision::NOBODY,
        topic,
        properties: Properties::EMPTY,
        payload,
    })
}

/// A retained message is looked up for a client and cleared, an image is made; what was decided for
/// the client waits for space meanwhile, and is committed behind what an image for space covers.
/// No image names the message, and what names it lies behind them.
#[test]
fn what_is_decided_behind_an_image_for_space_is_still_there() {
    let mut life = Life::begin();
    life.append(&Record::Connect(Connect {
        session: AWAY,
        client: "away",
        expiry_s: u32::MAX,
        window: 1,
        joins: None,
        will: None,
    }));
    for is_cold in [false, true] {
        let kept = life.retain(b"kept");
        for _ in 0..3 * u8::from(is_cold) {
            life.pass_by();
            life.image();
        }
        assert_eq!(life.images.first_whole() > kept, is_cold);
        life.retain(b"");
        life.pass_by();
        life.image();
        life.pass_by();
        let settled = life.committed();
        life.decide_late(kept);
        let made = life.images.make_room(&settled.into(), at_full_speed()).unwrap().unwrap();
        assert!(made.trims && made.lsn == settled, "{made:?}");
        while life.log.helper_step(0) {}
        assert!(life.has(kept), "in a cold file: {is_cold}");
        assert!(life.images.first_whole() > kept, "it does not hold the log");
        // Now it is in a queue that images have.
        for _ in 0..3 {
            life.pass_by();
            life.image();
            assert!(life.has(kept), "in a cold file: {is_cold}");
        }
    }
}

/// A message that waits for a session that no image has is given to another such while lanes are
/// asked: the lane that gave it has answered, and the lane that gets it had before.
#[test]
fn what_is_decided_while_lanes_answer_is_still_there() {
    let mut life = Life::begin();
    let kept = life.append(&publish(TopicName::new("t").unwrap(), false, b"kept"));
    let waits = |lsn| Settled { lsn, needed: vec![(kept, 1)] };
    for _ in 0..3 {
        life.pass_by();
        let settled = waits(life.committed());
        assert!(life.images.make(&settled, at_full_speed()).unwrap().is_some());
        while life.log.helper_step(0) {}
    }
    assert!(life.has(kept) && life.images.first_whole() > kept);
    life.pass_by();
    let settled = life.committed();
    life.decide_late(kept);
    // The image before that covers all but this.
    life.images.in_steps_of(settled.get() - life.images.newest().unwrap().heading().lsn.get());
    let made = life.images.make(&settled.into(), at_full_speed()).unwrap().unwrap();
    assert!(made.trims && made.lsn > settled, "{made:?}");
    while life.log.helper_step(0) {}
    assert!(life.has(kept));
    for _ in 0..3 {
        life.pass_by();
        let settled = waits(life.committed());
        assert!(life.images.make(&settled, at_full_speed()).unwrap().is_some());
        while life.log.helper_step(0) {}
        assert!(life.has(kept));
    }
}
