//! A broker as a process: started from a command line, watched through /proc, stopped.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a broker may take to listen, and to stop.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(5);

/// What a process has used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Usage {
    /// User and system time of all its threads, in seconds.
    pub cpu_seconds: f64,
    /// Memory held, in KiB.
    pub resident_kib: u64,
    /// The most memory it ever held, in KiB.
    pub peak_kib: u64,
}

/// Reads `/proc/PID`; `"self"` is this process.
pub fn usage(pid: &str) -> io::Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let bad = || io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid} reads oddly"));
    let ticks = ticks(&stat).ok_or_else(bad)?;
    let hertz = rustix::param::clock_ticks_per_second();
    let kib = |name| kib(&status, name).ok_or_else(bad);
    Ok(Usage {
        cpu_seconds: seconds(ticks, hertz),
        resident_kib: kib("VmRSS:")?,
        peak_kib: kib("VmHWM:")?,
    })
}

#[expect(clippy::cast_precision_loss, reason = "ticks of a process are far below 2^53")]
fn seconds(ticks: u64, hertz: u64) -> f64 {
    ticks as f64 / hertz as f64
}

/// User and system time: the 14th and 15th field; the second is a name that may hold blanks.
fn ticks(stat: &str) -> Option<u64> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn kib(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// A broker started for a run, with a folder of its own. Dropped, both are gone.
#[derive(Debug)]
pub struct Broker {
    child: Child,
    address: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Broker {
    /// Runs `command`, with `{port}` and `{dir}` filled in, and waits until the port answers. The
    /// folder is made below `place`, or where temporary files go.
    pub fn start(command: &str, place: Option<&std::path::Path>) -> io::Result<Self> {
        let folder = match place {
            Some(place) => tempfile::tempdir_in(place)?,
            None => tempfile::tempdir()?,
        };
        let address = free_address()?;
        let folder_name = folder.path().to_string_lossy();
        let words: Vec<String> = command
            .split_whitespace()
            .map(|word| word.replace("{port}", &address.port().to_string()))
            .map(|word| word.replace("{dir}", &folder_name))
            .collect();
        let (program, arguments) = words
            .split_first()
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "an empty command"))?;
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut broker = Self { child, address, _folder: folder };
        broker.wait_for_port()?;
        Ok(broker)
    }

    fn wait_for_port(&mut self) -> io::Result<()> {
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!("the broker ended: {status}")));
            }
            if Instant::now() > end {
                return Err(io::Error::other("the broker does not listen"));
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn stop(&mut self) -> io::Result<()> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            sleep(PAUSE);
        }
        Err(io::Error::other("the broker does not stop"))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if self.stop().is_err() {
            // It may have ended by itself meanwhile.
            let _ended = self.child.kill();
            let _status = self.child.wait();
        }
    }
}

fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_stat_are_found_behind_any_name() {
        let stat = "12 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 250 17 0 0 20";
        assert_eq!(ticks(stat), Some(267));
        assert_eq!(ticks("12 (a"), None);
        assert_eq!(ticks("12 (a) S 1 2"), None);
    }

    #[test]
    fn this_process_has_used_something() {
        let usage = usage("self").unwrap();
        assert!(usage.resident_kib > 0 && usage.peak_kib >= usage.resident_kib, "{usage:?}");
        assert!(super::usage("0").is_err());
    }

    #[test]
    fn a_command_that_ends_is_no_broker() {
        assert!(Broker::start("true {port} {dir}", None).is_err());
        assert!(Broker::start("", None).is_err());
    }
}
