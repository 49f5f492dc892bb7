//! What is left behind by work that has not ended.

use super::Finding;
use crate::source::{Source, words};
use crate::tree::{Tree, extension};

const UNFINISHED: [&str; 3] = ["todo", "unimplemented", "dbg"];
const MARKS: [&str; 3] = ["TODO", "FIXME", "XXX"];

/// No macro that stands for code to come.
pub(super) fn unfinished_code(source: &Source<'_>, found: &mut Vec<Finding>) {
    for name in UNFINISHED {
        for at in words(&source.code, name) {
            if source.code[at + name.len()..].starts_with('!') {
                found.push(Finding::new(source.path, source.line(at), format!("{name}! is left")));
            }
        }
    }
}

/// A test that does not run says why.
pub(super) fn ignored_tests(source: &Source<'_>, found: &mut Vec<Finding>) {
    for (at, _) in source.code.match_indices("#[ignore]") {
        let message = "an ignored test without `= \"reason\"`";
        found.push(Finding::new(source.path, source.line(at), message));
    }
}

/// A lint that is switched off says why.
pub(super) fn unreasoned_exceptions(source: &Source<'_>, found: &mut Vec<Finding>) {
    for start in ["[allow(", "[expect("] {
        for (at, _) in source.code.match_indices(start) {
            let end = source.code[at..].find(")]").map_or(source.code.len(), |len| at + len);
            if words(&source.code[at..end], "reason").next().is_none() {
                let message = "a lint is switched off without `reason = \"…\"`";
                found.push(Finding::new(source.path, source.line(at), message));
            }
        }
    }
}

/// A mark for later names the issue in which the work is written down.
pub(super) fn marks_name_their_issue(tree: &Tree, found: &mut Vec<Finding>) {
    for file in tree.files() {
        let extension = extension(&file.path);
        if extension == "rs" {
            marks(&file.path, &Source::new(file).comments, found);
        } else if ["md", "toml", "py", "js", "mjs", "sh"].contains(&extension) {
            marks(&file.path, &file.text, found);
        }
    }
}

fn marks(path: &str, text: &str, found: &mut Vec<Finding>) {
    for (at, line) in text.lines().enumerate() {
        let marked = MARKS.iter().find(|mark| words(line, mark).next().is_some());
        if let Some(mark) = marked
            && !names_an_issue(line)
        {
            found.push(Finding::new(
                path,
                at + 1,
                format!("{mark} without the `#number` of an issue"),
            ));
        }
    }
}

fn names_an_issue(line: &str) -> bool {
    line.split('#').skip(1).any(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{lines, places};
    use super::*;

    #[test]
    fn macros_for_later_are_found() {
        assert_eq!(lines(unfinished_code, "a.rs", "todo!()\ndbg!(x);\nunimplemented!()").len(), 3);
        assert!(lines(unfinished_code, "a.rs", "// todo!()\nx.todo(); my_dbg!()").is_empty());
    }

    #[test]
    fn a_test_ignored_for_no_reason_is_found() {
        assert_eq!(lines(ignored_tests, "a.rs", "#[test]\n#[ignore]\nfn a() {}"), [2]);
        assert!(lines(ignored_tests, "a.rs", "#[ignore = \"slow\"]").is_empty());
    }

    #[test]
    fn a_lint_switched_off_for_no_reason_is_found() {
        let text = "#[allow(dead_code)]\n#![expect(clippy::x)]\n";
        assert_eq!(lines(unreasoned_exceptions, "a.rs", text), [1, 2]);
        let text = "#[expect(\n    clippy::x,\n    reason = \"bound above (see b)\",\n)]";
        assert!(lines(unreasoned_exceptions, "a.rs", text).is_empty());
    }

    #[test]
    fn marks_without_an_issue_are_found() {
        let mark = MARKS[0];
        let bites = |text: String| places(marks_name_their_issue, &[("a.rs", &text)]);
        assert_eq!(bites(format!("x();\n// {mark}: y")), ["a.rs:2"]);
        assert!(bites(format!("// {mark}(#12): y")).is_empty());
        assert!(bites(format!("let topic = \"{mark}\";")).is_empty());
        assert_eq!(places(marks_name_their_issue, &[("a.md", mark)]), ["a.md:1"]);
    }
}
