//! What the simulated disk promises, case by case; `tests/sim_disk_model.rs` has it at random.

use std::collections::BTreeSet;

use super::*;
use crate::disk::BLOCK;
use crate::io::event;

const B: u64 = BLOCK as u64;
const IO: io::ErrorKind = io::ErrorKind::Other;

fn filled(blocks: usize, byte: u8) -> IoBuffer {
    let mut buffer = IoBuffer::with_blocks(blocks);
    buffer.fill(byte);
    buffer
}

fn write(file: &SimFile, token: u64, offset: u64, byte: u8, sync: bool) -> Write<SimFile> {
    Write { file: file.clone(), buffer: filled(1, byte), offset, sync, token, notify: None }
}

/// A disk with the durable file `a` of `blocks` zeroed blocks.
fn disk(blocks: u64) -> (SimDisk, SimFile) {
    let disk = SimDisk::new();
    let file = disk.create("a", blocks * B).unwrap();
    disk.sync_dir().unwrap();
    (disk, file)
}

fn reap(disk: &SimDisk) -> Vec<Completion> {
    let mut completions = Vec::new();
    disk.reap(&mut completions);
    completions
}

fn tokens(completions: &[Completion]) -> Vec<u64> {
    completions.iter().map(|done| done.token).collect()
}

fn names(disk: &SimDisk) -> Vec<String> {
    disk.list().unwrap().into_iter().map(|(name, _)| name).collect()
}

/// The first byte of each sector of `a`.
fn sectors(disk: &SimDisk) -> Vec<u8> {
    disk.bytes("a").unwrap().iter().step_by(512).copied().collect()
}

#[test]
fn withheld_completions_are_released_in_any_order() {
    let (disk, file) = disk(8);
    disk.hold();
    for token in 0..4 {
        disk.submit(write(&file, token, token * B, 7, true)).unwrap();
    }
    assert_eq!(disk.in_flight(), [0, 1, 2, 3]);
    assert!(reap(&disk).is_empty());
    assert_eq!(disk.bytes("a").unwrap()[0], 0, "reads show completed writes only");
    assert!(disk.release(2));
    assert!(!disk.release(2));
    assert_eq!(disk.release_next(), Some(0));
    assert_eq!(tokens(&reap(&disk)), [2, 0]);
    disk.release_all();
    assert_eq!(tokens(&reap(&disk)), [1, 3]);
    assert_eq!(disk.release_next(), None);
    disk.submit(write(&file, 9, 0, 1, true)).unwrap();
    assert_eq!(tokens(&reap(&disk)), [9], "nothing is withheld any more");
}

#[test]
fn completions_are_told_to_event_and_hook_once_they_can_be_reaped() {
    let (disk, file) = disk(1);
    let event = event::create().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (inside, told) = (disk.clone(), Arc::clone(&seen));
    // The hook uses the disk: it runs outside of all its locks.
    disk.on_completion(move |token| told.lock().unwrap().push((token, tokens(&reap(&inside)))));
    let notify = Some(Arc::clone(&event));
    disk.submit(Write { notify, ..write(&file, 5, 0, 1, true) }).unwrap();
    assert_eq!(*seen.lock().unwrap(), [(5, vec![5])]);
    assert_eq!(event::drain(&event), 1);
}

#[test]
fn a_sync_write_is_durable_alone_and_a_plain_one_after_sync() {
    let (disk, file) = disk(2);
    disk.submit(write(&file, 1, 0, 1, false)).unwrap();
    disk.submit(write(&file, 2, B, 2, true)).unwrap();
    assert_eq!(disk.unsynced(), Unsynced { names: false, files: vec!["a".to_owned()] });
    let lost = disk.crash_with(Survival::Nothing);
    assert_eq!(sectors(&lost)[7..9], [0, 2]);
    assert_eq!(sectors(&disk.crash_with(Survival::Everything))[7..9], [1, 2]);
    file.sync().unwrap();
    assert_eq!(disk.unsynced(), Unsynced::default());
    assert_eq!(sectors(&disk.crash_with(Survival::Nothing))[7..9], [1, 2]);
}

#[test]
fn unsynced_writes_survive_in_any_subset_torn_between_sectors() {
    let (disk, file) = disk(2);
    file.write_at(&filled(1, 1), 0).unwrap();
    file.write_at(&filled(1, 2), B).unwrap();
    let mut seen = BTreeSet::new();
    for seed in 0..400 {
        seen.insert(sectors(&disk.crash(seed)));
    }
    let whole = |first: u8, second: u8| [[first; 8], [second; 8]].concat();
    for expected in [whole(0, 0), whole(1, 0), whole(0, 2), whole(1, 2)] {
        assert!(seen.contains(&expected), "{expected:?}");
    }
    let torn = |left: &Vec<u8>| left[0] == 1 && left[7] == 0;
    assert!(seen.iter().any(torn));
    assert!(seen.iter().flatten().all(|byte| *byte < 3));
}

#[test]
fn an_older_unsynced_write_may_survive_the_newer_one() {
    let (disk, file) = disk(1);
    file.write_at(&filled(1, 1), 0).unwrap();
    file.write_at(&filled(1, 2), 0).unwrap();
    let seen: BTreeSet<u8> = (0..200).map(|seed| sectors(&disk.crash(seed))[0]).collect();
    assert_eq!(seen, BTreeSet::from([0, 1, 2]));
    assert_eq!(sectors(&disk.crash_with(Survival::Everything)), [2; 8]);
}

#[test]
fn writes_in_flight_may_survive_a_crash_and_are_carried_out_by_a_restart() {
    let (disk, file) = disk(1);
    disk.hold();
    disk.submit(write(&file, 1, 0, 5, true)).unwrap();
    assert_eq!(sectors(&disk.crash_with(Survival::Nothing)), [0; 8]);
    assert_eq!(sectors(&disk.crash_with(Survival::Everything)), [5; 8]);
    let restarted = disk.restart();
    assert_eq!(sectors(&restarted), [5; 8]);
    assert_eq!(sectors(&restarted.crash_with(Survival::Nothing)), [0; 8], "not yet durable");
    restarted.open("a").unwrap().sync().unwrap();
    assert_eq!(sectors(&restarted.crash_with(Survival::Nothing)), [5; 8]);
    assert!(reap(&restarted).is_empty());
    assert_eq!(disk.in_flight(), [1], "the old disk goes on by itself");
}

#[test]
fn a_restart_makes_nothing_durable() {
    let (disk, file) = disk(1);
    file.write_at(&filled(1, 1), 0).unwrap();
    disk.create("b", B).unwrap();
    let restarted = disk.restart();
    assert_eq!(sectors(&restarted), [1; 8]);
    assert_eq!(names(&restarted), ["a", "b"]);
    let crashed = restarted.crash_with(Survival::Nothing);
    assert_eq!(sectors(&crashed), [0; 8]);
    assert_eq!(names(&crashed), ["a"]);
}

#[test]
fn names_are_durable_after_sync_dir_only() {
    let (disk, file) = disk(1);
    file.write_at(&filled(1, 1), 0).unwrap();
    file.sync().unwrap();
    disk.create("b", B).unwrap();
    disk.rename("a", "c").unwrap();
    assert!(disk.unsynced().names);
    assert_eq!(names(&disk), ["b", "c"]);
    assert_eq!(names(&disk.crash_with(Survival::Nothing)), ["a"]);
    assert_eq!(names(&disk.crash_with(Survival::Everything)), ["b", "c"]);
    let seen: BTreeSet<_> = (0..100).map(|seed| names(&disk.crash(seed))).collect();
    assert_eq!(seen.len(), 4, "{seen:?}");
    disk.sync_dir().unwrap();
    let crashed = disk.crash_with(Survival::Nothing);
    assert_eq!(names(&crashed), ["b", "c"]);
    assert_eq!(crashed.bytes("c").unwrap(), vec![1; BLOCK]);
}

#[test]
fn a_removed_file_can_come_back_and_its_open_file_stays() {
    let (disk, file) = disk(1);
    disk.remove("a").unwrap();
    file.write_at(&filled(1, 1), 0).unwrap();
    assert_eq!(file.size().unwrap(), B);
    assert!(names(&disk).is_empty());
    assert_eq!(names(&disk.crash_with(Survival::Nothing)), ["a"]);
    disk.sync_dir().unwrap();
    assert!(names(&disk.crash_with(Survival::Nothing)).is_empty());
}

#[test]
fn names_are_found_made_once_and_replaced_by_rename() {
    let (disk, _file) = disk(2);
    let kind = |result: io::Result<()>| result.unwrap_err().kind();
    assert_eq!(kind(disk.create("a", B).map(drop)), io::ErrorKind::AlreadyExists);
    for missing in [disk.open("x").map(drop), disk.remove("x"), disk.rename("x", "y")] {
        assert_eq!(kind(missing), io::ErrorKind::NotFound);
    }
    disk.create("b", B).unwrap();
    disk.rename("b", "a").unwrap();
    assert_eq!(disk.list().unwrap(), [("a".to_owned(), B)]);
}

#[test]
fn a_full_disk_refuses_files_and_growth_but_not_overwrites() {
    let disk = SimDisk::with_capacity(3 * B);
    let file = disk.create("a", 2 * B).unwrap();
    assert_eq!(disk.free_bytes().unwrap(), B);
    assert_eq!(disk.create("b", 2 * B).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(names(&disk), ["a"]);
    file.write_at(&filled(2, 1), B).unwrap();
    let error = file.write_at(&filled(1, 1), 3 * B).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    file.write_at(&filled(3, 2), 0).unwrap();
    disk.set_capacity(4 * B);
    disk.create("b", B).unwrap();
}

#[test]
fn a_file_that_grew_keeps_its_length_once_synced() {
    let (disk, file) = disk(1);
    file.write_at(&filled(1, 1), B).unwrap();
    assert_eq!(disk.crash_with(Survival::Nothing).bytes("a").unwrap().len(), BLOCK);
    let all = disk.crash_with(Survival::Everything).bytes("a").unwrap();
    assert_eq!((all.len(), all[BLOCK]), (2 * BLOCK, 1));
    let lengths: BTreeSet<_> =
        (0..50).map(|seed| disk.crash(seed).bytes("a").unwrap().len()).collect();
    assert_eq!(lengths, BTreeSet::from([BLOCK, 2 * BLOCK]));
    file.sync().unwrap();
    assert_eq!(disk.crash_with(Survival::Nothing).bytes("a").unwrap().len(), 2 * BLOCK);
    disk.submit(write(&file, 1, 2 * B, 1, true)).unwrap();
    assert_eq!(disk.crash_with(Survival::Nothing).bytes("a").unwrap().len(), 3 * BLOCK);
}

#[test]
fn a_failed_write_is_not_read_but_may_be_there_after_a_crash() {
    let (disk, file) = disk(2);
    disk.fail(Op::Write, 2, Fault::Fail(IO));
    disk.submit(write(&file, 1, 0, 1, true)).unwrap();
    disk.submit(write(&file, 2, B, 2, true)).unwrap();
    let completions = reap(&disk);
    assert_eq!(*completions[0].result.as_ref().unwrap(), BLOCK);
    assert_eq!(completions[1].result.as_ref().unwrap_err().kind(), IO);
    assert_eq!(completions[1].buffer[0], 2, "the buffer comes back");
    assert_eq!(sectors(&disk)[7..9], [1, 0]);
    assert_eq!(sectors(&disk.crash_with(Survival::Everything))[7..9], [1, 2]);
    file.sync().unwrap();
    assert_eq!(sectors(&disk.crash_with(Survival::Nothing))[7..9], [1, 0]);
}

#[test]
fn a_write_can_fail_although_its_bytes_can_be_read() {
    let (disk, file) = disk(1);
    disk.fail(Op::Write, 1, Fault::FailWritten(IO));
    assert_eq!(file.write_at(&filled(1, 1), 0).unwrap_err().kind(), IO);
    assert_eq!(sectors(&disk), [1; 8]);
    file.sync().unwrap();
    assert_eq!(sectors(&disk.crash_with(Survival::Nothing)), [0; 8]);
}

#[test]
fn a_short_write_ends_at_a_sector() {
    let (disk, file) = disk(2);
    disk.fail(Op::Write, 1, Fault::Short(1300));
    disk.submit(write(&file, 1, 0, 1, true)).unwrap();
    assert_eq!(*reap(&disk)[0].result.as_ref().unwrap(), 1024);
    assert_eq!(sectors(&disk)[..4], [1, 1, 0, 0]);
    disk.fail(Op::Write, 1, Fault::Short(0));
    let error = file.write_at(&filled(1, 1), B).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WriteZero);
}

/// The story of the "fsync gate": a sync fails, the kernel forgets that the pages were dirty, the
/// next sync succeeds, and the bytes never reach the disk.
#[test]
fn a_sync_that_succeeds_after_a_failed_one_has_made_nothing_durable() {
    let (disk, file) = disk(2);
    file.write_at(&filled(1, 1), 0).unwrap();
    disk.fail(Op::Sync, 1, Fault::Fail(IO));
    assert_eq!(file.sync().unwrap_err().kind(), IO);
    file.write_at(&filled(1, 2), B).unwrap();
    file.sync().unwrap();
    assert_eq!(sectors(&disk)[7..9], [1, 2]);
    assert_eq!(sectors(&disk.crash_with(Survival::Nothing))[7..9], [0, 2]);
    assert_eq!(sectors(&disk.crash_with(Survival::Everything))[7..9], [1, 2]);
    // Written again, and synced, it is durable.
    file.write_at(&filled(1, 3), 0).unwrap();
    file.sync().unwrap();
    assert_eq!(sectors(&disk.crash_with(Survival::Everything))[7..9], [3, 2]);
    assert_eq!(sectors(&disk.crash_with(Survival::Nothing))[7..9], [3, 2]);
}

#[test]
fn a_withheld_write_can_be_made_to_fail_when_it_is_released() {
    let (disk, file) = disk(1);
    disk.hold();
    disk.submit(write(&file, 1, 0, 1, true)).unwrap();
    assert!(disk.release_with(1, Fault::Fail(IO)));
    assert_eq!(reap(&disk)[0].result.as_ref().unwrap_err().kind(), IO);
    assert!(!disk.release_with(1, Fault::Fail(IO)));
}

#[test]
fn every_operation_can_fail() {
    let (disk, file) = disk(1);
    let busy = Fault::Fail(io::ErrorKind::ResourceBusy);
    let mut buffer = filled(1, 1);
    for op in [
        Op::List,
        Op::Create,
        Op::Open,
        Op::Rename,
        Op::Remove,
        Op::SyncDir,
        Op::Submit,
        Op::Write,
        Op::GiveBack,
        Op::Sync,
        Op::Read,
    ] {
        disk.fail(op, 1, busy);
        let before = disk.count(op);
        let result = match op {
            Op::List => disk.list().map(drop),
            Op::Create => disk.create("b", B).map(drop),
            Op::Open => disk.open("a").map(drop),
            Op::Rename => disk.rename("a", "b"),
            Op::Remove => disk.remove("a"),
            Op::SyncDir => disk.sync_dir(),
            Op::Submit => disk.submit(write(&file, 1, 0, 1, true)).map_err(|(_, error)| error),
            Op::Write => file.write_at(&buffer, 0),
            Op::GiveBack => file.give_back(0, B),
            Op::Sync => file.sync(),
            Op::Read => file.read_at(&mut buffer, 0).map(drop),
        };
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::ResourceBusy, "{op:?}");
        assert_eq!(disk.count(op), before + 1);
        assert_eq!(names(&disk), ["a"]);
    }
}

#[test]
fn space_given_back_reads_as_zeroes_within_the_file() {
    let (disk, file) = disk(2);
    file.write_at(&filled(2, 5), 0).unwrap();
    file.sync().unwrap();
    file.give_back(B, 4 * B).unwrap();
    assert_eq!((file.size().unwrap(), sectors(&disk)[7..9].to_vec()), (2 * B, vec![5, 0]));
    assert_eq!(sectors(&disk.crash_with(Survival::Nothing))[7..9], [5, 5]);
}

#[test]
fn a_standing_fault_holds_until_healed() {
    let (disk, file) = disk(1);
    disk.fail_always(Op::Sync, Fault::Fail(IO));
    for _ in 0..3 {
        assert_eq!(file.sync().unwrap_err().kind(), IO);
    }
    disk.heal();
    file.sync().unwrap();
}

#[test]
fn a_create_can_be_cut_off_in_the_middle() {
    let (disk, _file) = disk(1);
    disk.fail(Op::Create, 1, Fault::Short(512));
    assert_eq!(disk.create("b", B).unwrap_err().kind(), io::ErrorKind::Interrupted);
    assert_eq!(disk.list().unwrap(), [("a".to_owned(), B), ("b".to_owned(), 512)]);
    assert_eq!(names(&disk.crash_with(Survival::Nothing)), ["a"]);
}

#[test]
fn damage_is_in_every_view_of_a_file() {
    let (disk, file) = disk(1);
    file.write_at(&filled(1, 1), 0).unwrap();
    disk.flip("a", 600, 7).unwrap();
    disk.overwrite("a", 0, b"xyz").unwrap();
    for seen in
        [disk.clone(), disk.crash_with(Survival::Nothing), disk.crash_with(Survival::Everything)]
    {
        let bytes = seen.bytes("a").unwrap();
        assert_eq!(bytes[600], bytes[601] | 0x80);
        assert_eq!(bytes[..3], *b"xyz");
    }
    assert_eq!(disk.flip("a", B, 0).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(disk.flip("x", 0, 0).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn broken_bytes_fail_reads_before_and_after_a_crash() {
    let (disk, file) = disk(3);
    disk.break_bytes("a", B + 5..B + 6).unwrap();
    let mut buffer = IoBuffer::with_blocks(1);
    file.read_at(&mut buffer, 0).unwrap();
    file.read_at(&mut buffer, 2 * B).unwrap();
    assert_eq!(file.read_at(&mut buffer, B).unwrap_err().raw_os_error(), Some(libc::EIO));
    let file = disk.crash(1).open("a").unwrap();
    assert_eq!(file.read_at(&mut buffer, B).unwrap_err().raw_os_error(), Some(libc::EIO));
}

#[test]
fn files_can_be_swapped_deleted_cut_and_put_there() {
    let (disk, _file) = disk(1);
    disk.insert("b", vec![2; 700]);
    disk.swap("a", "b").unwrap();
    assert_eq!(disk.bytes("a").unwrap(), vec![2; 700]);
    assert_eq!(disk.bytes("b").unwrap(), vec![0; BLOCK]);
    disk.cut("a", 10).unwrap();
    assert_eq!(disk.bytes("a").unwrap(), vec![2; 10]);
    disk.delete("b").unwrap();
    assert_eq!(names(&disk.crash_with(Survival::Nothing)), ["a"]);
    let mut buffer = IoBuffer::with_blocks(1);
    assert_eq!(disk.open("a").unwrap().read_at(&mut buffer, 0).unwrap(), 10);
}

#[test]
fn equal_disks_have_equal_hashes_and_others_do_not() {
    let (one, _) = disk(2);
    let (other, _) = disk(2);
    assert_eq!(one.image_hash(), other.image_hash());
    other.flip("a", 4000, 1).unwrap();
    assert_ne!(one.image_hash(), other.image_hash());
    other.flip("a", 4000, 1).unwrap();
    assert_eq!(one.image_hash(), other.image_hash());
    other.rename("a", "b").unwrap();
    assert_ne!(one.image_hash(), other.image_hash());
}

#[test]
#[should_panic(expected = "writes in flight do not overlap")]
fn overlapping_writes_in_flight_are_a_broken_invariant() {
    let (disk, file) = disk(4);
    disk.hold();
    disk.submit(Write { buffer: filled(2, 1), ..write(&file, 1, 0, 1, true) }).unwrap();
    disk.submit(write(&file, 2, B, 1, true)).unwrap();
}

#[test]
#[should_panic(expected = "tokens in flight are unique")]
fn one_token_for_two_writes_in_flight_is_a_broken_invariant() {
    let (disk, file) = disk(4);
    disk.hold();
    disk.submit(write(&file, 1, 0, 1, true)).unwrap();
    disk.submit(write(&file, 1, B, 1, true)).unwrap();
}

#[test]
#[should_panic(expected = "a file belongs to the disk that opened it")]
fn a_file_from_before_a_crash_is_not_used_after_it() {
    let (disk, file) = disk(1);
    let _ = disk.crash(1).submit(write(&file, 1, 0, 1, true));
}

#[test]
fn a_rename_can_be_done_although_it_is_reported_as_failed() {
    let (disk, _file) = disk(1);
    disk.fail(Op::Rename, 1, Fault::FailWritten(IO));
    assert_eq!(disk.rename("a", "b").unwrap_err().kind(), IO);
    assert_eq!(names(&disk), ["b"]);
    assert_eq!(names(&disk.crash_with(Survival::Nothing)), ["a"]);
}

/// A disk whose power goes with `change`.
fn cut(change: impl Fn(&SimDisk, &SimFile) -> io::Result<()>) -> SimDisk {
    let (disk, file) = disk(2);
    disk.cut_power(1);
    assert!(!disk.is_off());
    assert!(change(&disk, &file).is_err());
    assert!(disk.is_off());
    let left = disk.crash_with(Survival::Everything).image_hash();
    // Nothing that comes later changes what is left.
    assert!(disk.create("z", B).is_err());
    assert!(disk.rename("a", "z").is_err());
    assert!(disk.remove("a").is_err());
    assert!(file.write_at(&filled(1, 9), 0).is_err());
    assert!(disk.submit(write(&file, 9, 0, 9, true)).is_err());
    assert!(file.sync().is_err() && disk.sync_dir().is_err() && disk.list().is_err());
    assert!(reap(&disk).is_empty());
    assert_eq!(disk.crash_with(Survival::Everything).image_hash(), left);
    disk
}

#[test]
fn the_operation_with_which_the_power_goes_may_be_done_or_not() {
    let made = cut(|disk, _| disk.create("b", 2 * B).map(drop));
    assert_eq!(names(&made.crash_with(Survival::Nothing)), ["a"]);
    let half = made.crash_with(Survival::Everything).bytes("b").unwrap();
    assert_eq!(half.len(), 6 * 1024);

    let renamed = cut(|disk, _| disk.rename("a", "b"));
    assert_eq!(names(&renamed.crash_with(Survival::Nothing)), ["a"]);
    assert_eq!(names(&renamed.crash_with(Survival::Everything)), ["b"]);

    let removed = cut(|disk, _| disk.remove("a"));
    assert_eq!(names(&removed.crash_with(Survival::Nothing)), ["a"]);
    assert!(names(&removed.crash_with(Survival::Everything)).is_empty());

    let written = cut(|_, file| file.write_at(&filled(1, 5), 0));
    assert_eq!(sectors(&written.crash_with(Survival::Nothing))[0], 0);
    assert_eq!(sectors(&written.crash_with(Survival::Everything))[0], 5);
}

#[test]
fn a_sync_with_which_the_power_goes_makes_nothing_certain() {
    let (disk, file) = disk(1);
    file.write_at(&filled(1, 5), 0).unwrap();
    disk.create("b", B).unwrap();
    disk.cut_power(2);
    disk.create("c", B).unwrap();
    assert!(file.sync().is_err());
    assert!(disk.sync_dir().is_err());
    let lost = disk.crash_with(Survival::Nothing);
    assert_eq!((names(&lost), sectors(&lost)[0]), (vec!["a".to_owned()], 0));
    let kept = disk.crash_with(Survival::Everything);
    assert_eq!((names(&kept).len(), sectors(&kept)[0]), (3, 5));
}

#[test]
fn a_write_submitted_as_the_power_goes_never_completes() {
    let (disk, file) = disk(1);
    disk.cut_power(1);
    disk.submit(write(&file, 1, 0, 5, true)).unwrap();
    assert_eq!(disk.in_flight(), [1]);
    assert!(!disk.release(1));
    disk.release_all();
    assert!(reap(&disk).is_empty());
    assert_eq!(sectors(&disk.crash_with(Survival::Nothing))[0], 0);
    assert_eq!(sectors(&disk.crash_with(Survival::Everything))[0], 5);
    let on = disk.crash(1);
    assert!(!on.is_off());
    on.sync_dir().unwrap();
}

#[test]
fn a_disk_with_writes_in_flight_is_freed_with_its_last_owner() {
    let disk = SimDisk::new();
    let file = disk.create("a", 4096).unwrap();
    disk.hold();
    disk.submit(write(&file, 1, 0, 1, true)).unwrap();
    let shared = Arc::downgrade(&disk.shared);
    drop((disk, file));
    assert_eq!(shared.strong_count(), 0);
}
