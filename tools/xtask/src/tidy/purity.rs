//! What the pure rooms do not touch, and where async ends.

use super::Finding;
use super::rooms;
use crate::source::{Source, words};

/// Beginnings of paths that mean a file, socket, clock, thread, randomness or executor.
const IMPURE: [&str; 17] = [
    "std::env",
    "std::fs",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::time::UNIX_EPOCH",
    "Instant::now",
    "SystemTime::now",
    "getrandom",
    "libc",
    "mio",
    "rand",
    "rustix",
    "tokio",
];

/// Ways to make a map whose order differs from run to run.
const RANDOM_MAPS: [&str; 10] = [
    "HashMap::new",
    "HashMap::with_capacity",
    "HashMap::from",
    "HashMap::from_iter",
    "HashSet::new",
    "HashSet::with_capacity",
    "HashSet::from",
    "HashSet::from_iter",
    "hash::RandomState",
    "hash_map::RandomState",
];

/// Product code that may name tokio; tools, benches and test code may too.
const ASYNC: [&str; 7] = [
    "mqtt/lanes/src/",
    "mqtt/client/src/",
    "mqtt/broker/src/lib.rs",
    "mqtt/broker/src/api",
    "mqtt/broker/src/bin",
    "mqtt/broker/src/hooks",
    "mqtt/broker/src/main",
];

/// Pure rooms take time, randomness and I/O results as arguments and iterate in a fixed order.
pub(super) fn pure_rooms(source: &Source<'_>, found: &mut Vec<Finding>) {
    if !rooms::room_of(source.path).is_some_and(|room| room.pure) {
        return;
    }
    for (at, path) in source.paths() {
        if IMPURE.iter().any(|impure| begins_with(&path, impure)) {
            let message = format!("{path} in a pure room: take its result as an argument");
            found.push(Finding::new(source.path, source.line(at), message));
        }
        if RANDOM_MAPS.iter().any(|map| path.ends_with(map)) {
            found.push(random_order(source, at));
        }
    }
    for (map, arguments) in [("HashMap", 3), ("HashSet", 2)] {
        for at in words(&source.code, map).filter(|&at| !source.is_test(at)) {
            let given = generic_arguments(&source.code[at + map.len()..]);
            if given.is_some_and(|given| given < arguments) {
                found.push(random_order(source, at));
            }
        }
    }
}

fn random_order(source: &Source<'_>, at: usize) -> Finding {
    let message = "a hash map of random order in a pure room: name its hasher, or take a BTreeMap";
    Finding::new(source.path, source.line(at), message)
}

/// tokio appears in the lanes, in the broker's outer shell and in the client.
pub(super) fn tokio_stays_outside(source: &Source<'_>, found: &mut Vec<Finding>) {
    let outside = rooms::is_tool(source.path) || ASYNC.iter().any(|at| source.path.starts_with(at));
    // The pure rooms have their own rule, which names tokio too.
    if outside || rooms::room_of(source.path).is_none_or(|room| room.pure) {
        return;
    }
    for (at, path) in source.paths() {
        if begins_with(&path, "tokio") {
            let message = format!("{path}: tokio stays in lanes, client and the broker's shell");
            found.push(Finding::new(source.path, source.line(at), message));
        }
    }
}

/// Whether a path is `start` or goes on from it.
fn begins_with(path: &str, start: &str) -> bool {
    path.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// How many arguments `<..>` has, or `None` where none is given.
fn generic_arguments(behind: &str) -> Option<usize> {
    let inside = behind.strip_prefix('<').or_else(|| behind.strip_prefix("::<"))?;
    let (mut depth, mut commas, mut before) = (0_usize, 0, ' ');
    for character in inside.chars() {
        match character {
            '<' | '(' | '[' => depth += 1,
            // The head of `->`.
            '>' if before == '-' => {}
            '>' if depth == 0 => break,
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => commas += 1,
            _ => {}
        }
        before = character;
    }
    Some(commas + 1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::lines;
    use super::*;

    fn bites(text: &str) -> Vec<usize> {
        lines(pure_rooms, "engine/src/a.rs", text)
    }

    #[test]
    fn clocks_files_and_threads_are_found() {
        assert_eq!(bites("use std::{\n    fs,\n    time::Instant,\n};"), [2, 3]);
        assert_eq!(bites("let now = Instant::now();"), [1]);
        assert_eq!(bites("std::thread::spawn(f);"), [1]);
        assert_eq!(bites("use std::net::TcpStream;\nuse tokio::io;\nuse rand::Rng;"), [1, 2, 3]);
        assert!(bites("use std::time::Duration;\nuse operand::x;\nrandom::y();").is_empty());
    }

    #[test]
    fn other_rooms_and_tests_may_touch_them() {
        let text = "use std::fs;";
        assert!(lines(pure_rooms, "wal/src/a.rs", text).is_empty());
        assert!(lines(pure_rooms, "engine/tests/a.rs", text).is_empty());
        assert!(bites("#[cfg(test)]\nmod tests { use std::fs; }").is_empty());
    }

    #[test]
    fn maps_of_random_order_are_found() {
        assert_eq!(bites("let a = HashMap::new();"), [1]);
        assert_eq!(bites("a: HashMap<u8, Vec<(u8, u8)>>,\nb: HashSet<u8>,"), [1, 2]);
        assert_eq!(bites("let a = x.collect::<HashSet<_>>();"), [1]);
    }

    #[test]
    fn maps_with_a_hasher_of_their_own_are_fine() {
        assert!(bites("a: HashMap<u8, fn(u8) -> u8, Seeded>, b: HashSet<u8, Seeded>").is_empty());
        assert!(bites("use rustc_hash::FxHashMap; a: FxHashMap<u8, u8>").is_empty());
        assert!(bites("use std::collections::HashMap;\nHashMap::with_hasher(x)").is_empty());
    }

    #[test]
    fn tokio_is_found_behind_the_shell() {
        let at = |path| lines(tokio_stays_outside, path, "use tokio::sync::mpsc;");
        assert_eq!(at("mqtt/broker/src/conn/read.rs"), [1]);
        assert_eq!(at("wal/src/log/lead.rs"), [1]);
        assert!(at("mqtt/broker/src/lib.rs").is_empty());
        assert!(at("mqtt/broker/src/bin/zzq_broker/main.rs").is_empty());
        assert!(at("mqtt/broker/tests/doc.rs").is_empty());
        assert!(at("mqtt/lanes/src/driver.rs").is_empty());
        assert!(at("benches/src/load.rs").is_empty());
        assert!(at("tools/rig/src/main.rs").is_empty());
    }
}
