//! The counts that are committed, and what is a rise.
//!
//! Owns: the file, a line for each case behind the compiler that made them. Counts of another
//! compiler say nothing about a change: they are refused until they are made anew.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

/// A case may take so much more, in parts of one.
const MOST: f64 = 0.03;

/// See the file.
#[derive(Debug, PartialEq)]
pub(super) struct Baseline {
    rustc: String,
    /// Instructions for one operation, by case.
    pub(super) counts: BTreeMap<String, f64>,
}

impl Baseline {
    /// No counts yet, made by this compiler.
    pub(super) fn new(rustc: &str) -> Self {
        Self { rustc: rustc.to_owned(), counts: BTreeMap::new() }
    }

    /// What is committed; it must be this compiler's.
    pub(super) fn read(path: &Path, rustc: &str) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("{shown}"))?;
        let known = Self::parse(&text).with_context(|| format!("{shown}"))?;
        ensure!(
            known.rustc == rustc,
            "{shown} was counted with {}, this is {rustc}: count the commit before by --save",
            known.rustc
        );
        Ok(known)
    }

    /// Writes what is to be committed.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.to_text()).with_context(|| format!("{}", path.display()))
    }

    /// Fails if a case takes more than it may, is not known, or (if all were counted) is missing.
    pub(super) fn compare(&self, now: &Self, all: bool) -> Result<()> {
        let mut wrong = Vec::new();
        for (case, count) in &now.counts {
            match self.counts.get(case) {
                Some(known) if *count > known * (1.0 + MOST) => {
                    let more = (count / known - 1.0) * 100.0;
                    wrong.push(format!("{case}: {known:.1} before, {count:.1} now, +{more:.1} %"));
                }
                Some(_) => {}
                None => wrong.push(format!("{case}: {count:.1} now, not counted before")),
            }
        }
        let gone = self.counts.keys().filter(|case| all && !now.counts.contains_key(*case));
        wrong.extend(gone.map(|case| format!("{case}: counted before, not there now")));
        if !wrong.is_empty() {
            bail!(
                "instruction counts\n{}\nif they are meant, commit them by --save",
                wrong.join("\n")
            );
        }
        Ok(())
    }

    fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let rustc = lines.next().and_then(|line| line.strip_prefix("# ")).context("no compiler")?;
        let mut known = Self::new(rustc);
        for line in lines {
            let (case, count) =
                line.split_once('\t').with_context(|| format!("no count: {line}"))?;
            known.counts.insert(case.to_owned(), count.parse()?);
        }
        Ok(known)
    }

    fn to_text(&self) -> String {
        let lines = self.counts.iter().map(|(case, count)| format!("{case}\t{count:.1}\n"));
        format!("# {}\n{}", self.rustc, lines.collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(counts: &[(&str, f64)]) -> Baseline {
        let counts = counts.iter().map(|(case, count)| ((*case).to_owned(), *count)).collect();
        Baseline { rustc: "rustc 1".into(), counts }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let known = baseline(&[("a b", 1.5), ("c", 20.0)]);
        assert_eq!(Baseline::parse(&known.to_text()).unwrap(), known);
        assert!(Baseline::parse("").is_err() && Baseline::parse("# x\na 1").is_err());
    }

    #[test]
    fn a_rise_a_new_case_and_a_lost_one_are_refused() {
        let known = baseline(&[("a", 100.0), ("b", 100.0)]);
        let good = [("a", 103.0), ("b", 50.0)];
        assert!(known.compare(&baseline(&good), true).is_ok());
        let rise = known.compare(&baseline(&[("a", 103.1), ("b", 1.0)]), true).unwrap_err();
        assert!(rise.to_string().contains("a: 100.0 before, 103.1 now, +3.1 %"), "{rise}");
        assert!(known.compare(&baseline(&[("a", 1.0), ("b", 1.0), ("c", 1.0)]), true).is_err());
        assert!(known.compare(&baseline(&[("a", 1.0)]), true).is_err());
        assert!(known.compare(&baseline(&[("a", 1.0)]), false).is_ok());
    }
}
