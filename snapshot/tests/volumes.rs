//! What is written is read back, in every way, whatever it is.

mod common;

use common::*;
use proptest::prelude::*;
use zzq_snapshot::{Kind, Volume, at_full_speed};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_entry_is_found_as_a_stream_and_by_itself(
        seed in any::<u64>(), count in 0_u64..300, node_size in 60_usize..2000,
    ) {
        let content = content(seed, count);
        let disk = zzq_wal::sim_disk::SimDisk::new();
        write(&disk, heading(3, 9), &content, node_size).unwrap();
        let volume = Volume::open(&disk, Kind::Image, 3).unwrap();
        prop_assert_eq!(volume.heading(), &heading(3, 9));
        volume.verify(at_full_speed()).unwrap();
        prop_assert_eq!(&read(&volume).unwrap(), &content);
        prop_assert_eq!(volume.needs().unwrap(), needs());
        for ((section, key), value) in &content {
            prop_assert_eq!(&volume.get(*section, key).unwrap(), &Some(value.clone()));
        }
        let sums = volume.sections().map(|section| section.entries).sum::<u64>();
        prop_assert_eq!(sums, content.len() as u64);
    }

    #[test]
    fn from_any_key_on_the_rest_of_its_section_follows(
        seed in any::<u64>(), count in 1_u64..200, at in any::<prop::sample::Index>(),
        cut in 0_usize..9,
    ) {
        let content = content(seed, count);
        let (_, volume) = disk_with(&content);
        let (section, mut key) = at.get(&content.keys().cloned().collect::<Vec<_>>()).clone();
        key.truncate(key.len().saturating_sub(cut));
        let mut cursor = volume.seek(section, &key).unwrap();
        let expected = content.range((section, key)..(section + 1, Vec::new()));
        for ((_, key), value) in expected {
            let entry = cursor.next_entry().unwrap().unwrap();
            prop_assert_eq!((entry.key, entry.value), (&key[..], &value[..]));
        }
        prop_assert!(cursor.next_entry().unwrap().is_none());
        prop_assert!(cursor.next_entry().unwrap().is_none(), "and stays there");
    }

    #[test]
    fn some_sections_are_read_without_the_others(seed in any::<u64>(), count in 0_u64..200) {
        let content = content(seed, count);
        let (_, volume) = disk_with(&content);
        for wanted in [&[1][..], &[40], &[1, 40], &[3]] {
            let mut entries = volume.entries(|section| wanted.contains(&section), at_full_speed());
            for ((section, key), value) in &content {
                if wanted.contains(section) {
                    let entry = entries.next_entry().unwrap().unwrap();
                    let found = (entry.section, entry.key, entry.value);
                    prop_assert_eq!(found, (*section, &key[..], &value[..]));
                }
            }
            prop_assert!(entries.next_entry().unwrap().is_none());
        }
    }
}

#[test]
fn an_entry_may_be_longer_than_any_write() {
    let mut content = content(5, 50);
    content.insert((2, vec![b'k'; 70_000]), vec![7; 3_000_000]);
    content.insert((2, vec![b'k'; 70_001]), Vec::new());
    let (_, volume) = disk_with(&content);
    volume.verify(at_full_speed()).unwrap();
    assert_eq!(read(&volume).unwrap(), content);
    assert_eq!(volume.get(2, &vec![b'k'; 70_001]).unwrap(), Some(Vec::new()));
    assert_eq!(volume.get(2, &vec![b'k'; 69_999]).unwrap(), None);
    assert_eq!(volume.get(3, b"k").unwrap(), None);
}

#[test]
#[should_panic(expected = "keys of section 1 ascend")]
fn keys_that_do_not_ascend_are_a_broken_invariant() {
    let disk = zzq_wal::sim_disk::SimDisk::new();
    let writer = zzq_snapshot::Writer::begin_with(&disk, heading(1, 1), SHORT, at_full_speed());
    let mut writer = writer.unwrap();
    writer.entry(1, b"b", b"").unwrap();
    let _ = writer.entry(1, b"a", b"");
}

#[test]
fn a_volume_on_a_real_disk_is_the_same_bytes() {
    use zzq_wal::io::{Backend, FileDisk};
    let directory = tempfile::tempdir().unwrap();
    let Ok(disk) = FileDisk::open(directory.path(), Backend::Pwrite) else {
        // Such a file system takes no log either.
        return;
    };
    let content = content(11, 2000);
    let real = write(&disk, heading(1, 100), &content, 4096).unwrap();
    real.verify(at_full_speed()).unwrap();
    let simulated = zzq_wal::sim_disk::SimDisk::new();
    write(&simulated, heading(1, 100), &content, 4096).unwrap();
    let bytes = std::fs::read(directory.path().join(real.name())).unwrap();
    assert!(bytes == simulated.bytes(real.name()).unwrap());
    assert_eq!(
        real.get(1, &content.keys().next().unwrap().1).unwrap().as_ref(),
        content.values().next()
    );
}
