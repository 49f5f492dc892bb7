//! A copy of the tree in which mutants are built and their tests run: the tree itself stays as it
//! is, and what was built of the copy serves the next mutant.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use super::pairs::Mutant;
use super::witness::{Target, Test};
use crate::run::program;
use crate::tree::Tree;

/// How long the tests of one statement may take, in seconds: most take a few.
const PATIENCE: &str = "120";
/// What `timeout` answers when it had to end its command.
const TIMED_OUT: i32 = 124;

/// See the file.
pub(super) struct Work {
    tree: PathBuf,
    built: PathBuf,
    /// Tests that pass without a mutant.
    good: BTreeSet<Test>,
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
            Self { tree: home.join("tree"), built: home.join("target"), good: BTreeSet::new() };
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

    /// Tests that fail without a mutant would notice every one.
    pub(super) fn baseline(&mut self, tests: &[Test]) -> Result<()> {
        let new: Vec<&Test> = tests.iter().filter(|test| !self.good.contains(test)).collect();
        for (package, tests) in by_package(&new) {
            if !self.build(package, &tests)? {
                bail!("the tests of {package} do not build without a mutant");
            }
            if !self.pass(package, &tests)? {
                bail!("tests of {package} fail without a mutant: {tests:?}");
            }
        }
        self.good.extend(new.into_iter().cloned());
        Ok(())
    }

    /// Builds a mutant, runs tests until one notices it, and takes it back.
    pub(super) fn run(&self, path: &str, mutant: &Mutant, tests: &[Test]) -> Result<Outcome> {
        let file = self.tree.join(path);
        let text = std::fs::read_to_string(&file)?;
        let name = &mutant.name;
        let mutated = mutant.apply(&text).with_context(|| format!("no place for {name}"))?;
        std::fs::write(&file, mutated)?;
        let outcome = self.try_packages(tests);
        std::fs::write(&file, text)?;
        outcome
    }

    fn try_packages(&self, tests: &[Test]) -> Result<Outcome> {
        for (package, tests) in by_package(&tests.iter().collect::<Vec<_>>()) {
            if !self.build(package, &tests)? {
                return Ok(Outcome::Unviable);
            }
            if !self.pass(package, &tests)? {
                return Ok(Outcome::Noticed);
            }
        }
        Ok(Outcome::Survived)
    }

    fn build(&self, package: &str, tests: &[&Test]) -> Result<bool> {
        let mut command = self.cargo_test(&[], package, tests);
        command.arg("--no-run");
        succeeds(command)
    }

    /// A test that hangs does not pass.
    fn pass(&self, package: &str, tests: &[&Test]) -> Result<bool> {
        let mut command = self.cargo_test(&["timeout", PATIENCE], package, tests);
        command.arg("--");
        command.args(tests.iter().map(|test| test.name.as_str()));
        succeeds(command)
    }

    fn cargo_test(&self, before: &[&str], package: &str, tests: &[&Test]) -> Command {
        let line = [before, &["cargo", "test", "--quiet", "--locked", "--package", package][..]];
        let mut command = program(&self.tree, &line.concat());
        let targets: BTreeSet<_> = tests.iter().map(|test| &test.target).collect();
        for target in targets {
            match target {
                Target::Alone(name) => command.args(["--test", name]),
                Target::Library => command.arg("--lib"),
            };
        }
        command.env("CARGO_TARGET_DIR", &self.built).env("CARGO_PROFILE_DEV_DEBUG", "0");
        // A mutant leaves parameters and imports unused.
        command.env("RUSTFLAGS", "--cap-lints=allow").env("RUST_BACKTRACE", "0");
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// The packages that are built soonest first.
fn by_package<'t>(tests: &[&'t Test]) -> Vec<(&'t str, Vec<&'t Test>)> {
    let mut packages: BTreeMap<&str, Vec<&Test>> = BTreeMap::new();
    for test in tests {
        packages.entry(&test.package).or_default().push(test);
    }
    let mut packages: Vec<_> = packages.into_iter().collect();
    packages.sort_by_key(|(package, _)| *package == "zzq-broker");
    packages
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
