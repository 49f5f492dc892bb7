//! Hooks: what an application that embeds the broker decides, and what it is told.
//!
//! Owns: the questions, their answers, and who a client is. An answer is there at once, or it is a
//! future: then the connection waits for it, and its lane does not.
//! Does not know: connections, packets, who keeps users and rights.

mod answer;
mod ask;
mod events;
pub mod scram;

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use zzq_types::{PropertiesBuf, Property, ProtocolVersion, QoS, ReasonCode};

pub use self::answer::Answer;
pub(crate) use self::answer::all_of;
pub(crate) use self::ask::{AskSeat, Asked, NoAnswer, thread_runtime};
pub use self::ask::{Spawn, Task};
pub use self::events::{Dropped, Event, EventSink, EventStream, Right, events};

/// What an application brings along. Whatever is left out costs nothing on the way of a message.
#[derive(Clone)]
pub struct Hooks {
    /// Who may connect; without one, everybody.
    pub authenticator: Option<Arc<dyn Authenticator>>,
    /// Who may do what; without one, everybody everything.
    pub authoriser: Option<Arc<dyn Authoriser>>,
    /// Where to tell what happens: one end of [`events`].
    pub events: Option<EventSink>,
    /// How long an answer may take; after that it is a refusal.
    pub answer_within: Duration,
    /// Where futures run. Without one: in the tokio runtime that the broker was made in, else on
    /// a thread of its own.
    pub spawn: Option<Spawn>,
}

/// Decides who may connect. Lanes call it: it must neither block nor take long, which is what
/// [`Answer::later`] is for.
pub trait Authenticator: Send + Sync + 'static {
    /// A CONNECT without an authentication method.
    fn authenticate(&self, login: &Login<'_>) -> Answer<Verdict>;

    /// A CONNECT of MQTT 5 that names an authentication method, or a client that is connected and
    /// authenticates again by the method of its CONNECT. `None`: the method is not known.
    fn exchange(&self, method: &str, login: &Login<'_>) -> Option<Box<dyn Exchange>> {
        let _ = (method, login);
        None
    }
}

/// One enhanced authentication of MQTT 5, before one of its steps.
pub trait Exchange: Send {
    /// The client has sent this; `None`: nothing, with its CONNECT.
    fn step(self: Box<Self>, data: Option<&[u8]>) -> Answer<Step>;
}

/// What follows a step of an [`Exchange`].
pub enum Step {
    /// The client is sent this, and its answer goes to the next step.
    Challenge {
        /// May be empty.
        data: Vec<u8>,
        /// Takes the answer.
        next: Box<dyn Exchange>,
    },
    /// It is who it says it is.
    Admit {
        /// Who that is.
        identity: Identity,
        /// The last word of the method; may be empty.
        data: Vec<u8>,
    },
    /// It may not connect, or not stay.
    Refuse(Refusal),
}

/// Decides what clients may do. Lanes call it, as the [`Authenticator`]: for each SUBSCRIBE, for
/// each PUBLISH, for each delivery. Publishes that follow each other to one topic may be asked for
/// once, and so may messages to one receiver.
pub trait Authoriser: Send + Sync + 'static {
    /// May it publish this? Wills are asked for at CONNECT.
    fn publish(&self, client: &Arc<Client>, publish: &Publishing<'_>) -> Answer<Permit>;

    /// May it subscribe so?
    fn subscribe(&self, client: &Arc<Client>, subscribe: &Subscribing<'_>) -> Answer<Permit>;

    /// May it read history, besides subscribing? Nobody may by default.
    fn replay(&self, client: &Arc<Client>, subscribe: &Subscribing<'_>) -> Answer<Permit> {
        let _ = (client, subscribe);
        Answer::Now(Permit::Deny)
    }

    /// May it be sent this? What it may not is dropped for it, and counted. Until a later answer is
    /// there what follows for this client waits as well, at QoS 1 and 2 in its queue, and by itself
    /// what comes at QoS 0, which counts as output that was not read. Each message is asked for
    /// when it is the next, so their times add up: better keep what is asked for in
    /// [`Identity::data`]. A message may be asked for again before its answer is used.
    fn receive(&self, client: &Arc<Client>, message: &Receiving<'_>) -> Answer<bool> {
        let _ = (client, message);
        Answer::Now(true)
    }
}

/// Where a connection comes from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Peer {
    /// The other end.
    pub addr: SocketAddr,
    /// The endpoint that it came through, as it was bound.
    pub listener: Arc<str>,
    /// How it came.
    pub transport: Transport,
    /// The certificate that it has shown, in DER; only a transport with TLS has one.
    pub certificate: Option<Arc<[u8]>>,
    /// The name of the server that it asked for (SNI); only a transport with TLS has one.
    pub server_name: Option<Arc<str>>,
}

/// How a connection comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// Plain TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
    /// WebSocket over TCP.
    WebSocket,
    /// WebSocket over TLS.
    WebSocketTls,
}

/// Who wants to connect, by its own account.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Login<'a> {
    /// Empty: the broker will make one.
    pub client_id: &'a str,
    /// May be present and empty.
    pub user: Option<&'a str>,
    /// May be present and empty.
    pub password: Option<&'a [u8]>,
    /// The protocol.
    pub version: ProtocolVersion,
    /// Clean Start, or Clean Session of MQTT 3.
    pub clean_start: bool,
    /// Where it comes from.
    pub peer: &'a Peer,
    /// Who it is so far, if it is connected and authenticates again.
    pub again: Option<&'a Arc<Client>>,
}

/// A client that was let in.
#[derive(Debug)]
#[non_exhaustive]
pub struct Client {
    /// Its client identifier.
    pub id: Box<str>,
    /// As the authenticator says, or else the user name of its CONNECT.
    pub user: Option<Box<str>>,
    /// The protocol.
    pub version: ProtocolVersion,
    /// Where it comes from.
    pub peer: Peer,
    /// What the authenticator has noted.
    pub data: Option<Arc<dyn Any + Send + Sync>>,
}

/// What an authenticator answers.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It may connect.
    Admit(Identity),
    /// It may not.
    Refuse(Refusal),
}

/// Who an authenticator has found a client to be.
#[derive(Clone, Debug, Default)]
pub struct Identity {
    /// Its user; `None`: the user name of its CONNECT.
    pub user: Option<Box<str>>,
    /// For the authoriser: whatever it should know of it.
    pub data: Option<Arc<dyn Any + Send + Sync>>,
}

/// Why a client may not connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 0x86; 4 in MQTT 3.
    BadUserNameOrPassword,
    /// 0x87; 5 in MQTT 3.
    NotAuthorized,
    /// 0x88; 3 in MQTT 3. It should try again later.
    Unavailable,
    /// 0x8A; 5 in MQTT 3.
    Banned,
    /// 0x8C; 5 in MQTT 3.
    BadMethod,
    /// 0x9C with the server that it should use for now; 3 in MQTT 3.
    UseAnotherServer(Box<str>),
    /// 0x9D with the server that it should use from now on; 3 in MQTT 3.
    ServerMoved(Box<str>),
}

/// What an authoriser answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// It may.
    Allow,
    /// It may not, and is told so where its version has a word for it. MQTT 3 has none for a
    /// publish: it is acknowledged and dropped.
    Deny,
    /// It may not, and its connection ends.
    Disconnect,
}

/// A message that a client wants to publish.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Publishing<'a> {
    /// Its topic.
    pub topic: &'a str,
    /// Its QoS.
    pub qos: QoS,
    /// It is to be retained.
    pub retain: bool,
    /// It is the will of a CONNECT.
    pub is_will: bool,
}

/// A subscription that a client asks for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Subscribing<'a> {
    /// The filter of topics, without what names a group or a start in the past.
    pub filter: &'a str,
    /// Of a shared subscription.
    pub group: Option<&'a str>,
    /// The QoS asked for.
    pub qos: QoS,
}

/// A message on its way to a client.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Receiving<'a> {
    /// Its topic.
    pub topic: &'a str,
    /// How it is sent.
    pub qos: QoS,
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            authenticator: None,
            authoriser: None,
            events: None,
            answer_within: Duration::from_secs(10),
            spawn: None,
        }
    }
}

impl Hooks {
    /// There may be answers that come later.
    pub(crate) fn asks(&self) -> bool {
        self.authenticator.is_some() || self.authoriser.is_some()
    }

    /// Somebody has to know who the clients are.
    pub(crate) fn names_clients(&self) -> bool {
        self.authenticator.is_some() || self.authoriser.is_some() || self.events.is_some()
    }
}

impl From<Verdict> for Answer<Verdict> {
    fn from(verdict: Verdict) -> Self {
        Self::Now(verdict)
    }
}

impl From<Permit> for Answer<Permit> {
    fn from(permit: Permit) -> Self {
        Self::Now(permit)
    }
}

impl From<bool> for Answer<bool> {
    fn from(may: bool) -> Self {
        Self::Now(may)
    }
}

impl From<Step> for Answer<Step> {
    fn from(step: Step) -> Self {
        Self::Now(step)
    }
}

impl Refusal {
    /// In the words of MQTT 5.
    pub const fn reason(&self) -> ReasonCode {
        match self {
            Self::BadUserNameOrPassword => ReasonCode::BadUserNameOrPassword,
            Self::NotAuthorized => ReasonCode::NotAuthorized,
            Self::Unavailable => ReasonCode::ServerUnavailable,
            Self::Banned => ReasonCode::Banned,
            Self::BadMethod => ReasonCode::BadAuthenticationMethod,
            Self::UseAnotherServer(_) => ReasonCode::UseAnotherServer,
            Self::ServerMoved(_) => ReasonCode::ServerMoved,
        }
    }

    /// The server to go to.
    pub fn server(&self) -> Option<&str> {
        match self {
            Self::UseAnotherServer(server) | Self::ServerMoved(server) => Some(server),
            _ => None,
        }
    }

    /// Tells the client which server to go to. One that is too long for a string is not told.
    pub(crate) fn put_server(&self, properties: &mut PropertiesBuf) {
        if let Some(server) = self.server() {
            let _ = properties.push(Property::ServerReference(server));
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("authenticator", &self.authenticator.is_some())
            .field("authoriser", &self.authoriser.is_some())
            .field("events", &self.events.is_some())
            .field("answer_within", &self.answer_within)
            .finish_non_exhaustive()
    }
}

/// Without the password.
impl fmt::Debug for Login<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("client_id", &self.client_id)
            .field("user", &self.user)
            .field("version", &self.version)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Challenge { .. } => f.write_str("Challenge"),
            Self::Admit { identity, .. } => f.debug_tuple("Admit").field(identity).finish(),
            Self::Refuse(refusal) => f.debug_tuple("Refuse").field(refusal).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_shown_to_nobody() {
        let addr = SocketAddr::from(([127, 0, 0, 1], 1));
        let listener = Arc::from("tcp://127.0.0.1:1883");
        let transport = Transport::Tcp;
        let peer = Peer { addr, listener, transport, certificate: None, server_name: None };
        let login = Login {
            client_id: "c",
            user: Some("u"),
            password: Some(b"secret"),
            version: ProtocolVersion::V5,
            clean_start: true,
            peer: &peer,
            again: None,
        };
        let shown = format!("{login:?}");
        assert!(shown.contains("\"u\"") && !shown.contains("secret") && !shown.contains("115"));
    }
}
