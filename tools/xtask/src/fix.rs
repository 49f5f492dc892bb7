//! What a machine can mend.

use std::path::Path;

use anyhow::Result;

use crate::run::{program, succeed};

/// Clippy's suggestions first, so that formatting has the last word.
pub(crate) fn fix(root: &Path) -> Result<()> {
    let mut clippy = program(root, &["cargo", "clippy", "--fix", "--workspace", "--all-targets"]);
    clippy.args(["--allow-dirty", "--allow-staged"]);
    succeed(clippy)?;
    succeed(program(root, &["cargo", "fmt", "--all"]))?;
    succeed(program(root, &["cargo", "fmt", "--manifest-path=fuzz/Cargo.toml"]))
}
