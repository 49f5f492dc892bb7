//! A function that serves a statement, its mutants, and the tests of that statement.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::witness::{self, Test};
use crate::source::Source;
use crate::spec;
use crate::tree::Tree;

/// What is drawn.
#[derive(Debug)]
pub(super) struct Pair {
    /// The statement.
    pub(super) id: String,
    /// The file of the function.
    pub(super) path: String,
    pub(super) mutants: Vec<Mutant>,
    pub(super) tests: Vec<Test>,
}

/// A place in a file, from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// A part of a file and what stands there instead.
#[derive(Clone, Debug)]
pub(super) struct Mutant {
    pub(super) name: String,
    pub(super) from: Place,
    pub(super) to: Place,
    pub(super) instead: String,
    function: (usize, usize),
}

/// What the whole body of a function is replaced by where cargo-mutants knows only the default of a
/// type that has none: by the end of what it returns, the value that says that nothing was done.
const VALUES: [(&str, &str); 9] = [
    ("-> Answered", "Answered::Unknown"),
    ("-> Flow", "Flow::Next"),
    ("-> Handed", "Handed::Over { destinations: 0 }"),
    ("-> Inserted", "Inserted::New"),
    ("-> Next", "Next::Behind"),
    ("-> Outgoing", "Outgoing::Nothing"),
    ("-> Received", "Received::Unknown"),
    ("-> Stop", "Stop::Idle"),
    (", Fault>", "Err(crate::Fault::TooLarge { size: 0, limit: 0 })"),
];

/// All of them, those of tools left out. `list` gives the mutants of files, as JSON.
pub(super) fn pairs(tree: &Tree, list: impl Fn(&[String]) -> Result<String>) -> Result<Vec<Pair>> {
    let tags = spec::tags(tree);
    let tests = witness::of_statements(tree, &tags)?;
    let code = || tags.iter().filter(|tag| tag.is_code() && !tag.path.starts_with("tools/"));
    let mut files: Vec<String> = code().map(|tag| tag.path.clone()).collect();
    files.sort();
    files.dedup();
    let mutants = read(&list(&files)?)?;
    let mut pairs = BTreeMap::new();
    for tag in code() {
        let (Some(tests), Some(file)) = (tests.get(&tag.id), tree.file(&tag.path)) else {
            continue;
        };
        let of_file = mutants.get(&tag.path).map_or(&[][..], Vec::as_slice);
        let Some(line) = Source::new(file).code_below(tag.line) else { continue };
        let mutants = of_function(of_file, line);
        if let Some(first) = mutants.first() {
            let key = (tag.path.clone(), first.function, tag.id.clone());
            let (id, path, tests) = (tag.id.clone(), tag.path.clone(), tests.clone());
            pairs.entry(key).or_insert(Pair { id, path, mutants, tests });
        }
    }
    Ok(pairs.into_values().collect())
}

/// The mutants of the innermost function around a line.
fn of_function(mutants: &[Mutant], line: usize) -> Vec<Mutant> {
    let around = |mutant: &&Mutant| (mutant.function.0..=mutant.function.1).contains(&line);
    let functions = mutants.iter().filter(around).map(|mutant| mutant.function);
    let innermost = functions.min_by_key(|(first, last)| last - first);
    mutants.iter().filter(|mutant| Some(mutant.function) == innermost).cloned().collect()
}

/// Mutants of whole bodies by file: a change within may belong to another statement than the one
/// that is drawn, or to none.
fn read(json: &str) -> Result<BTreeMap<String, Vec<Mutant>>> {
    let list: Value = serde_json::from_str(json).context("the list of cargo-mutants")?;
    let mut mutants: BTreeMap<String, Vec<Mutant>> = BTreeMap::new();
    for mutant in list.as_array().context("no list of mutants")? {
        let text = |key: &str| mutant[key].as_str().with_context(|| format!("no {key}"));
        if text("genre")? != "FnValue" {
            continue;
        }
        let function = &mutant["function"]["span"];
        let function = (place(&function["start"])?.line, place(&function["end"])?.line);
        let (mut name, mut instead) = (text("name")?.to_owned(), text("replacement")?);
        let returned = mutant["function"]["return_type"].as_str().unwrap_or_default();
        let value = VALUES.iter().find(|(end, _)| returned.ends_with(end)).map(|(_, value)| value);
        if let Some(value) = value.filter(|_| instead.contains("Default::default()")) {
            name = name.replace(&format!(" with {instead}"), &format!(" with {value}"));
            instead = value;
        }
        mutants.entry(text("file")?.to_owned()).or_default().push(Mutant {
            name,
            from: place(&mutant["span"]["start"])?,
            to: place(&mutant["span"]["end"])?,
            instead: instead.to_owned(),
            function,
        });
    }
    Ok(mutants)
}

fn place(value: &Value) -> Result<Place> {
    let number = |key: &str| {
        let number = value[key].as_u64().and_then(|number| usize::try_from(number).ok());
        number.with_context(|| format!("no {key} in {value}"))
    };
    Ok(Place { line: number("line")?, column: number("column")? })
}

impl Mutant {
    /// The file with this mutant in it; `None` if it has no such place.
    pub(super) fn apply(&self, text: &str) -> Option<String> {
        let (from, to) = (at(text, self.from)?, at(text, self.to)?);
        let (before, behind) = (text.get(..from)?, text.get(to..)?);
        (from <= to).then(|| format!("{before}{}{behind}", self.instead))
    }
}

/// The byte position of a place.
fn at(text: &str, place: Place) -> Option<usize> {
    let mut starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    let start = starts.nth(place.line.checked_sub(1)?)?;
    let rest = &text[start..];
    let mut columns = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    Some(start + columns.nth(place.column.checked_sub(1)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    const TEXT: &str = "//= M-1
/// One.
fn one() -> bool {
    //= M-2
    let é = 1 < 2;
    é
}
//= M-3
const TWO: u8 = 2;
#[cfg(test)]
mod tests {
    #[test]
    fn a() {
        //= M-1, M-2, M-3
    }
}
";

    fn listed(genre: &str, [line, from, to]: [usize; 3], value: &str, returned: &str) -> String {
        let place = |column| format!("{{\"line\":{line},\"column\":{column}}}");
        let span = format!("{{\"start\":{},\"end\":{}}}", place(from), place(to));
        let function = format!(
            "{{\"return_type\":\"{returned}\",\"span\":{{\"start\":{{\"line\":2,\"column\":1}},\
             \"end\":{{\"line\":7,\"column\":2}}}}}}"
        );
        format!(
            "{{\"name\":\"to {returned} with {value}\",\"file\":\"a/src/a.rs\",\
             \"genre\":\"{genre}\",\"span\":{span},\"replacement\":\"{value}\",\
             \"function\":{function}}}"
        )
    }

    fn found(list: &[String]) -> Vec<Pair> {
        let files = [("a/Cargo.toml", "[package]\nname = \"a\"\n"), ("a/src/a.rs", TEXT)];
        pairs(&tree(&files), |files| {
            assert_eq!(files, ["a/src/a.rs"]);
            Ok(format!("[{}]", list.join(",")))
        })
        .unwrap()
    }

    #[test]
    fn a_function_is_paired_with_each_statement_that_it_serves() {
        let operator = listed("BinaryOperator", [5, 15, 16], "<=", "-> bool");
        let body = listed("FnValue", [6, 5, 6], "true", "-> bool");
        let pairs = found(&[operator, body]);
        let ids: Vec<&str> = pairs.iter().map(|pair| pair.id.as_str()).collect();
        assert_eq!(ids, ["M-1", "M-2"]);
        assert_eq!(pairs[0].tests[0].name, "a");
        assert_eq!(pairs[0].mutants.len(), 1);
        assert_eq!(pairs[0].mutants[0].apply(TEXT).unwrap(), TEXT.replace("    é\n", "    true\n"));
    }

    #[test]
    fn a_type_without_a_default_has_a_value_of_ours() {
        let mutant = |value, returned| {
            let mut pair = found(&[listed("FnValue", [6, 5, 6], value, returned)]).remove(0);
            pair.mutants.remove(0)
        };
        let ours = mutant("Default::default()", "-> Flow");
        assert_eq!(
            (ours.instead.as_str(), ours.name.as_str()),
            ("Flow::Next", "to -> Flow with Flow::Next")
        );
        let ours = mutant("Ok(Default::default())", "-> Result<Packet<'_>, Fault>");
        assert!(ours.instead.starts_with("Err("), "{ours:?}");
        assert_eq!(mutant("Ok(0)", "-> Result<u8, Fault>").instead, "Ok(0)");
        assert_eq!(mutant("Default::default()", "-> Mayflow").instead, "Default::default()");
    }

    #[test]
    fn a_place_that_is_not_there_changes_nothing() {
        let mutant = found(&[listed("FnValue", [99, 1, 2], "x", "")]).remove(0).mutants.remove(0);
        assert_eq!(mutant.apply(TEXT), None);
    }
}
