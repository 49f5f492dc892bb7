//! The fields of lines in JSON as a page of the documentation lists them.
//!
//! Owns: reading that table, and the names that a line has. Only for tests; those of the other
//! tools take this file as it is.

use std::collections::BTreeSet;

use serde_json::Value;

/// Of the tool beside this file.
#[allow(dead_code, reason = "other tools have pages of their own")]
pub(crate) const PAGE: &str = include_str!("../../../doc/journal.md");
const HEADING: &str = "\n## Lines of `--json`\n";

/// The fields of this line in the page: names in backquotes, in the second column of its rows.
pub(crate) fn documented(page: &str, line: &str) -> BTreeSet<String> {
    let (_, section) = page.split_once(HEADING).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut names = BTreeSet::new();
    for row in section.lines() {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, of, fields, ..] = cells[..] else { continue };
        if of == format!("`{line}`") {
            let fields = fields.split(", ").map(|field| field.trim_matches('`').to_owned());
            for field in fields {
                assert!(names.insert(field.clone()), "{line}: {field} is there twice");
            }
        }
    }
    names
}

/// The names in an object, but for `type`; those in a list of objects behind the list's own.
pub(crate) fn printed(line: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (name, value) in line.as_object().unwrap() {
        if name == "type" {
            continue;
        }
        names.insert(name.clone());
        for item in value.as_array().into_iter().flatten().filter_map(Value::as_object) {
            names.extend(item.keys().map(|inner| format!("{name}[].{inner}")));
        }
    }
    names
}
