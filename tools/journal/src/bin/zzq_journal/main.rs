//! The `zzq_journal` command: flags, exit statuses, where output goes.

#![forbid(unsafe_code)]

mod args;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zzq_journal::{Place, Status, Trouble, dump, verify};

use args::{Args, Command};

fn main() -> ExitCode {
    let args = Args::parse();
    allow_many_files();
    let mut out = BufWriter::new(io::stdout().lock());
    let mut aside = io::stderr();
    let outcome = run(&args, &mut out, &mut aside);
    let outcome = outcome.and_then(|status| Ok(out.flush().map(|()| status)?));
    let status = match outcome {
        Ok(status) => status,
        // Whoever read has seen enough.
        Err(Trouble::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Status::Good,
        Err(trouble) => {
            // Where nobody reads it there is nothing left to do about it.
            let _ = out.flush();
            let _ = writeln!(aside, "zzq_journal: {trouble}");
            Status::Unreadable
        }
    };
    ExitCode::from(status as u8)
}

fn run(args: &Args, out: &mut dyn Write, aside: &mut dyn Write) -> Result<Status, Trouble> {
    let (directory, live) = args.command.place();
    let place = Place::find(directory, live)?;
    if let Some(warning) = place.warning() {
        let _ = writeln!(aside, "zzq_journal: {warning}");
    }
    match &args.command {
        Command::Verify(flags) => {
            verify(&place, flags.options(io::stderr().is_terminal()), out, aside)
        }
        Command::Dump(flags) => dump(&place, &flags.options(), out, aside),
    }
}

/// A log may have more segments than a process may usually have files open.
fn allow_many_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where it is not permitted, a small log can be read all the same.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
