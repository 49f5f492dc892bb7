//! The merge: an image before and the log since are the next image, with only the touched in hand.

use std::collections::BTreeMap;

use super::*;
use crate::image::{Loader, Section, Touched, references};

/// The next image, as whoever has no room for a state makes it: entries that are not touched are
/// copied, a state in which nothing else is takes the records since.
fn merge(base: &Sections, log: &[(u64, Owned)], from: usize) -> Sections {
    let mut touched = Touched::default();
    log[from..].iter().for_each(|(_, owned)| touched.record(&owned.record()));
    let mut loader = Loader::new(Shard::WHOLE);
    let mut entries = BTreeMap::new();
    for section in Section::ALL {
        for entry in base.entries(section) {
            let (key, value) = entry.unwrap();
            if touched.entry(section, key, value).unwrap() {
                loader.entry(section, key, value).unwrap();
            } else {
                entries.insert((section, key.to_vec()), value.to_vec());
            }
        }
    }
    let mut state = loader.finish().unwrap();
    fold(log, from, &mut state);
    crate::image::write(&state, Select::All, |section, key, value| {
        assert!(touched.covers(section, key), "{section:?} {key:?} was changed");
        assert_eq!(entries.insert((section, key.to_vec()), value.to_vec()), None, "copied too");
    });
    let mut sections = Sections::default();
    for ((section, key), value) in entries {
        sections.push(section, &key, &value);
    }
    sections
}

fn image_at(log: &[(u64, Owned)], end: usize) -> Sections {
    let mut state = State::new(Shard::WHOLE);
    fold(&log[..end], 0, &mut state);
    Sections::of(&state, Select::All)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn images_made_of_one_another_are_those_of_the_log(
        log in testing::log(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 1..5),
    ) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(log.len() + 1)).collect();
        cuts.sort_unstable();
        let (mut image, mut from) = (Sections::default(), 0);
        for end in cuts {
            image = merge(&image, &log[..end], from);
            from = end;
            // Without a record there is nothing to make an image of.
            if end > 0 {
                prop_assert_eq!(&image, &image_at(&log, end), "up to {}", end);
            }
        }
    }

    #[test]
    fn an_image_names_what_its_state_refers_to(log in testing::log()) {
        let mut state = State::new(Shard::WHOLE);
        fold(&log, 0, &mut state);
        let mut named = BTreeMap::<Lsn, u64>::new();
        crate::image::write(&state, Select::All, |section, key, value| {
            references(section, key, value, |lsn, _| *named.entry(lsn).or_default() += 1).unwrap();
        });
        prop_assert_eq!(named, state.references());
    }
}
