//! What must hold before a change lands, tests apart: cheapest failure first, nothing written
//! outside of the target folder.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::run::{program, succeed};
use crate::spec;
use crate::tidy;
use crate::tree::Tree;

/// A name and what must succeed.
type Check = (&'static str, fn(&Path) -> Result<()>);

/// Runs all checks, also behind one that fails, and names those that did.
pub(crate) fn check(root: &Path) -> Result<()> {
    let checks: [Check; 5] = [
        ("fmt", formatting),
        ("tidy", |root| tidy::tidy(&Tree::read(root)?)),
        ("spec", |root| spec::spec(&Tree::read(root)?, spec::Mode::Missing)),
        ("clippy", clippy),
        ("doc", documentation),
    ];
    let mut failed = Vec::new();
    for (name, run) in checks {
        let start = Instant::now();
        let outcome = run(root);
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("-- {name}: good, {seconds:.1} s"),
            Err(error) => {
                println!("-- {name}: {error:#}, {seconds:.1} s");
                failed.push(name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

fn formatting(root: &Path) -> Result<()> {
    succeed(program(root, &["cargo", "fmt", "--all", "--check"]))?;
    succeed(program(root, &["cargo", "fmt", "--manifest-path=fuzz/Cargo.toml", "--check"]))
}

fn clippy(root: &Path) -> Result<()> {
    let mut command = program(root, &["cargo", "clippy", "--quiet", "--workspace"]);
    command.args(["--all-targets", "--locked", "--", "-D", "warnings"]);
    succeed(command)?;
    // What only the negative controls compile.
    let mut command = program(root, &["cargo", "clippy", "--quiet", "--package=zzq-wal"]);
    command.args(["--features=negative-controls", "--lib", "--test=controls", "--locked"]);
    command.args(["--", "-D", "warnings"]);
    succeed(command)?;
    // The fuzz targets are a workspace of their own; most of what they need is compiled already.
    let mut command = program(root, &["cargo", "clippy", "--quiet", "--manifest-path"]);
    command.args(["fuzz/Cargo.toml", "--target-dir=target", "--bins", "--locked"]);
    command.args(["--", "-D", "warnings"]);
    succeed(command)
}

fn documentation(root: &Path) -> Result<()> {
    let mut command = program(root, &["cargo", "doc", "--quiet", "--no-deps", "--workspace"]);
    command.arg("--locked").env("RUSTDOCFLAGS", "-D warnings");
    succeed(command)
}
