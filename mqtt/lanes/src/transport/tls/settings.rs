//! What a TLS listener serves with: its certificate, and whose clients it lets in. Read from files,
//! and read again while connections go on.
//!
//! Owns: the configuration that the next handshake uses, and the counts of all before it.
//! Assumes: reading files is left to threads that may wait for them.
use std::{
    fmt,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use rustls::{
    Error, InconsistentKeys, InvalidMessage, RootCertStore, ServerConfig,
    crypto::{
        CryptoProvider,
        ring::{Ticketer, default_provider},
    },
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::{NoServerSessionStorage, WebPkiClientVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};
use thiserror::Error;

/// Longer files are no certificates: a bundle of all public CAs has a fifth of it.
const FILE_MOST: u64 = 1 << 20;
/// The only protocol that is spoken here. A client that names others, and not this one, has come to
/// the wrong port (RFC 7301, 3.2).
const PROTOCOL: &[u8] = b"mqtt";

/// Where a listener's certificate and key are, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate, then those that lead to its CA.
    pub cert: PathBuf,
    /// Its private key: PKCS #8, PKCS #1 or SEC1, not encrypted.
    pub key: PathBuf,
    /// Which certificates of clients are asked for; `None`: none.
    pub clients: Option<ClientCerts>,
}

/// Certificates that clients are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCerts {
    /// The CAs that they have to come from.
    pub ca: PathBuf,
    /// Whether a client without one is turned away. One that does not hold always is.
    pub required: bool,
}

/// Which file is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsPart {
    /// [`TlsFiles::cert`]
    Cert,
    /// [`TlsFiles::key`]
    Key,
    /// [`ClientCerts::ca`]
    ClientCa,
}

/// Why there is no TLS.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file is to blame.
    #[error("{part} {}: {fault}", path.display())]
    File {
        /// Which.
        part: TlsPart,
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        fault: FileFault,
    },
    /// Each file is good by itself.
    #[error("the key {} does not belong to the certificate {}", key.display(), cert.display())]
    Mismatch {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
    },
    /// The system gives no random numbers, or something else that is no fault of the files.
    #[error("TLS cannot be used: {0}")]
    System(String),
}

/// What is wrong with a file.
#[derive(Debug, Error)]
pub enum FileFault {
    /// It cannot be read.
    #[error("{0}")]
    Unreadable(io::Error),
    /// It is too long to be what it should be.
    #[error("it has more than 1 MiB")]
    TooLong,
    /// It is not PEM.
    #[error("it is not PEM: {0}")]
    NotPem(String),
    /// It is PEM, or nothing at all, but what is looked for is not in it.
    #[error("there is none in it; it begins with -----BEGIN and its name in PEM")]
    Absent,
    /// The key needs a password, and nobody could give it at a start.
    #[error("it is encrypted; `openssl pkey -in FILE -out FILE` takes the password off")]
    Encrypted,
    /// It was decoded, and cannot be used.
    #[error("it cannot be used: {0}")]
    Unusable(String),
}

impl fmt::Display for TlsPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cert => "the certificate",
            Self::Key => "the private key",
            Self::ClientCa => "the CA of clients",
        })
    }
}

/// Why a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeFault {
    /// What came is not TLS.
    NotTls,
    /// The client speaks no version, cipher suite or application protocol that is spoken here.
    Incompatible,
    /// The client breaks the rules of the protocol.
    Misbehaved,
    /// The client's certificate is missing or does not hold.
    Certificate,
    /// The client does not want to go on, as where it does not trust the certificate here.
    Alert,
    /// The client went.
    Gone,
    /// It took too long.
    Timeout,
    /// It took too many bytes.
    TooLong,
    /// Something failed here.
    Internal,
}

impl HandshakeFault {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::NotTls,
        Self::Incompatible,
        Self::Misbehaved,
        Self::Certificate,
        Self::Alert,
        Self::Gone,
        Self::Timeout,
        Self::TooLong,
        Self::Internal,
    ];

    /// Its name among numbers.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotTls => "not-tls",
            Self::Incompatible => "incompatible",
            Self::Misbehaved => "misbehaved",
            Self::Certificate => "certificate",
            Self::Alert => "alert",
            Self::Gone => "gone",
            Self::Timeout => "timeout",
            Self::TooLong => "too-long",
            Self::Internal => "internal",
        }
    }

    /// Which one an error of the library is.
    pub(super) fn of(error: &Error) -> Self {
        match error {
            Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge) => Self::TooLong,
            Error::InvalidMessage(_) | Error::PeerSentOversizedRecord => Self::NotTls,
            Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Self::Incompatible,
            Error::NoCertificatesPresented
            | Error::InvalidCertificate(_)
            | Error::InvalidCertRevocationList(_)
            | Error::UnsupportedNameType => Self::Certificate,
            Error::AlertReceived(_) => Self::Alert,
            Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. }
            | Error::PeerMisbehaved(_)
            | Error::DecryptError => Self::Misbehaved,
            _ => Self::Internal,
        }
    }
}

/// What the handshakes of a [`TlsServer`] have come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsStats {
    /// Those that are done.
    pub done: u64,
    /// Of these, those that went on with the secrets of an earlier connection.
    pub resumed: u64,
    failed: [u64; HandshakeFault::ALL.len()],
}

impl TlsStats {
    /// How many failed for this.
    pub fn failed(&self, why: HandshakeFault) -> u64 {
        self.failed[why as usize]
    }
}

/// What one or more listeners serve TLS with.
pub struct TlsServer {
    /// Locked while they are read, so that one of two that reload does not undo the other.
    files: Mutex<TlsFiles>,
    config: RwLock<Arc<ServerConfig>>,
    done: AtomicU64,
    resumed: AtomicU64,
    failed: [AtomicU64; HandshakeFault::ALL.len()],
}

impl TlsServer {
    /// Reads the files.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let config = configure(&files)?;
        Ok(Self::with(files, config))
    }

    pub(super) fn with(files: TlsFiles, config: Arc<ServerConfig>) -> Arc<Self> {
        Arc::new(Self {
            files: Mutex::new(files),
            config: RwLock::new(config),
            done: AtomicU64::default(),
            resumed: AtomicU64::default(),
            failed: Default::default(),
        })
    }

    /// Reads the files again: handshakes that begin from now on use what is in them now, and
    /// connections go on. On error nothing changes.
    pub fn reload(&self) -> Result<(), TlsError> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        self.renew(&files)
    }

    /// The same with other files.
    pub fn replace(&self, files: TlsFiles) -> Result<(), TlsError> {
        let mut before = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        self.renew(&files)?;
        *before = files;
        Ok(())
    }

    fn renew(&self, files: &TlsFiles) -> Result<(), TlsError> {
        let config = configure(files)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// What its handshakes have come to so far.
    pub fn stats(&self) -> TlsStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TlsStats {
            done: read(&self.done),
            resumed: read(&self.resumed),
            failed: std::array::from_fn(|why| read(&self.failed[why])),
        }
    }

    /// For a handshake that begins now.
    pub(super) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn count_done(&self, resumed: bool) {
        self.done.fetch_add(1, Ordering::Relaxed);
        self.resumed.fetch_add(u64::from(resumed), Ordering::Relaxed);
    }

    pub(super) fn count_failed(&self, why: HandshakeFault) {
        self.failed[why as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsServer").field("files", &self.files).finish_non_exhaustive()
    }
}

/// What is in the files, as the library wants it.
///
/// A ticket stands for all that its first handshake has checked, so none of an older configuration
/// is taken, and where certificates of clients are checked none is given: one that has expired, or
/// whose CA is not trusted any more, would be as good as new for hours.
fn configure(files: &TlsFiles) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(default_provider());
    let certified = certified(files, &provider)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(system)?;
    let builder = match &files.clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let roots = Arc::new(roots(&clients.ca)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
            let verifier =
                if clients.required { verifier } else { verifier.allow_unauthenticated() };
            builder.with_client_cert_verifier(verifier.build().map_err(system)?)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    // Sessions that are kept here would be memory that nobody has to pay for.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    if files.clients.is_none() {
        config.ticketer = Ticketer::new().map_err(system)?;
        config.send_tls13_tickets = 1;
    }
    Ok(Arc::new(config))
}

fn certified(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let chain = certificates(TlsPart::Cert, &files.cert)?;
    let key = private_key(&files.key)?;
    let key = provider
        .key_provider
        .load_private_key(key)
        .map_err(|error| unusable(TlsPart::Key, &files.key, &error))?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(Error::InconsistentKeys(_)) => {
            Err(TlsError::Mismatch { cert: files.cert.clone(), key: files.key.clone() })
        }
        Err(error) => Err(unusable(TlsPart::Cert, &files.cert, &error)),
    }
}

fn roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(TlsPart::ClientCa, path)? {
        roots.add(certificate).map_err(|error| unusable(TlsPart::ClientCa, path, &error))?;
    }
    Ok(roots)
}

fn certificates(part: TlsPart, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(part, path)?;
    let all = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    match all {
        Ok(all) if all.is_empty() => Err(at_fault(part, path, FileFault::Absent)),
        Ok(all) => Ok(all),
        Err(error) => Err(at_fault(part, path, pem_fault(&error))),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(TlsPart::Key, path)?;
    // The two ways to write it: of PKCS #8, and of OpenSSL before that.
    let marks: [&[u8]; 2] = [b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED"];
    if marks.iter().any(|mark| text.windows(mark.len()).any(|part| part == *mark)) {
        return Err(at_fault(TlsPart::Key, path, FileFault::Encrypted));
    }
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|error| at_fault(TlsPart::Key, path, pem_fault(&error)))
}

fn read(part: TlsPart, path: &Path) -> Result<Vec<u8>, TlsError> {
    let mut text = Vec::new();
    let file = File::open(path);
    match file.and_then(|file| file.take(FILE_MOST + 1).read_to_end(&mut text)) {
        Ok(length) if length as u64 > FILE_MOST => Err(at_fault(part, path, FileFault::TooLong)),
        Ok(_) => Ok(text),
        Err(error) => Err(at_fault(part, path, FileFault::Unreadable(error))),
    }
}

fn pem_fault(error: &pem::Error) -> FileFault {
    match error {
        pem::Error::NoItemsFound => FileFault::Absent,
        error => FileFault::NotPem(error.to_string()),
    }
}

fn at_fault(part: TlsPart, path: &Path, fault: FileFault) -> TlsError {
    TlsError::File { part, path: path.to_owned(), fault }
}

fn unusable(part: TlsPart, path: &Path, error: &Error) -> TlsError {
    at_fault(part, path, FileFault::Unusable(error.to_string()))
}

fn system(error: impl fmt::Display) -> TlsError {
    TlsError::System(error.to_string())
}
