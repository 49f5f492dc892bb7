//! All clients together, in one thread: each turn takes what has come, syncs the accounts, and only
//! then answers.
//!
//! Owns: the turn, who is connected when, and waiting until all accounts are settled.
//! Does not know: why a broker is not there.

mod caller;
mod kept;
mod line;
mod member;
mod mourned;
mod passer;
mod publisher;
mod receiver;
mod troupe;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

pub use self::kept::check_kept;
use self::member::Member;
pub use self::passer::pass;
pub use self::troupe::play;
use crate::accounts::{Accounts, Book, Stage, is_asked};
use crate::cast::{AUDIENCES, PUBLISHERS, RECEIVERS, Who};
use zzq_wal::sim_disk::Random;

/// Who has not got through for so long without anything coming is not served.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between attempts to connect.
const REDIAL: Duration = Duration::from_millis(20);

/// See the file.
#[derive(Debug)]
pub struct Crew {
    members: Vec<Member>,
    address: SocketAddr,
    dialed: Option<Instant>,
    patience: Duration,
}

/// Who is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// All but those who are away.
    Usual,
    /// Everybody.
    All,
}

impl Crew {
    /// Everybody, for a broker at this address; nobody is connected.
    pub fn new(address: SocketAddr) -> Self {
        let receivers = (0..RECEIVERS.len()).map(Who::Receiver);
        let all = receivers.chain((0..PUBLISHERS.len()).map(Who::Publisher));
        Self { members: all.map(Member::new).collect(), address, dialed: None, patience: PATIENCE }
    }

    /// What does not come in this time does not come.
    pub fn be_patient_for(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// See [`be_patient_for`](Self::be_patient_for).
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// The broker has another address now; connections to the one before are over.
    pub fn move_to(&mut self, address: SocketAddr) {
        self.address = address;
        self.dialed = None;
        self.members.iter_mut().for_each(Member::hang_up);
    }

    /// Publishes and receives until this moment, or until `over`.
    pub fn load(
        &mut self,
        book: &mut Book,
        until: Instant,
        over: impl Fn(&Accounts) -> bool,
    ) -> Result<()> {
        while Instant::now() < until && !over(book.accounts()) {
            self.dial(Wanted::Usual, book)?;
            for member in &mut self.members {
                member.go_on(book)?;
            }
            self.turn(book, until.min(Instant::now() + REDIAL))?;
        }
        Ok(())
    }

    /// Some lose their connections, or come again before those are over, which a broker takes down
    /// then; whose will would be due is left alone.
    pub fn disturb(&mut self, random: &mut Random, book: &mut Book) -> Result<()> {
        let address = self.address;
        for member in self.members.iter_mut().filter(|member| !member.is_mourned()) {
            match random.below(12) {
                0 => member.hang_up(),
                1 if member.is_up() => member.come_again(address, book)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Takes what a broker that has ended said before.
    pub fn hear_out(&mut self, book: &mut Book) -> Result<()> {
        for member in &mut self.members {
            member.take(book)?;
            member.hang_up();
        }
        Ok(book.sync()?)
    }

    /// Completes all handshakes and waits until everybody has what was acknowledged; what does
    /// not come is taken down. Those who are away take their part only `with_away`.
    pub fn settle(&mut self, book: &mut Book, with_away: bool, deadline: Instant) -> Result<bool> {
        let wanted = if with_away { Wanted::All } else { Wanted::Usual };
        let mut patience = Instant::now() + self.patience;
        let mut least = (usize::MAX, usize::MAX);
        loop {
            self.dial(wanted, book)?;
            self.turn(book, Instant::now() + REDIAL)?;
            let accounts = book.accounts();
            if !accounts.broken().is_empty() {
                break;
            }
            let owed: usize = (0..AUDIENCES.len())
                .filter(|audience| is_asked(*audience, with_away))
                .map(|audience| accounts.missing(audience).count())
                .sum();
            let open = accounts.open();
            if open == 0 && owed == 0 && self.is_complete(wanted, book) {
                break;
            }
            // Not what comes besides: wills come as long as their clients come and go. What ends
            // is owed from then on.
            if open < least.0 || open == least.0 && owed < least.1 {
                least = (open, owed);
                patience = Instant::now() + self.patience;
            }
            if Instant::now() > patience.min(deadline) {
                self.give_up(book, wanted);
                break;
            }
        }
        if with_away {
            self.send_away()?;
        }
        Ok(book.accounts().broken().is_empty())
    }

    /// Everybody has been let in, and has its subscription.
    fn is_complete(&self, wanted: Wanted, book: &Book) -> bool {
        self.members.iter().filter(|member| is_wanted(member.who(), wanted)).all(|member| {
            member.is_up()
                && match member.who() {
                    Who::Receiver(at) if RECEIVERS[at].comes_and_goes => {
                        matches!(book.accounts().stage(), Stage::In | Stage::Out)
                    }
                    Who::Receiver(at) => book.accounts().subscribed(at),
                    Who::Publisher(_) => true,
                }
        })
    }

    fn give_up(&self, book: &mut Book, wanted: Wanted) {
        let open = book.accounts().open();
        if open > 0 {
            book.accuse("heals", format!("{open} handshakes do not come to their end"));
        } else if !self.is_complete(wanted, book) {
            book.accuse("heals", "not everybody is let in".to_owned());
        }
        for audience in (0..AUDIENCES.len()).filter(|one| is_asked(*one, wanted == Wanted::All)) {
            book.accuse_missing(audience);
        }
    }

    /// Those whom somebody would mourn leave in order: their wills never come. It is over when the
    /// broker has closed.
    pub fn part(&mut self, book: &mut Book, deadline: Instant) -> Result<()> {
        for member in self.members.iter_mut().filter(|member| member.is_mourned()) {
            member.say_farewell(book)?;
        }
        let patience = deadline.min(Instant::now() + self.patience);
        let stands = |member: &Member| member.is_mourned() && member.is_up();
        while self.members.iter().any(stands) {
            if Instant::now() > patience {
                book.accuse("heals", "the broker does not close behind DISCONNECT".to_owned());
                break;
            }
            self.turn(book, Instant::now() + REDIAL)?;
        }
        Ok(())
    }

    /// Those who said farewell have left: the broker has not ended meanwhile.
    pub fn note_parted(&mut self, book: &mut Book) -> Result<()> {
        for member in self.members.iter().filter(|member| member.is_mourned()) {
            member.has_left(book);
        }
        Ok(book.sync()?)
    }

    fn send_away(&mut self) -> Result<()> {
        for member in &mut self.members {
            if !is_wanted(member.who(), Wanted::Usual) {
                member.leave()?;
            }
        }
        Ok(())
    }

    fn dial(&mut self, wanted: Wanted, book: &mut Book) -> Result<()> {
        if self.dialed.is_some_and(|dialed| dialed.elapsed() < REDIAL) {
            return Ok(());
        }
        self.dialed = Some(Instant::now());
        for member in &mut self.members {
            if member.line().is_none() && is_wanted(member.who(), wanted) {
                member.connect(self.address, book)?;
            }
        }
        book.sync()?;
        self.members.iter_mut().for_each(Member::flush);
        Ok(())
    }

    /// Waits until something comes, or this moment; takes it, syncs, answers.
    fn turn(&mut self, book: &mut Book, until: Instant) -> Result<()> {
        // What has been entered for what is to be sent.
        book.sync()?;
        self.members.iter_mut().for_each(Member::flush);
        let ready = self.wait(until)?;
        for (member, ready) in self.members.iter_mut().zip(ready) {
            if ready {
                member.take(book)?;
            }
        }
        book.sync()?;
        self.members.iter_mut().for_each(Member::flush);
        Ok(())
    }

    /// Whose connection has something, for each member.
    fn wait(&self, until: Instant) -> Result<Vec<bool>> {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: 0, tv_nsec: i64::from(left.subsec_nanos()) };
        let lines: Vec<_> = self.members.iter().filter_map(Member::line).collect();
        let flags =
            |has_output| if has_output { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let mut fds: Vec<_> =
            lines.iter().map(|line| PollFd::new(*line, flags(line.has_output()))).collect();
        match poll(&mut fds, Some(&left)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let of = |member: &Member| member.line().is_some() && ready.next().unwrap_or(false);
        Ok(self.members.iter().map(of).collect())
    }
}

fn is_wanted(who: Who, wanted: Wanted) -> bool {
    match who {
        Who::Receiver(at) => wanted == Wanted::All || !RECEIVERS[at].is_away,
        Who::Publisher(_) => true,
    }
}

#[cfg(test)]
mod tests;
