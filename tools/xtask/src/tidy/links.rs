//! Links between documents.

use super::Finding;
use crate::tree::Tree;

/// Every relative link of a document leads to a file or folder of the repository.
pub(super) fn links_resolve(tree: &Tree, found: &mut Vec<Finding>) {
    for file in tree.ending(".md") {
        let mut fenced = false;
        for (at, line) in file.text.lines().enumerate() {
            fenced ^= line.trim_start().starts_with("```");
            if fenced {
                continue;
            }
            for target in targets(line).filter(|target| !leads_out(target)) {
                let path = target.split('#').next().unwrap_or_default();
                if !resolve(&file.path, path).is_some_and(|path| tree.contains(&path)) {
                    found.push(Finding::new(&file.path, at + 1, format!("no such file: {target}")));
                }
            }
        }
    }
}

/// What stands in `](…)`, and behind `[name]:` at the start of a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let definition = line.starts_with('[').then(|| line.split_once("]: ")).flatten();
    inline.chain(definition.map(|(_, target)| target.trim()))
}

fn leads_out(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:") || target.starts_with('#')
}

/// The path from the root of a link in `from`, or `None` if it leaves the repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    fn bites(text: &str) -> usize {
        places(links_resolve, &[("doc/a.md", text), ("doc/b.md", ""), ("c/d.rs", "")]).len()
    }

    #[test]
    fn links_to_nothing_are_found() {
        assert_eq!(bites("[x](e.md) and [y](../e/f.md)"), 2);
        assert_eq!(bites("[x](../../out.md)"), 1);
        assert_eq!(bites("[x]: e.md"), 1);
    }

    #[test]
    fn links_inside_and_outside_are_fine() {
        assert_eq!(bites("[x](b.md#part), [y](../c), [z](../c/d.rs), [w](#here), [v](./b.md)"), 0);
        assert_eq!(bites("[x](https://a.example/b.md) [y](mailto:a@b.example)"), 0);
    }

    #[test]
    fn code_is_no_link() {
        assert_eq!(bites("```\n[x](e.md)\n```"), 0);
    }
}
