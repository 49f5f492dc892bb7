//! The statements: `doc/spec/*-normative.tsv`, the cases of `cases.tsv`, the exceptions, and what
//! of clients no server can see.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};

use crate::tree::{File, Tree};

const CASES: &str = "doc/spec/cases.tsv";
const EXCEPTIONS: &str = "doc/spec/exceptions.tsv";
const UNSEEN: &str = "doc/spec/unseen.tsv";
/// More exceptions than this are a specification that is not met.
const EXCEPTIONS_MAX: usize = 15;

/// Who a statement binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
    Both,
    /// A fault once seen somewhere, which must not be seen here. A test is owed, code is not.
    Case,
}

/// One statement.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) side: Side,
    pub(super) text: String,
}

/// All statements by identifier, those excused with the reason, and those of clients whose breach
/// no server can see, with the reason.
#[derive(Debug, Default)]
pub(super) struct Statements {
    pub(super) all: BTreeMap<String, Statement>,
    pub(super) excused: BTreeMap<String, String>,
    pub(super) unseen: BTreeMap<String, String>,
}

/// Reads the lists of the tree.
pub(super) fn read(tree: &Tree) -> Result<Statements> {
    let mut statements = Statements::default();
    for file in tree.ending("-normative.tsv").filter(|file| file.path.starts_with("doc/spec/")) {
        for (line, [id, side, text]) in rows(file)? {
            let side = match side {
                "client" => Side::Client,
                "server" => Side::Server,
                "both" => Side::Both,
                other => bail!("{}:{line}: no such side: {other}", file.path),
            };
            add(&mut statements, file, line, id, Statement { side, text: text.to_owned() })?;
        }
    }
    if let Some(file) = tree.file(CASES) {
        for (line, [id, _, text]) in rows(file)? {
            let statement = Statement { side: Side::Case, text: text.to_owned() };
            add(&mut statements, file, line, id, statement)?;
        }
    }
    if let Some(file) = tree.file(EXCEPTIONS) {
        exceptions(file, &mut statements)?;
    }
    if let Some(file) = tree.file(UNSEEN) {
        unseen(file, &mut statements)?;
    }
    Ok(statements)
}

fn add(
    statements: &mut Statements,
    file: &File,
    line: usize,
    id: &str,
    statement: Statement,
) -> Result<()> {
    if statements.all.insert(id.to_owned(), statement).is_some() {
        bail!("{}:{line}: {id} stands twice", file.path);
    }
    Ok(())
}

fn exceptions(file: &File, statements: &mut Statements) -> Result<()> {
    for (line, [id, reason]) in rows(file)? {
        let excused = reasoned(file, line, &statements.all, id, reason)?;
        statements.excused.insert(id.to_owned(), excused);
    }
    if statements.excused.len() > EXCEPTIONS_MAX {
        bail!("{}: more than {EXCEPTIONS_MAX} exceptions", file.path);
    }
    Ok(())
}

fn unseen(file: &File, statements: &mut Statements) -> Result<()> {
    for (line, [id, reason]) in rows(file)? {
        let unseen = reasoned(file, line, &statements.all, id, reason)?;
        if statements.all[id].side != Side::Client {
            bail!("{}:{line}: {id} binds more than clients", file.path);
        }
        statements.unseen.insert(id.to_owned(), unseen);
    }
    Ok(())
}

/// The reason that a list gives for a statement.
fn reasoned(
    file: &File,
    line: usize,
    all: &BTreeMap<String, Statement>,
    id: &str,
    reason: &str,
) -> Result<String> {
    if !all.contains_key(id) {
        bail!("{}:{line}: no such statement: {id}", file.path);
    }
    if reason.trim().is_empty() {
        bail!("{}:{line}: {id} without a reason", file.path);
    }
    Ok(reason.to_owned())
}

/// The rows below the header, each with its line and its first `N` columns.
fn rows<const N: usize>(file: &File) -> Result<Vec<(usize, [&str; N])>> {
    let mut rows = Vec::new();
    for (at, line) in file.text.lines().enumerate().skip(1).filter(|(_, line)| !line.is_empty()) {
        let mut columns = line.split('\t');
        let mut row = [""; N];
        for column in &mut row {
            let place = || format!("{}:{}: fewer than {N} columns", file.path, at + 1);
            *column = columns.next().with_context(place)?;
        }
        rows.push((at + 1, row));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::tree;

    const LIST: &str = "id\tside\tparaphrase\nM-1\tserver\tanswers\nM-2\tclient\tasks\n";

    fn with(path: &str, text: &str) -> Result<Statements> {
        read(&tree(&[("doc/spec/a-normative.tsv", LIST), (path, text)]))
    }

    #[test]
    fn statements_have_a_side() {
        let statements = with("doc/a.md", "").unwrap();
        assert_eq!(statements.all["M-1"].side, Side::Server);
        assert_eq!(statements.all["M-2"].text, "asks");
        assert!(with("doc/spec/b-normative.tsv", "id\nM-3\tnobody\tx\n").is_err());
        assert!(with("doc/spec/b-normative.tsv", "id\nM-1\tboth\tx\n").is_err());
    }

    #[test]
    fn an_exception_names_a_statement_and_a_reason() {
        let excused = with(EXCEPTIONS, "id\treason\nM-1\tno such packet\n").unwrap().excused;
        assert_eq!(excused["M-1"], "no such packet");
        assert!(with(EXCEPTIONS, "id\treason\nM-9\tx\n").is_err());
        assert!(with(EXCEPTIONS, "id\treason\nM-1\t \n").is_err());
        assert!(with(EXCEPTIONS, "id\treason\nM-1\n").is_err());
    }

    #[test]
    fn what_no_server_sees_binds_clients_and_has_a_reason() {
        let unseen = with(UNSEEN, "id\treason\nM-2\tits own memory\n").unwrap().unseen;
        assert_eq!(unseen["M-2"], "its own memory");
        for bad in ["M-1\tit binds the server", "M-9\tx", "M-2\t", "M-2"] {
            assert!(with(UNSEEN, &format!("id\treason\n{bad}\n")).is_err(), "{bad}");
        }
    }

    #[test]
    fn exceptions_are_few() {
        let lines = |line: fn(usize) -> String| (0..=EXCEPTIONS_MAX).map(line).collect::<String>();
        let list = lines(|id| format!("\nN-{id}\tboth\tx"));
        let excused = lines(|id| format!("\nN-{id}\twhy"));
        let files = [("doc/spec/b-normative.tsv", list.as_str()), (EXCEPTIONS, &excused)];
        assert!(read(&tree(&files)).is_err());
    }
}
