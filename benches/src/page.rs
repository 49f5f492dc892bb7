//! The part of a page that a command writes, between two marks that name the command, and prose in
//! lines as wide as those of a page.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// The width of a page.
const COLUMNS: usize = 100;

/// Replaces what stands between the marks of a command.
pub fn write(page: &Path, command: &str, text: &str) -> Result<()> {
    let shown = page.display();
    let before = fs::read_to_string(page).with_context(|| format!("{shown}"))?;
    let after = replaced(&before, command, text)
        .with_context(|| format!("{shown} has no marks of {command}"))?;
    fs::write(page, after).with_context(|| format!("{shown}"))
}

/// The same, and charts, each an SVG with a name, into `doc/charts` beside the page.
pub fn write_with_charts<N: AsRef<Path>>(
    page: &Path,
    command: &str,
    text: &str,
    charts: impl IntoIterator<Item = (N, String)>,
) -> Result<()> {
    write(page, command, text)?;
    let folder = page.parent().unwrap_or(Path::new("")).join("doc/charts");
    fs::create_dir_all(&folder)?;
    for (name, svg) in charts {
        fs::write(folder.join(name), svg)?;
    }
    Ok(())
}

/// What records say of one thing, each once.
pub fn distinct<R>(records: &[R], of: fn(&R) -> String) -> String {
    let mut all: Vec<String> = records.iter().map(of).collect();
    all.sort_unstable();
    all.dedup();
    all.join(", ")
}

fn replaced(page: &str, command: &str, text: &str) -> Option<String> {
    let begin = page.find(&format!("<!-- {command} writes from here"))?;
    let begin = begin + page[begin..].find('\n')? + 1;
    let end = begin + page[begin..].find(&format!("<!-- {command} writes to here -->"))?;
    Some(format!("{}\n{}\n{}", &page[..begin], text.trim_end(), &page[end..]))
}

/// Breaks prose into lines; those of an item of a list are set in.
pub fn wrap(prose: &str) -> String {
    let indent = if prose.starts_with("- ") { "  " } else { "" };
    let (mut lines, mut line) = (String::new(), String::new());
    for word in prose.split_whitespace() {
        if !line.trim().is_empty() && line.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push_str(&line);
            lines.push('\n');
            indent.clone_into(&mut line);
        } else if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "<!-- a_command writes from here: by hand in vain -->";
    const END: &str = "<!-- a_command writes to here -->";

    #[test]
    fn what_stands_outside_of_the_marks_stays() {
        let other = "<!-- other writes from here -->\n1\n<!-- other writes to here -->";
        let page = format!("a\n{other}\n{BEGIN}\nold\n{END}\nb\n");
        let new = replaced(&page, "a_command", "new\n").unwrap();
        assert_eq!(new, format!("a\n{other}\n{BEGIN}\n\nnew\n{END}\nb\n"));
        assert_eq!(replaced(&new, "a_command", "new").unwrap(), new);
        assert_eq!(replaced(&new, "command", "new"), None);
        assert_eq!(replaced(&format!("{END}\n{BEGIN}"), "a_command", "new"), None);
    }

    #[test]
    fn no_line_of_prose_is_too_long_and_no_word_is_lost() {
        let prose = format!("- {}", "a word and another ".repeat(30));
        let wrapped = wrap(&prose);
        assert!(wrapped.lines().all(|line| line.chars().count() <= 100));
        assert!(
            wrapped.lines().skip(1).all(|line| line.starts_with("  a") || line.starts_with("  w")),
            "{wrapped}"
        );
        let words = |text: &str| text.split_whitespace().count();
        assert_eq!(words(&wrapped), words(&prose));
    }
}
