//! The project's own checks: one command that never writes, one that mends, and what they are
//! made of.
//!
//! Owns: the order of the checks and the rules that neither the compiler nor clippy knows.
//! Assumes: it runs inside a git work tree, with the toolchain's own commands on the path.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "what it finds is its output")]

mod at_once;
mod check;
mod counts;
mod fix;
mod fuzz;
mod loom;
mod mutants;
mod run;
mod source;
mod spec;
mod tidy;
mod tree;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::tree::Tree;

/// The project's own checks.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Everything that must hold before a change lands, tests apart; never writes to the tree.
    Check,
    /// Mends what a machine can mend: formatting and clippy's suggestions.
    Fix,
    /// The rules of the rooms: edges, purity, unsafe code, form of text and files.
    Tidy,
    /// Which normative statements have a tag in code and a tag in a test.
    Spec,
    /// Runs every fuzz target in turn within one budget; needs nightly and cargo-fuzz.
    Fuzz(fuzz::Options),
    /// Mutates functions that have a tag, and runs the tests of their statements; needs
    /// cargo-mutants.
    Mutants(mutants::Options),
    /// Models of protocols between threads, tried in all interleavings.
    Loom,
    /// Instructions for each case of a crate's `counts` example, by callgrind.
    Counts(counts::Options),
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    let root = tree::root()?;
    match command {
        Command::Check => check::check(&root),
        Command::Fix => fix::fix(&root),
        Command::Tidy => tidy::tidy(&Tree::read(&root)?),
        Command::Spec => spec::spec(&Tree::read(&root)?, spec::Mode::Full),
        Command::Loom => loom::loom(&root),
        Command::Fuzz(options) => fuzz::fuzz(&root, &options),
        Command::Mutants(options) => mutants::mutants(&root, &options),
        Command::Counts(options) => counts::counts(&root, &options),
    }
}
