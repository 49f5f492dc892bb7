//! The keys of users: what a file says of them, one line each.
//!
//! `user:SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, salt and keys in Base64: what
//! `PostgreSQL` writes as well. Empty lines and those that begin with `#` are passed over.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use stringprep::saslprep;

/// Bytes of a hash.
const HASH: usize = 32;

/// What RFC 7677 asks for at least.
const ITERATIONS_MIN: u32 = 4096;

const SCHEME: &str = ":SCRAM-SHA-256$";

/// The keys of all users.
#[derive(Debug)]
pub struct Keys {
    users: HashMap<Box<str>, Key>,
    /// Makes up the keys of those who are not there.
    secret: [u8; HASH],
    /// As most users have them.
    iterations: u32,
}

/// What is known of one user's password.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) salt: Vec<u8>,
    pub(super) iterations: u32,
    stored: [u8; HASH],
    server: [u8; HASH],
}

/// Why a file has no keys for a broker.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is no entry.
    #[error("line {line}: {why}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// Why not.
        why: EntryError,
    },
}

/// Why there is no entry for a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// It has another form.
    #[error("an entry is user:SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey")]
    Form,
    /// A password could be guessed too quickly.
    #[error("fewer than {ITERATIONS_MIN} iterations")]
    Iterations,
    /// No user name, or one of another line.
    #[error("the user name is empty, or stands in a line before")]
    User,
    /// `SASLprep` (RFC 4013) allows no such name or password.
    #[error("a user name or password with characters that may not be there")]
    Prohibited,
}

impl Keys {
    /// Reads a file of entries.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| FileError::Read { path: path.into(), source })?;
        Self::parse(&text)
    }

    /// What a file says.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let mut users = HashMap::new();
        let mut counts: HashMap<u32, usize> = HashMap::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fail = |why| FileError::Line { line: at + 1, why };
            let (user, key) = parse_entry(line).map_err(fail)?;
            *counts.entry(key.iterations).or_default() += 1;
            if user.is_empty() || users.insert(user.into(), key).is_some() {
                return Err(fail(EntryError::User));
            }
        }
        let mut secret = [0; HASH];
        let random =
            std::fs::File::open("/dev/urandom").and_then(|mut r| r.read_exact(&mut secret));
        random.map_err(|source| FileError::Read { path: "/dev/urandom".into(), source })?;
        let most = counts.into_iter().max_by_key(|&(iterations, count)| (count, iterations));
        let iterations = most.map_or(ITERATIONS_MIN, |(iterations, _)| iterations);
        Ok(Self { users, secret, iterations })
    }

    /// The key of a user, as the name is written in its entry; made up if there is none.
    pub(super) fn find(&self, user: &str) -> (Box<str>, Key) {
        let prepared = saslprep(user).map_or_else(|_| user.into(), Box::from);
        let made_up = self.make_up(&prepared);
        let key = self.users.get(&prepared).cloned().unwrap_or(made_up);
        (prepared, key)
    }

    /// The same each time, as a key is that is there, and of no password.
    fn make_up(&self, user: &str) -> Key {
        let part = |what: &str| hmac(&self.secret, &[what.as_bytes(), user.as_bytes()]);
        let salt = part("salt:")[..16].to_vec();
        Key { salt, iterations: self.iterations, stored: part("key:"), server: part("server:") }
    }
}

impl Key {
    fn new(password: &[u8], salt: &[u8], iterations: u32) -> Self {
        let salted = salted(password, salt, iterations);
        let client = hmac(&salted, &[b"Client Key"]);
        let server = hmac(&salted, &[b"Server Key"]);
        Self { salt: salt.into(), iterations, stored: hash(&client), server }
    }

    /// Whether it is made of this password. It takes its time.
    pub(super) fn is_of(&self, password: &[u8]) -> bool {
        let password = prepared(password).unwrap_or_default();
        is_same(&Self::new(&password, &self.salt, self.iterations).stored, &self.stored)
    }

    /// Whether a client has proved that it knows the password.
    pub(super) fn proves(&self, said: &str, proof: &[u8]) -> bool {
        let Ok(mut client) = <[u8; HASH]>::try_from(proof) else { return false };
        let signature = hmac(&self.stored, &[said.as_bytes()]);
        client.iter_mut().zip(signature).for_each(|(byte, mask)| *byte ^= mask);
        is_same(&hash(&client), &self.stored)
    }

    /// By which a client knows the server.
    pub(super) fn signature(&self, said: &str) -> [u8; HASH] {
        hmac(&self.server, &[said.as_bytes()])
    }

    /// What a client proves it by.
    #[cfg(test)]
    pub(super) fn proof_by(&self, password: &[u8], said: &str) -> [u8; HASH] {
        let mut client = hmac(&salted(password, &self.salt, self.iterations), &[b"Client Key"]);
        let signature = hmac(&hash(&client), &[said.as_bytes()]);
        client.iter_mut().zip(signature).for_each(|(byte, mask)| *byte ^= mask);
        client
    }
}

/// Without the keys.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// The line of a user, from a password and a salt that nobody else has.
///
/// # Errors
/// [`EntryError`].
pub fn entry(
    user: &str,
    password: &[u8],
    salt: &[u8],
    iterations: u32,
) -> Result<String, EntryError> {
    if iterations < ITERATIONS_MIN {
        return Err(EntryError::Iterations);
    }
    let user = saslprep(user).map_err(|_| EntryError::Prohibited)?;
    if user.is_empty() || user.contains(['\n', '\r']) || user.starts_with('#') {
        return Err(EntryError::User);
    }
    let password = prepared(password).ok_or(EntryError::Prohibited)?;
    let key = Key::new(&password, salt, iterations);
    let mut line = format!("{user}{SCHEME}{iterations}:{}", to_text(salt));
    // Writing to a string does not fail.
    let _ = write!(line, "${}:{}", to_text(&key.stored), to_text(&key.server));
    Ok(line)
}

fn parse_entry(line: &str) -> Result<(&str, Key), EntryError> {
    let parts = || {
        let (user, rest) = line.rsplit_once(SCHEME)?;
        let (numbers, keys) = rest.split_once('$')?;
        let (iterations, salt) = numbers.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let key = Key {
            salt: from_text(salt)?,
            iterations: iterations.parse().ok()?,
            stored: from_text(stored)?.try_into().ok()?,
            server: from_text(server)?.try_into().ok()?,
        };
        Some((user, key))
    };
    let (user, key) = parts().ok_or(EntryError::Form)?;
    if key.iterations < ITERATIONS_MIN {
        return Err(EntryError::Iterations);
    }
    Ok((user, key))
}

/// What is no text is taken as it is, as MQTT allows.
fn prepared(password: &[u8]) -> Option<Vec<u8>> {
    match std::str::from_utf8(password) {
        Ok(text) => saslprep(text).ok().map(|text| text.as_bytes().to_vec()),
        Err(_) => Some(password.to_vec()),
    }
}

fn salted(password: &[u8], salt: &[u8], iterations: u32) -> [u8; HASH] {
    let mut out = [0; HASH];
    pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut out);
    out
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; HASH] {
    let mac = Hmac::<Sha256>::new_from_slice(key);
    assert!(mac.is_ok(), "HMAC takes keys of any length");
    let mut bytes = [0; HASH];
    if let Ok(mut mac) = mac {
        for part in parts {
            mac.update(part);
        }
        bytes.copy_from_slice(&mac.finalize().into_bytes());
    }
    bytes
}

fn hash(bytes: &[u8]) -> [u8; HASH] {
    Sha256::digest(bytes).into()
}

/// In a time that says nothing of where they differ.
fn is_same(one: &[u8; HASH], other: &[u8; HASH]) -> bool {
    let differ = one.iter().zip(other).fold(0, |differ, (one, other)| differ | (one ^ other));
    std::hint::black_box(differ) == 0
}

pub(super) fn to_text(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

pub(super) fn from_text(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";
    const SAID: &str = "n=user,r=rOprNGfwEbeRWgbNEkqO,\
                        r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,\
                        c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";

    /// The example of RFC 7677.
    #[test]
    fn the_example_of_the_standard_comes_out() {
        let line = entry("user", b"pencil", &from_text(SALT).unwrap(), 4096).unwrap();
        let keys = Keys::parse(&line).unwrap();
        let (_, key) = keys.find("user");
        let proof = from_text("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=").unwrap();
        assert!(key.proves(SAID, &proof));
        assert_eq!(to_text(&key.signature(SAID)), "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert_eq!(key.proof_by(b"pencil", SAID)[..], proof);
        let mut other = proof.clone();
        other[31] ^= 1;
        assert!(!key.proves(SAID, &other) && !key.proves(SAID, &proof[1..]));
        assert!(key.is_of(b"pencil") && !key.is_of(b"pencil "));
    }

    #[test]
    fn files_have_one_line_for_each_user() {
        let line = |user: &str| entry(user, b"x", &[1; 16], 5000).unwrap();
        let text = format!("# users\n\n{}\n{}  \n", line("a:b"), line("c"));
        let keys = Keys::parse(&text).unwrap();
        assert!(keys.find("a:b").1.is_of(b"x") && keys.find("c").1.is_of(b"x"));
        assert!(!keys.find("d").1.is_of(b"x"));
        assert_eq!(keys.find("d").1.iterations, 5000);
        let twice = format!("{0}\n{0}", line("a"));
        assert!(matches!(
            Keys::parse(&twice),
            Err(FileError::Line { line: 2, why: EntryError::User })
        ));
        for bad in ["user:pass", "user:SCRAM-SHA-256$4096:AA==$AA==:AA==", ":"] {
            assert!(matches!(
                Keys::parse(bad),
                Err(FileError::Line { line: 1, why: EntryError::Form })
            ));
        }
    }

    #[test]
    fn names_and_passwords_are_prepared() {
        // A soft hyphen is mapped to nothing, a Roman numeral to letters (RFC 4013).
        let line = entry("I\u{AD}X", "p\u{2168}".as_bytes(), &[1; 16], 4096).unwrap();
        let keys = Keys::parse(&line).unwrap();
        let (user, key) = keys.find("\u{2168}");
        assert_eq!(&*user, "IX");
        assert!(key.is_of(b"pIX"));
        assert_eq!(entry("a\u{7}", b"x", &[1; 16], 4096), Err(EntryError::Prohibited));
        assert_eq!(entry("a", b"x", &[1; 16], 4095), Err(EntryError::Iterations));
        assert_eq!(entry("", b"x", &[1; 16], 4096), Err(EntryError::User));
    }
}
