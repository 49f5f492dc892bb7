//! Any bytes as a topic index, as they are and with checksums made to fit: what can be read of
//! topics ascends, their messages lie in the segment, and nothing panics.
//!
//! The first byte says whether checksums are mended; the rest is the file.

#![no_main]

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use zzq_snapshot::{TopicsFile, topics_name};
use zzq_wal::sim_disk::SimDisk;

/// The number in the golden file.
const SEGMENT: u64 = 9;

fuzz_target!(|bytes: &[u8]| {
    let Some(bytes) = zzq_fuzz::volume(bytes) else { return };
    let disk = SimDisk::new();
    disk.insert(&topics_name(SEGMENT), bytes);
    let Ok(file) = TopicsFile::open(&disk, SEGMENT) else { return };
    let range = file.first()..=file.last();
    for prefix in ["", "site/1", "busy"] {
        let (mut before, mut ranks) = (None, Vec::new());
        let visit = |topic: zzq_snapshot::TopicEntry<'_>| {
            let name = topic.name.to_vec();
            assert!(name.starts_with(prefix.as_bytes()));
            assert!(before.as_ref().is_none_or(|before| *before < name), "topics ascend");
            before = Some(name);
            ranks.push(topic.rank);
            ControlFlow::Continue(())
        };
        let _ = file.topics(prefix.as_bytes(), visit);
        for rank in ranks {
            let mut places = Vec::new();
            let _ = file.places(rank, &mut places);
            assert!(places.iter().all(|place| range.contains(&place.lsn)), "of the segment");
            assert!(places.is_sorted_by(|one, next| one.lsn < next.lsn), "messages ascend");
            assert!(places.is_sorted_by_key(|place| (place.offset, place.time_ms)));
        }
    }
    if let Ok(in_parts) = file.in_parts() {
        assert!(in_parts.iter().all(|lsn| range.contains(lsn)) && in_parts.is_sorted());
    }
});
