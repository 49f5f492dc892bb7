//! A bound endpoint that accepts: a bounded number of connections each turn, none while the
//! process has no descriptors left but those that the rest of it needs.
//!
//! Assumes: edge-triggered readiness, noted by the driver; `accept` is called every turn.
use std::{
    io,
    net::SocketAddr,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::Duration,
};

use rustix::{
    io::{Errno, fcntl_dupfd_cloexec},
    net::{
        AddressFamily, SocketFlags, SocketType, acceptfrom_with, bind, getsockname, listen,
        socket_with, sockopt,
    },
    process::{Resource, getrlimit},
};

use crate::{
    admission::{Door, ListenerStats, Places, Taken},
    app::PeerInfo,
    driver::{Accepted, Event},
    id::ListenerId,
    time::Millis,
};

/// Connections accepted in one turn.
const ACCEPTS: usize = 64;
/// How often a peer that was silent for [`BindOptions::keep_alive`] is asked whether it is there,
/// and how often in vain until it counts as gone.
const PROBE_EVERY: Duration = Duration::from_secs(30);
const PROBES: u32 = 4;
/// How long accepting rests when the system has no room for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// How an endpoint is bound.
#[derive(Clone, Copy, Debug)]
pub struct BindOptions {
    /// Connections open at once, through whichever listener of these lanes; further ones are turned
    /// away. Default: no limit.
    pub max_connections: usize,
    /// Of these from one address, or one /64 of IPv6. Default: no limit of its own.
    pub max_connections_each: usize,
    /// Of those that are turned away, how many may be there at once, so that the application can
    /// tell them why ([`LaneIo::excess`](crate::LaneIo::excess)); further ones are closed as they
    /// come. Default 0.
    pub max_excess: usize,
    /// Descriptors that connections leave to the rest of the process, whose files must be openable
    /// however many clients come; at most a quarter of the limit. Default 0.
    pub spare_files: u32,
    /// Connections that the kernel holds until they are accepted. Default 4096.
    pub backlog: i32,
    /// Given to the application with each connection: a listener's id is known only once it is
    /// bound, and connections may come first. Default 0.
    pub tag: u32,
    /// Whether small packets leave at once (`TCP_NODELAY`). Default: yes.
    pub nodelay: bool,
    /// After how much silence the system asks a peer whether it is still there (`SO_KEEPALIVE`),
    /// and closes the connection when four questions, at most 30 s apart, find no answer; 1 s at
    /// least. Default: never.
    pub keep_alive: Option<Duration>,
}

impl Default for BindOptions {
    fn default() -> Self {
        Self {
            max_connections: usize::MAX,
            max_connections_each: usize::MAX,
            max_excess: 0,
            spare_files: 0,
            backlog: 4096,
            tag: 0,
            nodelay: true,
            keep_alive: None,
        }
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    id: ListenerId,
    addr: SocketAddr,
    tag: u32,
    door: Door,
    spare_files: u32,
    /// The last connection took one of the spare descriptors.
    short: bool,
    /// The kernel may have a connection.
    ready: bool,
    /// Nothing is accepted before this.
    resumes: Millis,
    /// The fault that goes on was logged.
    logged: bool,
}

impl Listener {
    /// Binds and listens.
    pub(crate) fn bind(
        id: ListenerId,
        addr: SocketAddr,
        how: BindOptions,
        taken: Arc<Taken>,
    ) -> io::Result<Self> {
        let family = if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = socket_with(family, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        // Accepted sockets inherit what follows: no call for each.
        sockopt::set_tcp_nodelay(&fd, how.nodelay)?;
        if let Some(silence) = how.keep_alive {
            sockopt::set_socket_keepalive(&fd, true)?;
            sockopt::set_tcp_keepidle(&fd, silence)?;
            sockopt::set_tcp_keepintvl(&fd, PROBE_EVERY.min(silence))?;
            sockopt::set_tcp_keepcnt(&fd, PROBES)?;
        }
        bind(&fd, &addr)?;
        listen(&fd, how.backlog)?;
        let addr = SocketAddr::try_from(getsockname(&fd)?)?;
        Ok(Self {
            fd,
            id,
            addr,
            tag: how.tag,
            door: Door::new(
                Places {
                    all: how.max_connections,
                    each_address: how.max_connections_each,
                    excess: how.max_excess,
                },
                taken,
            ),
            spare_files: how.spare_files,
            short: false,
            ready: true,
            resumes: Millis::default(),
            logged: false,
        })
    }

    pub(crate) fn id(&self) -> ListenerId {
        self.id
    }

    /// Where it listens; the port is never 0.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) fn stats(&self) -> Arc<ListenerStats> {
        Arc::clone(self.door.stats())
    }

    pub(crate) fn note_ready(&mut self) {
        self.ready = true;
    }

    /// When there is something to accept without a further event.
    pub(crate) fn due(&self) -> Millis {
        if self.ready { self.resumes } else { Millis::NEVER }
    }

    /// Accepts some, if it is time.
    pub(crate) fn accept(&mut self, now: Millis, events: &mut Vec<Event<OwnedFd>>) {
        if self.due() > now {
            return;
        }
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let mut fault = None;
        for _ in 0..ACCEPTS {
            if self.short {
                match self.has_room() {
                    Ok(true) => self.short = false,
                    Ok(false) => return self.pause(now, Errno::MFILE),
                    Err(error) => return self.pause(now, error),
                }
            }
            match acceptfrom_with(&self.fd, flags) {
                Ok((socket, addr)) => {
                    fault = None;
                    self.short = !leaves_spare(&socket, self.spare_files);
                    let addr = addr.and_then(|addr| SocketAddr::try_from(addr).ok());
                    // A peer that is gone already may have no address.
                    let Some(addr) = addr else { continue };
                    let addr = SocketAddr::new(addr.ip().to_canonical(), addr.port());
                    let peer = PeerInfo { addr, listener: self.id, tag: self.tag, tls: None };
                    let admission = self.door.admit(now, addr, self.addr);
                    if admission.is_some() {
                        events.push(Event::Accepted(Accepted { socket, peer, admission }));
                    }
                }
                Err(Errno::AGAIN) => {
                    self.ready = false;
                    return self.recovered();
                }
                // The next connection may well be fine.
                Err(error @ (Errno::INTR | Errno::CONNABORTED | Errno::PROTO | Errno::PERM)) => {
                    self.door.stats().add_fault();
                    fault = Some(error);
                }
                Err(error) => return self.pause(now, error),
            }
        }
        // It came last, and may be what comes always: a rule of the system, not of a connection.
        if let Some(error) = fault {
            self.rest(now, error);
        }
    }

    /// Whether a connection would leave the spare descriptors alone.
    fn has_room(&self) -> Result<bool, Errno> {
        Ok(leaves_spare(&fcntl_dupfd_cloexec(&self.fd, 0)?, self.spare_files))
    }

    /// No descriptors or memory, as a rule: trying again at once would burn a core and help nobody.
    fn pause(&mut self, now: Millis, error: Errno) {
        self.door.stats().add_fault();
        self.rest(now, error);
    }

    fn rest(&mut self, now: Millis, error: Errno) {
        self.resumes = now + PAUSE;
        if !std::mem::replace(&mut self.logged, true) {
            let addr = self.addr;
            tracing::warn!(%addr, %error, "cannot accept; connected clients are served on");
        }
    }

    /// Nobody waits any more: only now, so that a process at its limit does not log each descriptor
    /// that comes and goes.
    fn recovered(&mut self) {
        if std::mem::take(&mut self.logged) {
            tracing::info!(addr = %self.addr, "accepting again");
        }
    }
}

/// Whether so many descriptors are free besides this new one. The kernel gives the lowest number
/// that is free: all below it are taken, and those above it are as good as free, since only who
/// came while the lower ones were taken has one.
fn leaves_spare(newest: &OwnedFd, spare: u32) -> bool {
    let Some(limit) = getrlimit(Resource::Nofile).current else { return true };
    let spare = u64::from(spare).min(limit / 4);
    u64::from(newest.as_raw_fd().unsigned_abs()) < limit - spare
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::{Ipv4Addr, TcpStream},
        thread,
    };

    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

    use super::*;

    /// The calling thread accepts nothing, with this error.
    fn refuse_accepts(error: Errno) -> Result<(), Box<dyn std::error::Error>> {
        let rules = [(libc::SYS_accept4, Vec::new())].into_iter().collect();
        let refusal = SeccompAction::Errno(error.raw_os_error().cast_unsigned());
        let arch = std::env::consts::ARCH.try_into()?;
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch)?;
        let program: BpfProgram = filter.try_into()?;
        Ok(seccompiler::apply_filter(&program)?)
    }

    /// A rule of the system that refuses every connection would burn a core otherwise.
    #[test]
    fn whatever_goes_on_at_accepting_makes_it_rest() {
        let faults = [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOBUFS,
            Errno::NOMEM,
            Errno::NETDOWN,
            Errno::INVAL,
            Errno::INTR,
            Errno::CONNABORTED,
            Errno::PROTO,
            Errno::PERM,
        ];
        for fault in faults {
            let confined = || {
                if refuse_accepts(fault).is_err() {
                    eprintln!("skipped: no filter for system calls");
                    return;
                }
                let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                let how = BindOptions::default();
                let taken = Arc::default();
                let mut listener = Listener::bind(ListenerId(0), addr, how, taken).unwrap();
                let mut events = Vec::new();
                listener.accept(Millis(5), &mut events);
                assert!(events.is_empty());
                assert_eq!(listener.due(), Millis(5) + PAUSE, "{fault}");
                let faults = listener.stats().faults();
                assert!(faults > 0);
                listener.accept(Millis(6), &mut events);
                assert_eq!(listener.stats().faults(), faults, "it rests");
            };
            thread::scope(|scope| scope.spawn(confined).join().unwrap());
        }
    }

    #[test]
    fn accepted_sockets_inherit_nodelay_and_keep_alive() {
        for (nodelay, silence_s) in [(true, None), (false, Some(7)), (true, Some(600))] {
            let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let keep_alive = silence_s.map(Duration::from_secs);
            let how = BindOptions { nodelay, keep_alive, tag: 9, ..BindOptions::default() };
            let mut listener = Listener::bind(ListenerId(0), addr, how, Arc::default()).unwrap();
            let _client = TcpStream::connect(listener.addr()).unwrap();
            let mut events = Vec::new();
            listener.accept(Millis(0), &mut events);
            let Some(Event::Accepted(accepted)) = events.pop() else {
                panic!("nothing accepted");
            };
            let socket = &accepted.socket;
            assert_eq!(sockopt::tcp_nodelay(socket).unwrap(), nodelay);
            assert_eq!(sockopt::socket_keepalive(socket).unwrap(), keep_alive.is_some());
            if let Some(silence) = keep_alive {
                assert_eq!(sockopt::tcp_keepidle(socket).unwrap(), silence);
                assert_eq!(sockopt::tcp_keepintvl(socket).unwrap(), PROBE_EVERY.min(silence));
                assert_eq!(sockopt::tcp_keepcnt(socket).unwrap(), PROBES);
            }
            assert_eq!(accepted.peer.tag, 9);
            assert_eq!(listener.due(), Millis::NEVER, "the kernel has no more");
        }
    }
}
