//! The `zzq_journal` command: flags, exit statuses, where output goes.

#![forbid(unsafe_code)]

mod args;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zzq_journal::{BackupError, Place, Status, Trouble, Wish, backup, dump, verify};

use args::{Args, Command};

fn main() -> ExitCode {
    let args = Args::parse();
    allow_many_files();
    let mut out = BufWriter::new(io::stdout().lock());
    let mut aside = io::stderr();
    let outcome = run(&args, &mut out, &mut aside);
    let flushed = |status| Ok(out.flush().map(|()| status).map_err(Trouble::from)?);
    let status = match outcome.and_then(flushed) {
        Ok(status) => status,
        // Whoever read has seen enough.
        Err(BackupError::Source(Trouble::Output(error)))
            if error.kind() == io::ErrorKind::BrokenPipe =>
        {
            Status::Good
        }
        Err(error) => {
            // Where nobody reads it there is nothing left to do about it.
            let _ = out.flush();
            let _ = writeln!(aside, "zzq_journal: {error}");
            error.status()
        }
    };
    ExitCode::from(status as u8)
}

fn run(args: &Args, out: &mut dyn Write, aside: &mut dyn Write) -> Result<Status, BackupError> {
    let (directory, live) = args.command.place();
    let place = Place::find(directory, live)?;
    let progress = io::stderr().is_terminal();
    match &args.command {
        Command::Verify(flags) => {
            warn(&place, aside);
            Ok(verify(&place, flags.options(progress), out, aside)?)
        }
        Command::Dump(flags) => {
            warn(&place, aside);
            Ok(dump(&place, &flags.options(), out, aside)?)
        }
        Command::Copy(flags) => {
            backup(&place, &flags.new, Wish::End, flags.options(progress), out, aside)
        }
        Command::Restore(flags) => {
            let copy = &flags.copy;
            backup(&place, &copy.new, flags.wish(), copy.options(progress), out, aside)
        }
    }
}

fn warn(place: &Place, aside: &mut dyn Write) {
    if let Some(warning) = place.warning() {
        let _ = writeln!(aside, "zzq_journal: {warning}");
    }
}

/// A log may have more segments than a process may usually have files open.
fn allow_many_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where it is not permitted, a small log can be read all the same.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
