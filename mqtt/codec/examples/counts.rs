//! Runs one case many times, for a counter of instructions: `counts CASE ITERATIONS` under
//! callgrind, twice, and the difference is the cost. Without arguments: the names of the cases.

#[path = "../benches/cases/mod.rs"]
mod cases;

use std::io::Write as _;

use anyhow::{Context as _, Result};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let mut list = cases::cases()?;
    let Some(name) = args.next() else {
        let mut out = std::io::stdout().lock();
        return list.iter().try_for_each(|case| Ok(writeln!(out, "{}", case.name)?));
    };
    let iterations: u64 = args.next().context("CASE ITERATIONS")?.parse()?;
    let case = list.iter_mut().find(|case| case.name == name).context("no such case")?;
    for _ in 0..iterations {
        (case.run)();
    }
    Ok(())
}
