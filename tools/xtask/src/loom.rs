//! Models of protocols between threads: every interleaving, tried by loom.
//!
//! Assumes: a crate that has models builds with `--cfg loom` and keeps them in modules of the name
//! `models`; what else it tests is not for loom.

use std::path::Path;

use anyhow::Result;

use crate::run::{program, succeed};

/// The crates with models.
const CRATES: [&str; 1] = ["zzq-wal"];

/// Runs all models, in a target folder of their own: the flag is for every crate.
pub(crate) fn loom(root: &Path) -> Result<()> {
    for name in CRATES {
        let mut command = program(root, &["cargo", "test", "--quiet", "--locked", "--lib"]);
        command.args(["--package", name, "models::"]);
        command.env("RUSTFLAGS", "--cfg loom -D warnings");
        command.env("CARGO_TARGET_DIR", root.join("target/loom"));
        // Thousands of interleavings: without optimisation they take minutes.
        command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "2").env("CARGO_PROFILE_DEV_DEBUG", "0");
        // Those that have to fail do so a hundred times.
        command.env("RUST_BACKTRACE", "0");
        succeed(command)?;
    }
    Ok(())
}
