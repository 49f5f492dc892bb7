//! The memory of chunks, on its way from whoever has packed them back to the lane that fills them.
//!
//! Owns: how much of it is kept. A burst leaves no more of it behind than the log's usual work has
//! use for; the rest is the allocator's again. Does not know: what was in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::chunk::Chunk;

/// The end of whoever leads.
#[derive(Debug)]
pub(crate) struct Giver {
    ring: rtrb::Producer<Chunk>,
    kept: Arc<AtomicUsize>,
}

/// The end of the lane.
#[derive(Debug)]
pub(crate) struct Taker {
    ring: rtrb::Consumer<Chunk>,
    /// Bytes of what is on its way.
    kept: Arc<AtomicUsize>,
}

/// A way for so many chunks.
pub(crate) fn spares(chunks: usize) -> (Giver, Taker) {
    let (giver, taker) = rtrb::RingBuffer::new(chunks);
    let kept = Arc::new(AtomicUsize::new(0));
    (Giver { ring: giver, kept: Arc::clone(&kept) }, Taker { ring: taker, kept })
}

impl Giver {
    /// The end of a way that leads nowhere.
    pub(crate) fn to_nobody() -> Self {
        spares(1).0
    }

    /// Gives the memory of a chunk back, unless there are `most` bytes with it.
    pub(crate) fn give(&mut self, chunk: Chunk, most: usize) {
        let bytes = chunk.memory();
        // Its lane may take some meanwhile: then there is more room than is seen here.
        if self.kept.load(Ordering::Relaxed).saturating_add(bytes) > most || self.ring.is_full() {
            return;
        }
        // Before the lane can take it, so that the sum is never less than nothing.
        self.kept.fetch_add(bytes, Ordering::Relaxed);
        let pushed = self.ring.push(chunk);
        assert!(pushed.is_ok(), "the ring had room");
    }
}

impl Taker {
    /// An empty chunk whose memory was used before.
    pub(crate) fn take(&mut self) -> Option<Chunk> {
        let chunk = self.ring.pop().ok()?;
        assert!(chunk.is_empty(), "a chunk comes back cleared");
        let before = self.kept.fetch_sub(chunk.memory(), Ordering::Relaxed);
        assert!(before >= chunk.memory(), "what is taken was given");
        Some(chunk)
    }

    /// Bytes that are kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.kept.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StageError;
    use crate::log::options::tests::counted;
    use crate::log::{FLIGHTS_MAX, Log, Options, Producer, Staging, Wake};
    use crate::sim_disk::SimDisk;

    struct Nobody;
    impl Wake for Nobody {
        fn wake(&self) {}
    }

    fn chunk(bytes: usize) -> Chunk {
        let mut chunk = Chunk::new(0);
        chunk.bytes.reserve_exact(bytes);
        chunk
    }

    #[test]
    fn memory_comes_back_as_far_as_it_is_kept() {
        let (mut giver, mut taker) = spares(8);
        for bytes in [400, 500, 300, 100] {
            giver.give(chunk(bytes), 1000);
        }
        assert_eq!(taker.kept(), 1000, "the third is the allocator's");
        let back = std::iter::from_fn(|| taker.take()).map(|chunk| chunk.memory());
        assert!(back.eq([400, 500, 100]));
        assert_eq!(taker.kept(), 0);
        giver.give(chunk(1000), 1000);
        assert_eq!(taker.kept(), 1000, "there is room again");
    }

    /// One that takes all that there is room for at once.
    fn burst(lane: &mut Producer<SimDisk>, log: &Log<SimDisk>, most: usize) {
        let how = Staging { kind: 1, waits: true, reserved: true, ..Staging::default() };
        let (body, mut staged) = (vec![7; 60_000], 0);
        let full = loop {
            match lane.stage(&how, |out| out.extend_from_slice(&body)) {
                Ok(_) => staged += body.len(),
                Err(error) => break error,
            }
        };
        assert!(matches!(full, StageError::Full) && staged > 2 * most, "{full}, {staged}");
        while lane.durable() < lane.handed() {
            lane.drive(0);
            log.helper_step(0);
        }
        lane.drive(0);
    }

    #[test]
    fn a_burst_leaves_no_more_behind_than_groups_take() {
        let options = Options::new(counted());
        let most = FLIGHTS_MAX * options.group_size;
        let (log, _) = Log::open(SimDisk::new(), options, 0, &mut |_| Ok(())).unwrap();
        let mut lane = log.producer(Arc::new(Nobody), None).unwrap();
        burst(&mut lane, &log, most);
        assert!((most / 2..=most).contains(&lane.back.kept()), "{} are kept", lane.back.kept());
    }

    #[test]
    fn who_is_gone_keeps_nothing_and_has_no_share() {
        let options = Options::new(counted());
        let most = FLIGHTS_MAX * options.group_size;
        let (log, _) = Log::open(SimDisk::new(), options, 0, &mut |_| Ok(())).unwrap();
        let mut lanes = [(); 2].map(|()| log.producer(Arc::new(Nobody), None).unwrap());
        for lane in &mut lanes {
            burst(lane, &log, most);
            assert!(lane.back.kept() <= most / 2, "{} are kept", lane.back.kept());
        }
        let [gone, mut lane] = lanes;
        let kept = Arc::downgrade(&gone.back.kept);
        drop(gone);
        assert!(kept.upgrade().is_none(), "its memory has gone with it");
        burst(&mut lane, &log, most);
        assert!((most / 2 + 1..=most).contains(&lane.back.kept()), "{}", lane.back.kept());
    }

    #[test]
    fn a_full_way_keeps_nothing_more() {
        let (mut giver, mut taker) = spares(2);
        (0..3).for_each(|_| giver.give(chunk(10), 1000));
        assert_eq!(taker.kept(), 20);
        assert_eq!(std::iter::from_fn(|| taker.take()).count(), 2);
        assert_eq!(taker.kept(), 0);
    }
}
