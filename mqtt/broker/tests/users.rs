//! What the command line says about clients: a file of users, and where to go when it stops.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::io::Write;
use std::process::{Command, Stdio};

use support::{Broker, Client, Connect, Version};

/// What `--scram-entry` prints for a user.
fn entry(user: &str, password: &str) -> (Option<i32>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_zzq_broker"))
        .args(["--scram-entry", user, "--scram-iterations", "4096"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the broker runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    writeln!(stdin, "{password}").expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("its end");
    (output.status.code(), String::from_utf8(output.stdout).expect("a line of text"))
}

#[test]
fn a_file_of_users_says_who_may_connect() {
    let (code, line) = entry("anna", "secret");
    assert_eq!(code, Some(0));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("users");
    std::fs::write(&path, format!("# who may\n{line}")).expect("a file");
    let path = path.to_str().expect("a path in UTF-8");
    for anonymous in [false, true] {
        let mut arguments = vec!["--scram-file", path];
        arguments.extend(anonymous.then_some("--allow-anonymous"));
        let broker = Broker::start(false, &arguments);
        Connect::new(Version::V4, "c").login("anna", "secret").open(&broker).0.ping();
        let mut client = Client::open(&broker, Version::V4);
        client.send(&Connect::new(Version::V4, "c").login("anna", "guess").encode());
        client.expect_hex("20 02 00 04");
        let mut client = Client::open(&broker, Version::V4);
        client.send(&Connect::new(Version::V4, "d").encode());
        client.expect_hex(if anonymous { "20 02 00 00" } else { "20 02 00 05" });
    }
}

#[test]
fn a_file_that_says_nothing_names_its_line() {
    assert_eq!(entry("anna", "").0, Some(78), "no password");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("users");
    std::fs::write(&path, "# who may\nanna:secret\n").expect("a file");
    let path = path.to_str().expect("a path in UTF-8");
    let (status, said) = support::run(&["--bind", "tcp://127.0.0.1:0", "--scram-file", path]);
    assert_eq!(status.code(), Some(78));
    assert!(said.contains("--scram-file") && said.contains("line 2"), "{said}");
}

#[test]
fn clients_are_sent_on_when_it_stops() {
    //= MQTT5-3.14.4-2
    for (flag, told) in [("--redirect-to", 0x9C), ("--moved-to", 0x9D)] {
        let mut broker = Broker::start(false, &[flag, "b:18830"]);
        let mut client = Client::connect(&broker, Version::V5, "c");
        // One that takes nothing so long is told the reason alone.
        let small = Connect::new(Version::V5, "small").properties("27 00 00 00 0D");
        let (mut small, _) = small.open(&broker);
        let mut old = Client::connect(&broker, Version::V4, "old");
        assert_eq!(broker.stop().code(), Some(0));
        client.expect_hex(&format!("E0 0C {told:02X} 0A 1C 00 07 62 3A 31 38 38 33 30"));
        client.expect_close();
        small.expect_end(&[told]);
        old.expect_close();
    }
}
