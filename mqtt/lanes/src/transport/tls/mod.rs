//! TLS over the sockets of any driver: [`Secured`] wraps it.
//!
//! A read of the lane decrypts, and a write encrypts.
//!
//! * **Input** is read into one buffer of the lane and decrypted from there. What does not fit the
//!   lane's own buffer, a record at most, waits in the session and is read first.
//! * **Output** is encrypted as far as it can be sent. Of what the socket does not take at once, at
//!   most 32 KiB are records already; the lane keeps the last byte of it until they are sent, so
//!   that its rules for output that waits, for a close after it and for ends hold as they are.
//! * **Ends.** A `close_notify` and the end of the socket are one end to the lane, each behind all
//!   bytes that came before. The lane's own end is a `close_notify` and then the socket's. A
//!   session that breaks the protocol is a connection that has failed, behind what it had sent
//!   well.
mod session;
mod settings;
#[cfg(test)]
mod tests;

use self::session::TlsSession;
pub use self::settings::{
    ClientCerts, FileFault, HandshakeFault, TlsError, TlsFiles, TlsPart, TlsServer, TlsStats,
};
use super::layer::{Layered, LayeredListener, LayeredSocket};

/// A driver whose connections may use TLS.
pub type Secured<D> = Layered<D, TlsSession>;

/// A socket, and its session if it uses TLS.
pub type SecuredSocket<S> = LayeredSocket<S, TlsSession>;

/// A listener, and what its connections use TLS with.
pub type SecuredListener<L> = LayeredListener<L, TlsServer>;
