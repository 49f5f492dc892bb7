//! SCRAM-SHA-256 (RFC 5802, RFC 7677), as an authenticator: clients of MQTT 5 authenticate by it
//! without ever sending their password, all others by user name and password against the same
//! keys.
//!
//! Owns: the exchange. Channel binding is not offered.
//! Assumes: nobody can tell an unknown user from a wrong password, neither by an answer nor by the
//! time it takes: who is not known has keys as well, made up, and always the same.

mod keys;
mod messages;

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use tokio::sync::Semaphore;

use self::keys::Key;
pub use self::keys::{EntryError, FileError, Keys, entry};
use self::messages::{ClientFinal, ClientFirst};
use super::{Answer, Authenticator, Exchange, Identity, Login, Refusal, Step, Verdict};

/// The method's name in CONNECT.
pub const METHOD: &str = "SCRAM-SHA-256";

/// Bytes of a nonce, before they are written as text.
const NONCE: usize = 18;

/// Passwords that are checked at a time: it takes a few ms of a processor each.
const CHECKS: usize = 2;

/// See the file.
#[derive(Clone, Debug)]
pub struct Scram {
    keys: Arc<Keys>,
    anonymous: bool,
    random: Arc<File>,
    checks: Arc<Semaphore>,
}

impl Scram {
    /// Lets in who has one of these keys; with `anonymous` also who shows nothing at all.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new(keys: Keys, anonymous: bool) -> io::Result<Self> {
        let random = Arc::new(File::open("/dev/urandom")?);
        let checks = Arc::new(Semaphore::new(CHECKS));
        Ok(Self { keys: Arc::new(keys), anonymous, random, checks })
    }

    fn nonce(&self) -> io::Result<String> {
        let mut bytes = [0; NONCE];
        (&*self.random).read_exact(&mut bytes)?;
        Ok(keys::to_text(&bytes))
    }

    fn check(&self, user: &str, password: &[u8]) -> Answer<Verdict> {
        let (user, key) = self.keys.find(user);
        let (password, checks) = (password.to_vec(), Arc::clone(&self.checks));
        Answer::later(async move {
            // Nobody closes it.
            let _turn = checks.acquire_owned().await;
            let check = move || key.is_of(&password);
            let fits = match tokio::runtime::Handle::try_current() {
                Ok(runtime) => runtime.spawn_blocking(check).await.unwrap_or(false),
                Err(_) => check(),
            };
            if fits {
                Verdict::Admit(Identity { user: Some(user), data: None })
            } else {
                Verdict::Refuse(Refusal::BadUserNameOrPassword)
            }
        })
    }
}

impl Authenticator for Scram {
    fn authenticate(&self, login: &Login<'_>) -> Answer<Verdict> {
        match (login.user, login.password) {
            (Some(user), Some(password)) => self.check(user, password),
            (None, None) if self.anonymous => Verdict::Admit(Identity::default()).into(),
            _ => Verdict::Refuse(Refusal::NotAuthorized).into(),
        }
    }

    fn exchange(&self, method: &str, login: &Login<'_>) -> Option<Box<dyn Exchange>> {
        let again = login.again.map(|client| client.user.clone().unwrap_or_default());
        (method == METHOD).then(|| Box::new(First { scram: self.clone(), again }) as Box<_>)
    }
}

/// The client's first message is next.
struct First {
    scram: Scram,
    /// Who it is so far: another user cannot take its connection over.
    again: Option<Box<str>>,
}

/// The client's last message is next.
struct Last {
    user: Box<str>,
    key: Key,
    /// As the client must repeat them.
    nonce: String,
    header: String,
    /// What both have said so far.
    said: String,
    again: Option<Box<str>>,
}

const WRONG: Step = Step::Refuse(Refusal::BadUserNameOrPassword);

impl Exchange for First {
    fn step(self: Box<Self>, data: Option<&[u8]>) -> Answer<Step> {
        let Some(data) = data else {
            // The client wants to be asked.
            return Step::Challenge { data: Vec::new(), next: self }.into();
        };
        let Some(first) = ClientFirst::parse(data) else { return WRONG.into() };
        let Ok(own) = self.scram.nonce() else {
            return Step::Refuse(Refusal::Unavailable).into();
        };
        let (user, key) = self.scram.keys.find(&first.user);
        let nonce = format!("{}{own}", first.nonce);
        let challenge = messages::server_first(&nonce, &key.salt, key.iterations);
        let said = format!("{},{challenge}", first.bare);
        let header = first.header.to_owned();
        let next = Box::new(Last { user, key, nonce, header, said, again: self.again });
        Step::Challenge { data: challenge.into_bytes(), next }.into()
    }
}

impl Exchange for Last {
    fn step(self: Box<Self>, data: Option<&[u8]>) -> Answer<Step> {
        let Some(last) = data.and_then(ClientFinal::parse) else { return WRONG.into() };
        let said = format!("{},{}", self.said, last.without_proof);
        let fits = self.key.proves(&said, &last.proof);
        if !fits || last.nonce != self.nonce || last.header != self.header.as_bytes() {
            return WRONG.into();
        }
        if self.again.is_some_and(|before| before != self.user) {
            return Step::Refuse(Refusal::NotAuthorized).into();
        }
        let data = messages::server_final(&self.key.signature(&said)).into_bytes();
        let identity = Identity { user: Some(self.user), data: None };
        Step::Admit { identity, data }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::Client;

    fn scram() -> Scram {
        let keys = Keys::parse(&entry("user", b"pencil", &[7; 16], 4096).unwrap()).unwrap();
        Scram::new(keys, false).unwrap()
    }

    fn begin(again: Option<&str>, first: &str) -> Step {
        let again = again.map(Into::into);
        now(Box::new(First { scram: scram(), again }).step(Some(first.as_bytes())))
    }

    fn now(answer: Answer<Step>) -> Step {
        match answer {
            Answer::Now(step) => step,
            Answer::Later(_) => panic!("it needs no time"),
        }
    }

    /// What a client answers that knows this password.
    fn answer(challenge: &[u8], password: &[u8], first: &str) -> String {
        let challenge = std::str::from_utf8(challenge).unwrap();
        let nonce = challenge.split(',').next().unwrap();
        let without_proof = format!("c=biws,{nonce}");
        let said = format!("{first},{challenge},{without_proof}");
        let key = Keys::parse(&entry("user", password, &[7; 16], 4096).unwrap()).unwrap();
        let proof = key.find("user").1.proof_by(password, &said);
        format!("{without_proof},p={}", keys::to_text(&proof))
    }

    fn outcome(again: Option<&str>, user: &str, password: &[u8]) -> Step {
        let first = format!("n={user},r=abc");
        let Step::Challenge { data, next } = begin(again, &format!("n,,{first}")) else {
            panic!("no challenge");
        };
        now(next.step(Some(answer(&data, password, &first).as_bytes())))
    }

    #[test]
    fn who_knows_the_password_is_let_in() {
        let Step::Admit { identity, data } = outcome(None, "user", b"pencil") else {
            panic!("refused");
        };
        assert_eq!(identity.user.as_deref(), Some("user"));
        assert!(data.starts_with(b"v="));
    }

    #[test]
    fn an_unknown_user_and_a_wrong_password_look_alike() {
        for (user, password) in [("user", &b"pen"[..]), ("nobody", b"pencil")] {
            let Step::Refuse(refusal) = outcome(None, user, password) else { panic!("let in") };
            assert_eq!(refusal, Refusal::BadUserNameOrPassword);
        }
        let salt = |user: &str| match begin(None, &format!("n,,n={user},r=abc")) {
            Step::Challenge { data, .. } => {
                let text = String::from_utf8(data).unwrap();
                text.split(',').skip(1).map(str::to_owned).collect::<Vec<_>>()
            }
            other => panic!("{other:?}"),
        };
        let (known, one, other) = (salt("user"), salt("one"), salt("other"));
        assert_eq!((known[0].len(), &known[1]), (one[0].len(), &one[1]));
        assert_ne!(one, other);
    }

    #[test]
    fn nobody_takes_the_connection_of_another_user() {
        assert!(matches!(outcome(Some("user"), "user", b"pencil"), Step::Admit { .. }));
        let Step::Refuse(refusal) = outcome(Some("admin"), "user", b"pencil") else {
            panic!("let in");
        };
        assert_eq!(refusal, Refusal::NotAuthorized);
    }

    #[test]
    fn what_is_no_message_of_the_method_is_refused() {
        for first in
            ["", "n,,", "p=tls-unique,,n=user,r=abc", "n,,m=1,n=user,r=abc", "n,,n=user,r="]
        {
            assert!(matches!(begin(None, first), Step::Refuse(_)), "{first}");
        }
        let Step::Challenge { next, .. } = begin(None, "n,,n=user,r=abc") else {
            panic!("refused")
        };
        assert!(matches!(now(next.step(Some(b"c=biws,r=abc,p=AAAA"))), Step::Refuse(_)));
    }

    #[test]
    fn methods_are_known_by_name() {
        let addr = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let peer = crate::hooks::Peer {
            addr,
            listener: Arc::default(),
            transport: crate::hooks::Transport::Tcp,
            certificate: None,
            server_name: None,
        };
        let client = Arc::new(Client {
            id: "c".into(),
            user: None,
            version: zzq_types::ProtocolVersion::V5,
            peer: peer.clone(),
            data: None,
        });
        let login = Login {
            client_id: "c",
            user: None,
            password: None,
            version: zzq_types::ProtocolVersion::V5,
            clean_start: true,
            peer: &peer,
            again: Some(&client),
        };
        assert!(scram().exchange(METHOD, &login).is_some());
        assert!(scram().exchange("SCRAM-SHA-1", &login).is_none());
    }
}
