//! The broker as a process: started, killed, stopped, and what it said.
//!
//! Owns: its command line, its first line, its end. Does not know: what it should remember.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process};

/// Who says nothing for so long hangs.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// How a broker is started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its data directory.
    pub data: PathBuf,
    /// Where what it logs is appended.
    pub log: PathBuf,
    /// Further arguments.
    pub arguments: Vec<String>,
    /// It has no data directory, and keeps nothing.
    pub without_log: bool,
    /// A start is not waited for behind this.
    pub until: Option<Instant>,
}

/// What became of a start.
#[derive(Debug)]
pub enum Start {
    /// It serves.
    Up(Broker),
    /// It ended by itself.
    Ended(ExitStatus),
    /// It says nothing, and was killed.
    Hung,
}

/// A running broker; dropping it kills it.
#[derive(Debug)]
pub struct Broker {
    child: Child,
    address: SocketAddr,
    /// From its start to its first line.
    recovered_in: Duration,
    /// It may always write.
    _words: ChildStdout,
}

impl Launch {
    /// On this data directory, with its log in `home`.
    pub fn new(program: &Path, data: PathBuf, home: &Path) -> Self {
        let log = home.join("broker.log");
        Self {
            program: program.to_owned(),
            data,
            log,
            arguments: Vec::new(),
            without_log: false,
            until: None,
        }
    }

    /// It runs with these flags, whatever was said about them before.
    pub fn set(&mut self, flags: &[&str]) {
        let name = |flag: &str| flag.split('=').next().map(str::to_owned);
        self.arguments.retain(|argument| flags.iter().all(|flag| name(flag) != name(argument)));
        self.arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
    }

    /// Starts it, without waiting.
    pub fn spawn(&self) -> Result<Child> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(&self.program);
        command.args(["--bind", "tcp://127.0.0.1:0", "--sys-interval", "0s"]);
        if !self.without_log {
            command.arg("--data-dir").arg(&self.data);
        }
        command
            .args(&self.arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("starting {}", self.program.display()))
    }

    /// Starts it and waits until it serves, or ends; `spawned` is told of the process at once.
    pub fn start(&self, spawned: impl FnOnce(Pid)) -> Result<Start> {
        let began = Instant::now();
        let mut child = Reaped(Some(self.spawn()?));
        let process = child.0.as_mut().context("a process")?;
        spawned(Pid::from_child(process));
        let mut words = process.stdout.take().context("a pipe")?;
        let patience = began + PATIENCE;
        let patience = self.until.map_or(patience, |until| until.min(patience));
        let Some(line) = first_line(&mut words, patience)? else {
            return Ok(Start::Hung);
        };
        if line.is_empty() {
            return Ok(match wait(process, PATIENCE)? {
                Some(status) => Start::Ended(status),
                None => Start::Hung,
            });
        }
        let address = line.strip_prefix("tcp://").and_then(|address| address.trim().parse().ok());
        let Some(address) = address else { bail!("{} says {line:?}", self.program.display()) };
        let child = child.0.take().context("a process")?;
        Ok(Start::Up(Broker { child, address, recovered_in: began.elapsed(), _words: words }))
    }

    /// The end of what it has logged.
    pub fn last_words(&self) -> String {
        const LINES: usize = 6;
        let log = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&log[log.len().saturating_sub(4096)..]).into_owned();
        let lines: Vec<_> = text.lines().rev().take(LINES).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

/// A child that nobody has taken over is killed.
struct Reaped(Option<Child>);

impl Drop for Reaped {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            end(child);
        }
    }
}

fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// Its first line; empty: it says nothing any more; `None`: not in time.
fn first_line(words: &mut ChildStdout, until: Instant) -> Result<Option<String>> {
    let mut line = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let seconds = i64::try_from(left.as_secs()).unwrap_or(i64::MAX);
        let left = Timespec { tv_sec: seconds, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&*words, PollFlags::IN)], Some(&left)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            ready => ready?,
        };
        let mut buffer = [0; 256];
        let read = words.read(&mut buffer)?;
        line.extend_from_slice(&buffer[..read]);
        if read == 0 || line.contains(&b'\n') {
            return Ok(Some(String::from_utf8_lossy(&line).into_owned()));
        }
    }
}

/// Its end, if it comes in time.
fn wait(child: &mut Child, patience: Duration) -> Result<Option<ExitStatus>> {
    let until = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() > until {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl Broker {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From its start until it served.
    pub fn recovered_in(&self) -> Duration {
        self.recovered_in
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        end(&mut self.child);
    }

    /// SIGTERM. `None`: it did not end.
    pub fn stop(mut self) -> Result<Option<ExitStatus>> {
        kill_process(self.pid(), Signal::TERM)?;
        wait(&mut self.child, PATIENCE)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// The program that somebody has named, or the one beside this.
pub fn named_or_beside(named: Option<&Path>) -> Result<PathBuf> {
    named.map_or_else(beside, checked)
}

fn checked(program: &Path) -> Result<PathBuf> {
    let told = || format!("--broker {}", program.display());
    ensure!(program.metadata().with_context(told)?.is_file(), "{}: it is no file", told());
    access(program, Access::EXEC_OK).with_context(|| format!("{}: it does not run", told()))?;
    Ok(program.canonicalize()?)
}

/// Where `zzq_broker` lies beside this program.
fn beside() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    let folder = own.parent().unwrap_or(Path::new("."));
    // Tests lie one folder below.
    let places = [folder.join("zzq_broker"), folder.join("../zzq_broker")];
    let found = places.iter().find(|path| path.is_file());
    found.cloned().with_context(|| {
        format!("no zzq_broker beside {}: build it, or name it with --broker", own.display())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_set_once() {
        let mut launch = Launch::new(Path::new("broker"), "data".into(), Path::new("home"));
        launch.arguments = ["--disk=aio", "--lanes=2", "--log-thread"].map(str::to_owned).into();
        launch.set(&["--lanes=1", "--log=all"]);
        assert_eq!(launch.arguments, ["--disk=aio", "--log-thread", "--lanes=1", "--log=all"]);
    }
}
