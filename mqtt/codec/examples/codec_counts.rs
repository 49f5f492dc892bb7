//! Instructions of the codec, for each packet kind, both ways: `cargo xtask counts codec`.

#[path = "../benches/cases/mod.rs"]
mod cases;
#[path = "../../../benches/src/counting.rs"]
mod counting;

use anyhow::Result;

use crate::counting::{Case, count};

fn main() -> Result<()> {
    let cases = cases::cases()?;
    count(cases.into_iter().map(|case| Case { name: case.name, run: case.run }).collect())
}
