//! Negative controls: with one protection taken away, the histories of `crash` must fail. A
//! protection whose absence no history notices is one that nobody tests.
//!
//! `cargo test -p zzq-wal --features negative-controls --test controls`
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests panic as tests do")]
#![allow(clippy::print_stderr, reason = "which history noticed it is worth a line")]

mod common;
mod model;

use common::{producer, put, reopen};
use model::operation::{History, Lies, Salts};
use model::{Failure, Plan, run};
use zzq_wal::negative_controls::{Rule, switch_off};
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Lsn, ReadError};

/// Histories in which the loss of a protection must come to light.
const SEEDS: u64 = 40;

/// The first failure of histories that `change` has changed, with `rule` switched off.
fn noticed(rule: Option<Rule>, change: impl Fn(&mut History)) -> Option<(u64, Failure)> {
    let _off = switch_off(rule);
    (0..SEEDS).find_map(|seed| {
        let mut history = model::history(seed);
        change(&mut history);
        run(&history, &Plan::EACH_STEP).err().map(|failure| (seed, failure))
    })
}

fn must_be_noticed(what: &str, found: Option<(u64, Failure)>) {
    let Some((seed, failure)) = found else { panic!("{what}: not noticed in {SEEDS} histories") };
    eprintln!("{what}: history {seed} fails at its step {}: {}", failure.at, failure.what);
    assert!(!failure.what.starts_with("panic: "), "noticed by chance: {}", failure.what);
}

#[test]
fn a_device_that_skips_the_flush_of_writes_is_noticed() {
    let lie = |lies| move |history: &mut History| history.lies = lies;
    must_be_noticed("writes without flush", noticed(None, lie(Lies::Writes)));
}

#[test]
fn a_device_that_skips_the_flush_of_files_is_noticed() {
    let lie = |lies| move |history: &mut History| history.lies = lies;
    must_be_noticed("files without flush", noticed(None, lie(Lies::Files)));
}

#[test]
fn a_device_that_skips_the_flush_of_names_is_noticed() {
    let lie = |lies| move |history: &mut History| history.lies = lies;
    must_be_noticed("names without flush", noticed(None, lie(Lies::Names)));
}

#[test]
fn salts_that_everybody_knows_are_noticed() {
    must_be_noticed("salt", noticed(None, |history| history.salts = Salts::Constant));
}

#[test]
fn a_chain_that_nobody_checks_is_noticed() {
    must_be_noticed("chain", noticed(Some(Rule::Chain), |_| {}));
}

#[test]
fn a_durable_mark_that_nobody_heeds_is_noticed() {
    must_be_noticed("durable mark", noticed(Some(Rule::DurableMark), |_| {}));
}

#[test]
fn groups_that_nobody_writes_anew_are_noticed() {
    must_be_noticed("renewal", noticed(Some(Rule::Renewal), |_| {}));
}

#[test]
fn breaks_that_make_nothing_void_are_noticed() {
    must_be_noticed("void rule", noticed(Some(Rule::Void), |_| {}));
}

#[test]
fn a_log_that_is_cut_in_place_is_noticed() {
    must_be_noticed("nothing in place", noticed(Some(Rule::NotInPlace), |_| {}));
}

#[test]
fn a_truncation_that_leaves_the_mark_is_noticed() {
    must_be_noticed("mark taken back", noticed(Some(Rule::TakenBack), |_| {}));
}

/// What a reader says that is in the midst of a segment while that is trimmed and the log goes on.
fn read_on_while_trimmed() -> ReadError {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    let mut put_some = |count| (0..count).for_each(|n: u8| _ = put(&log, &mut one, &[n; 3000]));
    put_some(100);
    let mut reader = log.reader(Lsn::FIRST).unwrap();
    assert!(reader.next_record().unwrap().is_some());
    log.trim(Lsn::new(90));
    put_some(200);
    loop {
        if let Err(error) = reader.next_record() {
            break error;
        }
    }
}

#[test]
fn a_file_that_is_used_again_under_a_reader_is_noticed() {
    let told = read_on_while_trimmed();
    assert!(matches!(told, ReadError::Trimmed { .. }), "{told}");
    let _off = switch_off(Some(Rule::Lease));
    let told = read_on_while_trimmed();
    assert!(matches!(told, ReadError::Damage(_)), "not noticed: {told}");
}

/// As above, but the log does not go on: what a reader says of the rest of its segment.
fn read_on_in_what_is_let_go() -> Result<(), ReadError> {
    let disk = SimDisk::new();
    let (log, _, _) = reopen(&disk, 1);
    let (mut one, _) = producer(&log);
    (0..100).for_each(|n: u8| _ = put(&log, &mut one, &[n; 3000]));
    let last = log.segments()[0].last;
    let mut reader = log.reader(Lsn::FIRST).unwrap();
    assert!(reader.next_record().unwrap().is_some());
    log.trim(Lsn::new(90));
    while log.helper_step(0) {}
    assert!(log.first_whole() > last, "it is gone but for the reader");
    while reader.next_lsn() <= last {
        assert!(reader.next_record()?.is_some());
    }
    Ok(())
}

#[test]
fn a_file_that_is_written_over_at_once_under_a_reader_is_noticed() {
    read_on_in_what_is_let_go().unwrap();
    let off = switch_off(Some(Rule::Lease));
    read_on_in_what_is_let_go().unwrap();
    drop(off);
    let _off = switch_off(Some(Rule::LeaseAtOnce));
    let told = read_on_in_what_is_let_go();
    assert!(matches!(told, Err(ReadError::Damage(_))), "not noticed: {told:?}");
}
