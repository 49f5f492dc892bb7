//! What is said about the statements and their tags.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::statements::{Side, Statement, Statements};
use super::tags::{At, Tag};

/// Where the broker is tested from outside: only there a test shows what it answers a client that
/// breaks a statement.
const ANSWERS: &str = "mqtt/broker/tests/";

/// Counts for one specification.
#[derive(Debug, Default, PartialEq, Eq)]
struct Row {
    statements: usize,
    code: usize,
    test: usize,
    both: usize,
}

/// The outcome.
#[derive(Debug)]
pub(super) struct Report {
    rows: BTreeMap<(String, &'static str), Row>,
    excused: usize,
    unseen: usize,
    /// Statements, and cases of the broker, with what they lack.
    pub(super) missing: Vec<String>,
    /// Other cases without a test; each comes with its part.
    pub(super) untested: Vec<String>,
    /// Tags and exceptions that are wrong.
    pub(super) errors: Vec<String>,
}

impl Report {
    pub(super) fn new(statements: &Statements, tags: &[Tag]) -> Self {
        let ids = |at| -> BTreeSet<&str> {
            tags.iter().filter(|tag| tag.at == at).map(|tag| tag.id.as_str()).collect()
        };
        let (code, test) = (ids(At::Code), ids(At::Test));
        let answers: BTreeSet<&str> = tags
            .iter()
            .filter(|tag| tag.at == At::Test && tag.path.starts_with(ANSWERS))
            .map(|tag| tag.id.as_str())
            .collect();
        let mut report = Self {
            rows: BTreeMap::new(),
            excused: statements.excused.len(),
            unseen: statements.unseen.len(),
            missing: Vec::new(),
            untested: Vec::new(),
            errors: errors(statements, tags),
        };
        for (id, statement) in &statements.all {
            let has = (code.contains(id.as_str()), test.contains(id.as_str()));
            report.count(id, statement, has);
            let answered = answers.contains(id.as_str());
            let Some(lack) = lack(statement, has, answered) else {
                for reasons in [&statements.excused, &statements.unseen] {
                    if reasons.contains_key(id) {
                        report.errors.push(format!("{id} lacks nothing and needs no reason"));
                    }
                }
                continue;
            };
            if !statements.excused.contains_key(id) && !statements.unseen.contains_key(id) {
                let line = format!("{id:<20} {lack:<13} {}", short(&statement.text));
                let list = match statement.side {
                    Side::Case if !is_of_the_broker(id) => &mut report.untested,
                    _ => &mut report.missing,
                };
                list.push(line);
            }
        }
        report
    }

    fn count(&mut self, id: &str, statement: &Statement, (code, test): (bool, bool)) {
        let (document, side) = match statement.side {
            Side::Client => (document(id), "client"),
            Side::Server => (document(id), "server"),
            Side::Both => (document(id), "both"),
            Side::Case => ("cases", ""),
        };
        let row = self.rows.entry((document.to_owned(), side)).or_default();
        row.statements += 1;
        row.code += usize::from(code);
        row.test += usize::from(test);
        row.both += usize::from(code && test);
    }
}

/// The head of a text, up to where a case begins to tell its bytes.
fn short(text: &str) -> &str {
    text.split(" || ").next().unwrap_or(text)
}

/// Cases of brokers (B) and of their logs (W) are of parts that are there.
fn is_of_the_broker(id: &str) -> bool {
    id.starts_with(['B', 'W'])
}

/// `MQTT5` of `MQTT5-3.3.4-7`.
fn document(id: &str) -> &str {
    id.split('-').next().unwrap_or(id)
}

/// What a statement still needs. One that binds clients alone: a test of the broker's answer to a
/// breach.
fn lack(statement: &Statement, has: (bool, bool), answered: bool) -> Option<&'static str> {
    match (statement.side, has) {
        (Side::Client, _) => (!answered).then_some("answer"),
        (_, (true, true)) | (Side::Case, (_, true)) => None,
        (Side::Case, _) | (_, (true, false)) => Some("test"),
        (_, (false, true)) => Some("code"),
        (_, (false, false)) => Some("code and test"),
    }
}

fn errors(statements: &Statements, tags: &[Tag]) -> Vec<String> {
    let mut errors = Vec::new();
    for Tag { id, at, path, line } in tags {
        if !statements.all.contains_key(id) {
            errors.push(format!("{path}:{line}: no such statement: {id}"));
        } else if *at == At::Nowhere {
            errors.push(format!("{path}:{line}: {id} in test code, but in no test function"));
        }
    }
    errors
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{:<10} {:<7} {:>10} {:>6} {:>6} {:>6}",
            "spec", "side", "statements", "code", "test", "both"
        )?;
        for ((document, side), Row { statements, code, test, both }) in &self.rows {
            writeln!(
                out,
                "{document:<10} {side:<7} {statements:>10} {code:>6} {test:>6} {both:>6}"
            )?;
        }
        let (missing, cases) = (self.missing.len(), self.untested.len());
        writeln!(
            out,
            "{missing} statements lack a tag, {cases} cases a test, {} are excused; {} of clients \
             are such as no server sees",
            self.excused, self.unseen
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(excused: &[&str]) -> Statements {
        let mut statements = Statements::default();
        for (id, side) in [
            ("M-1", Side::Server),
            ("M-2", Side::Both),
            ("M-3", Side::Client),
            ("B01", Side::Case),
            ("C01", Side::Case),
        ] {
            statements.all.insert(id.to_owned(), Statement { side, text: "x".to_owned() });
        }
        for id in excused {
            statements.excused.insert((*id).to_owned(), "why".to_owned());
        }
        statements.unseen.insert("M-3".to_owned(), "why".to_owned());
        statements
    }

    fn tag(id: &str, at: At) -> Tag {
        Tag { id: id.to_owned(), at, path: "a.rs".to_owned(), line: 1 }
    }

    fn missing(excused: &[&str], tags: &[Tag]) -> Vec<String> {
        let report = Report::new(&statements(excused), tags);
        assert_eq!(report.errors, Vec::<String>::new());
        let words = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(report.untested.len(), 1, "a client's case is of a part that is not there");
        report.missing.iter().map(words).collect()
    }

    #[test]
    fn what_binds_the_server_needs_code_and_test_and_a_case_a_test() {
        let tags = [tag("M-1", At::Code), tag("M-2", At::Test)];
        assert_eq!(missing(&[], &tags), ["B01 test x", "M-1 test x", "M-2 code x"]);
        let tags = [tag("M-1", At::Code), tag("M-1", At::Test), tag("B01", At::Test)];
        assert_eq!(missing(&[], &tags), ["M-2 code and test x"]);
        assert!(missing(&["M-2"], &tags).is_empty());
    }

    #[test]
    fn what_binds_clients_needs_a_test_of_the_brokers_answer_if_it_can_be_seen() {
        let mut seen = statements(&["M-1", "M-2", "B01"]);
        seen.unseen.clear();
        let in_codec = tag("M-3", At::Test);
        let missing = Report::new(&seen, &[in_codec]).missing;
        assert_eq!(missing.len(), 1);
        assert!(missing[0].contains("answer"), "{missing:?}");
        let answer = Tag { path: format!("{ANSWERS}a.rs"), ..tag("M-3", At::Test) };
        let report = Report::new(&seen, std::slice::from_ref(&answer));
        assert!(report.missing.is_empty() && report.errors.is_empty(), "{report:?}");
        let report = Report::new(&statements(&["M-1", "M-2", "B01"]), &[answer]);
        assert_eq!(report.errors.len(), 1, "{report:?}");
    }

    #[test]
    fn unknown_and_misplaced_tags_are_errors() {
        let tags = [tag("M-9", At::Code), tag("M-1", At::Nowhere)];
        assert_eq!(Report::new(&statements(&[]), &tags).errors.len(), 2);
    }

    #[test]
    fn an_exception_that_is_not_needed_is_an_error() {
        let tags = [tag("M-1", At::Code), tag("M-1", At::Test)];
        assert_eq!(Report::new(&statements(&["M-1"]), &tags).errors.len(), 1);
    }

    #[test]
    fn rows_count_each_side() {
        let report = Report::new(&statements(&[]), &[tag("M-1", At::Code), tag("M-1", At::Code)]);
        let row = &report.rows[&("M".to_owned(), "server")];
        assert_eq!(*row, Row { statements: 1, code: 1, test: 0, both: 0 });
    }
}
