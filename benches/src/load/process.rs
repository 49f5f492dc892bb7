//! A broker as a process: started from a command line, watched through /proc, stopped.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How long a broker may take to listen, and to stop.
const PATIENCE: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(1);

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

/// The processor time of the threads that a process has now. Scheduling statistics tell it to less
/// than a tick; where a kernel has none it is that of [`usage`].
pub fn busy(pid: u32) -> io::Result<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        // One that has ended meanwhile has no file any more.
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        nanos += text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or(0);
    }
    if nanos > 0 {
        return Ok(Duration::from_nanos(nanos));
    }
    Ok(Duration::from_secs_f64(usage(&pid.to_string())?.cpu_seconds))
}

/// A broker started for a run, with a folder of its own. Dropped, both are gone.
#[derive(Debug)]
pub struct Broker {
    child: Child,
    address: SocketAddr,
    words: Vec<String>,
    started_in: Duration,
    _folder: tempfile::TempDir,
}

impl Broker {
    /// Runs `command`, with `{port}` and `{dir}` filled in, and waits until the port answers. The
    /// folder is made below `place`, or where temporary files go.
    pub fn start(command: &str, place: Option<&Path>) -> io::Result<Self> {
        Self::start_with(command, &[], place)
    }

    /// As [`Broker::start`], with files of these names and texts in its folder, `{home}`. They are
    /// filled in as well. `{port2}` and `{port3}` are further ports, for what else it listens on.
    pub fn start_with(
        command: &str,
        files: &[(&str, &str)],
        place: Option<&Path>,
    ) -> io::Result<Self> {
        let folder = match place {
            Some(place) => tempfile::tempdir_in(place)?,
            None => tempfile::tempdir()?,
        };
        let [address, second, third] = free_addresses()?;
        // Where a broker makes its own folder current, its paths are still right.
        let home = folder.path().canonicalize()?;
        let data = home.join("data");
        fs::create_dir(&data)?;
        let fill = |text: &str| {
            text.replace("{port}", &address.port().to_string())
                .replace("{port2}", &second.port().to_string())
                .replace("{port3}", &third.port().to_string())
                .replace("{dir}", &data.to_string_lossy())
                .replace("{home}", &home.to_string_lossy())
        };
        for (name, text) in files {
            fs::write(home.join(name), fill(text))?;
        }
        let words: Vec<String> = command.split_whitespace().map(fill).collect();
        let began = Instant::now();
        let child = spawn(&words)?;
        let mut broker =
            Self { child, address, words, started_in: Duration::ZERO, _folder: folder };
        broker.wait_for_port()?;
        broker.started_in = began.elapsed();
        Ok(broker)
    }

    /// Kills it and starts it again over what it has left; how long that took to listen.
    pub fn kill_and_restart(&mut self) -> io::Result<Duration> {
        self.child.kill()?;
        self.child.wait()?;
        let began = Instant::now();
        self.child = spawn(&self.words)?;
        self.wait_for_port()?;
        Ok(began.elapsed())
    }

    /// From the start of its process until the port answered.
    pub fn started_in(&self) -> Duration {
        self.started_in
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

fn spawn(words: &[String]) -> io::Result<Child> {
    let (program, arguments) = words
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "an empty command"))?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// Lets this process have as many connections as the system allows; says how many files that is.
pub fn raise_file_limit() -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    Ok(limit.maximum.unwrap_or(u64::MAX))
}

/// Different ones, since each is held until all are known.
fn free_addresses<const N: usize>() -> io::Result<[SocketAddr; N]> {
    let listen = |_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let listeners: Vec<TcpListener> = (0..N).map(listen).collect::<io::Result<_>>()?;
    let mut addresses = [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)); N];
    for (address, listener) in addresses.iter_mut().zip(&listeners) {
        *address = listener.local_addr()?;
    }
    Ok(addresses)
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
    fn a_process_is_busy_while_it_works() {
        let pid = std::process::id();
        let before = busy(pid).unwrap();
        // Ends when it is seen, however coarse the clock.
        while busy(pid).unwrap() <= before {
            std::hint::black_box(fs::read("/proc/self/stat").unwrap());
        }
        assert!(busy(0).is_err());
    }

    #[test]
    fn as_many_files_as_the_system_allows() {
        let most = raise_file_limit().unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), most);
    }

    #[test]
    fn the_files_of_a_broker_say_where_it_is_and_listens() {
        let told = tempfile::tempdir().unwrap();
        let out = told.path().join("out");
        let script = format!(
            "echo $1 {{port}} {{port2}} {{port3}} > {0}; ls {{home}} {{dir}} >> {0}",
            out.display()
        );
        // What it says is read when it has ended, and then it is no broker.
        Broker::start_with("sh {home}/go {port}", &[("go", &script)], None).unwrap_err();
        let text = fs::read_to_string(out).unwrap();
        let ports: Vec<u16> =
            text.lines().next().unwrap().split(' ').map(|port| port.parse().unwrap()).collect();
        let [said, first, second, third] = ports[..] else { panic!("{ports:?}") };
        assert!(said == first && first != second && second != third && third != first, "{text}");
        assert!(text.contains("\ndata\ngo\n"), "{text}");
    }

    #[test]
    fn a_command_that_ends_is_no_broker() {
        assert!(Broker::start("true {port} {dir}", None).is_err());
        assert!(Broker::start("", None).is_err());
    }
}
