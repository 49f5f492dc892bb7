//! What stands at the top of a file.

use super::Finding;
use crate::source::Source;

/// The first line of every file begins its `//!`.
pub(super) fn opens_with_its_duty(source: &Source<'_>, found: &mut Vec<Finding>) {
    let first = source.text.lines().next().unwrap_or_default();
    let text = first.strip_prefix("//!").map(str::trim);
    if text.is_none_or(str::is_empty) {
        found.push(Finding::new(source.path, 1, "opens without a `//!` that says what it owns"));
    }
}

/// Crates that hold unsafe code; `unsafety` watches its places.
const UNSAFE_ROOMS: [&str; 2] = ["wal/", "mqtt/lanes/"];

/// Unsafe code is forbidden in every other crate.
pub(super) fn crate_root_forbids_unsafe(source: &Source<'_>, found: &mut Vec<Finding>) {
    if is_crate_root(source.path) && !source.code.contains("#![forbid(unsafe_code)]") {
        found.push(Finding::new(source.path, 1, "a crate root without #![forbid(unsafe_code)]"));
    }
}

/// `src/lib.rs`, `src/main.rs`, `src/bin/NAME.rs` or `src/bin/NAME/main.rs`.
fn is_crate_root(path: &str) -> bool {
    let Some((room, inside)) = path.split_once("src/") else { return false };
    if UNSAFE_ROOMS.contains(&room) {
        return false;
    }
    let binary = inside.strip_prefix("bin/").map(|name| name.split('/').collect::<Vec<_>>());
    let whole = matches!(inside, "lib.rs" | "main.rs");
    whole && room.ends_with('/') || matches!(binary.as_deref(), Some([_] | [_, "main.rs"]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::lines;
    use super::*;

    #[test]
    fn a_file_without_its_duty_is_found() {
        assert_eq!(lines(opens_with_its_duty, "a.rs", "use b::c;\n//! Late.\n"), [1]);
        assert_eq!(lines(opens_with_its_duty, "a.rs", "//!\n"), [1]);
        assert_eq!(lines(opens_with_its_duty, "a.rs", ""), [1]);
        assert!(lines(opens_with_its_duty, "a.rs", "//! Topics.\n").is_empty());
    }

    #[test]
    fn a_root_that_does_not_forbid_unsafe_is_found() {
        let rule = crate_root_forbids_unsafe;
        assert_eq!(lines(rule, "engine/src/lib.rs", "//! x\n"), [1]);
        assert_eq!(lines(rule, "engine/src/lib.rs", "//! #![forbid(unsafe_code)]\n"), [1]);
        assert!(lines(rule, "engine/src/lib.rs", "#![forbid(unsafe_code)]").is_empty());
        assert!(lines(rule, "engine/src/state.rs", "").is_empty());
        assert!(lines(rule, "wal/src/lib.rs", "").is_empty());
        assert!(lines(rule, "mqtt/lanes/src/lib.rs", "").is_empty());
        assert_eq!(lines(rule, "mqtt/codec/src/lib.rs", ""), [1]);
        for root in ["bin/zzq.rs", "bin/zzq/main.rs", "main.rs"] {
            assert_eq!(lines(rule, &format!("mqtt/broker/src/{root}"), ""), [1], "{root}");
        }
        assert!(lines(rule, "mqtt/broker/src/bin/zzq/flags.rs", "").is_empty());
    }
}
