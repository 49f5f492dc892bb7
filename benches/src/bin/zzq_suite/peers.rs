//! Who is measured: how each is started, where its program is found.

use std::env;
use std::path::{Path, PathBuf};

use zzq_bench::program::{checksum, first_line};

/// A broker in one setting.
#[derive(Debug)]
pub(crate) struct Setting {
    /// Settings of one broker are a family: of the peer's the better counts.
    pub(crate) family: &'static str,
    /// What is called for.
    pub(crate) name: &'static str,
    /// Its program, unless it is said where that is.
    program: &'static str,
    /// The command line without storage and with it, where it has any.
    pub(crate) memory: Start,
    pub(crate) storage: Option<Start>,
    /// What asks for its version; a constant where it does not tell.
    version: Version,
    /// How it is installed.
    pub(crate) install: &'static str,
}

/// How a broker is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    /// With `{program}`, `{port}`, `{dir}`, `{config}`.
    pub(crate) command: &'static str,
    /// The text of `{config}`.
    pub(crate) config: &'static str,
}

#[derive(Debug)]
enum Version {
    /// The first line of what it says to this.
    Asked(&'static str),
    Known(&'static str),
}

const fn plain(command: &'static str) -> Start {
    Start { command, config: "" }
}

/// Ours. Its program is given.
pub(crate) const SUBJECT: Setting = Setting {
    family: "zzq",
    name: "zzq",
    program: "target/release/zzq_broker",
    memory: plain("{program} --bind tcp://127.0.0.1:{port} --lanes 1 --log-level error"),
    storage: Some(plain(
        "{program} --bind tcp://127.0.0.1:{port} --lanes 1 --log-level error --data-dir {dir}",
    )),
    version: Version::Asked("--version"),
    install: "cargo build --release -p zzq-broker",
};

/// The others, each behind what it is compared by first.
pub(crate) const PEERS: &[Setting] = &[
    Setting {
        family: "zzq-broker",
        name: "zzq-broker",
        program: "zzq_broker",
        memory: plain("{program} --bind tcp://127.0.0.1:{port} --lanes 1"),
        storage: Some(plain("{program} --bind tcp://127.0.0.1:{port} --lanes 1 --data-dir {dir}")),
        version: Version::Known("zzq-broker 0.5.0"),
        install: "cargo install zzq-broker --version 0.5.0",
    },
    Setting {
        family: "zzq-broker",
        name: "zzq-broker-no-spin",
        program: "zzq_broker",
        memory: plain("{program} --bind tcp://127.0.0.1:{port} --lanes 1 --spin-us 0"),
        storage: Some(plain(
            "{program} --bind tcp://127.0.0.1:{port} --lanes 1 --spin-us 0 --data-dir {dir}",
        )),
        version: Version::Known("zzq-broker 0.5.0 --spin-us 0"),
        install: "cargo install zzq-broker --version 0.5.0",
    },
    Setting {
        family: "mosquitto",
        name: "mosquitto",
        program: "mosquitto",
        memory: Start {
            command: "{program} -c {config}",
            config: "listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n\
                     max_queued_messages 0\n",
        },
        storage: Some(Start {
            command: "{program} -c {config}",
            config: "listener {port} 127.0.0.1\nallow_anonymous true\npersistence true\n\
                     persistence_location {dir}/\nautosave_on_changes true\n\
                     autosave_interval 1\nmax_queued_messages 0\nuser root\n",
        }),
        version: Version::Asked("-h"),
        install: "apt-get install mosquitto",
    },
    Setting {
        family: "nats-server",
        name: "nats-server",
        program: "nats-server",
        memory: Start {
            command: "{program} -c {config}",
            config: "server_name: suite\nhost: 127.0.0.1\nport: -1\n\
                     jetstream { store_dir: \"{dir}\" }\n\
                     mqtt { host: 127.0.0.1, port: {port} }\n",
        },
        storage: None,
        version: Version::Asked("--version"),
        install: "apt-get install nats-server",
    },
];

/// A setting whose program is there.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) setting: &'static Setting,
    program: PathBuf,
    pub(crate) version: String,
}

impl Found {
    /// Our own program at this path, if it is there.
    pub(crate) fn subject(program: &Path) -> Option<Self> {
        Self::new(&SUBJECT, program.to_owned())
    }

    /// A peer where `said` (a family and a path each) or `PATH` has its program.
    pub(crate) fn peer(setting: &'static Setting, said: &[(String, PathBuf)]) -> Option<Self> {
        if let Some((_, program)) = said.iter().find(|(family, _)| family == setting.family) {
            return Self::new(setting, program.clone());
        }
        let folders = env::var_os("PATH")?;
        let mut programs = env::split_paths(&folders).map(|folder| folder.join(setting.program));
        // Programs of daemons are often not on the path of a user.
        let daemon = || Some(Path::new("/usr/sbin").join(setting.program));
        let program = programs.find(|program| program.is_file()).or_else(daemon)?;
        // Ours is called as the published one is, and tells its version.
        if first_line(&program, "--version").is_some_and(|line| line.starts_with("zzq_broker ")) {
            return None;
        }
        Self::new(setting, program)
    }

    fn new(setting: &'static Setting, program: PathBuf) -> Option<Self> {
        if !program.is_file() {
            return None;
        }
        let version = match setting.version {
            Version::Asked(flag) => first_line(&program, flag)?,
            Version::Known(version) => version.to_owned(),
        };
        Some(Self { setting, program, version })
    }

    /// How it is started, `{program}` filled in; `None` if it has no storage and should.
    pub(crate) fn start(&self, stores: bool) -> Option<(String, &'static str)> {
        let start = if stores { self.setting.storage? } else { self.setting.memory };
        let program = self.program.to_string_lossy();
        Some((start.command.replace("{program}", &program), start.config))
    }

    /// Tells this build from others.
    pub(crate) fn checksum(&self) -> std::io::Result<u32> {
        checksum(&self.program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_not_found() {
        let said = [("mosquitto".to_owned(), PathBuf::from("no/such/program"))];
        let mosquitto = PEERS.iter().find(|peer| peer.name == "mosquitto").unwrap();
        assert!(Found::peer(mosquitto, &said).is_none());
        assert!(Found::subject(Path::new("no/such/program")).is_none());
    }

    #[test]
    fn every_start_names_its_port() {
        for setting in PEERS.iter().chain([&SUBJECT]) {
            for start in [Some(setting.memory), setting.storage].into_iter().flatten() {
                let both = start.command.to_owned() + start.config;
                assert!(both.contains("{port}") && both.contains("{program}"), "{}", setting.name);
                assert_eq!(start.command.contains("{config}"), !start.config.is_empty());
            }
        }
    }
}
