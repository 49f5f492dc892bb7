//! Transports beyond plain sockets, as wrappers of drivers: the rules of reading, writing and
//! ending are the lane's, whatever carries the bytes.
#[cfg(feature = "tls")]
mod layer;
mod peer;
#[cfg(feature = "tls")]
pub mod tls;

pub use self::peer::{TlsPeer, TlsVersion};
