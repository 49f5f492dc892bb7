//! A copy of the tree in which mutants are built and their tests run: the tree itself stays as it
//! is, and what was built of the copy serves the next mutant. What was built of the tree serves the
//! first: it is copied too, never shared, for cargo takes what a copy left for the tree's own.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use super::pairs::Mutant;
use super::witness::{Package, Target, Test};
use crate::run::{capture, program};
use crate::tree::Tree;

/// How long the tests of one statement may take, in seconds: most take a few.
const PATIENCE: &str = "120";
/// A test that misses what a mutant took away often waits out its own patience: side by side, one
/// patience is over for all of them.
const AT_ONCE: &str = "16";
/// What `timeout` answers when it had to end its command.
const TIMED_OUT: i32 = 124;

/// See the file.
pub(super) struct Work {
    tree: PathBuf,
    built: PathBuf,
    /// Tests that pass without a mutant, by their names with modules.
    good: BTreeMap<Test, Vec<String>>,
}

/// What the tests made of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Unviable,
    Noticed,
    Survived,
}

impl Work {
    /// Copies what has changed since the last time.
    pub(super) fn new(tree: &Tree) -> Result<Self> {
        let home = tree.root().join("target/mutants");
        let work =
            Self { tree: home.join("tree"), built: home.join("target"), good: BTreeMap::new() };
        if !work.built.exists() {
            // One that was broken off is not taken for whole.
            let half = home.join("target.half");
            take_over(&built_of(tree).join("debug"), &half.join("debug"))?;
            std::fs::rename(&half, &work.built)?;
        }
        let mut gone = files(&work.tree)?;
        for file in tree.files() {
            let (from, to) = (tree.root().join(&file.path), work.tree.join(&file.path));
            gone.remove(&to);
            let bytes = std::fs::read(&from)?;
            // A file that stays as it is need not be built again.
            if std::fs::read(&to).ok().as_ref() != Some(&bytes) {
                std::fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
                std::fs::copy(&from, &to).with_context(|| to.display().to_string())?;
            }
        }
        for path in gone {
            std::fs::remove_file(path)?;
        }
        Ok(work)
    }

    /// Builds a mutant and runs tests until one notices it.
    pub(super) fn run(&mut self, path: &str, mutant: &Mutant, tests: &[Test]) -> Result<Outcome> {
        let file = self.tree.join(path);
        let text = std::fs::read_to_string(&file)?;
        let name = &mutant.name;
        let mutated = mutant.apply(&text).with_context(|| format!("no place for {name}"))?;
        for (package, tests) in by_package(tests) {
            self.baseline(package, &tests)?;
            std::fs::write(&file, &mutated)?;
            let outcome = self.look(package, &tests);
            std::fs::write(&file, &text)?;
            match outcome? {
                Outcome::Survived => {}
                outcome => return Ok(outcome),
            }
        }
        Ok(Outcome::Survived)
    }

    /// Tests that fail without a mutant would notice every one.
    fn baseline(&mut self, package: &Package, tests: &[&Test]) -> Result<()> {
        let is_new = |test: &&&Test| !self.good.contains_key(**test);
        let tests: Vec<&Test> = tests.iter().filter(is_new).copied().collect();
        if tests.is_empty() {
            return Ok(());
        }
        ensure!(self.build(package, &tests)?, "{} does not build without a mutant", package.name);
        let mut list = self.cargo_test(&[], package, &tests);
        list.args(["--", "--list", "--format", "terse"]);
        let (listed, _) = capture(list)?;
        for test in &tests {
            let paths = paths_of(&test.name, &listed);
            ensure!(!paths.is_empty(), "{} has no test {}", package.name, test.name);
            self.good.insert((*test).clone(), paths);
        }
        ensure!(self.pass(package, &tests)?, "{} fails without a mutant: {tests:?}", package.name);
        Ok(())
    }

    fn look(&self, package: &Package, tests: &[&Test]) -> Result<Outcome> {
        if !self.build(package, tests)? {
            return Ok(Outcome::Unviable);
        }
        let pass = self.pass(package, tests)?;
        Ok(if pass { Outcome::Survived } else { Outcome::Noticed })
    }

    fn build(&self, package: &Package, tests: &[&Test]) -> Result<bool> {
        let mut command = self.cargo_test(&[], package, tests);
        command.arg("--no-run");
        succeeds(quiet(command))
    }

    /// A test that hangs does not pass.
    fn pass(&self, package: &Package, tests: &[&Test]) -> Result<bool> {
        let mut command = self.cargo_test(&["timeout", PATIENCE], package, tests);
        command.args(["--", "--exact", "--test-threads", AT_ONCE]);
        command.args(tests.iter().filter_map(|test| self.good.get(*test)).flatten());
        succeeds(quiet(command))
    }

    fn cargo_test(&self, before: &[&str], package: &Package, tests: &[&Test]) -> Command {
        let line = [before, &["cargo", "test", "--quiet", "--locked"][..]].concat();
        let mut command = program(&self.tree, &line);
        command.args(["--package", &package.name, "--features", &package.features.join(",")]);
        let targets: BTreeSet<_> = tests.iter().map(|test| &test.target).collect();
        for target in targets {
            match target {
                Target::Alone(name) => command.args(["--test", name]),
                Target::Library => command.arg("--lib"),
            };
        }
        command.env("CARGO_TARGET_DIR", &self.built).env("RUST_BACKTRACE", "0");
        command
    }
}

/// Where what is built of the tree lies.
fn built_of(tree: &Tree) -> PathBuf {
    let elsewhere = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    tree.root().join(elsewhere.unwrap_or_else(|| "target".into()))
}

/// Copies what is built of other people's crates, if it is, with the times by which cargo knows it.
fn take_over(from: &Path, to: &Path) -> Result<()> {
    for part in [".fingerprint", "build", "deps"] {
        let (from, to) = (from.join(part), to.join(part));
        for path in files(&from)? {
            let inside = path.strip_prefix(&from)?;
            let name = inside.iter().next().and_then(OsStr::to_str).unwrap_or_default();
            // Programs among them are tests of ours.
            if is_ours(name) || part == "deps" && path.extension().is_none() {
                continue;
            }
            let to = to.join(inside);
            std::fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
            std::fs::copy(&path, &to).with_context(|| to.display().to_string())?;
            let time = std::fs::metadata(&path)?.modified()?;
            File::open(&to)?.set_modified(time)?;
        }
    }
    Ok(())
}

/// Whether something that is built is of a crate of the tree, by its name.
fn is_ours(name: &str) -> bool {
    let name = name.strip_prefix("lib").unwrap_or(name);
    name.starts_with("zzq") || name.starts_with("xtask")
}

/// The tests of this name among those listed, one a line: others may have a name that it is part
/// of, and no tag.
fn paths_of(name: &str, listed: &str) -> Vec<String> {
    let listed = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let is_it = |path: &&str| path.rsplit("::").next() == Some(name);
    listed.filter(is_it).map(str::to_owned).collect()
}

fn quiet(mut command: Command) -> Command {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The packages that are built soonest first, and of each the tests in its library: those outside
/// are linked one by one, and few mutants come so far.
fn by_package(tests: &[Test]) -> Vec<(&Package, Vec<&Test>)> {
    let mut packages: BTreeMap<_, Vec<&Test>> = BTreeMap::new();
    for test in tests {
        let is_broker = test.package.name == "zzq-broker";
        let key = (is_broker, &test.package, test.target != Target::Library);
        packages.entry(key).or_default().push(test);
    }
    packages.into_iter().map(|((_, package, _), tests)| (package, tests)).collect()
}

fn succeeds(mut command: Command) -> Result<bool> {
    let status = command.status().with_context(|| format!("cannot start {command:?}"))?;
    if status.code() == Some(TIMED_OUT) {
        println!("-- it was ended after {PATIENCE} s");
    }
    Ok(status.success())
}

/// All files below a folder, which need not be there.
fn files(folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let (mut found, mut folders) = (BTreeSet::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                found.insert(entry.path());
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_listed_under_its_whole_name() {
        let listed = "a: test\nx::a: test\nx::y::ba: test\na_b: test\na: benchmark\n";
        assert_eq!(paths_of("a", listed), ["a", "x::a"]);
        assert!(paths_of("b", listed).is_empty());
    }
}
