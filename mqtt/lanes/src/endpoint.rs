//! Endpoints as users write them: `tcp://host:port`, `tls://host:port`, `ws://host:port/path`,
//! `wss://host:port/path`.
//!
//! Assumes: nothing is resolved or bound here. A transport that this build lacks is named in the
//! error, so that a typing mistake and a missing feature read differently.
use std::{fmt, io, str::FromStr};

use thiserror::Error;

/// The port of an endpoint that names none.
pub const DEFAULT_PORT: u16 = 1883;

/// The port of an endpoint over TLS that names none.
pub const DEFAULT_TLS_PORT: u16 = 8883;

/// The ports of endpoints over WebSocket that name none, without TLS and with it (RFC 6455, 3).
pub const DEFAULT_WEB_PORTS: [u16; 2] = [80, 443];

/// Transports that are planned and not built in.
const ABSENT: [&str; 4] = ["quic", "ipc", "inproc", "udp"];
/// Names of the TLS transport.
const TLS: [&str; 2] = ["tls", "mqtts"];
/// Those of WebSocket, without TLS and with it.
const WEB: [&str; 2] = ["ws", "wss"];

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Endpoint {
    /// `tcp://host:port`
    Tcp(TcpEndpoint),
    /// `tls://host:port`: TLS over TCP.
    Tls(TcpEndpoint),
    /// `ws://host:port/path`: WebSocket over TCP.
    Ws(WebEndpoint),
    /// `wss://host:port/path`: WebSocket over TLS.
    Wss(WebEndpoint),
}

impl Endpoint {
    /// The TCP endpoint beneath.
    pub fn tcp(&self) -> &TcpEndpoint {
        match self {
            Self::Tcp(tcp) | Self::Tls(tcp) => tcp,
            Self::Ws(web) | Self::Wss(web) => &web.tcp,
        }
    }

    /// The same at another TCP endpoint.
    pub(crate) fn at(mut self, at: TcpEndpoint) -> Self {
        match &mut self {
            Self::Tcp(tcp) | Self::Tls(tcp) => *tcp = at,
            Self::Ws(web) | Self::Wss(web) => web.tcp = at,
        }
        self
    }

    /// Whether it takes a certificate to listen there.
    pub fn is_over_tls(&self) -> bool {
        matches!(self, Self::Tls(_) | Self::Wss(_))
    }

    /// What it says for WebSocket, if it is for that.
    pub fn web(&self) -> Option<&WebEndpoint> {
        match self {
            Self::Tcp(_) | Self::Tls(_) => None,
            Self::Ws(web) | Self::Wss(web) => Some(web),
        }
    }
}

/// A host, a port and a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WebEndpoint {
    /// Host and port.
    pub tcp: TcpEndpoint,
    /// Which path is served, with its first slash; `None`: whatever a client asks for.
    pub path: Option<String>,
}

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TcpEndpoint {
    /// A name or an address; IPv6 without its brackets.
    pub host: String,
    /// The port; 0 lets the system choose.
    pub port: u16,
}

/// Why a text is no endpoint that can be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EndpointError {
    /// There is no `scheme://`.
    #[error("endpoint {0:?}: expected scheme://address, such as tcp://0.0.0.0:1883")]
    NoScheme(String),
    /// Nobody knows the scheme.
    #[error("endpoint {endpoint:?}: no transport is called {scheme:?}")]
    UnknownScheme {
        /// The whole text.
        endpoint: String,
        /// What stands before `://`.
        scheme: String,
    },
    /// The transport is not part of this build.
    #[error("endpoint {endpoint:?}: the {scheme} transport is not in this build yet")]
    NotInThisBuild {
        /// The whole text.
        endpoint: String,
        /// The transport.
        scheme: String,
    },
    /// The part behind `://` is wrong.
    #[error("endpoint {endpoint:?}: {reason}")]
    Address {
        /// The whole text.
        endpoint: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Why an endpoint is not bound.
#[derive(Debug, Error)]
pub enum BindError {
    /// It is not an endpoint.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// It is an endpoint over TLS, and there is nothing to serve it with.
    #[error("{0}: TLS takes a certificate")]
    NoCertificate(Endpoint),
    /// It is no endpoint over TLS, and there is a certificate for it.
    #[error("{0}: a certificate is for tls:// and wss:// only")]
    NotTls(Endpoint),
    /// Its host name means no address.
    #[error("cannot resolve {endpoint}: {source}")]
    Resolve {
        /// The endpoint.
        endpoint: Endpoint,
        /// What the resolver said.
        source: io::Error,
    },
    /// The system refuses.
    #[error("cannot bind {endpoint}: {source}")]
    Bind {
        /// The endpoint.
        endpoint: Endpoint,
        /// What the system said.
        source: io::Error,
    },
    /// The lanes have stopped.
    #[error("the lanes have stopped")]
    Stopped,
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, EndpointError> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(EndpointError::NoScheme(text.to_owned()));
        };
        let (endpoint, scheme) = (text.to_owned(), scheme.to_ascii_lowercase());
        match scheme.as_str() {
            "tcp" | "mqtt" => tcp(rest, DEFAULT_PORT)
                .map(Endpoint::Tcp)
                .map_err(|reason| EndpointError::Address { endpoint, reason }),
            tls if TLS.contains(&tls) && cfg!(feature = "tls") => tcp(rest, DEFAULT_TLS_PORT)
                .map(Endpoint::Tls)
                .map_err(|reason| EndpointError::Address { endpoint, reason }),
            "ws" if cfg!(feature = "web") => web(rest, DEFAULT_WEB_PORTS[0])
                .map(Endpoint::Ws)
                .map_err(|reason| EndpointError::Address { endpoint, reason }),
            "wss" if cfg!(all(feature = "web", feature = "tls")) => web(rest, DEFAULT_WEB_PORTS[1])
                .map(Endpoint::Wss)
                .map_err(|reason| EndpointError::Address { endpoint, reason }),
            known if TLS.contains(&known) || WEB.contains(&known) => {
                Err(EndpointError::NotInThisBuild { endpoint, scheme })
            }
            known if ABSENT.contains(&known) => {
                Err(EndpointError::NotInThisBuild { endpoint, scheme })
            }
            _ => Err(EndpointError::UnknownScheme { endpoint, scheme }),
        }
    }
}

fn web(rest: &str, default_port: u16) -> Result<WebEndpoint, &'static str> {
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if path.contains(['?', '#']) || !path.chars().all(|char| char.is_ascii_graphic()) {
        return Err("not a path");
    }
    let path = Some(path).filter(|path| path.len() > 1).map(str::to_owned);
    Ok(WebEndpoint { tcp: tcp(host, default_port)?, path })
}

fn tcp(rest: &str, default_port: u16) -> Result<TcpEndpoint, &'static str> {
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = if let Some(bracketed) = rest.strip_prefix('[') {
        let (host, after) = bracketed.split_once(']').ok_or("the bracket [ is not closed")?;
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err("not an IPv6 address between the brackets");
        }
        match after {
            "" => (host, None),
            _ => (host, Some(after.strip_prefix(':').ok_or("expected : behind the bracket")?)),
        }
    } else {
        match rest.split_once(':') {
            None => (rest, None),
            Some((_, port)) if port.contains(':') => {
                return Err("an IPv6 address stands in brackets, as in tcp://[::1]:1883");
            }
            Some((host, port)) => (host, Some(port)),
        }
    };
    if host.is_empty() {
        return Err("the host is missing; 0.0.0.0 means all interfaces");
    }
    if host.contains(['/', '?', '#', '@']) || host.contains(char::is_whitespace) {
        return Err("not a host name or address");
    }
    let port = match port {
        None => default_port,
        Some(port) if port.starts_with('+') => return Err("the port is not a number up to 65535"),
        Some(port) => port.parse().map_err(|_| "the port is not a number up to 65535")?,
    };
    Ok(TcpEndpoint { host: host.to_owned(), port })
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self {
            Self::Tcp(_) => "tcp",
            Self::Tls(_) => "tls",
            Self::Ws(_) => "ws",
            Self::Wss(_) => "wss",
        };
        let TcpEndpoint { host, port } = self.tcp();
        let path = self.web().and_then(|web| web.path.as_deref()).unwrap_or_default();
        if host.contains(':') {
            write!(f, "{scheme}://[{host}]:{port}{path}")
        } else {
            write!(f, "{scheme}://{host}:{port}{path}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<String, EndpointError> {
        text.parse::<Endpoint>().map(|endpoint| endpoint.to_string())
    }

    #[test]
    fn tcp_endpoints_are_read_and_written() {
        for (text, expected) in [
            ("tcp://0.0.0.0:1883", "tcp://0.0.0.0:1883"),
            ("TCP://localhost", "tcp://localhost:1883"),
            ("mqtt://broker.example:0/", "tcp://broker.example:0"),
            ("tcp://[::1]:65535", "tcp://[::1]:65535"),
            ("tcp://[::]", "tcp://[::]:1883"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected));
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn tls_endpoints_are_read_and_written() {
        for (text, expected) in [
            ("tls://0.0.0.0:1883", "tls://0.0.0.0:1883"),
            ("MQTTS://localhost", "tls://localhost:8883"),
            ("tls://[::1]", "tls://[::1]:8883"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected));
        }
        assert!(matches!(shown("tls://:1"), Err(EndpointError::Address { .. })));
    }

    #[cfg(all(feature = "web", feature = "tls"))]
    #[test]
    fn endpoints_of_websockets_are_read_and_written() {
        for (text, expected) in [
            ("ws://0.0.0.0:8083", "ws://0.0.0.0:8083"),
            ("ws://0.0.0.0:8083/", "ws://0.0.0.0:8083"),
            ("WS://[::1]/mqtt", "ws://[::1]:80/mqtt"),
            ("wss://localhost/a/b", "wss://localhost:443/a/b"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(expected));
        }
        for text in ["ws://:1", "ws:///mqtt", "ws://a:1/b?c", "wss://a/b c", "ws://a:b/mqtt"] {
            assert!(matches!(shown(text), Err(EndpointError::Address { .. })), "{text}");
        }
    }

    #[cfg(not(feature = "web"))]
    #[test]
    fn a_build_without_websocket_says_so() {
        let error = shown("wss://example:443").unwrap_err();
        assert_eq!(
            error.to_string(),
            "endpoint \"wss://example:443\": the wss transport is not in this build yet"
        );
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn a_build_without_tls_says_so() {
        for text in ["tls://localhost", "mqtts://localhost:8883", "wss://localhost"] {
            assert!(matches!(shown(text), Err(EndpointError::NotInThisBuild { .. })));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for text in [
            "tcp://",
            "tcp://:1883",
            "tcp://host:",
            "tcp://host:65536",
            "tcp://host:+1",
            "tcp://host:1:2",
            "tcp://::1:1883",
            "tcp://[::1",
            "tcp://[::1]1883",
            "tcp://[host]:1",
            "tcp://a b:1",
            "tcp://user@host:1",
            "tcp://host:1/path",
        ] {
            let error = shown(text).unwrap_err();
            assert!(matches!(error, EndpointError::Address { .. }), "{text}: {error}");
        }
        assert!(matches!(shown("localhost:1883"), Err(EndpointError::NoScheme(_))));
        assert!(matches!(shown("http://a:1"), Err(EndpointError::UnknownScheme { .. })));
    }

    #[test]
    fn a_transport_that_is_not_built_in_is_named() {
        let error = shown("quic://example:443").unwrap_err();
        assert_eq!(
            error.to_string(),
            "endpoint \"quic://example:443\": the quic transport is not in this build yet"
        );
    }
}
