//! The paths that code names: `a::b::c` where it stands, and each leaf of a use tree.

use super::is_identifier;

/// All paths of at least two parts, with the position where each begins.
pub(super) fn paths(code: &str) -> Vec<(usize, String)> {
    let (bytes, mut found, mut at) = (code.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        if !is_identifier(bytes[at]) {
            at += 1;
            continue;
        }
        let mut reader = Reader { code, at };
        let word = reader.word();
        if word == "use" {
            reader.tree("", &mut found);
        } else if let Some(path) = reader.rest_of(word) {
            found.push((at, path));
        }
        at = reader.at;
    }
    found
}

struct Reader<'c> {
    code: &'c str,
    at: usize,
}

impl<'c> Reader<'c> {
    fn blanks(&mut self) {
        let rest = &self.code.as_bytes()[self.at..];
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    fn word(&mut self) -> &'c str {
        let rest = &self.code[self.at..];
        let len = rest.bytes().take_while(|&byte| is_identifier(byte)).count();
        self.at += len;
        &rest[..len]
    }

    fn eats(&mut self, token: &str) -> bool {
        let before = self.at;
        self.blanks();
        let eaten = self.code[self.at..].starts_with(token);
        self.at = if eaten { self.at + token.len() } else { before };
        eaten
    }

    /// What goes on behind a first word with `::name`, if anything does.
    fn rest_of(&mut self, word: &str) -> Option<String> {
        let mut path = word.to_owned();
        loop {
            let before = self.at;
            if !self.eats("::") {
                break;
            }
            self.blanks();
            let next = self.word();
            if next.is_empty() {
                // `::<T>` or `::*`: not a name.
                self.at = before + 2;
                break;
            }
            path = format!("{path}::{next}");
        }
        path.contains("::").then_some(path)
    }

    /// One use tree behind `prefix`: `a::b`, `a::{..}`, `a::*`, `a as b`.
    fn tree(&mut self, prefix: &str, found: &mut Vec<(usize, String)>) {
        self.eats("::");
        if self.eats("{") {
            while !self.eats("}") && self.at < self.code.len() {
                let before = self.at;
                self.tree(prefix, found);
                self.eats(",");
                if self.at == before {
                    return;
                }
            }
            return;
        }
        self.blanks();
        let start = self.at;
        let word = if self.eats("*") { "*" } else { self.word() };
        let path = if prefix.is_empty() { word.to_owned() } else { format!("{prefix}::{word}") };
        if self.eats("::") {
            return self.tree(&path, found);
        }
        if self.eats("as ") {
            self.blanks();
            self.word();
        }
        found.push((start, path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(code: &str) -> Vec<String> {
        paths(code).into_iter().map(|(_, path)| path).collect()
    }

    #[test]
    fn use_trees_are_expanded() {
        let code = "use std::{fs, time::{Duration, Instant as Now}, io::*};\nuse ::a::b as c;";
        let want = ["std::fs", "std::time::Duration", "std::time::Instant", "std::io::*", "a::b"];
        assert_eq!(names(code), want);
    }

    #[test]
    fn paths_in_expressions_are_found() {
        let code = "let x = std::time::Instant::now(); y.z(); Vec::<u8>::new()";
        assert_eq!(names(code), ["std::time::Instant::now"]);
    }

    #[test]
    fn a_path_may_stand_on_several_lines() {
        assert_eq!(names("std\n  ::fs\n  ::read(x)"), ["std::fs::read"]);
    }

    #[test]
    fn broken_use_trees_end() {
        for code in ["use {", "use a::{b,", "use ::", "use {,}", "use a::{;};"] {
            names(code);
        }
    }
}
