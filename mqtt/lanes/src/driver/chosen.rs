//! The driver of a lane that runs as a thread: which of the two it is, is known at the start only.
//!
//! Assumes: the first wait is on the lane's own thread, and comes before any connection.
use std::{
    io::{self, IoSlice},
    os::fd::OwnedFd,
};

use super::{
    BusyPoll, Driver, Event, Read, Rest, Taken, Write, epoll::EpollDriver, uring::UringDriver,
};
#[cfg(feature = "tls")]
use crate::transport::tls::Secured;
use crate::{
    id::{ConnId, ListenerId, WatchId},
    listener::Listener,
    time::Millis,
    waker::LaneWaker,
};

/// The driver of lanes that run as threads.
#[cfg(feature = "tls")]
pub(crate) type LaneDriver = Secured<ChosenDriver>;
/// The driver of lanes that run as threads.
#[cfg(not(feature = "tls"))]
pub(crate) type LaneDriver = ChosenDriver;

/// What stands between it and the lane.
#[cfg(feature = "tls")]
pub(crate) fn wrap(driver: ChosenDriver) -> LaneDriver {
    Secured::new(driver)
}

/// What stands between it and the lane: nothing.
#[cfg(not(feature = "tls"))]
pub(crate) fn wrap(driver: ChosenDriver) -> LaneDriver {
    driver
}

/// What lanes wait and send by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DriverKind {
    /// epoll, and a call for each read and write.
    #[default]
    Epoll,
    /// `io_uring`: what a turn sends and the wait behind it are one call. Linux 6.1 or newer.
    Uring,
}

impl DriverKind {
    /// This one if the system allows it, else epoll, with a line in the log that says why.
    pub(crate) fn allowed(self) -> Self {
        match self {
            Self::Epoll => Self::Epoll,
            Self::Uring => match UringDriver::probe() {
                Ok(()) => Self::Uring,
                Err(error) => {
                    tracing::warn!(%error, "no io_uring for the lanes; they use epoll");
                    Self::Epoll
                }
            },
        }
    }
}

#[derive(Debug)]
pub(crate) struct ChosenDriver {
    chosen: Chosen,
    busy_poll: BusyPoll,
}

#[derive(Debug)]
enum Chosen {
    Epoll(EpollDriver),
    Uring(Box<UringDriver>),
    /// Until the first wait, for a ring belongs to the thread that begins it.
    ToBegin(Option<Box<UringDriver>>),
}

impl ChosenDriver {
    pub(crate) fn new(
        kind: DriverKind,
        waker: &LaneWaker,
        watches: Vec<(WatchId, OwnedFd)>,
        busy_poll: BusyPoll,
    ) -> io::Result<Self> {
        let chosen = match kind {
            DriverKind::Epoll => Chosen::Epoll(EpollDriver::new(waker, watches, busy_poll)?),
            DriverKind::Uring => match UringDriver::new(waker, watches, busy_poll) {
                Ok(driver) => Chosen::ToBegin(Some(Box::new(driver))),
                Err((error, watches)) => {
                    tracing::warn!(%error, "no io_uring for a lane; it uses epoll");
                    Chosen::Epoll(EpollDriver::new(waker, watches, busy_poll)?)
                }
            },
        };
        Ok(Self { chosen, busy_poll })
    }

    /// A probe at the start has gone well, so it fails only where the system has run out meanwhile.
    #[cold]
    fn begin(&mut self, waker: &LaneWaker) {
        let Chosen::ToBegin(driver) = &mut self.chosen else { return };
        let Some(mut driver) = driver.take() else { unreachable!("it begins once") };
        self.chosen = match driver.begin() {
            Ok(()) => Chosen::Uring(driver),
            Err(error) => {
                tracing::warn!(%error, "no io_uring for a lane; it uses epoll");
                let watches = driver.into_watches();
                match EpollDriver::new(waker, watches, self.busy_poll) {
                    Ok(driver) => Chosen::Epoll(driver),
                    Err(error) => unreachable!("neither io_uring nor epoll: {error}"),
                }
            }
        };
    }
}

/// Hands a call to whichever it is.
macro_rules! either {
    ($self:ident, $driver:ident => $call:expr) => {
        match &mut $self.chosen {
            Chosen::Epoll($driver) => $call,
            Chosen::Uring($driver) => $call,
            Chosen::ToBegin(_) => unreachable!("a lane waits first"),
        }
    };
}

impl Driver for ChosenDriver {
    type Socket = OwnedFd;
    type Listener = Listener;

    fn now(&mut self) -> Millis {
        either!(self, driver => driver.now())
    }

    fn wait(&mut self, rest: Rest, waker: &LaneWaker, events: &mut Vec<Event<OwnedFd>>) {
        if matches!(self.chosen, Chosen::ToBegin(_)) {
            self.begin(waker);
        }
        either!(self, driver => driver.wait(rest, waker, events));
    }

    fn add(&mut self, conn: ConnId, socket: OwnedFd) -> io::Result<()> {
        either!(self, driver => driver.add(conn, socket))
    }

    fn read(&mut self, conn: ConnId, into: &mut [u8]) -> Read {
        either!(self, driver => driver.read(conn, into))
    }

    fn unread(&mut self, conn: ConnId) -> usize {
        either!(self, driver => driver.unread(conn))
    }

    fn write(&mut self, conn: ConnId, pieces: &[IoSlice<'_>]) -> Write {
        either!(self, driver => driver.write(conn, pieces))
    }

    fn shut(&mut self, conn: ConnId) {
        either!(self, driver => driver.shut(conn));
    }

    fn is_sending(&self, conn: ConnId) -> bool {
        match &self.chosen {
            Chosen::Epoll(driver) => driver.is_sending(conn),
            Chosen::Uring(driver) => driver.is_sending(conn),
            Chosen::ToBegin(_) => false,
        }
    }

    fn close(&mut self, conn: ConnId) {
        either!(self, driver => driver.close(conn));
    }

    fn take(&mut self, conn: ConnId) -> Option<Taken<OwnedFd>> {
        either!(self, driver => driver.take(conn))
    }

    fn listen(&mut self, listener: Listener) -> io::Result<()> {
        either!(self, driver => driver.listen(listener))
    }

    fn unlisten(&mut self, id: Option<ListenerId>) {
        either!(self, driver => driver.unlisten(id));
    }
}
