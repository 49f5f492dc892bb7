//! The rules of the house that neither the compiler nor clippy knows, each a small function
//! with tests that prove it bites.
//!
//! Owns: what a finding is and which rules run. Does not know: how to mend anything.

mod crates;
mod edges;
mod headers;
mod leftovers;
mod links;
mod manifests;
mod purity;
mod rooms;
mod shape;
mod unsafety;

use std::fmt;

use anyhow::{Result, bail};

use crate::source::Source;
use crate::tree::Tree;

/// One place that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    message: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Rules about one Rust file.
const SOURCE_RULES: [fn(&Source<'_>, &mut Vec<Finding>); 9] = [
    headers::opens_with_its_duty,
    headers::crate_root_forbids_unsafe,
    leftovers::unfinished_code,
    leftovers::ignored_tests,
    leftovers::unreasoned_exceptions,
    purity::pure_rooms,
    purity::tokio_stays_outside,
    shape::file_size,
    unsafety::unsafe_has_its_place_and_reason,
];

/// Rules about the tree as a whole, or about files that are not Rust.
const TREE_RULES: [fn(&Tree, &mut Vec<Finding>); 6] = [
    edges::allowed_edges,
    leftovers::marks_name_their_issue,
    links::links_resolve,
    manifests::inherit_from_the_workspace,
    shape::columns_and_blanks,
    shape::no_machine_paths,
];

/// Everything found in `tree`, sorted by place.
fn findings(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.ending(".rs") {
        let source = Source::new(file);
        for rule in SOURCE_RULES {
            rule(&source, &mut found);
        }
    }
    for rule in TREE_RULES {
        rule(tree, &mut found);
    }
    found.sort();
    found
}

/// Prints every finding; any is an error.
pub(crate) fn tidy(tree: &Tree) -> Result<()> {
    let mut found = findings(tree);
    let crates = crates::licences_and_duplicates(tree, &mut found);
    for finding in &found {
        println!("{finding}");
    }
    crates?;
    if !found.is_empty() {
        bail!("tidy: {} findings", found.len());
    }
    println!("tidy: {} files keep the rules", tree.files().len());
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::source::tests::file;
    use crate::tree;

    /// The lines at which a rule bites in a file of this path and text.
    pub(crate) fn lines(
        rule: fn(&Source<'_>, &mut Vec<Finding>),
        path: &str,
        text: &str,
    ) -> Vec<usize> {
        let mut found = Vec::new();
        rule(&Source::new(&file(path, text)), &mut found);
        found.into_iter().map(|finding| finding.line).collect()
    }

    /// What a rule finds in a tree of these files.
    pub(crate) fn places(
        rule: fn(&Tree, &mut Vec<Finding>),
        files: &[(&str, &str)],
    ) -> Vec<String> {
        let mut found = Vec::new();
        rule(&tree::tests::tree(files), &mut found);
        found.iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
    }

    #[test]
    fn this_tree_keeps_the_rules() {
        let tree = Tree::read(&tree::root().unwrap()).unwrap();
        let found: Vec<_> = findings(&tree).iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "\n{}", found.join("\n"));
    }
}
