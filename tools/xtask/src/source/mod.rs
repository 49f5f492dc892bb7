//! Rust source split into what is code and what is comment, so that a rule about code is not
//! fooled by text, nor a rule about comments by code.
//!
//! Owns: a small lexer, the regions of a file that are tests, the paths that code names.
//! Does not know: any rule. It reads code that compiles; on other code it never panics.

mod paths;
mod regions;
mod split;

use std::ops::Range;

use crate::tree::File;

/// A source file and its views. All views have the byte positions and lines of the text.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) path: &'a str,
    pub(crate) text: &'a str,
    /// The text with comments, and the inside of strings and characters, blanked.
    pub(crate) code: String,
    /// The text with all but comments blanked.
    pub(crate) comments: String,
    starts: Vec<usize>,
    tests: Vec<Range<usize>>,
    test_functions: Vec<Range<usize>>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(file: &'a File) -> Self {
        let (code, comments) = split::split(&file.text);
        let newlines = file.text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n');
        let starts = std::iter::once(0).chain(newlines.map(|(at, _)| at + 1)).collect();
        Self {
            tests: regions::tests(&file.path, &code),
            test_functions: regions::test_functions(&file.text, &code),
            path: &file.path,
            text: &file.text,
            code,
            comments,
            starts,
        }
    }

    /// The line of a byte position, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.starts.partition_point(|&start| start <= at)
    }

    /// Whether a byte position is compiled for tests only.
    pub(crate) fn is_test(&self, at: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&at))
    }

    /// Whether a byte position is in a test function, or in the comments and attributes on top.
    pub(crate) fn is_in_test_function(&self, at: usize) -> bool {
        self.test_functions.iter().any(|range| range.contains(&at))
    }

    /// The name of the test function that a line is part of, or stands on top of.
    pub(crate) fn test_at_line(&self, line: usize) -> Option<&str> {
        let at = *self.starts.get(line.checked_sub(1)?)?;
        let range = self.test_functions.iter().find(|range| range.contains(&at))?;
        let code = &self.code[range.clone()];
        let name = &code[words(code, "fn").next()? + 2..];
        name.trim_start().split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()
    }

    /// The first line at or below this one that has code, attributes apart.
    pub(crate) fn code_below(&self, line: usize) -> Option<usize> {
        let mut lines = self.code.lines().enumerate().skip(line.checked_sub(1)?);
        let is_code = |text: &str| !text.trim().is_empty() && !text.trim().starts_with("#[");
        lines.find(|(_, text)| is_code(text)).map(|(at, _)| at + 1)
    }

    /// Every path that code outside of tests names, use trees expanded, with its position.
    pub(crate) fn paths(&self) -> Vec<(usize, String)> {
        let mut paths = paths::paths(&self.code);
        paths.retain(|(at, _)| !self.is_test(*at));
        paths
    }
}

/// Positions where `word` stands in `text` and no identifier goes on before or behind it.
pub(crate) fn words<'t>(text: &'t str, word: &'t str) -> impl Iterator<Item = usize> + 't {
    let part = |byte: Option<&u8>| byte.is_some_and(|&byte| is_identifier(byte));
    let bytes = text.as_bytes();
    text.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        !part(before) && !part(bytes.get(at + word.len()))
    })
}

/// Whether a byte can be part of an identifier; every byte of a non-ASCII letter can.
fn is_identifier(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The position behind the bracket that closes the first `open` at or after `from`.
fn behind_block(code: &str, from: usize, open: u8, close: u8) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, &byte) in code.as_bytes().iter().enumerate().skip(from) {
        if byte == open {
            depth += 1;
        } else if byte == close {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(at + 1);
            }
        }
    }
    None
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A file for the tests of the rules.
    pub(crate) fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn lines_count_from_one() {
        let file = file("a.rs", "a\nb\n\nc");
        let source = Source::new(&file);
        assert_eq!([0, 1, 2, 4, 5].map(|at| source.line(at)), [1, 1, 2, 3, 4]);
    }

    #[test]
    fn a_line_in_a_test_has_its_name_and_code_below_it() {
        let text = "fn a() {}\n// one\n#[test]\nfn b_c() {\n    // two\n\n    d()\n}";
        let file = file("tests/a.rs", text);
        let source = Source::new(&file);
        let names = [1, 2, 5, 99].map(|line| source.test_at_line(line));
        assert_eq!(names, [None, Some("b_c"), Some("b_c"), None]);
        let below = [1, 2, 5, 99].map(|line| source.code_below(line));
        assert_eq!(below, [Some(1), Some(4), Some(7), None]);
    }

    #[test]
    fn words_are_whole() {
        let found = words("un unsafe unsafe_code my_unsafe (unsafe)", "unsafe");
        assert_eq!(found.collect::<Vec<_>>(), [3, 33]);
    }

    #[test]
    fn paths_of_tests_are_left_out() {
        let file = file("a.rs", "use a::b;\n#[cfg(test)]\nmod tests { use c::d; }\nuse e::f;");
        let paths: Vec<_> = Source::new(&file).paths().into_iter().map(|(_, path)| path).collect();
        assert_eq!(paths, ["a::b", "e::f"]);
    }
}
