//! What endpoints over TLS are served with.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use zzq_broker::{ClientCerts, TlsError, TlsFiles, TlsPart};

/// See the file.
#[derive(Debug, Args)]
pub(crate) struct TlsFlags {
    /// The certificate of endpoints over TLS, tls://HOST:PORT, in PEM; those that lead to its CA
    /// stand behind it. SIGHUP reads it and the files of the next two flags again; clients stay
    /// connected.
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(crate) cert: Option<PathBuf>,

    /// Its private key, in PEM and not encrypted.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) key: Option<PathBuf>,

    /// Clients are asked for certificates of these CAs, in PEM. One that shows another certificate
    /// is turned away.
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(crate) client_ca: Option<PathBuf>,

    /// Whether clients must have one, with `--client-ca`.
    #[arg(long, value_name = "WHETHER", default_value = "required")]
    pub(crate) client_cert: ClientCert,
}

/// Whether clients must have a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientCert {
    /// Those without are turned away.
    Required,
    /// Those without are served.
    Optional,
}

impl TlsFlags {
    /// The files, if there are any.
    pub(crate) fn files(&self) -> Option<TlsFiles> {
        let Self { cert: Some(cert), key: Some(key), .. } = self else { return None };
        let required = self.client_cert == ClientCert::Required;
        let clients = self.client_ca.clone().map(|ca| ClientCerts { ca, required });
        Some(TlsFiles { cert: cert.clone(), key: key.clone(), clients })
    }
}

/// The error, with the flag that is to be changed.
pub(crate) fn blame(error: &TlsError) -> String {
    let flag = match error {
        TlsError::File { part: TlsPart::Cert, .. } => "--cert: ",
        TlsError::File { part: TlsPart::Key, .. } | TlsError::Mismatch { .. } => "--key: ",
        TlsError::File { part: TlsPart::ClientCa, .. } => "--client-ca: ",
        TlsError::System(_) => "",
    };
    format!("{flag}{error}")
}
