//! Any bytes as an image file, as they are and with checksums made to fit: what can be read is in
//! order, the same as a stream and by itself, and nothing panics.
//!
//! The first byte says whether checksums are mended; the rest is the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zzq_fuzz::put;
use zzq_snapshot::{Kind, Shelf, Volume, at_full_speed, image_name};
use zzq_wal::disk::BLOCK;
use zzq_wal::format::checksum;
use zzq_wal::format::segment::Identity;
use zzq_wal::sim_disk::SimDisk;

/// The number in the golden file.
const NUMBER: u64 = 9;

fuzz_target!(|bytes: &[u8]| {
    let Some((mode, bytes)) = bytes.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if mode % 2 == 1 {
        mend(&mut bytes);
    }
    let disk = SimDisk::new();
    disk.insert(&image_name(NUMBER), bytes);
    let identity = Identity { log: [0x11; 16], ..Identity::default() };
    let shelf = Shelf::open(&disk, &identity, None, at_full_speed());
    let Ok(volume) = Volume::open(&disk, Kind::Image, NUMBER) else { return };
    let is_whole = volume.verify(at_full_speed()).is_ok();
    let is_good = shelf.is_ok_and(|(shelf, _)| shelf.newest().is_some());
    assert!(is_whole || !is_good, "a good image is whole");
    let mut entries = volume.entries(|_| true, at_full_speed());
    let mut before = None;
    while let Ok(Some(entry)) = entries.next_entry() {
        let place = (entry.section, entry.key.to_vec());
        assert!(before.is_none_or(|before| before < place), "entries ascend");
        // By itself it is found through branches, which a stream does not look at.
        let found = volume.get(entry.section, entry.key);
        let is_found = found.is_ok_and(|found| found.as_deref() == Some(entry.value));
        assert!(is_found || !is_whole, "what is whole is found");
        before = Some(place);
    }
    let _ = volume.needs();
    for section in [1, 2, 0xFEFF] {
        let Ok(mut cursor) = volume.seek(section, b"site/b") else { continue };
        while let Ok(Some(_)) = cursor.next_entry() {}
    }
});

/// Makes the checksums of the outer blocks, of nodes and their chain, and of roots right for the
/// bytes.
fn mend(bytes: &mut [u8]) {
    if bytes.len() < 2 * BLOCK {
        return;
    }
    let last = bytes.len() - BLOCK;
    let mut chain = 0;
    let mut at = BLOCK;
    while at + 40 <= last && bytes[at..].starts_with(b"ZQND") {
        let end = at.saturating_add(number(bytes, at + 8)).min(last);
        if end < at + 40 {
            break;
        }
        let sum = checksum(&bytes[at + 8..end]);
        put(bytes, at + 4, sum);
        let both = [u32::to_le_bytes(chain), sum.to_le_bytes()].concat();
        chain = checksum(&both);
        for section in (last + 64..bytes.len() - 48).step_by(48) {
            if number(bytes, section + 16) == at {
                put(bytes, section + 4, sum);
            }
        }
        at = end;
    }
    put(bytes, last + 48, chain);
    let first = checksum(&bytes[12..BLOCK]);
    put(bytes, 8, first);
    put(bytes, last + 16, first);
    let sum = checksum(&bytes[last + 12..]);
    put(bytes, last + 8, sum);
}

fn number(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}
