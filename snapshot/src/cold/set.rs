//! A set of LSNs that only grows at its end: a byte or two for each, found by halving.

use zzq_wal::Lsn;

use crate::format::int;

/// LSNs in one block.
const BLOCK: u32 = 512;

/// See the file.
#[derive(Clone, Debug, Default)]
pub(super) struct LsnSet {
    blocks: Vec<Block>,
    count: u64,
}

/// Ascending LSNs: the first, and the distance of each other to the one before.
#[derive(Clone, Debug)]
pub(super) struct Block {
    first: u64,
    last: u64,
    count: u32,
    deltas: Vec<u8>,
}

impl LsnSet {
    pub(super) const fn len(&self) -> u64 {
        self.count
    }

    /// Adds one above all that are there.
    pub(super) fn push(&mut self, lsn: Lsn) {
        let lsn = lsn.get();
        self.count += 1;
        if let Some(block) = self.blocks.last_mut() {
            assert!(block.last < lsn, "records ascend");
            if let Ok(delta) = u32::try_from(lsn - block.last)
                && block.count < BLOCK
            {
                int::put(&mut block.deltas, delta);
                block.last = lsn;
                block.count += 1;
                return;
            }
            block.deltas.shrink_to_fit();
        }
        self.blocks.push(Block { first: lsn, last: lsn, count: 1, deltas: Vec::new() });
    }

    /// Adds a block that was read; `false` unless it lies behind all that is there.
    pub(super) fn add(&mut self, block: Block) -> bool {
        let ascends = self.blocks.last().is_none_or(|before| before.last < block.first);
        if ascends {
            self.count += u64::from(block.count);
            self.blocks.push(block);
        }
        ascends
    }

    pub(super) fn contains(&self, lsn: Lsn) -> bool {
        let lsn = lsn.get();
        let behind = self.blocks.partition_point(|block| block.first <= lsn);
        let Some(block) = behind.checked_sub(1).map(|at| &self.blocks[at]) else { return false };
        if lsn > block.last {
            return false;
        }
        let (mut at, mut rest) = (block.first, &block.deltas[..]);
        while at < lsn {
            let Some(delta) = int::take(&mut rest) else { return false };
            at += u64::from(delta);
        }
        at == lsn
    }

    /// All of them, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = Lsn> {
        self.blocks.iter().flat_map(|block| {
            let mut rest = &block.deltas[..];
            let mut next = Some(block.first);
            core::iter::from_fn(move || {
                let lsn = next?;
                next = int::take(&mut rest).map(|delta| lsn + u64::from(delta));
                Some(Lsn::new(lsn))
            })
        })
    }

    /// First LSN and the rest of each block.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.blocks.iter().map(|block| (block.first, &block.deltas[..]))
    }
}

/// A block as it was written; `None` if no writer writes this.
pub(super) fn block_from(key: &[u8], value: &[u8]) -> Option<Block> {
    let first = u64::from_be_bytes(key.try_into().ok()?);
    let (mut last, mut count, mut rest) = (first, 1, value);
    while !rest.is_empty() {
        let delta = int::take(&mut rest).filter(|delta| *delta > 0)?;
        last = last.checked_add(u64::from(delta))?;
        count += 1;
    }
    (count <= BLOCK).then(|| Block { first, last, count, deltas: value.to_vec() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_is_what_was_put_in_also_when_it_was_written(
            steps in prop::collection::vec(
                prop_oneof![9 => 1_u64..4, 1 => 1_u64..100_000, 1 => Just(1 << 33)], 0..1500,
            ),
        ) {
            let mut model = BTreeSet::new();
            let (mut set, mut at) = (LsnSet::default(), 0);
            for step in steps {
                at += step;
                model.insert(at);
                set.push(Lsn::new(at));
            }
            let mut read = LsnSet::default();
            for (first, deltas) in set.blocks() {
                prop_assert!(read.add(block_from(&first.to_be_bytes(), deltas).unwrap()));
            }
            prop_assert!(read.iter().map(Lsn::get).eq(model.iter().copied()));
            prop_assert_eq!((set.len(), read.len()), (model.len() as u64, model.len() as u64));
            for lsn in model.iter().flat_map(|lsn| [lsn - 1, *lsn, lsn + 1]) {
                let (wanted, lsn) = (model.contains(&lsn), Lsn::new(lsn));
                prop_assert_eq!((set.contains(lsn), read.contains(lsn)), (wanted, wanted));
            }
        }
    }

    #[test]
    fn what_no_writer_writes_is_no_block() {
        assert!(block_from(&[0; 7], &[]).is_none());
        assert!(block_from(&[0; 8], &[0]).is_none(), "twice the same");
        assert!(block_from(&[0; 8], &[0x80]).is_none(), "cut short");
        assert!(block_from(&[0xFF; 8], &[1]).is_none(), "beyond all LSNs");
        assert!(block_from(&[0; 8], &[1; 512]).is_none(), "too many");
        let mut set = LsnSet::default();
        set.push(Lsn::new(9));
        assert!(!set.add(block_from(&9_u64.to_be_bytes(), &[]).unwrap()));
    }
}
