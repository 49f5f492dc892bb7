//! What is sent as a run is sent as one by one.

use proptest::prelude::*;

use super::*;

const UNLOGGED: u64 = 1 << 62;

fn progress() -> Progress {
    Progress { applied: Lsn::ZERO, committed: ALL, unlogged: Lsn::new(UNLOGGED) }
}

/// One connection of a session that no log has.
#[derive(Debug, Default)]
struct Rig {
    queue: Queue,
    lsn: u64,
}

impl Rig {
    fn queue(&mut self, count: usize, qos: QoS) -> QueueNumber {
        let first = self.queue.last().next();
        for _ in 0..count {
            self.lsn += 1;
            push(&mut self.queue, UNLOGGED + self.lsn, qos);
        }
        first
    }

    /// All that may go out, one by one.
    fn send(&self, out: &mut Outbound, most: usize) {
        for _ in 0..most {
            let outgoing = out.next(&self.queue, progress());
            if !matches!(outgoing, Outgoing::Publish { .. } | Outgoing::Release { .. }) {
                return;
            }
            out.sent(&outgoing);
        }
    }
}

proptest! {
    /// Windows, identifiers that wrap around, numbers that were left from before.
    #[test]
    fn runs_and_single_messages_leave_the_same_behind(
        window in 0..20_u16,
        from in prop_oneof![Just(0), Just(COUNT - 20), Just(2 * COUNT - 9)],
        left in 0..3_usize,
        runs in prop::collection::vec((1..9_usize, any::<bool>(), 0..12_usize), 1..20),
    ) {
        let mut rig = Rig::default();
        assert!(rig.queue.skip_to(QueueNumber::new(from)));
        rig.queue(left, Q1);
        rig.queue.went_down(None, 1);
        let mut by_run = Outbound::new(&rig.queue, window);
        let mut one_by_one = by_run.clone();
        for (count, twice, answered) in runs {
            let qos = if twice { Q2 } else { Q1 };
            let first = rig.queue(count, qos);
            let taken = by_run.next_of_run(&rig.queue, first, count, progress());
            assert!(taken <= count);
            by_run.run_sent(first, taken, qos);
            rig.send(&mut by_run, usize::MAX);
            rig.send(&mut one_by_one, usize::MAX);
            prop_assert_eq!(format!("{by_run:?}"), format!("{one_by_one:?}"));
            let open: Vec<_> = rig.queue.iter().take(answered).collect();
            for waiting in open {
                let id = id(waiting.number.get());
                for out in [&mut by_run, &mut one_by_one] {
                    if waiting.qos == Q1 {
                        out.acknowledged(id);
                    } else {
                        out.received(id, true);
                    }
                }
                if by_run.under_way(waiting.number.get()).is_none() {
                    close(&mut rig.queue, waiting.number.get());
                }
            }
        }
    }
}
