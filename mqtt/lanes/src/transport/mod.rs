//! Transports beyond plain sockets, as wrappers of drivers: the rules of reading, writing and
//! ending are the lane's, whatever carries the bytes.
#[cfg(any(feature = "tls", feature = "web"))]
mod layer;
mod peer;
#[cfg(feature = "tls")]
pub mod tls;
#[cfg(feature = "web")]
pub mod web;

pub use self::peer::{TlsPeer, TlsVersion};

#[cfg(feature = "tls")]
pub(crate) use self::tls::TlsServer;
#[cfg(feature = "web")]
pub(crate) use self::web::WebServer;

/// There is none in this build.
#[cfg(not(feature = "tls"))]
#[derive(Debug)]
pub(crate) enum TlsServer {}
/// There is none in this build.
#[cfg(not(feature = "web"))]
#[derive(Debug)]
pub(crate) enum WebServer {}
