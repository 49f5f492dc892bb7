//! Bytes that are there to be mistaken: payloads that hold groups, headers and pages, files full of
//! old groups, groups and files in each other's place. Each case has one outcome, and none is a
//! record that was never staged or one that was void.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]

mod common;
mod story;

use common::*;
use story::{Forged, Story, header, lens_to_bodies};
use zzq_wal::format::group::GroupHeader;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{META_NAME, segment_name};

/// Where a body begins behind the front of a group that holds nothing else.
const BODY_AT: usize = 128 + 12;

/// A log of three small groups, and a fourth whose payload is `made` from the disk, once so that it
/// begins at each sector of a block. `judge` gets the log whole, and where the fourth group is.
fn with_payload(
    made: impl Fn(&Story, &str) -> Vec<u8>,
    mut judge: impl FnMut(&Story, &str, usize, bool),
) {
    for sector in 0..8 {
        let before = Story::of(&[10, 20, 30]);
        // The payload goes to the segment that the next start makes: there its salt is known.
        let (log, _, _) = open(before.disk.clone(), options()).unwrap();
        let (mut lane, _) = producer(&log);
        let mut bodies = before.bodies;
        for body in [vec![4; 10], vec![5; 10], vec![6; 10]] {
            put(&log, &mut lane, &body);
            bodies.push(body);
        }
        let quiet = Story { disk: before.disk.clone(), bodies };
        let (file, _) = quiet.last_groups();
        let mut payload = vec![7; (sector * 512 + 4096 - BODY_AT) % 4096];
        payload.extend(made(&quiet, &file));
        put(&log, &mut lane, &payload);
        let mut whole = quiet;
        whole.bodies.push(payload);
        whole.disk = before.disk.restart();
        let (_, groups) = whole.last_groups();
        judge(&whole, &file, groups[groups.len() - 1].start, sector == 0);
    }
}

/// One group for a whole payload.
fn options() -> zzq_wal::Options {
    zzq_wal::Options { part_size: 24_000, ..small(5) }
}

/// With the payload's group whole nothing in it is looked at; with its front or its first block
/// lost, it and all in it is void.
fn assert_void(made: impl Fn(&Story, &str) -> Vec<u8>) {
    with_payload(made, |whole, file, start, on_a_block| {
        assert_eq!(whole.outcome(), Ok(7), "whole");
        for lost in [512, 4096] {
            let torn = whole.with(file, start, &vec![0; lost]);
            assert_eq!(torn.outcome(), Ok(6), "{lost} bytes lost");
            if on_a_block {
                torn.assert_goes_on(6, &format!("{lost} bytes lost"));
            }
        }
    });
}

fn all_groups(story: &Story, file: &str) -> Vec<u8> {
    let groups = story.groups(file);
    let bytes = story.disk.bytes(file).unwrap();
    bytes[groups[0].start..groups[groups.len() - 1].end].to_vec()
}

/// Bytes of the last group of a file, and its header.
fn last_group(story: &Story, file: &str) -> (Vec<u8>, GroupHeader) {
    let group = story.groups(file).pop().unwrap();
    let bytes = story.disk.bytes(file).unwrap()[group].to_vec();
    let header = GroupHeader::decode(&bytes).unwrap();
    (bytes, header)
}

/// What would follow the last group, in all but what `forged` says.
fn next_group(story: &Story, file: &str, forged: Forged) -> Vec<u8> {
    let (bytes, last) = last_group(story, file);
    let follows = Forged {
        number: forged.number.or(Some(last.number + 1)),
        first_lsn: Some(last.last_lsn().get() + 1),
        previous: Some(last.checksum),
        ..forged
    };
    follows.seal(&bytes)
}

#[test]
fn a_payload_of_earlier_groups_is_never_taken_for_them() {
    // Of the same segment, with its salt; and of the one before.
    assert_void(all_groups);
    assert_void(|story, _| all_groups(story, &segment_name(1)));
}

#[test]
fn a_payload_of_headers_closings_and_meta_is_never_taken_for_them() {
    assert_void(|story, file| story.disk.bytes(file).unwrap()[..4096].to_vec());
    assert_void(|story, _| story.disk.bytes(META_NAME).unwrap());
    // A closed segment as a whole is too long; its last blocks are index and closing.
    let rolled = Story::of(&[3000; 60]);
    let closed = rolled.disk.bytes(&segment_name(1)).unwrap();
    let closing: [u8; 4096] = *closed.last_chunk().unwrap();
    assert!(header(&closed).decode_closing(&closing).is_some());
    assert_void(|_, _| closed[closed.len() - 8192..].to_vec());
}

/// Everything about the forged group fits but the salt, which only the program knows.
#[test]
fn a_payload_of_the_next_groups_with_another_salt_is_nothing() {
    for salt in [[0; 16], [0xff; 16], *b"a guess of a salt"[1..].first_chunk().unwrap()] {
        for ahead in [0, 2] {
            assert_void(|story, file| {
                let (_, last) = last_group(story, file);
                let (number, salt) = (Some(last.number + 1 + ahead), Some(salt));
                next_group(story, file, Forged { salt, number, ..Forged::default() })
            });
        }
    }
}

/// The right salt, but in the name of another segment.
#[test]
fn a_payload_of_the_next_group_of_another_segment_is_nothing() {
    for segment in [0, 1, 7, u64::MAX] {
        assert_void(|story, file| {
            next_group(story, file, Forged { segment: Some(segment), ..Forged::default() })
        });
    }
}

/// Whoever knows the salt can make a torn write look like damage, where the copy lies on a block:
/// the start is refused, and nothing forged is shown.
#[test]
fn a_payload_of_a_later_group_with_the_right_salt_refuses_the_start_at_worst() {
    for ahead in 0..4_u64 {
        let made = |story: &Story, file: &str| {
            let (_, last) = last_group(story, file);
            let forged = Forged { number: Some(last.number + 1 + ahead), ..Forged::default() };
            next_group(story, file, forged)
        };
        with_payload(made, |whole, file, start, on_a_block| {
            assert_eq!(whole.outcome(), Ok(7), "whole");
            let torn = whole.with(file, start, &[0; 512]);
            // Group n in a log that ends with n-1 says that n-2 was durable, which is so.
            if on_a_block && ahead > 1 {
                torn.assert_stops(file, start, &format!("{ahead} ahead"));
            } else {
                torn.assert_goes_on(6, &format!("{ahead} ahead"));
            }
        });
    }
}

/// A recycled file whose old groups follow on from the new ones by number, LSN, time and chain.
#[test]
fn old_groups_whose_chain_would_fit_are_not_taken() {
    let story = Story::of(&[100, 200, 300]);
    let (file, groups) = story.last_groups();
    let end = groups[groups.len() - 1].end;
    let fits = next_group(&story, &file, Forged::default());
    // It is only the salt and the segment that tell: with both it is a good group.
    let mut longer = story.with(&file, end, &fits);
    longer.bodies.push(vec![3; 300]);
    assert_eq!(longer.outcome(), Ok(4));
    let others = [
        Forged { salt: Some([9; 16]), ..Forged::default() },
        Forged { segment: Some(9), ..Forged::default() },
        Forged { salt: Some([0; 16]), segment: Some(0), ..Forged::default() },
    ];
    for forged in others {
        let first = next_group(&story, &file, forged);
        let mut chain = first.clone();
        for ahead in 1..8 {
            let before = GroupHeader::decode(&chain[chain.len() - first.len()..]).unwrap();
            let next = Forged {
                number: Some(before.number + 1),
                first_lsn: Some(before.last_lsn().get() + 1),
                durable: Some(before.last_lsn().get() - 1),
                previous: Some(before.checksum),
                ..Forged::default()
            };
            chain.extend(next.seal(&first));
            let case = format!("{forged:?}, {ahead} groups");
            story.with(&file, end, &chain).assert_goes_on(3, &case);
        }
    }
}

#[test]
fn groups_that_have_changed_places_stop_the_start() {
    let story = Story::of(&[100; 7]);
    let (file, groups) = story.last_groups();
    let bytes = story.disk.bytes(&file).unwrap();
    for pair in groups.windows(2) {
        let swapped = [&bytes[pair[1].clone()], &bytes[pair[0].clone()]].concat();
        let case = format!("{pair:?}");
        story.with(&file, pair[0].start, &swapped).assert_stops(&file, pair[0].start, &case);
    }
}

#[test]
fn a_group_in_a_second_place_is_no_second_group() {
    let story = Story::of(&[100; 7]);
    let (file, groups) = story.last_groups();
    let bytes = story.disk.bytes(&file).unwrap();
    let last = groups.len() - 1;
    for (copied, group) in groups.iter().enumerate() {
        let copy = &bytes[group.clone()];
        for (over, place) in groups.iter().enumerate().filter(|(over, _)| *over != copied) {
            let case = format!("{copied} over {over}");
            let changed = story.with(&file, place.start, copy);
            if over == last {
                // The last one is gone, as if it had been torn.
                changed.assert_goes_on(last, &case);
            } else {
                changed.assert_stops(&file, place.start, &case);
            }
        }
        let behind = story.with(&file, groups[last].end, copy);
        behind.assert_goes_on(7, &format!("{copied} behind the end"));
    }
}

/// A closed segment, one that goes on from it, and more of them.
fn rolled() -> Story {
    let story = Story::of(&[3000; 85]);
    assert!(story.groups(&segment_name(3)).len() > 10);
    story
}

#[test]
fn files_that_have_changed_places_stop_the_start() {
    let story = rolled();
    for (one, other) in [(1, 2), (2, 3), (1, 3)] {
        let disk = story.disk.restart();
        disk.swap(&segment_name(one), &segment_name(other)).unwrap();
        story.on(disk).assert_stops(&segment_name(one), 0, &format!("{one} and {other}"));
    }
    // A copy under another name: what it says it is decides.
    for number in 1..=3 {
        let copy = story.disk.bytes(&segment_name(number)).unwrap();
        for name in [segment_name(77), segment_name(4)] {
            let disk = story.disk.restart();
            disk.insert(&name, copy.clone());
            story.on(disk).assert_stops(&name, 0, &format!("{number} as {name}"));
        }
        for name in ["spare-50", "00000000000000000077.log.bak", "77.log"] {
            let disk = story.disk.restart();
            disk.insert(name, copy.clone());
            story.on(disk).assert_goes_on(85, &format!("{number} as {name}"));
        }
    }
}

/// A file from a copy of the whole log that has gone on by itself: the same log id, other salts.
#[test]
fn a_file_of_a_copy_that_went_on_by_itself_stops_the_start() {
    let common = Story::of(&[3000; 20]);
    let more = |seed, byte| {
        let disk = common.disk.restart();
        let (log, _, _) = reopen(&disk, seed);
        let (mut lane, _) = producer(&log);
        let bodies = vec![vec![byte; 3000]; 90];
        for body in &bodies {
            put(&log, &mut lane, body);
        }
        while log.helper_step(0) {}
        Story { disk: disk.restart(), bodies: [common.bodies.clone(), bodies].concat() }
    };
    let (ours, theirs) = (more(11, 100), more(12, 200));
    let mut tried = 0;
    for name in (2..9).map(segment_name) {
        let (Ok(our), Ok(their)) = (ours.disk.bytes(&name), theirs.disk.bytes(&name)) else {
            continue;
        };
        if header(&our).salt != header(&their).salt && ours.groups(&name).len() > 10 {
            tried += 1;
            let disk = ours.disk.restart();
            disk.insert(&name, their);
            assert!(ours.on(disk).outcome().is_err(), "{name}");
        }
    }
    assert!(tried > 1);
}

/// A file as it was earlier, from a backup. What was written to it since is proven by what comes
/// behind it; where nothing does, by the mark of an idle or stopped log alone.
#[test]
fn a_file_as_it_was_earlier_stops_the_start() {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut lane, _) = producer(&log);
    let bodies = lens_to_bodies(&[3000; 60]);
    let mut earlier = Vec::new();
    for body in &bodies {
        put(&log, &mut lane, body);
        if earlier.len() < 4 {
            earlier.push(disk.bytes(&segment_name(1)).unwrap());
        }
    }
    while log.helper_step(0) {}
    let story = Story { disk: disk.restart(), bodies: bodies.clone() };
    for (groups, bytes) in (1..).zip(&earlier) {
        let disk = story.disk.restart();
        disk.insert(&segment_name(1), bytes.clone());
        let case = format!("{groups} groups");
        story.on(disk).assert_stops(&segment_name(1), 4096 * (groups + 1), &case);
    }

    let (file, groups) = story.last_groups();
    let last = groups[groups.len() - 1].clone();
    let without = |disk: SimDisk| story.on(disk).with(&file, last.start, &vec![0; last.len()]);
    without(disk.restart()).assert_goes_on(59, "nothing proves the last group");
    log.mark_durable().unwrap();
    without(disk.restart()).assert_stops(&file, last.start, "the mark proves it");
}

/// A whole data directory as it was earlier is a log like any other: nothing in it can tell. What
/// an image or another node knows can, by [`zzq_wal::Options::durable`].
#[test]
fn a_directory_as_it_was_earlier_needs_a_witness_from_outside() {
    let earlier = Story::of(&[100, 200, 300]);
    assert_eq!(earlier.outcome(), Ok(3));
    let options = zzq_wal::Options { durable: zzq_wal::Lsn::new(5), ..small(9) };
    let refused = open(earlier.disk, options).err().unwrap();
    assert!(refused.to_string().contains("image"), "{refused}");
}
