//! Word to the service manager: datagrams to the socket that it names in `NOTIFY_SOCKET`.
//!
//! Owns: the address and the sending. Does not know: what is said; see `sd_notify(3)` for the
//! words. Nothing depends on a service manager that is not there or does not listen.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Says `words`, lines of `NAME=VALUE`, if a service manager has asked for word.
pub fn tell(words: &str) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
        return;
    };
    if let Err(error) = tell_at(&name, words) {
        tracing::debug!(%error, socket = ?name, "the service manager could not be told");
    }
}

/// A path, or behind a `@` an abstract name.
fn tell_at(name: &OsStr, words: &str) -> io::Result<()> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    // Word that finds no room is lost: a start does not wait for who listens.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(words.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 100];
        let len = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..len].to_vec()).unwrap()
    }

    #[test]
    fn a_service_manager_hears_at_a_path_and_at_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        tell_at(path.as_os_str(), "READY=1").unwrap();
        assert_eq!(hear(&socket), "READY=1");

        let name = format!("zzq-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        tell_at(OsStr::new(&format!("@{name}")), "STOPPING=1").unwrap();
        assert_eq!(hear(&socket), "STOPPING=1");
    }

    #[test]
    fn nobody_there_is_an_error_and_no_panic() {
        assert!(tell_at(OsStr::new("/nowhere/at/all"), "READY=1").is_err());
        assert!(tell_at(OsStr::new("@"), "READY=1").is_err());
    }
}
