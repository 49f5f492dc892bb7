//! The driver of a lane that runs as a thread: which of the two it is, is known at the start only.
//!
//! Assumes: the first wait is on the lane's own thread, and comes before any connection.
use std::{
    io::{self, IoSlice},
    os::fd::OwnedFd,
    sync::Arc,
};

use super::{
    BusyPoll, Driver, Event, Read, Rest, Taken, Write, epoll::EpollDriver, uring::UringDriver,
};
#[cfg(feature = "tls")]
use crate::transport::tls::{Secured, SecuredListener};
#[cfg(feature = "web")]
use crate::transport::web::{Web, WebListener};
use crate::{
    id::{ConnId, ListenerId, WatchId},
    listener::Listener,
    time::Millis,
    transport::{TlsServer, WebServer},
    waker::LaneWaker,
};

/// What stands between sockets and lanes, of what this build has: TLS, and over it WebSocket.
#[cfg(feature = "tls")]
type Below = Secured<ChosenDriver>;
#[cfg(not(feature = "tls"))]
type Below = ChosenDriver;

/// The driver of lanes that run as threads.
#[cfg(feature = "web")]
pub(crate) type LaneDriver = Web<Below>;
/// The driver of lanes that run as threads.
#[cfg(not(feature = "web"))]
pub(crate) type LaneDriver = Below;

/// A listener, as the lanes' driver takes it.
pub(crate) type LaneListener = <LaneDriver as Driver>::Listener;

/// Puts it between.
pub(crate) fn wrap(driver: ChosenDriver) -> LaneDriver {
    #[cfg(feature = "tls")]
    let driver = Secured::new(driver);
    #[cfg(feature = "web")]
    let driver = Web::new(driver);
    driver
}

/// Of this, what the connections of a listener have.
#[derive(Debug, Default)]
pub(crate) struct Layers {
    pub(crate) tls: Option<Arc<TlsServer>>,
    pub(crate) web: Option<Arc<WebServer>>,
}

impl Layers {
    /// Puts it between for a listener.
    pub(crate) fn wrap(self, listener: Listener) -> LaneListener {
        let id = listener.id();
        over_web(over_tls(listener, id, self.tls), id, self.web)
    }
}

#[cfg(feature = "tls")]
fn over_tls(
    listener: Listener,
    id: ListenerId,
    server: Option<Arc<TlsServer>>,
) -> <Below as Driver>::Listener {
    match server {
        Some(server) => SecuredListener::through(listener, id, server),
        None => SecuredListener::plain(listener),
    }
}

#[cfg(not(feature = "tls"))]
fn over_tls(listener: Listener, _: ListenerId, _: Option<Arc<TlsServer>>) -> Listener {
    listener
}

#[cfg(feature = "web")]
fn over_web(
    listener: <Below as Driver>::Listener,
    id: ListenerId,
    server: Option<Arc<WebServer>>,
) -> LaneListener {
    match server {
        Some(server) => WebListener::through(listener, id, server),
        None => WebListener::plain(listener),
    }
}

#[cfg(not(feature = "web"))]
fn over_web(
    listener: <Below as Driver>::Listener,
    _: ListenerId,
    _: Option<Arc<WebServer>>,
) -> LaneListener {
    listener
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
