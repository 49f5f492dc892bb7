//! Manifests: what the workspace holds in one place is inherited, never repeated.

use toml::{Table, Value};

use super::Finding;
use crate::tree::{File, Tree};

const INHERITED: [&str; 5] = ["version", "edition", "rust-version", "license", "publish"];

/// Every member takes its package fields, lints and versions of dependencies from the root.
pub(super) fn inherit_from_the_workspace(tree: &Tree, found: &mut Vec<Finding>) {
    for file in tree.ending("/Cargo.toml") {
        let Ok(manifest) = file.text.parse::<Table>() else { continue };
        // A workspace of its own, such as fuzz.
        if !manifest.contains_key("workspace") {
            member(file, &manifest, found);
        }
    }
}

fn member(file: &File, manifest: &Table, found: &mut Vec<Finding>) {
    let mut say = |message: String| found.push(Finding::new(&file.path, 1, message));
    let package = manifest.get("package");
    for field in INHERITED {
        if !package.and_then(|package| package.get(field)).is_some_and(inherits) {
            say(format!("`{field}.workspace = true` is missing from [package]"));
        }
    }
    if !manifest.get("lints").is_some_and(inherits) {
        say("[lints] does not inherit from the workspace".to_owned());
    }
    dependencies_inherit(manifest, "", &mut say);
    for (target, tables) in manifest.get("target").and_then(Value::as_table).into_iter().flatten() {
        if let Value::Table(tables) = tables {
            dependencies_inherit(tables, &format!("target.{target}."), &mut say);
        }
    }
}

fn dependencies_inherit(tables: &Table, of: &str, say: &mut impl FnMut(String)) {
    for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
        for (name, value) in tables.get(table).and_then(Value::as_table).into_iter().flatten() {
            if !inherits(value) {
                say(format!("{name} in [{of}{table}] has a version of its own"));
            }
        }
    }
}

fn inherits(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    const GOOD: &str = "[package]\nname = \"a\"\nversion.workspace = true\n\
        edition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n\
        publish.workspace = true\n[lints]\nworkspace = true\n[dependencies]\n\
        libc.workspace = true\n";

    fn count(manifest: &str) -> usize {
        places(inherit_from_the_workspace, &[("a/Cargo.toml", manifest)]).len()
    }

    #[test]
    fn a_member_that_inherits_is_fine() {
        assert_eq!(count(GOOD), 0);
    }

    #[test]
    fn each_field_of_its_own_is_found() {
        assert_eq!(count(&GOOD.replace("edition.workspace = true", "edition = \"2021\"")), 1);
        assert_eq!(count(&GOOD.replace("[lints]\nworkspace = true\n", "")), 1);
        assert_eq!(count(&GOOD.replace("libc.workspace = true", "libc = \"0.2\"")), 1);
    }

    #[test]
    fn a_version_for_one_target_is_found() {
        let own = "[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n";
        assert_eq!(count(&format!("{GOOD}{own}")), 1);
        let inherited = "[target.'cfg(loom)'.dependencies]\nloom.workspace = true\n";
        assert_eq!(count(&format!("{GOOD}{inherited}")), 0);
    }

    #[test]
    fn a_workspace_of_its_own_is_left_alone() {
        assert_eq!(count("[package]\nname = \"fuzz\"\n[workspace]\n"), 0);
    }
}
