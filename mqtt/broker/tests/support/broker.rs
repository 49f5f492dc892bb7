//! The broker as a process: started on a port of its own, killed, started again, stopped.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{PATIENCE, at_rest};

/// A running broker. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Broker {
    child: Child,
    address: SocketAddr,
    logged: bool,
    arguments: Vec<String>,
    folder: TempDir,
}

/// What a test sees closed was not closed because its CONNECT was late.
const PATIENT: [&str; 2] = ["--connect-timeout", "600s"];

/// Runs a test without a log and with one, side by side.
pub(crate) fn in_both_modes(test: impl Fn(&Broker) + Sync) {
    thread::scope(|scope| {
        let memory = scope.spawn(|| test(&Broker::start(false, &PATIENT)));
        let disk = scope.spawn(|| test(&Broker::start(true, &PATIENT)));
        let failed = |mode: &str, outcome: thread::Result<()>| {
            if let Err(panic) = outcome {
                eprintln!("failed {mode}");
                std::panic::resume_unwind(panic);
            }
        };
        failed("without a log", memory.join());
        failed("with a log", disk.join());
    });
}

/// A broker with a log, for tests that kill it.
pub(crate) fn on_disk() -> Broker {
    Broker::start(true, &[])
}

impl Broker {
    /// Starts a broker and waits until it says where it listens.
    pub(crate) fn start(logged: bool, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let (child, address) = spawn(folder.path(), logged, &arguments);
        Self { child, address, logged, arguments, folder }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The folder of the log.
    pub(crate) fn data(&self) -> PathBuf {
        data(self.folder.path())
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a process to kill");
        self.child.wait().expect("its end");
    }

    /// Starts again on the same folder, at a new address.
    pub(crate) fn start_again(&mut self) {
        (self.child, self.address) = spawn(self.folder.path(), self.logged, &self.arguments);
    }

    /// Starts again on the same folder with other arguments.
    pub(crate) fn start_again_with(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        self.start_again();
    }

    /// SIGKILL and a new start.
    pub(crate) fn crash(&mut self) {
        self.kill();
        self.start_again();
    }

    /// SIGTERM; how it ended.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        self.stop_by(rustix::process::Signal::TERM)
    }

    /// A signal that ends it; how it ended.
    pub(crate) fn stop_by(&mut self, signal: rustix::process::Signal) -> ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("a process");
        wait(&mut self.child)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A clean stop and a new start.
    pub(crate) fn restart(&mut self) {
        let status = self.stop();
        assert_eq!(status.code(), Some(0), "a clean stop");
        self.start_again();
    }

    /// Runs the broker a second time on the same folder and returns how that ends.
    pub(crate) fn rival(&self) -> (ExitStatus, String) {
        run(&["--bind", "tcp://127.0.0.1:0", "--data-dir", path(&self.data())])
    }

    /// Lets the process have no more than `count` open files.
    pub(crate) fn limit_files(&self, count: u64) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let limit = rustix::process::Rlimit { current: Some(count), maximum: Some(count) };
        rustix::process::prlimit(Some(pid), rustix::process::Resource::Nofile, limit)
            .expect("a limit");
    }

    /// User and system time of the process so far.
    pub(crate) fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))
            .expect("a running process");
        let fields = stat.rsplit(')').next().expect("what follows the name").split_whitespace();
        let ticks = fields.skip(11).take(2).map(|field| field.parse::<u64>().expect("ticks"));
        let hertz = rustix::param::clock_ticks_per_second();
        Duration::from_millis(ticks.sum::<u64>() * 1000 / hertz)
    }

    /// Memory held by the process, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        at_rest::resident_kib(self.child.id()).expect("a running process")
    }

    /// The same when nothing is passing.
    pub(crate) fn resident_at_rest_kib(&self) -> u64 {
        let look = || at_rest::resident_kib(self.child.id());
        at_rest::least(self.child.id(), look, u64::min).expect("a running process")
    }

    /// What it logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ended = self.child.kill();
        let _status = self.child.wait();
        if thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().rev().take(20).collect();
            eprintln!("the end of the broker's log:");
            lines.iter().rev().for_each(|line| eprintln!("  {line}"));
        }
    }
}

/// Runs the broker with arguments that should end it at once: how it ends and what it says.
pub(crate) fn run(arguments: &[&str]) -> (ExitStatus, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_zzq_broker"))
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the broker runs");
    let status = wait(&mut child);
    let mut said = String::new();
    let stderr = child.stderr.take().expect("a pipe");
    std::io::Read::read_to_string(&mut BufReader::new(stderr), &mut said).expect("its words");
    (status, said)
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// Waits for a process that should end by itself.
fn wait(child: &mut Child) -> ExitStatus {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().expect("a process") {
            return status;
        }
        thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("a process to kill");
    panic!("the broker does not end");
}

fn spawn(folder: &Path, logged: bool, arguments: &Vec<String>) -> (Child, SocketAddr) {
    let stderr = File::options()
        .create(true)
        .append(true)
        .open(folder.join("stderr"))
        .expect("a file for the log");
    match std::env::var("ZZQ_TEST_BROKER") {
        Ok(command) => spawn_other(&command, folder, stderr),
        Err(_) => spawn_ours(folder, logged, arguments, stderr),
    }
}

fn spawn_ours(
    folder: &Path,
    logged: bool,
    arguments: &Vec<String>,
    stderr: File,
) -> (Child, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_zzq_broker"));
    command.args(["--bind", "tcp://127.0.0.1:0"]).args(extra_arguments(arguments)).args(arguments);
    if logged {
        command.arg("--data-dir").arg(data(folder));
    }
    let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().expect("the broker runs");
    let stdout = child.stdout.take().expect("a pipe");
    let (sender, receiver) = mpsc::channel();
    // The pipe is read to its end, so that the broker can always write.
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _nobody_waits = sender.send(line);
        }
    });
    let line = receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        let _ended = child.kill();
        let log = std::fs::read_to_string(folder.join("stderr")).unwrap_or_default();
        panic!("the broker names no endpoint:\n{log}")
    });
    let address = line.strip_prefix("tcp://").and_then(|address| address.trim().parse().ok());
    (child, address.unwrap_or_else(|| panic!("no endpoint: {line}")))
}

/// What `ZZQ_TEST_ARGS` gives to every broker, for example `--lanes 3 --log-thread`, as far as the
/// test does not say it itself. What follows an option and is none itself is its value.
fn extra_arguments(own: &[String]) -> Vec<String> {
    let extra = std::env::var("ZZQ_TEST_ARGS").unwrap_or_default();
    let words: Vec<&str> = extra.split_whitespace().collect();
    let options = words.chunk_by(|_, next| !next.starts_with("--"));
    let wanted = options.filter(|option| !own.iter().any(|word| word == option[0]));
    wanted.flatten().map(|&word| word.to_owned()).collect()
}

fn spawn_other(command: &str, folder: &Path, stderr: File) -> (Child, SocketAddr) {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("its address");
    drop(free);
    let command = command
        .replace("{port}", &address.port().to_string())
        .replace("{dir}", path(&data(folder)));
    let mut words = command.split_whitespace();
    let mut child = Command::new(words.next().expect("a command"))
        .args(words)
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .expect("the other broker runs");
    let end = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        assert!(Instant::now() < end, "the other broker does not listen");
        assert!(child.try_wait().expect("a process").is_none(), "the other broker ended");
        thread::sleep(Duration::from_millis(5));
    }
    (child, address)
}
