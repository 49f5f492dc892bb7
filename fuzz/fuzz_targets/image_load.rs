//! Any bytes as an image: what loads is a consistent state, whose own image loads to the same.
//!
//! The input is sections: a number, the length of the bytes (two, little-endian), the bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zzq_engine::image::{Section, Sections, Select};
use zzq_engine::{Shard, invariant};

fuzz_target!(|bytes: &[u8]| {
    let mut sections = Sections::default();
    let mut rest = bytes;
    while let Some((&[code, low, high], left)) = rest.split_first_chunk::<3>() {
        let len = usize::from(u16::from_le_bytes([low, high])).min(left.len());
        let (body, left) = left.split_at(len);
        rest = left;
        if let Some(section) = Section::from_code(code) {
            sections.set(section, body.to_vec());
        }
    }
    let Ok(state) = sections.load(Shard::WHOLE) else { return };
    assert_eq!(invariant::check(&state), Ok(()));
    let image = Sections::of(&state, Select::All);
    let again = image.load(Shard::WHOLE).expect("an image of ours");
    assert_eq!(Sections::of(&again, Select::All), image);
    let parts = [0, 1].map(|index| {
        let part = image.load(Shard::new(index, 2)).expect("a part of ours");
        assert_eq!(invariant::check(&part), Ok(()));
        Sections::of(&part, Select::All)
    });
    assert_eq!(Sections::merge(&parts), Ok(image));
});
