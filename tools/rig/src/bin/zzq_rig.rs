//! `zzq_rig`: injures the real thing and counts what it promised.
//!
//! Exit codes: 0 all promises kept, 1 a promise broken, too few injuries to say so, or the rig
//! failed, 2 wrong use: flags that there are not, or that name nothing to be used, 77 this machine
//! does not allow it. The last line of stdout is the verdict, but for flags that there are not.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use zzq_rig::place::Place;
use zzq_rig::power_cut::{self, Plan, Stand};
use zzq_rig::sealed::{self, CANNOT};
use zzq_rig::unfit::{self, Unfit};
use zzq_rig::{after, broker, recovery, run, soak, workload};

/// Does this disk keep its word with this broker? Injures a `zzq_broker` that works on DIR, in
/// rounds, and holds it to every acknowledgement that it gave. The last line of stdout is the
/// verdict, progress goes to stderr, and the exit status is 0 only when the verdict is clean.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true, arg_required_else_help = true)]
struct Flags {
    #[command(flatten)]
    span: Option<run::Span>,
    #[command(flatten)]
    run: run::Options,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Records every write and flush under a log on ext4, cuts the power at many of them, and
    /// starts from what is left. It takes root, FUSE and loop devices.
    PowerCut {
        #[command(flatten)]
        plan: Plan,
        /// Only finds out whether this machine allows it.
        #[arg(long)]
        probe: bool,
        /// Where the process outside has made place for this one.
        #[arg(long, hide = true)]
        inside: Option<PathBuf>,
    },
    /// Holds what a run has left in DIR that was cut off, by a loss of power for instance, to its
    /// accounts.
    AfterPowerLoss {
        /// The run's --data-dir.
        directory: PathBuf,
        /// The broker [default: the `zzq_broker` beside this program].
        #[arg(long, value_name = "PATH")]
        broker: Option<PathBuf>,
    },
    /// Injures nothing: clients of all versions come, go and take over for as long as you like;
    /// all that they must see is checked, and the broker must not grow.
    Soak(soak::Flags),
    /// One life of the workload on a log.
    #[command(hide = true)]
    Workload {
        #[arg(long)]
        directory: PathBuf,
        #[command(flatten)]
        life: workload::Life,
    },
    /// Mounts a device and says what the log on it holds.
    #[command(hide = true)]
    Recover { device: PathBuf, directory: PathBuf },
}

fn main() -> ExitCode {
    let flags = Flags::parse();
    let outcome = match (flags.what, flags.span) {
        (Some(what), _) => carry_out(what),
        (None, Some(span)) => judge(&span, &flags.run),
        (None, None) => Err(anyhow::anyhow!("nothing is asked for; see --help")),
    };
    outcome.unwrap_or_else(|error| {
        complain(&format!("zzq_rig: {error:#}"));
        ExitCode::FAILURE
    })
}

fn carry_out(what: What) -> Result<ExitCode> {
    match what {
        What::PowerCut { plan, probe, inside: Some(place) } => told(inside(&place, &plan, probe)),
        What::PowerCut { .. } => match sealed::able() {
            Ok(()) => told(Place::make().and_then(|place| outside(&place))),
            Err(reason) => Ok(skip(&reason)),
        },
        What::AfterPowerLoss { directory, broker } => {
            told(look_back(&directory, broker.as_deref()))
        }
        What::Soak(flags) => told(soak(&flags)),
        What::Workload { directory, life } => live(&directory, &life),
        What::Recover { device, directory } => recover(&device, &directory),
    }
}

/// What has failed has a verdict, too.
fn told(outcome: Result<ExitCode>) -> Result<ExitCode> {
    outcome.or_else(|error| {
        writeln!(io::stdout(), "FAILED: {error:#}")?;
        Ok(ExitCode::from(unfit::exit_code(&error)))
    })
}

/// What the machine allows is done in namespaces of its own, so that nothing of it is left behind.
fn judge(span: &run::Span, options: &run::Options) -> Result<ExitCode> {
    let json = options.json;
    if options.inside.is_some() {
        let verdict = match sealed::end_with_outside() {
            Ok(()) => run::run(span, options),
            Err(error) => run::failed(span, &error),
        };
        return conclude(&verdict, json);
    }
    match sealed::able().and_then(|()| Place::make()) {
        // Who is inside says how it ends, if there is anybody.
        Ok(place) => outside(&place).or_else(|error| conclude(&run::failed(span, &error), json)),
        Err(reason) => {
            let left_out = Some(format!("{reason:#}"));
            conclude(&run::run(span, &run::Options { left_out, ..options.clone() }), json)
        }
    }
}

fn conclude(verdict: &run::Verdict, json: bool) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    if json {
        writeln!(out, "{}", verdict.json())?;
    } else {
        writeln!(out, "{verdict}{}", verdict.line())?;
    }
    Ok(ExitCode::from(verdict.exit_code()))
}

/// This program again, with the same flags, sealed.
fn outside(place: &Place) -> Result<ExitCode> {
    sealed::run(place.path(), std::env::args_os().skip(1).collect::<Vec<OsString>>().into_iter())
}

fn inside(place: &Path, plan: &Plan, probe: bool) -> Result<ExitCode> {
    sealed::end_with_outside()?;
    let mut stand = match Stand::set_up(place) {
        Ok(stand) => stand,
        Err(reason) => return Ok(skip(&reason)),
    };
    if let Err(reason) = stand.make_file_system().and_then(|_| stand.record(std::iter::empty())) {
        return Ok(skip(&reason));
    }
    if probe {
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = io::stdout();
    let report = power_cut::run(&mut stand, plan, |begins| {
        // Whoever has closed it does not want to know.
        let _ = writeln!(io::stdout(), "{begins}");
    })?;
    for finding in &report.findings {
        writeln!(out, "{finding}")?;
    }
    writeln!(out, "{report}")?;
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn look_back(directory: &Path, broker: Option<&Path>) -> Result<ExitCode> {
    let program = broker::named_or_beside(broker).context(Unfit)?;
    let after::Found { acknowledged, data, broken } = after::check(directory, &program)?;
    let mut out = io::stdout();
    for broken in &broken {
        writeln!(out, "BROKEN: {broken}")?;
    }
    let (word, code) = if broken.is_empty() {
        ("clean", ExitCode::SUCCESS)
    } else {
        ("BROKEN", ExitCode::FAILURE)
    };
    writeln!(out, "{word}: {acknowledged} acknowledged, {}", data.display())?;
    Ok(code)
}

fn soak(flags: &soak::Flags) -> Result<ExitCode> {
    let verdict = soak::run(flags)?;
    writeln!(io::stdout(), "{verdict}")?;
    Ok(if verdict.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn live(directory: &Path, life: &workload::Life) -> Result<ExitCode> {
    let voice = io::stdout().as_fd().try_clone_to_owned()?;
    workload::live(directory, life, voice.into())?;
    Ok(ExitCode::SUCCESS)
}

fn recover(device: &Path, directory: &Path) -> Result<ExitCode> {
    let mut out = io::stdout().lock();
    recovery::recover(device, directory, &mut |note| Ok(writeln!(out, "{note}")?))?;
    Ok(ExitCode::SUCCESS)
}

fn skip(reason: &anyhow::Error) -> ExitCode {
    complain(&format!("skipped, this machine does not allow it: {reason:#}"));
    ExitCode::from(CANNOT)
}

fn complain(what: &str) {
    // There is nobody to tell if this fails.
    let _ = writeln!(io::stderr(), "{what}");
}
