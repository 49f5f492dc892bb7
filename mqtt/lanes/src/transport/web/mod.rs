//! MQTT over WebSocket (RFC 6455) over the sockets of any driver, TLS among them: [`Web`] wraps it.
//!
//! * **Input** is read into the lane's own buffer, where its frames are taken apart: a message is
//!   as long as its sender likes, and what it takes is the lane's to bound.
//! * **Output** goes in one frame for each write of the lane. One that the socket does not take
//!   whole goes on with the lane's next writes; control frames wait behind it.
//! * **Ends.** A close frame and the end of the socket are one end to the lane, each behind all
//!   bytes that came before. The lane's own end is a close frame and then the socket's. A peer that
//!   breaks the protocol is a connection that has failed; it is told so by a close frame, and what
//!   it sends from then on is thrown away, as behind a refused handshake.
mod frames;
mod session;
mod settings;
#[cfg(test)]
mod tests;
mod upgrade;

use self::session::WebSession;
pub use self::settings::{WebFault, WebServer, WebStats};
use super::layer::{Layered, LayeredListener, LayeredSocket};

/// A driver, connections of which may use a `WebSocket`.
pub type Web<D> = Layered<D, WebSession>;

/// A socket, and its session if it does.
pub type WebSocket<S> = LayeredSocket<S, WebSession>;

/// A listener, and what its connections are served with if they do.
pub type WebListener<L> = LayeredListener<L, WebServer>;
