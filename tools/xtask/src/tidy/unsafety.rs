//! Where `unsafe` may stand, and what stands above it.

use super::Finding;
use crate::source::{Source, words};

/// The modules of the product that may hold unsafe code: what is shared with the kernel.
const PLACES: [&str; 2] = ["wal/src/io/", "mqtt/lanes/src/driver/uring/ring.rs"];
/// Lines above an `unsafe` in which its reason must begin.
const REACH: usize = 5;

/// `unsafe` stands in these places alone, each use below a SAFETY note.
pub(super) fn unsafe_has_its_place_and_reason(source: &Source<'_>, found: &mut Vec<Finding>) {
    let notes: Vec<_> = ["SAFETY:", "# Safety"]
        .iter()
        .flat_map(|note| source.comments.match_indices(note).map(|(at, _)| source.line(at)))
        .collect();
    for at in words(&source.code, "unsafe") {
        let line = source.line(at);
        if !PLACES.iter().any(|place| source.path.starts_with(place)) {
            let message = format!("unsafe outside of {}", PLACES.join(" and "));
            found.push(Finding::new(source.path, line, message));
        } else if !notes.iter().any(|&note| note <= line && line - note <= REACH) {
            let message = format!("unsafe without a SAFETY note in the {REACH} lines above");
            found.push(Finding::new(source.path, line, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::lines;
    use super::*;

    fn bites(path: &str, text: &str) -> Vec<usize> {
        lines(unsafe_has_its_place_and_reason, path, text)
    }

    #[test]
    fn unsafe_elsewhere_is_found_even_with_a_reason() {
        let text = "// SAFETY: none\nunsafe { x() }\n";
        assert_eq!(bites("wal/src/log/lead.rs", text), [2]);
        assert_eq!(bites("engine/src/state.rs", text), [2]);
        assert_eq!(bites("mqtt/lanes/src/driver/uring/mod.rs", text), [2]);
        assert!(bites("wal/src/io/aio.rs", text).is_empty());
        assert!(bites("mqtt/lanes/src/driver/uring/ring.rs", text).is_empty());
    }

    #[test]
    fn a_reason_too_far_away_is_none() {
        let text = "// SAFETY: far\n\n\n\n\n\nunsafe { x() }\n";
        assert_eq!(bites("wal/src/io/aio.rs", text), [7]);
        assert_eq!(bites("wal/src/io/aio.rs", "let s = \"SAFETY:\";\nunsafe { x() }"), [2]);
    }

    #[test]
    fn the_word_in_text_is_no_unsafe_code() {
        assert!(bites("engine/src/a.rs", "// unsafe\nlet x = \"unsafe\";").is_empty());
    }
}
