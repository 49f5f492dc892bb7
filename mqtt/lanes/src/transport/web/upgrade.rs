//! The handshake: one request of HTTP, and what it is answered (RFC 6455, 4.2).
use tungstenite::{
    error::{Error, ProtocolError},
    handshake::{
        machine::TryParse,
        server::{Request, create_response, write_response},
    },
    http::{
        HeaderMap, HeaderValue,
        header::{CONNECTION, SEC_WEBSOCKET_PROTOCOL},
    },
};

use super::settings::{WebFault, WebServer};

/// Bytes that a request may take: browsers send cookies along.
pub(super) const REQUEST_MOST: usize = 16 << 10;
/// Subprotocols that mean MQTT; the second is how it was called before it was a standard.
//= MQTT5-6.0.0-4
//= MQTT311-6.0.0-4
const SUBPROTOCOLS: [&str; 2] = ["mqtt", "mqttv3.1"];

/// A request was read.
#[derive(Debug)]
pub(super) struct Upgraded {
    /// Its length.
    pub(super) length: usize,
    /// What it is answered.
    pub(super) response: Vec<u8>,
}

/// What a client asks for, if its request is complete; why it is refused.
pub(super) fn upgrade(request: &[u8], server: &WebServer) -> Result<Option<Upgraded>, WebFault> {
    let (length, mut parsed) = match Request::try_parse(request) {
        Ok(None) if request.len() >= REQUEST_MOST => return Err(WebFault::TooLong),
        Ok(None) => return Ok(None),
        Ok(Some(parsed)) => parsed,
        Err(Error::Protocol(ProtocolError::WrongHttpMethod)) => {
            return Err(WebFault::NotWebSocket);
        }
        Err(_) => return Err(WebFault::NotHttp),
    };
    if !server.serves(parsed.uri().path()) {
        return Err(WebFault::Path);
    }
    join_connection(parsed.headers_mut());
    let Ok(mut response) = create_response(&parsed) else { return Err(WebFault::NotWebSocket) };
    //= MQTT5-6.0.0-3
    //= MQTT311-6.0.0-3
    let Some(protocol) = chosen(parsed.headers()) else { return Err(WebFault::Subprotocol) };
    let protocol = HeaderValue::from_static(protocol);
    response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    let mut written = Vec::new();
    let wrote = write_response(&mut written, &response);
    assert!(wrote.is_ok(), "memory takes what is written");
    Ok(Some(Upgraded { length, response: written }))
}

/// Several headers of this name are one list (RFC 9110, 5.3); the library looks at the first.
fn join_connection(headers: &mut HeaderMap) {
    let all: Vec<_> = headers.get_all(CONNECTION).iter().map(HeaderValue::as_bytes).collect();
    if all.len() > 1
        && let Ok(joined) = HeaderValue::from_bytes(&all.join(&b", "[..]))
    {
        headers.insert(CONNECTION, joined);
    }
}

/// The subprotocol that is spoken, of those that a client offers.
fn chosen(headers: &HeaderMap) -> Option<&'static str> {
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL);
    let offered: Vec<&str> = offered
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    SUBPROTOCOLS.into_iter().find(|known| offered.contains(known))
}

/// What a client is told whose handshake has failed; nothing where it is not there.
pub(super) fn refusal(why: WebFault) -> Vec<u8> {
    let (status, headers, text) = match why {
        WebFault::NotHttp => ("400 Bad Request", "", "This is a port for MQTT over WebSocket."),
        WebFault::NotWebSocket => (
            "426 Upgrade Required",
            "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n",
            "This is a port for MQTT over WebSocket.",
        ),
        WebFault::Path => ("404 Not Found", "", "There is no MQTT at this path."),
        WebFault::Subprotocol => {
            ("400 Bad Request", "", "Offer the subprotocol mqtt: this port speaks nothing else.")
        }
        WebFault::TooLong => {
            ("431 Request Header Fields Too Large", "", "The request is too long.")
        }
        WebFault::Gone | WebFault::Timeout => return Vec::new(),
    };
    let connection = if headers.is_empty() { "close" } else { "Upgrade, close" };
    format!(
        "HTTP/1.1 {status}\r\nConnection: {connection}\r\n{headers}Content-Type: text/plain\r\n\
         Content-Length: {}\r\n\r\n{text}",
        text.len()
    )
    .into_bytes()
}
