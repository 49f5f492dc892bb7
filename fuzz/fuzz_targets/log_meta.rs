//! Any bytes as `meta` of a whole log, with checksums made right if the first byte is odd: nothing
//! panics, what reads is one of the two pages, and what a log gives then is its front.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zzq_fuzz::{body, golden, mend_block, recovered, walked};
use zzq_wal::disk::BLOCK;
use zzq_wal::format::meta::{Facts, RANGES_MAX};
use zzq_wal::{META_NAME, read_facts};

fuzz_target!(|bytes: &[u8]| {
    let Some((&mode, bytes)) = bytes.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if mode & 1 != 0 {
        bytes.chunks_exact_mut(BLOCK).for_each(mend_block);
    }
    let pages: Vec<_> = bytes.as_chunks::<BLOCK>().0.iter().map(Facts::decode).collect();
    for facts in pages.iter().flatten() {
        assert!(facts.files.len() <= RANGES_MAX);
    }
    let disk = golden();
    disk.insert(META_NAME, bytes);
    if let Ok(facts) = read_facts(&disk) {
        let newest = pages.iter().flatten().map(|facts| facts.sequence).max();
        assert_eq!(newest.unwrap_or(facts.sequence), facts.sequence, "the newer page counts");
    }
    let (outcome, seen) = recovered(&disk);
    assert!(seen.iter().all(|(lsn, _, found)| *found == body(*lsn)));
    let walked = walked(&disk);
    assert!(walked.iter().all(|(lsn, _, found)| *found == body(*lsn)));
    assert!(outcome.is_err() || walked == seen);
});
