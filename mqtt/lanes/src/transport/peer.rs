//! What a TLS handshake has shown of the peer.
//!
//! Does not know: the library that has made it.
use std::time::Duration;

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2 (RFC 5246).
    V12,
    /// TLS 1.3 (RFC 8446).
    V13,
}

/// The peer, by its handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPeer {
    /// The name that the client has asked for (SNI, RFC 6066).
    pub server_name: Option<String>,
    /// The client's certificate first, then those that lead to its CA, in DER, as it has sent them:
    /// verified if it is not empty, and empty where none was asked for or given.
    pub certificates: Vec<Vec<u8>>,
    /// The application protocol that was agreed on (ALPN, RFC 7301).
    pub alpn: Option<Vec<u8>>,
    /// The version.
    pub version: TlsVersion,
    /// The cipher suite, by its name in RFC 8446 or RFC 5246.
    pub cipher_suite: &'static str,
    /// Whether it went on with the secrets of an earlier connection, by a ticket.
    pub resumed: bool,
    /// How long the handshake took, from accepting the connection on.
    pub handshake: Duration,
}
