//! What a WebSocket listener serves: which path, and what its handshakes have come to.
use std::sync::atomic::{AtomicU64, Ordering};

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebFault {
    /// What came is not HTTP/1.1.
    NotHttp,
    /// It is HTTP, and does not ask for a WebSocket as RFC 6455 (4.2.1) says.
    NotWebSocket,
    /// It asks for another path.
    Path,
    /// It offers no subprotocol that is spoken here.
    Subprotocol,
    /// It is too long.
    TooLong,
    /// The client went.
    Gone,
    /// It took too long.
    Timeout,
}

impl WebFault {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::NotHttp,
        Self::NotWebSocket,
        Self::Path,
        Self::Subprotocol,
        Self::TooLong,
        Self::Gone,
        Self::Timeout,
    ];

    /// Its name among numbers.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotHttp => "not-http",
            Self::NotWebSocket => "not-websocket",
            Self::Path => "path",
            Self::Subprotocol => "subprotocol",
            Self::TooLong => "too-long",
            Self::Gone => "gone",
            Self::Timeout => "timeout",
        }
    }
}

/// What the handshakes of a [`WebServer`] have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WebStats {
    /// Those that are done.
    pub done: u64,
    failed: [u64; WebFault::ALL.len()],
}

impl WebStats {
    /// How many failed for this.
    pub fn failed(&self, why: WebFault) -> u64 {
        self.failed[why as usize]
    }
}

/// What one or more listeners serve with.
#[derive(Debug, Default)]
pub struct WebServer {
    path: Option<String>,
    done: AtomicU64,
    failed: [AtomicU64; WebFault::ALL.len()],
}

impl WebServer {
    /// Serves this path, such as `/mqtt`; `None`: whatever a client asks for.
    pub fn new(path: Option<String>) -> Self {
        Self { path, ..Self::default() }
    }

    /// Whether a client may ask for this path.
    pub(super) fn serves(&self, path: &str) -> bool {
        self.path.as_deref().is_none_or(|served| served == path)
    }

    /// What its handshakes have come to so far.
    pub fn stats(&self) -> WebStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        WebStats {
            done: read(&self.done),
            failed: std::array::from_fn(|why| read(&self.failed[why])),
        }
    }

    pub(super) fn count_done(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_failed(&self, why: WebFault) {
        self.failed[why as usize].fetch_add(1, Ordering::Relaxed);
    }
}
