//! Tags: comment lines `//= IDENTIFIER` above the code, or in the test, that serves a statement.

use crate::source::Source;
use crate::tree::Tree;

/// What a tag stands at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    Code,
    Test,
    /// Test code that no test runs by itself: it proves nothing.
    Nowhere,
}

/// One tag.
#[derive(Debug)]
pub(crate) struct Tag {
    pub(crate) id: String,
    pub(super) at: At,
    pub(crate) path: String,
    pub(crate) line: usize,
}

impl Tag {
    /// Whether it stands in a test function.
    pub(crate) fn is_test(&self) -> bool {
        self.at == At::Test
    }

    /// Whether it stands at what the product is made of.
    pub(crate) fn is_code(&self) -> bool {
        self.at == At::Code
    }
}

/// All tags of the Rust files of the tree.
pub(crate) fn read(tree: &Tree) -> Vec<Tag> {
    let mut tags = Vec::new();
    for file in tree.ending(".rs") {
        // Most files have none: spare the lexer.
        if file.text.contains("//=") {
            of_source(&Source::new(file), &mut tags);
        }
    }
    tags
}

fn of_source(source: &Source<'_>, tags: &mut Vec<Tag>) {
    let mut start = 0;
    for line in source.comments.split_inclusive('\n') {
        let position = start + line.len() - line.trim_start().len();
        start += line.len();
        let Some(ids) = line.trim().strip_prefix("//=") else { continue };
        let at = if source.is_in_test_function(position) {
            At::Test
        } else if source.is_test(position) {
            At::Nowhere
        } else {
            At::Code
        };
        let ids = ids.split([' ', ',']).filter(|id| !id.is_empty());
        tags.extend(ids.map(|id| Tag {
            id: id.to_owned(),
            at,
            path: source.path.to_owned(),
            line: source.line(position),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    fn tags(path: &str, text: &str) -> Vec<(String, At, usize)> {
        let tags = read(&tree(&[(path, text)]));
        tags.into_iter().map(|tag| (tag.id, tag.at, tag.line)).collect()
    }

    #[test]
    fn a_tag_stands_at_code_or_in_a_test() {
        let text = "//= M-1
fn a() {}
#[cfg(test)]
mod tests {
    #[test]
    fn b() {
        //= M-2
    }
    //= M-3
    fn c() {}
    //= M-4
    #[test]
    fn d() {}
}
";
        let want = [
            ("M-1".to_owned(), At::Code, 1),
            ("M-2".to_owned(), At::Test, 7),
            ("M-3".to_owned(), At::Nowhere, 9),
            ("M-4".to_owned(), At::Test, 11),
        ];
        assert_eq!(tags("src/a.rs", text), want);
    }

    #[test]
    fn only_test_functions_count_in_test_files() {
        assert_eq!(tags("tests/a.rs", "//= M-1\nfn helper() {}")[0].1, At::Nowhere);
        assert_eq!(tags("tests/a.rs", "#[test]\nfn a() {\n//= M-1\n}")[0].1, At::Test);
    }

    #[test]
    fn a_line_may_hold_several_and_other_text_holds_none() {
        let text = "//= M-1, M-2\nlet x = \"//= M-3\";\n// not `//= M-4`";
        let found = tags("src/a.rs", text);
        assert_eq!(found.iter().map(|tag| tag.0.as_str()).collect::<Vec<_>>(), ["M-1", "M-2"]);
    }
}
