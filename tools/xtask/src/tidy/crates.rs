//! The crates of others: their licences and how often each is built, by the lists of
//! `deny.toml`, which cargo-deny reads too.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::Finding;
use crate::run;
use crate::tree::Tree;

/// The list of lists.
const LISTS: &str = "deny.toml";

/// Each crate is under a licence that is allowed, and is built in one version only.
pub(super) fn licences_and_duplicates(tree: &Tree, found: &mut Vec<Finding>) -> Result<()> {
    let lists = tree.file(LISTS).context("deny.toml is missing")?;
    let lists: toml::Table = lists.text.parse()?;
    let line = ["cargo", "metadata", "--format-version=1", "--locked"];
    let mut command = run::program(tree.root(), &line);
    command.arg("--filter-platform=x86_64-unknown-linux-gnu");
    let (json, _) = run::capture(command)?;
    let metadata: Value = serde_json::from_str(&json)?;
    let packages = packages(&metadata);
    licences(&packages, &strings(&lists, "licenses", "allow"), found);
    duplicates(&packages, &strings(&lists, "bans", "skip"), found);
    Ok(())
}

/// What the rules ask of a crate.
#[derive(Debug)]
struct Package {
    name: String,
    version: String,
    licence: String,
}

/// The crates that are built on the platform asked for.
fn packages(metadata: &Value) -> Vec<Package> {
    let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let built: Vec<_> = nodes.filter_map(|node| node["id"].as_str()).collect();
    let all = metadata["packages"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.filter(|package| package["id"].as_str().is_some_and(|id| built.contains(&id)))
        .map(|package| Package {
            name: text(&package["name"]),
            version: text(&package["version"]),
            licence: text(&package["license"]),
        })
        .collect()
}

/// The strings of `[table] key`.
fn strings(lists: &toml::Table, table: &str, key: &str) -> Vec<String> {
    let list = lists.get(table).and_then(|table| table.get(key)).and_then(toml::Value::as_array);
    list.into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

fn licences(packages: &[Package], allowed: &[String], found: &mut Vec<Finding>) {
    for package in packages.iter().filter(|package| !is_allowed(&package.licence, allowed)) {
        let Package { name, version, licence } = package;
        let message = format!("{name} {version} is under '{licence}', which is not allowed");
        found.push(Finding::new(LISTS, 1, message));
    }
}

/// Whether an SPDX expression can be met by allowed licences alone.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    // `A/B` is how `A OR B` was once written.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    any_of(&mut rest, allowed) && rest.is_empty()
}

fn any_of(rest: &mut &[&str], allowed: &[String]) -> bool {
    let mut met = all_of(rest, allowed);
    while let [word, behind @ ..] = rest
        && *word == "OR"
    {
        *rest = behind;
        met |= all_of(rest, allowed);
    }
    met
}

fn all_of(rest: &mut &[&str], allowed: &[String]) -> bool {
    let mut met = one(rest, allowed);
    while let [word, behind @ ..] = rest
        && *word == "AND"
    {
        *rest = behind;
        met &= one(rest, allowed);
    }
    met
}

fn one(rest: &mut &[&str], allowed: &[String]) -> bool {
    match *rest {
        ["(", behind @ ..] => {
            *rest = behind;
            let met = any_of(rest, allowed);
            let closed = rest.first() == Some(&")");
            *rest = rest.get(1..).unwrap_or_default();
            met && closed
        }
        // An exception adds permissions: the licence alone decides.
        [name, "WITH", _, behind @ ..] | [name, behind @ ..] => {
            *rest = behind;
            allowed.iter().any(|allowed| allowed == name)
        }
        [] => false,
    }
}

fn duplicates(packages: &[Package], skipped: &[String], found: &mut Vec<Finding>) {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let excused = |version: &&str| skipped.iter().any(|spec| fits(spec, name, version));
        if versions.iter().filter(|version| !excused(version)).count() > 1 {
            let message = format!("{name} is built in versions {}", versions.join(" and "));
            found.push(Finding::new(LISTS, 1, message));
        }
    }
}

/// Whether `name@version` is this crate; the version may be cut off behind a dot.
fn fits(spec: &str, name: &str, version: &str) -> bool {
    let rest = spec.strip_prefix(name).and_then(|rest| rest.strip_prefix('@'));
    let rest = rest.and_then(|wanted| version.strip_prefix(wanted));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, licence: &str) -> Package {
        let owned = str::to_owned;
        Package { name: owned(name), version: owned(version), licence: owned(licence) }
    }

    fn allows(expression: &str) -> bool {
        is_allowed(expression, &["MIT".to_owned(), "ISC".to_owned()])
    }

    #[test]
    fn a_licence_must_be_met_by_allowed_ones() {
        for good in ["MIT", "GPL-3.0 OR MIT", "Apache-2.0/MIT", "MIT AND ISC", "(X OR MIT) AND ISC"]
        {
            assert!(allows(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR X) AND X", "(MIT", "MIT ISC"] {
            assert!(!allows(bad), "{bad}");
        }
        assert!(allows("MIT WITH LLVM-exception"));
    }

    #[test]
    fn a_crate_under_another_licence_is_found() {
        let packages = [package("a", "1.0.0", "MIT"), package("b", "1.0.0", "GPL-3.0")];
        let mut found = Vec::new();
        licences(&packages, &["MIT".to_owned()], &mut found);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().contains("b 1.0.0"));
    }

    #[test]
    fn a_crate_built_twice_is_found_unless_one_is_excused() {
        let packages = [package("a", "1.0.0", "MIT"), package("a", "2.0.0", "MIT")];
        let count = |skipped: &[String]| {
            let mut found = Vec::new();
            duplicates(&packages, skipped, &mut found);
            found.len()
        };
        assert_eq!(count(&[]), 1);
        assert_eq!(count(&["a@1.0.0".to_owned()]), 0);
        assert_eq!(count(&["a@1".to_owned()]), 0);
        assert_eq!(count(&["a@3.0.0".to_owned(), "a@1.0.00".to_owned(), "aa@1".to_owned()]), 1);
    }
}
