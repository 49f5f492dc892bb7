//! Where a test function is: which command runs it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use crate::source::Source;
use crate::spec::Tag;
use crate::tree::Tree;

/// One test function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Test {
    pub(super) package: Package,
    pub(super) target: Target,
    pub(super) name: String,
}

/// One crate, with what its tests need switched on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) features: Vec<String>,
}

/// What it is built as part of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Library,
    /// An integration test of this name.
    Alone(String),
}

/// Features that break what the crate does, for others to notice: with them its tests fail, and
/// without all others some of its tests are not there.
const BREAKING: [&str; 2] = ["negative-controls", "planted-bugs"];

/// Tests by the statement that they are for. Those of tools take long, and are left out.
pub(super) fn of_statements(tree: &Tree, tags: &[Tag]) -> Result<BTreeMap<String, Vec<Test>>> {
    let mut tests: BTreeMap<String, Vec<Test>> = BTreeMap::new();
    for tag in tags.iter().filter(|tag| tag.is_test() && !tag.path.starts_with("tools/")) {
        let Some((home, inside)) = crate_of(tree, &tag.path) else { continue };
        let Some(target) = target(tree, home, inside) else { continue };
        let source = tree.file(&tag.path).map(Source::new);
        let name = source.as_ref().and_then(|source| source.test_at_line(tag.line));
        // A test whose name is given to a macro has none here, and would stand for all.
        let Some(name) = name.filter(|name| !name.is_empty()) else { continue };
        let test = Test { package: package(tree, home)?, target, name: name.to_owned() };
        let known = tests.entry(tag.id.clone()).or_default();
        if !known.contains(&test) {
            known.push(test);
        }
    }
    Ok(tests)
}

/// The folder of the crate that a file is part of, and the rest of its path.
fn crate_of<'p>(tree: &Tree, path: &'p str) -> Option<(&'p str, &'p str)> {
    let mut folder = path;
    while let Some((above, _)) = folder.rsplit_once('/') {
        if tree.contains(&format!("{above}/Cargo.toml")) {
            return Some((above, &path[above.len() + 1..]));
        }
        folder = above;
    }
    None
}

fn target(tree: &Tree, home: &str, inside: &str) -> Option<Target> {
    if let Some(rest) = inside.strip_prefix("tests/") {
        let name = rest.split('/').next()?.trim_end_matches(".rs");
        let is_there = tree.contains(&format!("{home}/tests/{name}.rs"));
        return is_there.then(|| Target::Alone(name.to_owned()));
    }
    (inside.starts_with("src/") && !inside.starts_with("src/bin/")).then_some(Target::Library)
}

fn package(tree: &Tree, home: &str) -> Result<Package> {
    let path = format!("{home}/Cargo.toml");
    let manifest = tree.file(&path).with_context(|| format!("no {path}"))?;
    let manifest: toml::Table = manifest.text.parse().with_context(|| path.clone())?;
    let name = manifest.get("package").and_then(|package| package.get("name"));
    let name = name.and_then(toml::Value::as_str).with_context(|| format!("{path} has no name"))?;
    let features = manifest.get("features").and_then(toml::Value::as_table);
    let features = features.into_iter().flat_map(toml::Table::keys);
    let features = features.filter(|feature| !BREAKING.contains(&feature.as_str())).cloned();
    Ok(Package { name: name.to_owned(), features: features.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;
    use crate::tree::tests::tree;

    #[test]
    fn a_test_is_found_in_its_library_or_in_its_own_file() {
        let manifest = "[package]\nname = \"a-b\"\n[features]\nnegative-controls = []\nx = []\n";
        let test = |name| format!("#[test]\nfn {name}() {{\n    //= M-1\n}}\n");
        let inside = format!("#[cfg(test)]\nmod tests {{\n{}}}", test("in_library"));
        let files = [
            ("a/b/Cargo.toml", manifest),
            ("a/b/src/x/y.rs", &inside),
            ("a/b/tests/alone.rs", &test("alone")),
            ("a/b/tests/alone/more.rs", &test("more")),
            ("a/b/tests/support/mod.rs", &test("of_none")),
            ("tools/t/Cargo.toml", manifest),
            ("tools/t/tests/slow.rs", &test("slow")),
        ];
        let tree = tree(&files);
        let tests = of_statements(&tree, &spec::tags(&tree)).unwrap();
        let package = || Package { name: "a-b".into(), features: vec!["x".into()] };
        let found = |target, name: &str| Test { package: package(), target, name: name.into() };
        let alone = || Target::Alone("alone".into());
        let want =
            [found(Target::Library, "in_library"), found(alone(), "alone"), found(alone(), "more")];
        assert_eq!(tests["M-1"], want);
    }
}
