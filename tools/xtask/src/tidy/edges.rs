//! Who may depend on whom, read from the manifests.

use toml::{Table, Value};

use super::Finding;
use super::rooms::{self, Room};
use crate::tree::{File, Tree};

/// Every dependency inside the workspace is an edge that `rooms` names.
pub(super) fn allowed_edges(tree: &Tree, found: &mut Vec<Finding>) {
    for file in tree.ending("/Cargo.toml").filter(|file| !rooms::is_tool(&file.path)) {
        let Some(room) = rooms::room_of(&file.path) else {
            found.push(Finding::new(&file.path, 1, "a crate that is neither a room nor a tool"));
            continue;
        };
        match file.text.parse::<Table>() {
            Ok(manifest) => room_edges(room, file, &manifest, found),
            Err(error) => found.push(Finding::new(&file.path, 1, error.to_string())),
        }
    }
}

fn room_edges(room: &Room, file: &File, manifest: &Table, found: &mut Vec<Finding>) {
    for (name, is_test) in dependencies(manifest) {
        let inside = name.starts_with("zzq") || name == "xtask";
        let open = is_test && rooms::OPEN_TO_TESTS.contains(&name.as_str());
        if inside && !open && !room.uses.contains(&name.as_str()) {
            let line = file.text.lines().position(|line| line.contains(&name)).unwrap_or(0) + 1;
            let message = format!("{} may not depend on {name}", room.package);
            found.push(Finding::new(&file.path, line, message));
        }
    }
}

/// The packages a manifest depends on, and whether for tests only; target tables included.
fn dependencies(manifest: &Table) -> Vec<(String, bool)> {
    let mut all = Vec::new();
    for (key, value) in manifest {
        match (key.as_str(), value) {
            ("dependencies" | "build-dependencies", Value::Table(table)) => {
                all.extend(packages(table).map(|name| (name, false)));
            }
            ("dev-dependencies", Value::Table(table)) => {
                all.extend(packages(table).map(|name| (name, true)));
            }
            ("target", Value::Table(targets)) => {
                let tables = targets.values().filter_map(Value::as_table);
                all.extend(tables.flat_map(dependencies));
            }
            _ => {}
        }
    }
    all
}

/// The names of packages, not the names they are given here.
fn packages(table: &Table) -> impl Iterator<Item = String> {
    table.iter().map(|(key, value)| {
        let renamed = value.as_table().and_then(|table| table.get("package"));
        renamed.and_then(Value::as_str).unwrap_or(key).to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::places;
    use super::*;

    fn bites(path: &str, manifest: &str) -> Vec<String> {
        places(allowed_edges, &[(path, manifest)])
    }

    #[test]
    fn an_edge_that_is_not_named_is_found() {
        let manifest = "[dependencies]\nlibc = \"1\"\nzzq-wal.workspace = true\n";
        assert_eq!(bites("engine/Cargo.toml", manifest), ["engine/Cargo.toml:3"]);
        assert!(bites("snapshot/Cargo.toml", manifest).is_empty());
    }

    #[test]
    fn tests_may_speak_mqtt_and_no_more() {
        let manifest = "[dev-dependencies]\nzzq-codec.workspace = true\n";
        assert!(bites("wal/Cargo.toml", manifest).is_empty());
        let manifest = "[dev-dependencies]\nzzq-engine.workspace = true\n";
        assert_eq!(bites("wal/Cargo.toml", manifest).len(), 1);
    }

    #[test]
    fn no_room_depends_on_a_tool_and_a_tool_on_anything() {
        let manifest = "[dependencies]\nzzq-rig.workspace = true\n";
        assert_eq!(bites("mqtt/broker/Cargo.toml", manifest).len(), 1);
        assert!(bites("tools/sim/Cargo.toml", manifest).is_empty());
    }

    #[test]
    fn targets_and_other_names_hide_nothing() {
        let manifest = "[target.'cfg(unix)'.dependencies]\nlog = { package = \"zzq-wal\" }\n";
        assert_eq!(bites("engine/Cargo.toml", manifest).len(), 1);
    }

    #[test]
    fn a_crate_outside_of_the_rooms_is_found() {
        assert_eq!(bites("helpers/Cargo.toml", ""), ["helpers/Cargo.toml:1"]);
    }
}
