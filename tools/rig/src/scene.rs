//! One data directory with its broker, its clients and their accounts.
//!
//! Owns: starting the broker and what must hold after each start. Does not know: what was done to
//! it before.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Signal, kill_process};

use crate::accounts::{Accounts, Book, Broken};
use crate::broker::{Broker, Launch, Start};
use crate::crew::{Crew, check_kept};
use crate::faulty::{Control, Faulty};
use crate::run::Tally;
use crate::sealed::Refused;
use zzq_wal::sim_disk::Random;

/// See the file.
#[derive(Debug)]
pub struct Scene {
    /// How its broker is started.
    pub launch: Launch,
    /// Where the book and the broker's log lie.
    pub home: PathBuf,
    /// The data directory as it lies on the disk: a broker may see it through a file system of
    /// ours.
    pub data: PathBuf,
    /// Nothing is waited for any longer than this.
    pub deadline: Instant,
    crew: Crew,
    book: Book,
    broker: Option<Broker>,
    faulty: Option<Faulty>,
}

/// How a process ends that was killed.
const KILL: i32 = 9;
/// How a broker ends that cannot read or write its store.
pub const STORE_IO: i32 = 74;

/// Between losses of connections.
const DISTURBED_EVERY: Duration = Duration::from_millis(100);

/// Nobody listens there.
const NOWHERE: ([u8; 4], u16) = ([127, 0, 0, 1], 1);

impl Scene {
    /// A fresh data directory, with book and log, in `home`, which is made.
    pub fn new(program: &Path, home: &Path, deadline: Instant) -> Result<Self> {
        std::fs::create_dir_all(home).with_context(|| format!("making {}", home.display()))?;
        let launch = Launch::new(program, home.join("data"), home);
        let book = Book::create(&home.join("accounts"))?;
        Ok(Self::on(launch, home, book, deadline))
    }

    /// A broker that is started so, with these accounts.
    pub fn on(mut launch: Launch, home: &Path, book: Book, deadline: Instant) -> Self {
        launch.until = Some(deadline);
        let (home, data) = (home.to_owned(), launch.data.clone());
        let crew = Crew::new(NOWHERE.into());
        Self { launch, home, data, deadline, crew, book, broker: None, faulty: None }
    }

    /// From now on the broker sees its data directory at `mount`, through a file system that fails
    /// and kills.
    pub fn see_through(&mut self, mount: &Path) -> Result<()> {
        std::fs::create_dir(&self.data)?;
        let mounted = Faulty::mount(&self.data, mount);
        let mounted = mounted.context("mounting a FUSE file system").context(Refused)?;
        self.faulty = Some(mounted);
        mount.clone_into(&mut self.launch.data);
        Ok(())
    }

    /// That file system.
    pub fn control(&self) -> Result<Arc<Control>> {
        let faulty = self.faulty.as_ref().context("a file system of ours")?;
        Ok(Arc::clone(faulty.control()))
    }

    /// Draws how the broker runs.
    pub fn draw_arguments(&mut self, random: &mut Random) {
        let mut one_of =
            |flag: &str, values: &[&str]| format!("{flag}={}", values[random.index(values.len())]);
        let mut arguments = vec![
            one_of("--lanes", &["1", "2"]),
            one_of("--disk", &["auto", "aio", "uring", "pwrite"]),
            one_of("--deliver", &["early", "committed"]),
            one_of("--log", &["all", "everything", "needed"]),
            one_of("--segment-size", &["1MiB", "1MiB", "4MiB"]),
            one_of("--snapshot-every", &["256KiB", "1MiB", "64MiB"]),
        ];
        arguments.extend(random.one_in(4).then(|| "--log-thread".to_owned()));
        self.launch.arguments = arguments;
    }

    /// What was found broken.
    pub fn broken(&self) -> &[Broken] {
        self.book.accounts().broken()
    }

    /// Whether what is found missing now says nothing: it was not waited for as long as always.
    pub fn is_late(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// The accounts.
    pub fn book(&mut self) -> &mut Book {
        &mut self.book
    }

    /// The running broker.
    pub fn broker(&self) -> Result<&Broker> {
        self.broker.as_ref().context("a running broker")
    }

    /// Starts the broker, which has to serve.
    pub fn start(&mut self, tally: &mut Tally) -> Result<bool> {
        match self.launch.start(|_| ())? {
            Start::Up(broker) => {
                tally.recovered(broker.recovered_in());
                self.take_over(broker);
                return Ok(true);
            }
            Start::Ended(status) => self.accuse_start(&format!("ends with {status}")),
            Start::Hung => self.accuse_start("says nothing"),
        }
        Ok(false)
    }

    /// A broker that somebody else has started on the directory.
    pub fn take_over(&mut self, broker: Broker) {
        self.crew.move_to(broker.address());
        self.broker = Some(broker);
    }

    /// What does not come in this time does not come.
    pub fn be_patient_for(&mut self, patience: Duration) {
        self.crew.be_patient_for(patience);
    }

    /// Takes down that a broker does not start, or not go on, as it should.
    pub fn accuse_start(&mut self, how: &str) {
        let what = format!("the broker {how}:\n{}", self.launch.last_words());
        self.book.accuse("starts again", what);
    }

    /// Starts the broker, and checks that it has kept everything.
    pub fn recover(&mut self, with_away: bool, tally: &mut Tally) -> Result<()> {
        if self.start(tally)? {
            self.check_all(with_away)?;
            tally.settled(self.book.accounts(), with_away);
        }
        Ok(())
    }

    /// Checks what a running broker has kept.
    pub fn check_all(&mut self, with_away: bool) -> Result<()> {
        let address = self.broker()?.address();
        let left = self.deadline.saturating_duration_since(Instant::now());
        check_kept(address, left.min(self.crew.patience()), &mut self.book)?;
        self.settle(with_away)
    }

    /// Waits until all handshakes are over and everybody has everything.
    pub fn settle(&mut self, with_away: bool) -> Result<()> {
        let is_settled = self.crew.settle(&mut self.book, with_away, self.deadline)?;
        if is_settled && with_away {
            self.crew.part(&mut self.book, self.deadline)?;
        }
        let ended = self.broker.as_mut().map(Broker::ended).transpose()?.flatten();
        if let Some(status) = ended {
            self.accuse_start(&format!("serves and ends by itself with {status}"));
        } else if is_settled && with_away {
            self.crew.note_parted(&mut self.book)?;
        }
        Ok(())
    }

    /// Publishes and receives for so long.
    pub fn load(&mut self, span: Duration) -> Result<()> {
        self.load_until(Instant::now() + span, |_| false)
    }

    /// Publishes and receives until this moment, or until the accounts say that it is enough.
    pub fn load_until(&mut self, until: Instant, over: impl Fn(&Accounts) -> bool) -> Result<()> {
        self.crew.load(&mut self.book, until, over)
    }

    /// Publishes and receives for so long, while connections are lost and taken over.
    pub fn load_disturbed(&mut self, span: Duration, random: &mut Random) -> Result<()> {
        let until = Instant::now() + span;
        while Instant::now() < until {
            self.crew.disturb(random, &mut self.book)?;
            self.load(span.min(DISTURBED_EVERY))?;
        }
        Ok(())
    }

    /// Publishes and receives until `act`, in a thread of its own, has returned.
    pub fn load_while<T: Send>(&mut self, act: impl FnOnce() -> T + Send) -> Result<T> {
        let is_over = AtomicBool::new(false);
        let (crew, book) = (&mut self.crew, &mut self.book);
        let until = self.deadline;
        std::thread::scope(|scope| {
            let acting = scope.spawn(|| {
                let result = act();
                is_over.store(true, Ordering::Release);
                result
            });
            let loaded = crew.load(book, until, |_| is_over.load(Ordering::Acquire));
            let acted = acting.join().map_err(|_| anyhow::anyhow!("an injury has panicked"))?;
            loaded.map(|()| acted)
        })
    }

    /// Publishes and receives for so long, and kills the broker in the midst of it.
    pub fn kill_after(&mut self, span: Duration, tally: &mut Tally) -> Result<()> {
        let pid = self.broker()?.pid();
        self.load_while(move || {
            std::thread::sleep(span);
            kill_process(pid, Signal::KILL)
        })??;
        self.bury()?;
        tally.killed(self.book.accounts());
        Ok(())
    }

    /// The broker has been killed, or is now: takes what it said before.
    pub fn bury(&mut self) -> Result<()> {
        self.bury_unless(|_| false).map(drop)
    }

    /// The same behind faults of the store, of which it may have ended. Returns whether it had to
    /// be killed.
    pub fn bury_after_faults(&mut self) -> Result<bool> {
        self.bury_unless(|status| status.code() == Some(STORE_IO))
    }

    fn bury_unless(&mut self, may_end: impl Fn(ExitStatus) -> bool) -> Result<bool> {
        let mut is_killed = false;
        if let Some(mut broker) = self.broker.take() {
            let ended = broker.ended()?;
            broker.kill();
            is_killed = ended.is_none();
            if let Some(status) = ended
                && status.signal() != Some(KILL)
                && !may_end(status)
            {
                self.accuse_start(&format!("ends by itself with {status}"));
            }
        }
        self.crew.hear_out(&mut self.book)?;
        Ok(is_killed)
    }

    /// SIGTERM, and whatever end comes of it.
    pub fn stop_anyhow(&mut self) -> Result<()> {
        if let Some(broker) = self.broker.take()
            && broker.stop()?.is_none()
        {
            self.accuse_start("does not stop");
        }
        self.crew.hear_out(&mut self.book)
    }

    /// A clean stop.
    pub fn stop(&mut self) -> Result<()> {
        let Some(broker) = self.broker.take() else { return Ok(()) };
        match broker.stop()? {
            Some(status) if status.success() => {}
            Some(status) => self.accuse_start(&format!("stops with {status}")),
            None => self.accuse_start("does not stop"),
        }
        self.crew.hear_out(&mut self.book)
    }

    /// Bytes in the data directory.
    pub fn size(&self) -> u64 {
        let entries = std::fs::read_dir(&self.data).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.metadata().ok()).map(|facts| facts.len()).sum()
    }

    /// All was well: nothing of it is wanted any more.
    pub fn remove(self) -> Result<()> {
        let Self { home, faulty, broker, .. } = self;
        drop(broker);
        drop(faulty);
        Ok(std::fs::remove_dir_all(&home)?)
    }
}
