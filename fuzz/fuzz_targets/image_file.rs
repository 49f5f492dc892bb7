//! Any bytes as an image file, as they are and with checksums made to fit: what can be read is in
//! order, the same as a stream and by itself, and nothing panics.
//!
//! The first byte says whether checksums are mended; the rest is the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zzq_snapshot::{Kind, Listing, Shelf, Volume, at_full_speed, cold_name, image_name};
use zzq_wal::format::segment::Identity;
use zzq_wal::sim_disk::SimDisk;

/// The number in the golden file.
const NUMBER: u64 = 9;

fuzz_target!(|bytes: &[u8]| {
    let Some(bytes) = zzq_fuzz::volume(bytes) else { return };
    let disk = SimDisk::new();
    disk.insert(&image_name(NUMBER), bytes);
    // What the golden file needs.
    disk.insert(&cold_name(1), Vec::new());
    let identity = Identity { log: [0x11; 16], ..Identity::default() };
    let there = Listing::read(&disk).expect("a directory");
    let shelf = Shelf::open(&disk, &there, &identity, None, at_full_speed());
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
