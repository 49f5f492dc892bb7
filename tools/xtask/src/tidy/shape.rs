//! The outer form of files: columns, blanks, size, and what no text may name.

use super::Finding;
use crate::source::Source;
use crate::tree::{File, Tree, extension};

const COLUMNS_MAX: usize = 100;
const LINES_MAX: usize = 900;

/// Beginnings of paths that exist on one machine only, and of ways out of the repository.
const MACHINE_PATHS: [&str; 4] = ["/work/", "/root/", "/Users/", "../shared"];

/// A file that grows past the limit holds two nouns.
pub(super) fn file_size(source: &Source<'_>, found: &mut Vec<Finding>) {
    let lines = source.text.lines().count();
    if lines > LINES_MAX {
        let message = format!("{lines} lines: which noun wants to leave?");
        found.push(Finding::new(source.path, LINES_MAX, message));
    }
}

/// No line is wider than a reader's window, none ends in blanks.
pub(super) fn columns_and_blanks(tree: &Tree, found: &mut Vec<Finding>) {
    for file in tree.files().iter().filter(|file| is_ours(&file.path)) {
        for (at, line) in file.text.lines().enumerate() {
            if line.ends_with(char::is_whitespace) {
                found.push(Finding::new(&file.path, at + 1, "blanks at the end of the line"));
            }
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && has_width(&file.path) && !cannot_break(file, line) {
                found.push(Finding::new(&file.path, at + 1, format!("{columns} columns")));
            }
        }
    }
}

/// No text names a place outside of the repository on somebody's machine.
pub(super) fn no_machine_paths(tree: &Tree, found: &mut Vec<Finding>) {
    for file in tree.files().iter().filter(|file| !file.path.ends_with("tidy/shape.rs")) {
        for (at, line) in file.text.lines().enumerate() {
            for path in MACHINE_PATHS.iter().filter(|path| names(line, path)) {
                let message = format!("names a machine's path ({path}…)");
                found.push(Finding::new(&file.path, at + 1, message));
            }
        }
    }
}

/// Whether `path` begins in `line`, rather than goes on from a name before it.
fn names(line: &str, path: &str) -> bool {
    let goes_on = |before: &str| {
        before.ends_with(|last: char| last.is_alphanumeric() || "_-.}/+#$".contains(last))
    };
    line.match_indices(path).any(|(at, _)| !goes_on(&line[..at]))
}

/// Text that is written here, not made by a machine or taken over as it is.
fn is_ours(path: &str) -> bool {
    let ours = ["rs", "md", "toml", "py", "js", "mjs", "sh", "tsv", "json"];
    let made = path.ends_with("package-lock.json") || path.starts_with("fuzz/corpus/");
    !made && (path.ends_with("/run") || ours.contains(&extension(path)))
}

/// Tables of data have no width, nor have the statements of the specifications.
fn has_width(path: &str) -> bool {
    !["tsv", "json"].contains(&extension(path)) && !path.starts_with("doc/spec/")
}

/// A row of a table, or a long address on a line.
fn cannot_break(file: &File, line: &str) -> bool {
    let row = extension(&file.path) == "md" && line.trim_start().starts_with('|');
    let address = line.split_whitespace().any(|word| word.contains("://") && word.len() > 50);
    row || address
}

#[cfg(test)]
mod tests {
    use super::super::tests::{lines, places};
    use super::*;

    #[test]
    fn a_file_past_the_limit_is_found() {
        assert!(lines(file_size, "a.rs", &"x\n".repeat(LINES_MAX)).is_empty());
        assert_eq!(lines(file_size, "a.rs", &"x\n".repeat(LINES_MAX + 1)), [LINES_MAX]);
    }

    #[test]
    fn wide_lines_are_found_by_columns_not_bytes() {
        let wide = "x".repeat(COLUMNS_MAX + 1);
        assert_eq!(places(columns_and_blanks, &[("a.rs", &wide)]), ["a.rs:1"]);
        let fits = "é".repeat(COLUMNS_MAX);
        assert!(places(columns_and_blanks, &[("a.rs", &fits)]).is_empty());
    }

    #[test]
    fn tables_and_addresses_may_be_wide() {
        let wide = "x".repeat(COLUMNS_MAX + 1);
        let row = format!("| {wide} |");
        let address = format!("see https://a.example/{wide}");
        let files = [("a.md", row.as_str()), ("b.rs", &address), ("doc/spec/c.tsv", &wide)];
        assert!(places(columns_and_blanks, &files).is_empty());
        assert_eq!(places(columns_and_blanks, &[("a.rs", &row)]), ["a.rs:1"]);
    }

    #[test]
    fn blanks_at_the_end_are_found() {
        assert_eq!(places(columns_and_blanks, &[("a.toml", "x\ny \n")]), ["a.toml:2"]);
    }

    #[test]
    fn paths_of_machines_are_found() {
        for path in MACHINE_PATHS {
            let text = format!("see `{path}x`");
            assert_eq!(places(no_machine_paths, &[("a.md", &text)]), ["a.md:1"]);
            let topic = format!("publish to home{path}x");
            let found = places(no_machine_paths, &[("a.md", &topic)]);
            assert!(found.is_empty(), "{found:?}");
        }
    }
}
