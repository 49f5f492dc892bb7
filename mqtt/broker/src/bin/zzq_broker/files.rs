//! The limit of open files: each connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as the system allows; shells set it low for programs that cannot count
/// beyond 1024. Says so if it is still below what the connections may take.
pub(crate) fn raise_limit(connections: usize) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(?current, ?maximum, %error, "the limit of open files cannot be raised");
    }
    let Some(files) = getrlimit(Resource::Nofile).current else { return };
    if u64::try_from(connections).is_ok_and(|connections| connections > files) {
        tracing::warn!(
            files,
            connections,
            "fewer files may be open than connections are allowed: raise the hard limit \
             (ulimit -Hn, LimitNOFILE=) or lower --max-connections"
        );
    }
}
