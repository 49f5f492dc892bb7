//! Runs one case many times, for a counter of instructions: `counts CASE ITERATIONS` under
//! callgrind, twice, and the difference is the cost. Without arguments: the names of the cases.
//!
//! It is part of the example `ROOM_counts` of each crate that is counted, not of this one.

use std::io::Write as _;

use anyhow::{Context as _, Result};

/// One operation under a name.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) run: Box<dyn FnMut()>,
}

impl Case {
    #[allow(dead_code, reason = "not all examples make theirs so")]
    pub(crate) fn new(name: impl Into<String>, run: impl FnMut() + 'static) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

pub(crate) fn count(mut cases: Vec<Case>) -> Result<()> {
    let mut args = std::env::args().skip(1);
    let Some(name) = args.next() else {
        let mut out = std::io::stdout().lock();
        return cases.iter().try_for_each(|case| Ok(writeln!(out, "{}", case.name)?));
    };
    let iterations: u64 = args.next().context("CASE ITERATIONS")?.parse()?;
    let case = cases.iter_mut().find(|case| case.name == name).context("no such case")?;
    for _ in 0..iterations {
        (case.run)();
    }
    Ok(())
}
