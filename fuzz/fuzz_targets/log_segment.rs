//! Any bytes as the one segment of a log, with checksums made right if the first byte is odd:
//! recovery and the journal tool end, in bounded memory, and find the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zzq_fuzz::{META, assert_readings_agree, mend_block, mend_segment};
use zzq_wal::disk::BLOCK;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{META_NAME, segment_name};

fuzz_target!(|bytes: &[u8]| {
    let Some((&mode, bytes)) = bytes.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if mode & 1 != 0 {
        mend_segment(&mut bytes);
    }
    let Some(number) = bytes.get(72..80) else { return };
    let number = u64::from_le_bytes(number.try_into().expect("eight bytes"));
    let disk = SimDisk::new();
    disk.insert(META_NAME, meta_for(&bytes[24..40], number, mode & 2 != 0));
    disk.insert(&segment_name(number), bytes);
    assert_readings_agree(&disk);
});

/// A `meta` of the same log that knows of this segment alone.
fn meta_for(log: &[u8], number: u64, keeps_mark: bool) -> Vec<u8> {
    let mut pages = META.to_vec();
    for page in pages.chunks_mut(BLOCK) {
        page[24..40].copy_from_slice(log);
        if !keeps_mark {
            page[88..104].fill(0);
        }
        page[136..144].copy_from_slice(&number.to_le_bytes());
        page[144..152].copy_from_slice(&number.to_le_bytes());
        mend_block(page);
    }
    pages
}
