//! Any log, applied: no panic, a consistent state after each record, references that are those
//! effects told of, and an image that gives the same state again.
//!
//! The input is records one behind the other: a step of time in units of 100 ms, the kind, the
//! length of the body, the body. What is no record is passed over.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use zzq_engine::image::{Sections, Select};
use zzq_engine::{Effect, NoEffects, Record, Shard, State, invariant};
use zzq_types::Lsn;

fuzz_target!(|bytes: &[u8]| {
    let mut whole = State::new(Shard::WHOLE);
    let mut resumed = State::new(Shard::WHOLE);
    let mut held = BTreeMap::new();
    let mut rest = bytes;
    let mut time_ms = 0;
    let mut lsn = Lsn::ZERO;
    while let Some((step, record, left)) = next(rest) {
        rest = left;
        time_ms += u64::from(step) * 100;
        let Some(record) = record else { continue };
        lsn = lsn.next();
        whole.apply(lsn, time_ms, &record, &mut |effect: Effect<'_>| note(&mut held, effect));
        assert_eq!(invariant::check(&whole), Ok(()), "after {record:?}");
        assert_eq!(held, whole.references(), "after {record:?}");
        resumed.apply(lsn, time_ms, &record, &mut NoEffects);
        if lsn.get().is_multiple_of(8) {
            resumed = Sections::of(&resumed, Select::All).load(Shard::WHOLE).expect("an image");
        }
    }
    assert_eq!(Sections::of(&whole, Select::All), Sections::of(&resumed, Select::All));
    let all_due = whole.due(u64::MAX).count();
    assert_eq!(all_due == 0, whole.next_deadline().is_none());
});

type Next<'a> = (u8, Option<Record<'a>>, &'a [u8]);

fn next(bytes: &[u8]) -> Option<Next<'_>> {
    let (&[step, kind, len], rest) = bytes.split_first_chunk::<3>()?;
    let (body, rest) = rest.split_at_checked(usize::from(len))?;
    Some((step, Record::decode(kind, body).ok(), rest))
}

fn note(held: &mut BTreeMap<Lsn, u64>, effect: Effect<'_>) {
    match effect {
        Effect::Queued { lsn, .. }
        | Effect::Orphaned { lsn, .. }
        | Effect::RetainedSet { lsn, .. }
        | Effect::WillHeld { lsn, .. } => *held.entry(lsn).or_default() += 1,
        Effect::Released { lsn } => {
            let count = held.get_mut(&lsn).expect("only what is held is released");
            *count -= 1;
            if *count == 0 {
                held.remove(&lsn);
            }
        }
        _ => {}
    }
}
