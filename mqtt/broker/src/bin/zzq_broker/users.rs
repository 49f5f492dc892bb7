//! Who may connect, as the command line says: a file of SCRAM keys, and how its lines are made.

use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;
use std::sync::Arc;

use zzq_broker::hooks::scram::{Keys, Scram, entry};
use zzq_broker::{ExitStatus, Hooks};

use crate::args::UserFlags;

/// Bytes of a new salt.
const SALT: usize = 16;

/// The hooks of a broker that is run by its command line.
pub(crate) fn hooks(flags: &UserFlags) -> Result<Hooks, (ExitStatus, String)> {
    let Some(path) = &flags.scram_file else { return Ok(Hooks::default()) };
    let scram = load(path, flags.allow_anonymous)
        .map_err(|why| (ExitStatus::Config, format!("--scram-file {}: {why}", path.display())))?;
    Ok(Hooks { authenticator: Some(Arc::new(scram)), ..Hooks::default() })
}

fn load(path: &Path, anonymous: bool) -> Result<Scram, String> {
    let keys = Keys::read(path).map_err(|error| error.to_string())?;
    Scram::new(keys, anonymous).map_err(|error| error.to_string())
}

/// `--scram-entry`: prints the line of a user whose password comes in.
pub(crate) fn print_entry(user: &str, iterations: u32) -> Result<(), (ExitStatus, String)> {
    let fail = |why: String| (ExitStatus::Config, format!("--scram-entry: {why}"));
    let mut line = Vec::new();
    let read = io::stdin().lock().read_until(b'\n', &mut line);
    read.map_err(|error| fail(error.to_string()))?;
    let password = line.strip_suffix(b"\n").unwrap_or(&line);
    let password = password.strip_suffix(b"\r").unwrap_or(password);
    if password.is_empty() {
        return Err(fail("a password is expected as the first line of stdin".into()));
    }
    let mut salt = [0; SALT];
    let random = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut salt));
    random.map_err(|error| fail(error.to_string()))?;
    let line = entry(user, password, &salt, iterations).map_err(|error| fail(error.to_string()))?;
    writeln!(io::stdout(), "{line}").map_err(|error| fail(error.to_string()))
}
