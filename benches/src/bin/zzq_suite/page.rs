//! The part of a page that is written by the suite, between two marks.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

const BEGIN: &str = "<!-- zzq_suite writes from here";
const END: &str = "<!-- zzq_suite writes to here -->";

/// Replaces what stands between the marks.
pub(crate) fn write(page: &Path, text: &str) -> Result<()> {
    let shown = page.display();
    let before = fs::read_to_string(page).with_context(|| format!("{shown}"))?;
    let after = replaced(&before, text).with_context(|| format!("{shown} has no marks"))?;
    fs::write(page, after).with_context(|| format!("{shown}"))
}

fn replaced(page: &str, text: &str) -> Option<String> {
    let begin = page.find(BEGIN)?;
    let begin = begin + page[begin..].find('\n')? + 1;
    let end = begin + page[begin..].find(END)?;
    Some(format!("{}\n{}\n{}", &page[..begin], text.trim_end(), &page[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_outside_of_the_marks_stays() {
        let page = format!("a\n{BEGIN}: by hand in vain -->\nold\n{END}\nb\n");
        let new = replaced(&page, "new\n").unwrap();
        assert_eq!(new, format!("a\n{BEGIN}: by hand in vain -->\n\nnew\n{END}\nb\n"));
        assert_eq!(replaced(&new, "new").unwrap(), new);
        assert_eq!(replaced("a\nb\n", "new"), None);
        assert_eq!(replaced(&format!("{END}\n{BEGIN}"), "new"), None);
    }
}
