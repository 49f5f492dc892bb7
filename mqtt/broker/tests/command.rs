//! The command `zzq_broker` as a shell sees it: what it prints, how it ends, what it leaves alone.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use support::{Client, Connect, Version, on_disk, run};

const COMMAND: &str = env!("CARGO_BIN_EXE_zzq_broker");

fn fails(arguments: &[&str], status: i32, names: &[&str]) {
    let (ended, said) = run(arguments);
    assert_eq!(ended.code(), Some(status), "{arguments:?}: {said}");
    for name in names {
        assert!(said.contains(name), "{arguments:?}: {name} is not in: {said}");
    }
}

/// Names and bytes of all files.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let bytes = std::fs::read(path).unwrap();
            (name, bytes)
        })
        .collect();
    files.sort();
    files
}

#[test]
fn help_and_version_go_to_stdout_and_end_well() {
    let output = Command::new(COMMAND).arg("--help").output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty());
    for named in ["--bind", "--data-dir", "--lanes", "--deliver", "Exit status", "75  ", "65  "] {
        assert!(help.contains(named), "{named} is not in the help");
    }
    let output = Command::new(COMMAND).arg("--version").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let version = format!("zzq_broker {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), version);
}

#[test]
fn wrong_usage_ends_with_2() {
    fails(&["--no-such-flag"], 2, &["--no-such-flag"]);
    fails(&["--segment-size", "large"], 2, &["--segment-size", "64MiB"]);
    fails(&["--lanes", "0"], 2, &["--lanes"]);
}

#[test]
fn a_configuration_that_makes_no_sense_ends_with_78_and_names_its_flag() {
    fails(&["--segment-size", "1KiB"], 78, &["--segment-size"]);
    fails(&["--bind", "127.0.0.1:1883"], 78, &["--bind", "tcp://"]);
    fails(&["--bind", "quic://127.0.0.1:1"], 78, &["--bind", "quic"]);
    fails(&["--log-level", "zzq_wal=loud"], 78, &["--log-level"]);
}

#[test]
fn an_endpoint_that_is_taken_ends_with_71_and_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("tcp://{}", taken.local_addr().unwrap());
    fails(&["--bind", &endpoint], 71, &[&endpoint, "in use"]);
}

#[test]
fn a_directory_in_use_ends_with_75_and_names_the_process() {
    let broker = on_disk();
    let (ended, said) = broker.rival();
    assert_eq!(ended.code(), Some(75), "{said}");
    assert!(said.contains(&format!("process {}", broker.pid())), "{said}");
    // Its owner is not disturbed.
    Client::connect(&broker, Version::V4, "a").ping_without_messages();
}

#[test]
fn a_directory_that_is_not_permitted_ends_with_77() {
    // Even root makes no folder there.
    let folder = "/sys/zzq-test";
    fails(&["--bind", "tcp://127.0.0.1:0", "--data-dir", folder], 77, &["--data-dir", folder]);
}

#[test]
fn a_file_where_the_directory_should_be_ends_with_74() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    fails(&["--bind", "tcp://127.0.0.1:0", "--data-dir", path], 74, &["--data-dir", path]);
}

#[test]
fn a_damaged_store_ends_with_65_and_is_left_as_it_is() {
    let mut broker = on_disk();
    let (mut client, _) = Connect::persistent(Version::V4, "a").open(&broker);
    client.subscribe("t", 1);
    for n in 0..20 {
        client.say("t", &n.to_string(), 1);
    }
    client.disconnect();
    assert_eq!(broker.stop().code(), Some(0));
    // A byte of a group that later groups prove to have been durable.
    let log = broker.data().join("00000000000000000001.log");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes[4096 + 100] ^= 1;
    std::fs::write(&log, &bytes).unwrap();
    let before = contents(&broker.data());
    let (ended, said) = broker.rival();
    assert_eq!(ended.code(), Some(65), "{said}");
    assert!(said.contains("00000000000000000001.log"), "the file is named: {said}");
    assert!(said.contains("byte"), "so is the place: {said}");
    let lock = |file: &(String, Vec<u8>)| file.0 != "lock";
    let (before, after) = (before.into_iter().filter(lock), contents(&broker.data()));
    assert!(before.eq(after.into_iter().filter(lock)), "nothing is changed");
}

#[test]
fn a_clean_stop_ends_with_0_on_both_signals() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::INT] {
        let mut broker = on_disk();
        let _client = Client::connect(&broker, Version::V5, "a");
        assert_eq!(broker.stop_by(signal).code(), Some(0), "{signal:?}");
    }
}

#[test]
fn an_open_endpoint_is_warned_about_and_one_of_this_machine_is_not() {
    let open = says(Command::new(COMMAND).args(["--bind", "tcp://0.0.0.0:0"]));
    assert!(open.contains("without authentication") && open.contains("--bind"), "{open}");
    let own = says(Command::new(COMMAND).args(["--bind", "tcp://127.0.0.1:0"]));
    assert!(!own.contains("without authentication"), "{own}");
}

/// A broker under limits of open files as a shell sets them; what it says.
fn limited(limits: &str) -> String {
    let script = format!("{limits}; exec \"$0\" --bind tcp://127.0.0.1:0 --max-connections 300");
    says(Command::new("sh").args(["-c", &script, COMMAND]))
}

#[test]
fn a_low_limit_of_open_files_is_raised_and_one_that_cannot_be_is_warned_about() {
    let raised = limited("ulimit -Sn 100; ulimit -Hn 400");
    assert!(!raised.contains("--max-connections"), "{raised}");
    let low = limited("ulimit -n 200");
    assert!(low.contains("--max-connections") && low.contains("files=200"), "{low}");
}

#[test]
fn a_service_manager_hears_when_it_serves_and_when_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    says(Command::new(COMMAND).args(["--bind", "tcp://127.0.0.1:0"]).env("NOTIFY_SOCKET", &path));
    let mut buffer = [0; 100];
    for word in ["READY=1", "STOPPING=1"] {
        let len = socket.recv(&mut buffer).unwrap();
        let heard = std::str::from_utf8(&buffer[..len]).unwrap();
        assert!(heard.lines().any(|line| line == word), "{heard}");
    }
}

/// What a broker says on stderr until it listens and is stopped.
fn says(command: &mut Command) -> String {
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = child.stdout.as_mut().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).unwrap();
    assert!(line.starts_with("tcp://") && !line.ends_with(":0\n"), "{line}");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stderr).unwrap()
}
