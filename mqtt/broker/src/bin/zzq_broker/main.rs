//! The `zzq_broker` command: flags, log lines, signals, exit statuses.

#![forbid(unsafe_code)]

mod args;
mod files;
mod memory;
mod security;
mod users;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::MissedTickBehavior;
use tracing_subscriber::EnvFilter;
use zzq_broker::{BindError, Broker, Context, ExitStatus, StartError, service};

use args::Args;
use memory::Memory;
use security::Security;

/// How long a clean stop may take.
const STOP_WITHIN: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let args = Args::parse();
    let status = match run(&args) {
        Ok(()) => ExitStatus::Clean,
        Err((status, message)) => {
            // Where nobody reads it there is nothing left to do about it.
            let _ = writeln!(io::stderr(), "zzq_broker: {message}");
            status
        }
    };
    ExitCode::from(status as u8)
}

type Ended = Result<(), (ExitStatus, String)>;

fn run(args: &Args) -> Ended {
    if let Some(user) = &args.users.scram_entry {
        return users::print_entry(user, args.users.scram_iterations);
    }
    let options = args.options().map_err(|message| (ExitStatus::Config, message))?;
    let hooks = users::hooks(&args.users)?;
    start_logging(&args.log_level)?;
    let security = Security::read(args)?;
    files::raise_limit(args.connections.max_connections);
    let mut builder = Context::builder().busy_poll(args.lanes.busy_poll).driver(args.driver());
    if let Some(lanes) = args.lanes.lanes {
        builder = builder.lanes(usize::from(lanes));
    }
    let context = builder.build();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| (ExitStatus::NotPermitted, error.to_string()))?;
    runtime.block_on(async {
        let broker = Broker::with_hooks(&context, options, hooks).await;
        let broker = broker.map_err(|error| start_status(&error))?;
        serve(&broker, args, &security).await
    })
}

async fn serve(broker: &Broker, args: &Args, security: &Security) -> Ended {
    let not_permitted = |error: io::Error| (ExitStatus::NotPermitted, error.to_string());
    let mut term = signal(SignalKind::terminate()).map_err(not_permitted)?;
    let mut int = signal(SignalKind::interrupt()).map_err(not_permitted)?;
    let mut usr1 = signal(SignalKind::user_defined1()).map_err(not_permitted)?;
    let mut hup = signal(SignalKind::hangup()).map_err(not_permitted)?;
    let mut ended = Ok(());
    for endpoint in &args.bind {
        match security.bind(broker, endpoint).await {
            Ok(bound) => {
                let is_open = args.users.scram_file.is_none() || args.users.allow_anonymous;
                if is_open && !bound.addr.ip().is_loopback() {
                    tracing::warn!(
                        endpoint = %bound.endpoint,
                        "open to everybody who can reach it, without authentication; \
                         --bind tcp://127.0.0.1:1883 keeps it to this machine, --scram-file to \
                         those who show who they are"
                    );
                }
                let line = writeln!(io::stdout(), "{}", bound.endpoint);
                if line.is_err() || io::stdout().flush().is_err() {
                    tracing::debug!("nobody reads the standard output");
                }
            }
            Err(error) => {
                ended = Err(bind_status(&error));
                break;
            }
        }
    }
    if ended.is_ok() {
        service::tell("READY=1\nSTATUS=serving");
        // Where the system does not say how much there is, all of it stays.
        let mut memory = Memory::new().ok();
        let mut looks = tokio::time::interval(memory::LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let name = loop {
            tokio::select! {
                _ = looks.tick() => memory = memory.take().and_then(Memory::look),
                _ = term.recv() => break "SIGTERM",
                _ = int.recv() => break "SIGINT",
                _ = hup.recv() => security.reload(),
                _ = usr1.recv() => {
                    if !broker.snapshot() {
                        tracing::warn!("SIGUSR1: nothing is kept without --data-dir");
                    }
                }
            }
        };
        tracing::info!(signal = name, "stopping");
    }
    service::tell("STOPPING=1");
    broker.shutdown(STOP_WITHIN).await;
    ended
}

fn start_logging(level: &str) -> Ended {
    let wanted = std::env::var("RUST_LOG").unwrap_or_else(|_| level.to_owned());
    let filter = EnvFilter::try_new(&wanted)
        .map_err(|error| (ExitStatus::Config, format!("--log-level {wanted}: {error}")))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        .init();
    Ok(())
}

fn start_status(error: &StartError) -> (ExitStatus, String) {
    let status = match error {
        StartError::InUse { .. } => ExitStatus::InUse,
        StartError::NotPermitted { .. } => ExitStatus::NotPermitted,
        StartError::Damaged { .. } => ExitStatus::Damaged,
        StartError::Config(_) => ExitStatus::Config,
        StartError::Lanes(source) if source.kind() == io::ErrorKind::PermissionDenied => {
            ExitStatus::NotPermitted
        }
        StartError::Store { .. } | StartError::Lanes(_) => ExitStatus::StoreIo,
    };
    (status, error.to_string())
}

fn bind_status(error: &BindError) -> (ExitStatus, String) {
    let status = match error {
        BindError::Bind { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            ExitStatus::NotPermitted
        }
        BindError::Endpoint(_) | BindError::NoCertificate(_) => ExitStatus::Config,
        _ => ExitStatus::Bind,
    };
    let hint = match error {
        BindError::NoCertificate(_) => ": give --cert and --key",
        _ => "",
    };
    (status, format!("--bind: {error}{hint}"))
}
