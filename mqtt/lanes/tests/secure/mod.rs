//! Certificates that are made as the tests run, and clients that use TLS.
#![allow(dead_code, reason = "each test binary uses its part")]
use std::{
    fs,
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    path::PathBuf,
    sync::Arc,
};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd,
};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
    version::{TLS12, TLS13},
};
use tempfile::TempDir;
use zzq_lanes::{ClientCerts, TlsFiles};

pub(crate) const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

/// A CA.
pub(crate) struct Ca {
    pub(crate) cert: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub(crate) struct Identity {
    pub(crate) cert: Certificate,
    pub(crate) key: KeyPair,
}

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let cert = params.self_signed(&key).unwrap();
        Self { cert, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn issue(&self, name: &str) -> Identity {
        self.issue_as(name, |_| {})
    }

    pub(crate) fn expired(&self, name: &str) -> Identity {
        self.issue_as(name, |params| params.not_after = date_time_ymd(2001, 1, 1))
    }

    fn issue_as(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Identity { cert: params.signed_by(&key, &self.issuer).unwrap(), key }
    }
}

/// What a server has on its disk, and who knows it.
pub(crate) struct Site {
    pub(crate) home: TempDir,
    pub(crate) ca: Ca,
}

impl Site {
    pub(crate) fn new() -> Self {
        let site = Self { home: TempDir::new().unwrap(), ca: Ca::new("the CA of servers") };
        site.install(&site.ca.issue("localhost"));
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// Puts a certificate and its key in the place of those that are there.
    pub(crate) fn install(&self, identity: &Identity) {
        self.write("cert.pem", &identity.cert.pem());
        self.write("key.pem", &identity.key.serialize_pem());
    }

    pub(crate) fn files(&self) -> TlsFiles {
        TlsFiles { cert: self.path("cert.pem"), key: self.path("key.pem"), clients: None }
    }

    /// The same, asking for certificates of this CA.
    pub(crate) fn files_for(&self, clients: &Ca, required: bool) -> TlsFiles {
        let ca = self.write("clients.pem", &clients.cert.pem());
        TlsFiles { clients: Some(ClientCerts { ca, required }), ..self.files() }
    }

    /// Of a client that trusts its CA.
    pub(crate) fn trusted(&self, version: &'static SupportedProtocolVersion) -> ClientConfig {
        client(&self.ca, version, None)
    }
}

pub(crate) fn client(
    trusts: &Ca,
    version: &'static SupportedProtocolVersion,
    identity: Option<&Identity>,
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(trusts.cert.der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    match identity {
        None => builder.with_no_client_auth(),
        Some(Identity { cert, key }) => {
            let chain: Vec<CertificateDer<'static>> = vec![cert.der().clone()];
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    }
}

pub(crate) fn session(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(Arc::clone(config), name).unwrap()
}

pub(crate) type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A client's stream; its handshake is made with the first byte.
pub(crate) fn over(stream: TcpStream, config: ClientConfig) -> Stream {
    StreamOwned::new(session(&Arc::new(config)), stream)
}

/// The peer's end, behind nothing; whether it was a `close_notify`.
pub(crate) fn ends_well(stream: &mut Stream) -> bool {
    match stream.read(&mut [0]) {
        Ok(0) => true,
        Ok(_) => panic!("something came"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
            false
        }
    }
}

/// Says that nothing follows, and keeps the socket open.
pub(crate) fn finish(stream: &mut Stream) {
    stream.conn.send_close_notify();
    stream.flush().unwrap();
}

/// As many clients do: the socket ends without a word of TLS.
pub(crate) fn hang_up(stream: &mut Stream) {
    stream.flush().unwrap();
    stream.sock.shutdown(Shutdown::Write).unwrap();
}

/// What a client sends before anybody has answered.
pub(crate) fn hello(config: ClientConfig) -> Vec<u8> {
    let mut hello = Vec::new();
    session(&Arc::new(config)).write_tls(&mut hello).unwrap();
    hello
}
