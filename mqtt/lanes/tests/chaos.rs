//! Two lanes over memory under any order of what peers, time and handlers can do.
#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail loudly")]
mod support;

use std::{collections::BTreeMap, time::Duration};

use proptest::prelude::*;
use support::{Echo, Told, ask, frame};
use zzq_lanes::{
    ConnId, Lane, LaneWaker, Limits,
    driver::{
        Driver, Rest,
        mem::{MemDriver, MemPeer},
    },
    group,
};

#[derive(Clone, Copy, Debug)]
enum Op {
    Connect,
    Send { peer: usize, size: usize, cut: usize },
    Ask { peer: usize, what: u8 },
    Window { peer: usize, bytes: usize },
    Finish(usize),
    Reset(usize),
    Go(usize),
    Pass(u64),
    Pausing(bool),
    Resume,
    LetIn,
    Turn(usize),
    Settle,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let peer = 0usize..6;
    let asks = prop::sample::select(vec![
        ask::CLOSE_NOW,
        ask::CLOSE_AFTER,
        ask::TIMER,
        ask::MOVE,
        ask::MOVE,
        ask::NOTIFY,
        ask::SEND,
    ]);
    let size = prop_oneof![2usize..200, 4000usize..5000, 30_000usize..65_535];
    let op = prop_oneof![
        3 => Just(Op::Connect),
        8 => (peer.clone(), size, 1usize..70_000)
            .prop_map(|(peer, size, cut)| Op::Send { peer, size, cut }),
        3 => (peer.clone(), asks).prop_map(|(peer, what)| Op::Ask { peer, what }),
        3 => (peer.clone(), prop_oneof![Just(0), 1usize..50_000, Just(usize::MAX)])
            .prop_map(|(peer, bytes)| Op::Window { peer, bytes }),
        1 => peer.clone().prop_map(Op::Finish),
        1 => peer.clone().prop_map(Op::Reset),
        1 => peer.prop_map(Op::Go),
        2 => prop_oneof![1u64..50, 1000u64..5000].prop_map(Op::Pass),
        1 => any::<bool>().prop_map(Op::Pausing),
        1 => Just(Op::Resume),
        1 => Just(Op::LetIn),
        8 => (0usize..2).prop_map(Op::Turn),
        4 => Just(Op::Settle),
    ];
    prop::collection::vec(op, 1..60)
}

#[derive(Default)]
struct Peer {
    mem: Option<MemPeer>,
    /// What shall come back, as far as anything does.
    expected: Vec<u8>,
    received: Vec<u8>,
    /// Whether all of it shall.
    cut_short: bool,
    ended: bool,
}

struct World {
    lanes: Vec<Lane<Echo, MemDriver>>,
    peers: Vec<Peer>,
}

impl World {
    fn new(input_held: usize) -> Self {
        let wakers = [LaneWaker::flag_only(), LaneWaker::flag_only()];
        let limits = Limits {
            reads_per_turn: 3,
            ring: (8, 2),
            input_held,
            input_strangers: Some(input_held / 4),
            // Nobody is ended for it.
            input_patience: Duration::MAX,
            ..Limits::default()
        };
        let parts = group(&wakers, limits).into_iter();
        let lanes =
            parts.map(|parts| Lane::new(parts, Echo::default(), MemDriver::default())).collect();
        Self { lanes, peers: Vec::new() }
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            let busy = self.lanes.iter_mut().any(|lane| {
                let busy = lane.rest() == Rest::Now || lane.driver().has_events();
                busy && {
                    lane.turn();
                    true
                }
            });
            if !busy {
                return;
            }
        }
        panic!("the lanes never come to rest");
    }

    fn send(&mut self, peer: usize, payload: &[u8], cut: usize) {
        let Some(peer) = self.peers.get_mut(peer).filter(|peer| !peer.ended) else { return };
        let Some(mem) = &peer.mem else { return };
        let bytes = frame(payload);
        let (first, second) = bytes.split_at(cut.min(bytes.len()));
        mem.send(first);
        mem.send(second);
        match payload {
            [ask::CLOSE_NOW | ask::CLOSE_AFTER] => peer.cut_short = true,
            [what] if *what >= ask::TIMER => {}
            _ => peer.expected.extend_from_slice(&bytes),
        }
    }

    fn with_peer(&mut self, index: usize, what: impl FnOnce(&mut Peer, &MemPeer)) {
        if let Some(peer) = self.peers.get_mut(index)
            && let Some(mem) = peer.mem.take()
        {
            what(peer, &mem);
            peer.mem = Some(mem);
        }
    }

    fn resume_all(&mut self) {
        for lane in &mut self.lanes {
            lane.with_io(|_, io| io.connections().into_iter().for_each(|conn| io.resume(conn)));
        }
    }

    fn let_all_in(&mut self) {
        for lane in &mut self.lanes {
            lane.with_io(|_, io| io.connections().into_iter().for_each(|conn| io.let_in(conn)));
        }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Connect if self.peers.len() < 6 => {
                let mem = Some(self.lanes[0].driver_mut().connect());
                self.peers.push(Peer { mem, ..Peer::default() });
            }
            Op::Connect => {}
            Op::Send { peer, size, cut } => self.send(peer, &vec![7; size], cut),
            Op::Ask { peer, what } => self.send(peer, &[what], 1),
            Op::Window { peer, bytes } => self.with_peer(peer, |_, mem| mem.set_window(bytes)),
            Op::Finish(peer) => self.with_peer(peer, |peer, mem| {
                mem.finish();
                peer.ended = true;
            }),
            Op::Reset(peer) => self.with_peer(peer, |peer, mem| {
                mem.reset();
                (peer.ended, peer.cut_short) = (true, true);
            }),
            Op::Go(peer) => self.with_peer(peer, |peer, mem| {
                mem.go();
                (peer.ended, peer.cut_short) = (true, true);
            }),
            Op::Pass(millis) => {
                for lane in &mut self.lanes {
                    let now = lane.driver_mut().now();
                    lane.driver_mut().set_now(now + Duration::from_millis(millis));
                }
                // What they did not take in time is lost.
                for peer in self.peers.iter_mut().filter(|peer| peer.ended) {
                    peer.cut_short = true;
                }
            }
            Op::Pausing(on) => {
                for lane in &mut self.lanes {
                    lane.handler_mut().pause_after = on.then_some(2);
                }
            }
            Op::Resume => self.resume_all(),
            Op::LetIn => self.let_all_in(),
            Op::Turn(lane) => assert!(self.lanes[lane].turn()),
            Op::Settle => self.settle(),
        }
        for peer in &mut self.peers {
            if let Some(mem) = &peer.mem {
                peer.received.extend(mem.receive());
                let expected = peer.expected.get(..peer.received.len());
                assert!(expected == Some(&peer.received[..]), "something else came back");
            }
        }
    }

    /// Everybody reads and nobody is paused: what is owed comes.
    fn heal(&mut self) {
        self.apply(Op::Pausing(false));
        for index in 0..self.peers.len() {
            self.apply(Op::Window { peer: index, bytes: usize::MAX });
        }
        for _ in 0..3 {
            self.resume_all();
            self.settle();
        }
        self.apply(Op::Settle);
        for peer in &self.peers {
            assert!(peer.cut_short || peer.received.len() == peer.expected.len());
        }
    }

    fn stop(&mut self) {
        for lane in &mut self.lanes {
            lane.stop(Duration::ZERO);
        }
        for lane in &mut self.lanes {
            while lane.turn() {}
            lane.finish();
            let held = lane.buffered();
            assert_eq!((held.input, held.input_held, held.output), (0, 0, 0));
        }
        assert!(self.peers.iter().all(|peer| peer.mem.as_ref().unwrap().is_closed()));
        let (mut came, mut left) = (0, 0);
        let (mut queued, mut gone) = (0, 0);
        for lane in &self.lanes {
            let mut open: BTreeMap<ConnId, usize> = BTreeMap::new();
            for (conn, told) in &lane.handler().told {
                match told {
                    Told::Accepted | Told::Adopted(_) => *open.entry(*conn).or_default() += 1,
                    Told::Closed(_) => {
                        assert_eq!(open.remove(conn), Some(1), "{conn} ends twice");
                    }
                    _ => assert!(open.contains_key(conn), "{conn}: {told:?} after its end"),
                }
            }
            let counters = lane.counters();
            assert_eq!(open.len() as u64, counters.departed, "the others were told of their end");
            came += counters.adopted;
            left += counters.departed;
            queued += counters.bytes_queued;
            gone += counters.bytes_out + counters.dropped_output;
        }
        assert_eq!(came, left);
        assert_eq!(queued, gone, "what was queued was sent or is counted as dropped");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn bytes_come_back_in_order_and_every_connection_ends_once(
        ops in ops(),
        input_held in prop_oneof![Just(1), 1000usize..200_000, Just(usize::MAX)],
    ) {
        let mut world = World::new(input_held);
        for op in ops {
            world.apply(op);
        }
        world.heal();
        world.stop();
    }
}
