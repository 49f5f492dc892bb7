//! The rooms and the edges between them. What is not listed does not exist: the absent edges
//! are the design, and a new line here is a decision about it.

/// A crate of the product.
#[derive(Debug)]
pub(super) struct Room {
    /// Its folder from the root.
    pub(super) folder: &'static str,
    /// Its package.
    pub(super) package: &'static str,
    /// The rooms it may depend on.
    pub(super) uses: &'static [&'static str],
    /// Whether it may touch memory only.
    pub(super) pure: bool,
}

const fn room(
    folder: &'static str,
    package: &'static str,
    uses: &'static [&'static str],
    pure: bool,
) -> Room {
    Room { folder, package, uses, pure }
}

/// The product, lowest first.
pub(super) const ROOMS: [Room; 10] = [
    room("mqtt/types", "zzq-types", &[], true),
    room("mqtt/codec", "zzq-codec", &["zzq-types"], true),
    room("engine", "zzq-engine", &["zzq-types"], true),
    room("wal", "zzq-wal", &[], false),
    room("snapshot", "zzq-snapshot", &["zzq-wal"], false),
    room("mqtt/lanes", "zzq-lanes", &[], false),
    room("replication", "zzq-replication", &[], false),
    room("sn-gateway", "zzq-sn", &[], false),
    room("mqtt/client", "zzq-client", &["zzq-codec", "zzq-lanes", "zzq-types"], false),
    room(
        "mqtt/broker",
        "zzq-broker",
        &[
            "zzq-codec",
            "zzq-engine",
            "zzq-lanes",
            "zzq-replication",
            "zzq-sn",
            "zzq-snapshot",
            "zzq-types",
            "zzq-wal",
        ],
        false,
    ),
];

/// Tests of any room may speak MQTT.
pub(super) const OPEN_TO_TESTS: [&str; 2] = ["zzq-codec", "zzq-types"];

/// Folders whose crates may depend on everything, and on which no room depends.
const TOOLS: [&str; 3] = ["tools/", "benches/", "fuzz/"];

/// The room that a file lies in.
pub(super) fn room_of(path: &str) -> Option<&'static Room> {
    ROOMS
        .iter()
        .find(|room| path.strip_prefix(room.folder).is_some_and(|rest| rest.starts_with('/')))
}

/// Whether a file belongs to a tool.
pub(super) fn is_tool(path: &str) -> bool {
    TOOLS.iter().any(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_go_down_only() {
        for (at, room) in ROOMS.iter().enumerate() {
            let below: Vec<_> = ROOMS[..at].iter().map(|room| room.package).collect();
            assert!(room.uses.iter().all(|used| below.contains(used)), "{}", room.package);
        }
    }

    #[test]
    fn a_file_finds_its_room() {
        assert_eq!(room_of("mqtt/codec/src/lib.rs").unwrap().package, "zzq-codec");
        assert!(room_of("walrus/src/lib.rs").is_none());
        assert!(is_tool("tools/sim/src/lib.rs") && !is_tool("wal/src/lib.rs"));
    }
}
