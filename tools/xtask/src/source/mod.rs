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
