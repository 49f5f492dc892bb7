//! The process is out of descriptors. Alone in its binary: the limit is the process's.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail loudly")]
mod wire;

use std::{
    fmt::Debug,
    net::TcpStream,
    os::fd::OwnedFd,
    sync::{Arc, Condvar, Mutex},
    time::Instant,
};

use rustix::{
    net::{AddressFamily, SocketType, connect, socket},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};
use wire::{PATIENCE, assert_echo, server};
use zzq_lanes::BindOptions;

/// The lines, and what is told of each new one.
type Kept = (Mutex<Vec<(Level, String)>>, Condvar);

/// Keeps the messages of this crate's log lines.
#[derive(Clone, Default)]
struct Lines(Arc<Kept>);

impl Lines {
    /// The lines so far, at least `count` of them: the last connection is served before the
    /// listener sees that nobody waits behind it.
    fn at_least(&self, count: usize) -> Vec<(Level, String)> {
        let (lines, added) = &*self.0;
        let few = |lines: &mut Vec<_>| lines.len() < count;
        added.wait_timeout_while(lines.lock().unwrap(), PATIENCE, few).unwrap().0.clone()
    }
}

struct Message<'a>(&'a mut String);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            *self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("zzq_lanes")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = String::new();
        event.record(&mut Message(&mut message));
        let (lines, added) = &*self.0;
        lines.lock().unwrap().push((*event.metadata().level(), message));
        added.notify_all();
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// B42: at the limit the peers burned a core, said nothing and served nobody.
#[test]
fn at_the_descriptor_limit_accepting_rests_and_served_clients_go_on() {
    let lines = Lines::default();
    tracing::subscriber::set_global_default(lines.clone()).unwrap();
    let server = server(1, false, BindOptions::default());
    let started = Instant::now();
    // Sockets made ahead: from the limit on nobody in this process gets another.
    let sockets: Vec<OwnedFd> =
        (0..40).map(|_| socket(AddressFamily::INET, SocketType::STREAM, None).unwrap()).collect();
    let highest = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(highest + 9), maximum: hard }).unwrap();
    let mut clients: Vec<TcpStream> = sockets
        .into_iter()
        .map(|socket| {
            connect(&socket, &server.bound.addr).unwrap();
            let stream = TcpStream::from(socket);
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream
        })
        .collect();
    let waiting = clients.split_off(20);
    for _ in 0..50 {
        assert_echo(&mut clients[0], b"served on");
    }
    while server.bound.stats.faults() < 3 {
        assert_echo(&mut clients[0], b"served on");
    }
    assert!(server.bound.stats.open() < 20, "the limit was not reached");
    let tries = u128::from(server.bound.stats.faults());
    assert!(tries <= started.elapsed().as_millis() / 100 + 2, "{tries} tries");
    drop(clients);
    for mut client in waiting {
        assert_echo(&mut client, b"at last");
    }
    let lines = lines.at_least(2);
    let levels: Vec<_> = lines.iter().map(|(level, _)| *level).collect();
    assert_eq!(levels, [Level::WARN, Level::INFO], "{lines:?}");
}
