//! Whether the tests of a statement fail when what serves it is gone: functions that have a tag are
//! drawn by a seed, mutated by cargo-mutants, one at a time, and the tests with the same tag run.
//!
//! Owns: the draw and the verdict. Assumes: cargo-mutants says what may be mutated and by what; a
//! mutant that does not compile proves nothing, one that makes its tests hang is noticed.

mod draw;
mod pairs;
mod witness;
mod work;

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail, ensure};
use clap::Args;

use self::draw::Draw;
use self::pairs::{Mutant, Pair};
use self::work::{Outcome, Work};
use crate::run::{capture, program};
use crate::tree::Tree;

/// What to draw.
#[derive(Args)]
pub(crate) struct Options {
    /// The same seed draws the same functions from the same tree.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many functions.
    #[arg(long, default_value_t = 3)]
    functions: usize,
    /// Only files whose path contains this.
    #[arg(long, default_value = "")]
    path: String,
}

/// Mutants of one function that are tried before another is drawn: most compile.
const ATTEMPTS: usize = 3;

/// Prints a line for each mutant, and fails if one was not noticed.
pub(crate) fn mutants(root: &Path, options: &Options) -> Result<()> {
    println!("seed {}", options.seed);
    let tree = Tree::read(root)?;
    let mut draw = Draw::new(options.seed);
    let mut pairs = pairs::pairs(&tree, |files| list(root, files))?;
    pairs.retain(|pair| pair.path.contains(&options.path));
    ensure!(pairs.len() >= options.functions, "only {} functions with a tag", pairs.len());
    println!("{} pairs of a function and a statement", pairs.len());
    let mut work = Work::new(&tree)?;
    let mut left = options.functions;
    let mut survived = Vec::new();
    while left > 0 && !pairs.is_empty() {
        let pair = pairs.swap_remove(draw.below(pairs.len()));
        left -= usize::from(try_out(&mut work, &mut draw, pair, &mut survived)?);
    }
    ensure!(left == 0, "of {left} functions no mutant compiles");
    if !survived.is_empty() {
        bail!("with --seed {}: {}", options.seed, survived.join("; "));
    }
    Ok(())
}

/// False if no mutant of it compiles.
fn try_out(
    work: &mut Work,
    draw: &mut Draw,
    pair: Pair,
    survived: &mut Vec<String>,
) -> Result<bool> {
    let Pair { id, path, mut mutants, tests } = pair;
    for _ in 0..ATTEMPTS {
        if mutants.is_empty() {
            break;
        }
        let mutant: Mutant = mutants.swap_remove(draw.below(mutants.len()));
        let start = Instant::now();
        let outcome = work.run(&path, &mutant, &tests)?;
        let said = match outcome {
            Outcome::Unviable => "does not compile",
            Outcome::Noticed => "noticed",
            Outcome::Survived => "SURVIVED",
        };
        println!("-- {id}: {}: {said}, {:.0} s", mutant.name, start.elapsed().as_secs_f64());
        match outcome {
            Outcome::Unviable => {}
            Outcome::Noticed => return Ok(true),
            Outcome::Survived => {
                let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
                survived.push(format!("{id}: {} passes {}", mutant.name, names.join(", ")));
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// All mutants of some files, as cargo-mutants lists them.
fn list(root: &Path, files: &[String]) -> Result<String> {
    let mut command = program(root, &["cargo", "mutants", "--list", "--json"]);
    command.args(files.iter().flat_map(|file| ["--file", file]));
    Ok(capture(command)?.0)
}
