//! A broker as a process that ends and starts again over its directory.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use zzq_bench::load::{Usage, usage};

/// How long a step of the broker may take.
const PATIENCE: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_millis(2);
/// Without a new image for so long there comes no other one.
const QUIET: Duration = Duration::from_secs(3);

/// See the file. Dropped, the process and its directory are gone.
pub(crate) struct Server {
    program: PathBuf,
    flags: Vec<String>,
    folder: tempfile::TempDir,
    address: SocketAddr,
    child: Child,
}

impl Server {
    pub(crate) fn start(program: &Path, place: Option<&Path>, flags: &[&str]) -> Result<Self> {
        let folder = match place {
            Some(place) => tempfile::tempdir_in(place)?,
            None => tempfile::tempdir()?,
        };
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let child = spawn(program, folder.path(), address, &flags)?;
        let mut server = Self { program: program.to_owned(), flags, folder, address, child };
        server.wait_for_port()?;
        Ok(server)
    }

    /// Ends it by `signal` and starts it again; how long it took to listen.
    pub(crate) fn restart(&mut self, signal: Signal) -> Result<Duration> {
        self.signal(signal)?;
        self.child.wait()?;
        let began = Instant::now();
        self.child = spawn(&self.program, self.folder.path(), self.address, &self.flags)?;
        self.wait_for_port()?;
        Ok(began.elapsed())
    }

    /// Has an image made; what the process held at most meanwhile, above what it held before, in
    /// KiB, and how long it took.
    pub(crate) fn image(&self) -> Result<(u64, Duration)> {
        let before = self.usage()?;
        // From here on the peak counts anew.
        fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5")?;
        let (mut newest, began) = (self.newest_image()?, Instant::now());
        self.begin_image()?;
        // It may take several, one made of the other.
        let mut took = None;
        while took.is_none_or(|took| began.elapsed().saturating_sub(took) < QUIET) {
            let found = self.newest_image()?;
            if found != newest {
                (newest, took) = (found, Some(began.elapsed()));
            } else if began.elapsed() > PATIENCE {
                bail!("no image is made");
            }
            sleep(PAUSE);
        }
        let took = took.unwrap_or_default();
        Ok((self.usage()?.peak_kib.saturating_sub(before.resident_kib), took))
    }

    /// Bytes of the files with this ending.
    pub(crate) fn bytes_of(&self, ending: &str) -> Result<u64> {
        let mut bytes = 0;
        for entry in fs::read_dir(self.folder.path())? {
            let entry = entry?;
            if entry.path().extension().is_some_and(|found| found == ending) {
                bytes += entry.metadata()?.len();
            }
        }
        Ok(bytes)
    }

    pub(crate) fn begin_image(&self) -> Result<()> {
        self.signal(Signal::USR1)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        Ok(usage(&self.child.id().to_string())?)
    }

    /// Bytes that it had written to the device, by the kernel's account.
    pub(crate) fn written(&self) -> Result<u64> {
        self.account("write_bytes: ")
    }

    /// Bytes that it had read from the device, by the kernel's account.
    pub(crate) fn bytes_read(&self) -> Result<u64> {
        self.account("read_bytes: ")
    }

    fn account(&self, what: &str) -> Result<u64> {
        let account = fs::read_to_string(format!("/proc/{}/io", self.child.id()))?;
        let line = account.lines().find_map(|line| line.strip_prefix(what));
        line.context("no such account")?.trim().parse().context("an account")
    }

    /// Where its data is.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// How many files with this ending it has.
    pub(crate) fn count(&self, ending: &str) -> Result<usize> {
        let mut count = 0;
        for entry in fs::read_dir(self.folder.path())? {
            count += usize::from(entry?.path().extension().is_some_and(|found| found == ending));
        }
        Ok(count)
    }

    /// What its directory takes of the disk. A file that goes while it is listed takes nothing.
    pub(crate) fn footprint(&self) -> Result<u64> {
        let mut blocks = 0;
        for entry in fs::read_dir(self.folder.path())? {
            blocks += match entry?.metadata() {
                Ok(facts) => facts.blocks(),
                Err(error) if error.kind() == ErrorKind::NotFound => 0,
                Err(error) => return Err(error.into()),
            };
        }
        Ok(blocks * 512)
    }

    /// Images are replaced by newer ones with higher numbers.
    fn newest_image(&self) -> Result<Option<PathBuf>> {
        let mut newest = None;
        for entry in fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "image") {
                newest = newest.max(Some(path));
            }
        }
        Ok(newest)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    fn wait_for_port(&mut self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while TcpStream::connect(self.address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the broker ended: {status}");
            }
            if Instant::now() > end {
                bail!("the broker does not listen");
            }
            sleep(PAUSE);
        }
        Ok(())
    }
}

fn spawn(program: &Path, data: &Path, address: SocketAddr, flags: &[String]) -> Result<Child> {
    let child = Command::new(program)
        .arg(format!("--bind=tcp://{address}"))
        .arg(format!("--data-dir={}", data.display()))
        .args(["--log-level=error", "--sys-interval=0s"])
        .args(flags)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    child.with_context(|| format!("starting {}", program.display()))
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}
