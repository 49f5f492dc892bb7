//! The certificates of a broker that runs as a command: read at the start, and at SIGHUP.

#[cfg(feature = "tls")]
use std::sync::Arc;

#[cfg(feature = "tls")]
use zzq_broker::TlsServer;
use zzq_broker::{BindError, Bound, Broker, ExitStatus};

use crate::args::Args;
#[cfg(feature = "tls")]
use crate::args::tls::blame;

/// What endpoints over TLS are served with, if there is anything.
pub(crate) struct Security {
    #[cfg(feature = "tls")]
    server: Option<Arc<TlsServer>>,
}

#[cfg(feature = "tls")]
impl Security {
    pub(crate) fn read(args: &Args) -> Result<Self, (ExitStatus, String)> {
        let config = |message| (ExitStatus::Config, message);
        let server = args.tls.files().map(TlsServer::load).transpose();
        let server = server.map_err(|error| config(blame(&error)))?;
        if server.is_some() && !args.bind.iter().any(|endpoint| is_tls(endpoint)) {
            let message = "--cert: it is for endpoints over TLS; --bind tls://HOST:PORT names one";
            return Err(config(message.to_owned()));
        }
        Ok(Self { server })
    }

    pub(crate) async fn bind(&self, broker: &Broker, endpoint: &str) -> Result<Bound, BindError> {
        match &self.server {
            Some(server) if is_tls(endpoint) => broker.bind_tls(endpoint, Arc::clone(server)).await,
            _ => broker.bind(endpoint).await,
        }
    }

    /// The files are small, and nobody is served meanwhile but by lanes.
    pub(crate) fn reload(&self) {
        match self.server.as_ref().map(|server| server.reload()) {
            None => tracing::info!("SIGHUP: there is nothing to read again"),
            Some(Ok(())) => tracing::info!("SIGHUP: the certificates were read again"),
            Some(Err(error)) => tracing::error!(
                error = blame(&error),
                "SIGHUP: the certificates from before stay in use"
            ),
        }
    }
}

#[cfg(feature = "tls")]
fn is_tls(endpoint: &str) -> bool {
    let scheme = endpoint.split_once("://").map_or("", |(scheme, _)| scheme);
    ["tls", "mqtts", "wss"].iter().any(|tls| scheme.eq_ignore_ascii_case(tls))
}

#[cfg(not(feature = "tls"))]
impl Security {
    #[expect(clippy::unnecessary_wraps, reason = "with TLS it may fail")]
    pub(crate) fn read(_: &Args) -> Result<Self, (ExitStatus, String)> {
        Ok(Self {})
    }

    #[expect(clippy::unused_self, reason = "with TLS there is something in it")]
    pub(crate) async fn bind(&self, broker: &Broker, endpoint: &str) -> Result<Bound, BindError> {
        broker.bind(endpoint).await
    }

    #[expect(clippy::unused_self, reason = "with TLS there is something in it")]
    pub(crate) fn reload(&self) {
        tracing::info!("SIGHUP: there is nothing to read again");
    }
}
