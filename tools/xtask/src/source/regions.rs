//! Which bytes of a file are tests.

use std::ops::Range;

use super::{behind_block, is_identifier};

/// Regions compiled for tests only: the whole of a test file, or items under `#[cfg(test)]` and
/// test functions.
pub(super) fn tests(path: &str, code: &str) -> Vec<Range<usize>> {
    if is_test_file(path) {
        return std::iter::once(0..code.len()).collect();
    }
    let mut regions = Vec::new();
    for attribute in attributes(code) {
        let text = &code[attribute.clone()];
        if is_test_attribute(text) || is_test_configuration(text) {
            regions.push(attribute.start..item_end(code, attribute.end));
        }
    }
    regions
}

/// Regions of test functions, each with the comments and attributes on top of it.
pub(super) fn test_functions(text: &str, code: &str) -> Vec<Range<usize>> {
    let attributes = attributes(code).into_iter();
    let tests = attributes.filter(|attribute| is_test_attribute(&code[attribute.clone()]));
    tests.map(|test| top_of(text, test.start)..item_end(code, test.end)).collect()
}

/// Tests, benches and examples: nothing of theirs is in the product.
fn is_test_file(path: &str) -> bool {
    let mut folders = path.split('/').rev();
    let name = folders.next().unwrap_or_default();
    name == "tests.rs"
        || folders.any(|folder| matches!(folder, "tests" | "benches" | "examples"))
            && !path.starts_with("benches/src/")
}

/// Outer attributes, `#[` to `]`.
fn attributes(code: &str) -> Vec<Range<usize>> {
    let opens = code.match_indices("#[").map(|(at, _)| at);
    opens.filter_map(|at| Some(at..behind_block(code, at, b'[', b']')?)).collect()
}

/// `#[test]`, `#[tokio::test(..)]` and their like.
fn is_test_attribute(attribute: &str) -> bool {
    let inside = attribute.trim_start_matches("#[").trim_end_matches(']').trim();
    let path = inside.split('(').next().unwrap_or_default().trim();
    path.rsplit("::").next() == Some("test")
}

/// `#[cfg(test)]` and `#[cfg(all(test, ..))]`, not `#[cfg(not(test))]`.
fn is_test_configuration(attribute: &str) -> bool {
    let packed: String = attribute.split_whitespace().collect();
    packed == "#[cfg(test)]" || packed.starts_with("#[cfg(all(test,")
}

/// The end of the item whose attributes end at `from`: a `;` or the end of its block.
fn item_end(code: &str, from: usize) -> usize {
    let bytes = code.as_bytes();
    let (mut at, mut depth) = (from, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth = depth.saturating_sub(1),
            b';' if depth == 0 => return at + 1,
            b'{' => return behind_block(code, at, b'{', b'}').unwrap_or(bytes.len()),
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// Goes up from a line over lines that are attributes or comments.
fn top_of(text: &str, at: usize) -> usize {
    let mut top = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    while top > 0 {
        let above = text[..top - 1].rfind('\n').map_or(0, |newline| newline + 1);
        let line = text[above..top].trim();
        if !line.starts_with("//") && !line.starts_with("#[") {
            break;
        }
        top = above;
    }
    assert!(top <= at && text.as_bytes().get(at).is_none_or(|&byte| !is_identifier(byte)));
    top
}

#[cfg(test)]
mod tests {
    use super::super::Source;
    use super::super::tests::file;

    #[test]
    fn a_test_module_is_a_region_and_what_follows_is_not() {
        let file = file("src/a.rs", "fn a() {}\n#[cfg(test)]\nmod t { fn b() {} }\nfn c() {}");
        let source = Source::new(&file);
        let at = |needle| file.text.find(needle).unwrap();
        assert!(!source.is_test(at("fn a")));
        assert!(source.is_test(at("fn b")));
        assert!(!source.is_test(at("fn c")));
        assert!(!source.is_in_test_function(at("fn b")));
    }

    #[test]
    fn a_gated_declaration_ends_at_its_semicolon() {
        let file = file("src/a.rs", "#[cfg(test)]\nmod tests;\nfn c() {}");
        assert!(!Source::new(&file).is_test(file.text.find("fn c").unwrap()));
    }

    #[test]
    fn code_for_other_builds_is_no_test() {
        let file = file("src/a.rs", "#[cfg(not(test))]\nfn c() {}");
        assert!(!Source::new(&file).is_test(file.text.find("fn c").unwrap()));
    }

    #[test]
    fn files_of_tests_are_tests_from_end_to_end() {
        for path in [
            "src/x/tests.rs",
            "wal/tests/a.rs",
            "src/x/tests/a.rs",
            "mqtt/codec/benches/a.rs",
            "wal/examples/a.rs",
        ] {
            let file = file(path, "fn a() {}");
            assert!(Source::new(&file).is_test(0), "{path}");
        }
        let file = file("benches/src/load.rs", "fn a() {}");
        assert!(!Source::new(&file).is_test(0));
    }

    #[test]
    fn a_test_function_takes_what_stands_on_top_of_it() {
        let text = "fn a() {}\n\n// one\n#[test]\n#[should_panic]\nfn b() { inside() }\nfn c() {}";
        let file = file("tests/a.rs", text);
        let source = Source::new(&file);
        let at = |needle| text.find(needle).unwrap();
        assert!(source.is_in_test_function(at("// one")));
        assert!(source.is_in_test_function(at("inside")));
        assert!(!source.is_in_test_function(at("fn a")));
        assert!(!source.is_in_test_function(at("fn c")));
    }

    #[test]
    fn property_tests_and_async_tests_are_test_functions() {
        for text in [
            "proptest! { #[test] fn a(x in 0..3_u8) { inside(x) } }",
            "#[tokio::test(flavor = \"current_thread\")] async fn a() { inside() }",
        ] {
            let file = file("src/a.rs", text);
            let source = Source::new(&file);
            assert!(source.is_in_test_function(text.find("inside").unwrap()), "{text}");
        }
    }
}
