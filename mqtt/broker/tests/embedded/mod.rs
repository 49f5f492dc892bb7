//! A broker inside of the test's process, as an application embeds it, with hooks that the test
//! decides.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use tempfile::TempDir;
use zzq_broker::{Broker, BrokerOptions, Context, DriverKind, Hooks};

use super::support::{Accepted, Client, Connect, Version};

/// See the file.
pub(crate) struct Embedded {
    broker: Broker,
    pub(crate) address: SocketAddr,
    pub(crate) endpoint: String,
    _context: Context,
    _folder: Option<TempDir>,
}

/// `ZZQ_TEST_ARGS`, which processes get, may ask for another driver of the lanes.
fn driver() -> DriverKind {
    let arguments = std::env::var("ZZQ_TEST_ARGS").unwrap_or_default();
    if arguments.contains("--io=uring") { DriverKind::Uring } else { DriverKind::Epoll }
}

impl Embedded {
    /// Two lanes, in memory.
    pub(crate) fn start(hooks: Hooks) -> Self {
        Self::with(BrokerOptions::default(), hooks, None)
    }

    /// Two lanes over a log.
    pub(crate) fn on_disk(hooks: Hooks) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data_dir = Some(folder.path().join("data"));
        Self::with(BrokerOptions { data_dir, ..BrokerOptions::default() }, hooks, Some(folder))
    }

    pub(crate) fn with(options: BrokerOptions, hooks: Hooks, folder: Option<TempDir>) -> Self {
        let context = Context::builder().lanes(2).driver(driver()).build();
        let broker = Broker::start_with_hooks(&context, options, hooks).expect("a broker");
        let bound = wait(broker.bind("tcp://127.0.0.1:0")).expect("a free port");
        let endpoint = bound.endpoint.to_string();
        Self { broker, address: bound.addr, endpoint, _context: context, _folder: folder }
    }

    pub(crate) fn broker(&self) -> &Broker {
        &self.broker
    }

    /// A connection on which nothing was sent.
    pub(crate) fn open(&self, version: Version) -> Client {
        Client::open_at(self.address, version)
    }

    /// A connection on which this CONNECT was sent.
    pub(crate) fn dial(&self, version: Version, connect: &Connect) -> Client {
        let mut client = self.open(version);
        client.send(&connect.encode());
        client
    }

    /// A clean session.
    pub(crate) fn connect(&self, version: Version, id: &str) -> Client {
        self.accept(&Connect::new(version, id)).0
    }

    pub(crate) fn accept(&self, connect: &Connect) -> (Client, Accepted) {
        connect.open_at(self.address)
    }

    /// Stops it in good order.
    pub(crate) fn shutdown(&self) {
        wait(self.broker.shutdown(Duration::from_secs(10)));
    }
}

/// What becomes of a future.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

/// What an answer waits for until the test opens it.
#[derive(Clone, Default)]
pub(crate) struct Door(Arc<Inside>);

#[derive(Default)]
struct Inside {
    is_open: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
    /// Futures that came to the door, and those that are gone.
    came: AtomicBool,
    left: AtomicBool,
}

impl Door {
    /// Lets everybody through, from now on.
    pub(crate) fn open(&self) {
        self.0.is_open.store(true, Ordering::SeqCst);
        self.0.waiting.lock().expect("a lock").drain(..).for_each(Waker::wake);
    }

    /// Gives `answer` once the door is open.
    pub(crate) fn through<T>(&self, answer: T) -> impl Future<Output = T> + Send + use<T>
    where
        T: Send,
    {
        let door = self.clone();
        async move {
            let _leaves = Leaves(door.clone());
            poll_fn(|context| {
                door.0.came.store(true, Ordering::SeqCst);
                door.0.waiting.lock().expect("a lock").push(context.waker().clone());
                let is_open = door.0.is_open.load(Ordering::SeqCst);
                if is_open { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            answer
        }
    }

    /// Somebody waits.
    pub(crate) fn await_somebody(&self) {
        until("somebody waits", || self.0.came.load(Ordering::SeqCst));
    }

    /// Somebody has gone, through the door or not.
    pub(crate) fn await_leaving(&self) {
        until("somebody has gone", || self.0.left.load(Ordering::SeqCst));
    }
}

struct Leaves(Door);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.0.left.store(true, Ordering::SeqCst);
    }
}

/// Waits for what another thread does, and what no event tells of.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = std::time::Instant::now() + super::support::PATIENCE;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}
