//! The running lanes of one application.
use std::{
    io,
    net::{SocketAddr, ToSocketAddrs},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
        mpsc::Sender,
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::thread::{CpuSet, sched_setaffinity};

use super::completion::{Completion, Promise, promise};
#[cfg(feature = "tls")]
use crate::transport::tls::TlsServer;
#[cfg(feature = "web")]
use crate::transport::web::WebServer;
use crate::{
    admission::{ListenerStats, Taken},
    app::Handler,
    driver::{DriverKind, LaneDriver, LaneListener, Layers},
    endpoint::{BindError, Endpoint, TcpEndpoint},
    id::ListenerId,
    lane::{Command, Lane},
    listener::{BindOptions, Listener},
    waker::LaneWaker,
};

/// Lanes that run one application. Clones are the same lanes.
#[derive(Clone, Debug)]
pub struct Lanes(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    lanes: Vec<Handle>,
    driver: DriverKind,
    next_listener: AtomicU32,
    /// By the connections of all listeners.
    taken: Arc<Taken>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Held by each thread: gone when the last has ended.
    ended: Weak<Ended>,
}

#[derive(Debug)]
struct Handle {
    commands: Sender<Command<LaneListener>>,
    waker: LaneWaker,
}

/// Promises that are kept, by being dropped, when the last lane has ended.
#[derive(Debug, Default)]
struct Ended(Mutex<Vec<Promise<()>>>);

/// A bound endpoint.
#[derive(Clone, Debug)]
pub struct Bound {
    /// To unbind it.
    pub id: ListenerId,
    /// The endpoint with the port that the system chose.
    pub endpoint: Endpoint,
    /// Its address.
    pub addr: SocketAddr,
    /// What it counts.
    pub stats: Arc<ListenerStats>,
    /// What its handshakes come to, if it is for WebSocket.
    #[cfg(feature = "web")]
    pub web: Option<Arc<WebServer>>,
}

type Seated<H> = Vec<(Sender<Command<LaneListener>>, Lane<H, LaneDriver>)>;

impl Lanes {
    pub(super) fn start<H: Handler + Send + 'static>(
        seated: Seated<H>,
        wakers: Vec<LaneWaker>,
        pin: bool,
        driver: DriverKind,
    ) -> io::Result<Self> {
        let ended = Arc::new(Ended::default());
        let (mut lanes, mut threads) = (Vec::new(), Vec::new());
        for (core, ((commands, lane), waker)) in seated.into_iter().zip(wakers).enumerate() {
            lanes.push(Handle { commands, waker });
            let ended = Arc::clone(&ended);
            let run = move || {
                if pin {
                    pin_to(core);
                }
                lane.run();
                drop(ended);
            };
            match thread::Builder::new().name(format!("zzq-lane-{core}")).spawn(run) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    // Those that run already would wait for ever.
                    for lane in &lanes {
                        lane.ask(Command::Stop { within: Duration::ZERO });
                    }
                    return Err(error);
                }
            }
        }
        Ok(Self(Arc::new(Inner {
            lanes,
            driver,
            next_listener: AtomicU32::new(0),
            taken: Arc::default(),
            threads: Mutex::new(threads),
            ended: Arc::downgrade(&ended),
        })))
    }

    /// Binds an endpoint. Host names are resolved here and now, which may block; the rest completes
    /// when a lane accepts on it.
    pub fn bind(
        &self,
        endpoint: &str,
        options: BindOptions,
    ) -> Completion<Result<Bound, BindError>> {
        match endpoint.parse::<Endpoint>() {
            Ok(endpoint) if endpoint.is_over_tls() => {
                Completion::ready(Err(BindError::NoCertificate(endpoint)))
            }
            Ok(endpoint) => self.bind_with(endpoint, options, Layers::default()),
            Err(error) => Completion::ready(Err(error.into())),
        }
    }

    /// Binds an endpoint over TLS, as [`bind`](Self::bind) does. Its clients are served with what
    /// `server` has read, or reads later; it may serve other endpoints as well.
    #[cfg(feature = "tls")]
    pub fn bind_tls(
        &self,
        endpoint: &str,
        options: BindOptions,
        server: Arc<TlsServer>,
    ) -> Completion<Result<Bound, BindError>> {
        match endpoint.parse::<Endpoint>() {
            Ok(endpoint) if endpoint.is_over_tls() => {
                self.bind_with(endpoint, options, Layers { tls: Some(server), ..Layers::default() })
            }
            Ok(endpoint) => Completion::ready(Err(BindError::NotTls(endpoint))),
            Err(error) => Completion::ready(Err(error.into())),
        }
    }

    fn bind_with(
        &self,
        endpoint: Endpoint,
        options: BindOptions,
        layers: Layers,
    ) -> Completion<Result<Bound, BindError>> {
        #[cfg(feature = "web")]
        let web = endpoint.web().map(|web| Arc::new(WebServer::new(web.path.clone())));
        #[cfg(feature = "web")]
        let layers = Layers { web: web.clone(), ..layers };
        let listener = match self.listener(&endpoint, options) {
            Ok(listener) => listener,
            Err(error) => return Completion::ready(Err(error)),
        };
        let (id, addr, stats) = (listener.id(), listener.addr(), listener.stats());
        let endpoint = endpoint.at(TcpEndpoint { host: addr.ip().to_string(), port: addr.port() });
        let bound = Bound {
            id,
            endpoint,
            addr,
            stats,
            #[cfg(feature = "web")]
            web,
        };
        self.listen(id, layers.wrap(listener), bound)
    }

    fn listener(&self, endpoint: &Endpoint, options: BindOptions) -> Result<Listener, BindError> {
        let TcpEndpoint { host, port } = endpoint.tcp();
        let addrs = (host.as_str(), *port).to_socket_addrs();
        let addrs = match addrs {
            Ok(addrs) => addrs,
            Err(source) => {
                return Err(BindError::Resolve { endpoint: endpoint.clone(), source });
            }
        };
        let id = ListenerId(self.0.next_listener.fetch_add(1, Ordering::Relaxed));
        let mut refusal = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for addr in addrs {
            match Listener::bind(id, addr, options, Arc::clone(&self.0.taken)) {
                Ok(listener) => return Ok(listener),
                Err(error) => refusal = error,
            }
        }
        Err(BindError::Bind { endpoint: endpoint.clone(), source: refusal })
    }

    fn listen(
        &self,
        id: ListenerId,
        listener: LaneListener,
        bound: Bound,
    ) -> Completion<Result<Bound, BindError>> {
        let (promise, completion) = promise(Err(BindError::Stopped));
        let lane = self.acceptor(id);
        let done = move |result: io::Result<()>| {
            promise.keep(match result {
                Ok(()) => Ok(bound),
                Err(source) => Err(BindError::Bind { endpoint: bound.endpoint, source }),
            });
        };
        lane.ask(Command::Listen(listener, Box::new(done)));
        completion
    }

    /// Closes a listener; connections that came through it stay.
    pub fn unbind(&self, id: ListenerId) -> Completion<()> {
        let (promise, completion) = promise(());
        self.acceptor(id).ask(Command::Unlisten(id, promise));
        completion
    }

    /// Tells every lane to stop within `within`: see [`Handler::stopping`]. Completes when all
    /// have.
    pub fn stop(&self, within: Duration) -> Completion<()> {
        let (promise, completion) = promise(());
        if let Some(ended) = self.0.ended.upgrade() {
            ended.0.lock().unwrap_or_else(PoisonError::into_inner).push(promise);
        }
        for lane in &self.0.lanes {
            lane.ask(Command::Stop { within });
        }
        completion
    }

    /// What they wait and send by: epoll where another was asked for and refused.
    pub fn driver(&self) -> DriverKind {
        self.0.driver
    }

    /// Wakes each of the lanes.
    pub fn wakers(&self) -> impl Iterator<Item = &LaneWaker> {
        self.0.lanes.iter().map(|lane| &lane.waker)
    }

    /// Joins the threads, which were told to stop. A lane that panicked has said so already.
    pub(super) fn join(&self) {
        let mut threads = self.0.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            if thread.thread().id() != thread::current().id() {
                let _ = thread.join();
            }
        }
    }

    /// The lane that accepts for a listener: they take turns.
    fn acceptor(&self, id: ListenerId) -> &Handle {
        &self.0.lanes[id.0 as usize % self.0.lanes.len()]
    }
}

impl Handle {
    /// A lane that has stopped drops the command, and with it the promise.
    fn ask(&self, command: Command<LaneListener>) {
        let _ = self.commands.send(command);
        self.waker.wake();
    }
}

fn pin_to(core: usize) {
    let mut cores = CpuSet::new();
    cores.set(core);
    if let Err(error) = sched_setaffinity(None, &cores) {
        tracing::warn!(core, %error, "lane is not pinned");
    }
}
