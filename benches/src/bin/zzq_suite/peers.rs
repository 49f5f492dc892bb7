//! Who is measured: how each is started, where its program is found.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zzq_bench::program::{checksum, first_line};
use zzq_types::QoS;

/// A broker in one setting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    /// By what its program is called for with `--at`.
    pub(crate) broker: &'static str,
    /// Settings of a family stand in one table: the better counts.
    pub(crate) family: &'static str,
    /// What is called for.
    pub(crate) name: &'static str,
    /// Its program, unless it is said where that is; with a folder, it is looked for nowhere else.
    program: &'static str,
    /// How it is started without storage and with it, where it is measured so.
    pub(crate) memory: Option<Start>,
    pub(crate) storage: Option<Start>,
    /// What tells its version.
    version: Version,
    /// What is said behind its version.
    how: &'static str,
    /// Whether it is measured in all cells, or in the common ones only.
    pub(crate) everywhere: bool,
    /// The most that it grants a subscription.
    pub(crate) grants: QoS,
    /// About how long it takes to start and to stop.
    pub(crate) idles: Duration,
    /// About how long it goes on delivering when a flood of QoS 0 to one receiver is over.
    pub(crate) behind: Duration,
    /// Why something is not measured.
    pub(crate) lacks: &'static str,
    /// How it is installed.
    pub(crate) install: &'static str,
}

impl Setting {
    /// From which others differ.
    const PLAIN: Self = Self {
        broker: "",
        family: "",
        name: "",
        program: "",
        memory: None,
        storage: None,
        version: Version::Asked("--version"),
        how: "",
        everywhere: false,
        grants: QoS::ExactlyOnce,
        idles: Duration::from_millis(400),
        behind: Duration::ZERO,
        lacks: "",
        install: "",
    };
}

/// How a broker is started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Start {
    /// With `{program}`, `{port}`, `{dir}`, `{home}`.
    pub(crate) command: &'static str,
    /// Names and texts of files in `{home}`.
    pub(crate) files: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Copy, Debug)]
enum Version {
    /// The first line of what it says to this.
    Asked(&'static str),
    Known(&'static str),
    /// What the name of a file goes on with in a folder, seen from the program's.
    Named {
        folder: &'static str,
        file: &'static str,
    },
}

const fn plain(command: &'static str) -> Start {
    Start { command, files: &[] }
}

const fn with(command: &'static str, files: &'static [(&'static str, &'static str)]) -> Start {
    Start { command, files }
}

/// Ours. Its program is given.
pub(crate) const SUBJECT: Setting = Setting {
    broker: "zzq",
    family: "zzq",
    name: "zzq",
    program: "target/release/zzq_broker",
    memory: Some(plain("{program} --bind tcp://127.0.0.1:{port} --lanes 1 --log-level error")),
    storage: Some(plain(
        "{program} --bind tcp://127.0.0.1:{port} --lanes 1 --log-level error --data-dir {dir}",
    )),
    install: "cargo build --release -p zzq-broker",
    ..Setting::PLAIN
};

const PUBLISHED: Setting = Setting {
    broker: "zzq-broker",
    family: "zzq-broker",
    program: "zzq_broker",
    everywhere: true,
    install: "cargo install zzq-broker --version 0.5.0",
    ..Setting::PLAIN
};

const MOSQUITTO: Setting = Setting {
    broker: "mosquitto",
    program: "mosquitto",
    version: Version::Asked("-h"),
    install: "apt-get install mosquitto",
    ..Setting::PLAIN
};

/// What it keeps for MQTT is in files always; when they are flushed can be said from 2.10 on only.
const NATS: &[(&str, &str)] = &[(
    "nats.conf",
    "server_name: suite\nhost: 127.0.0.1\nport: -1\njetstream { store_dir: \"{dir}\" }\n\
     mqtt { host: 127.0.0.1, port: {port} }\n",
)];

/// A node of its own beside one that may run already. Erlang's register of nodes ends with it,
/// however it ends, and the broker is the process that was started here.
const RABBITMQ_START: &str = "\
    export HOME={home} ERL_EPMD_PORT={port2} RABBITMQ_DIST_PORT={port3}\n\
    export RABBITMQ_NODENAME=suite-{port}@localhost RUNNING_UNDER_SYSTEMD=true\n\
    export RABBITMQ_CONF_ENV_FILE={home}/none RABBITMQ_CONFIG_FILE={home}/rabbitmq.conf\n\
    export RABBITMQ_ENABLED_PLUGINS_FILE={home}/plugins\n\
    export RABBITMQ_MNESIA_BASE={dir} RABBITMQ_LOG_BASE={home}\n\
    setpriv --pdeathsig KILL epmd -address 127.0.0.1 &\n\
    exec \"$1\"\n";

/// With the queues that it has of itself.
const RABBITMQ_CLASSIC: Start = with(
    "sh {home}/start {program}",
    &[
        ("start", RABBITMQ_START),
        ("plugins", "[rabbitmq_mqtt].\n"),
        (
            "rabbitmq.conf",
            "listeners.tcp = none\nmqtt.listeners.tcp.1 = 127.0.0.1:{port}\n\
             mqtt.allow_anonymous = true\n",
        ),
    ],
);

const RABBITMQ: Setting = Setting {
    broker: "rabbitmq",
    // The one on PATH is another, which starts it as another user.
    program: "/usr/lib/rabbitmq/bin/rabbitmq-server",
    // Asked, it would leave a process behind.
    version: Version::Named { folder: "../lib", file: "rabbitmq_server-" },
    grants: QoS::AtLeastOnce,
    idles: Duration::from_secs(8),
    behind: Duration::from_secs(11),
    install: "apt-get install rabbitmq-server",
    ..Setting::PLAIN
};

const AEDES: Setting = Setting {
    broker: "aedes",
    program: "benches/peers/aedes/aedes.mjs",
    idles: Duration::from_secs(1),
    behind: Duration::from_secs(4),
    install: "npm ci --prefix benches/peers/aedes",
    ..Setting::PLAIN
};

/// The others, each behind what it is compared by first.
pub(crate) const PEERS: &[Setting] = &[
    Setting {
        name: "zzq-broker",
        memory: Some(plain("{program} --bind tcp://127.0.0.1:{port} --lanes 1")),
        storage: Some(plain("{program} --bind tcp://127.0.0.1:{port} --lanes 1 --data-dir {dir}")),
        version: Version::Known("zzq-broker 0.5.0"),
        ..PUBLISHED
    },
    Setting {
        name: "zzq-broker-no-spin",
        memory: Some(plain("{program} --bind tcp://127.0.0.1:{port} --lanes 1 --spin-us 0")),
        storage: Some(plain(
            "{program} --bind tcp://127.0.0.1:{port} --lanes 1 --spin-us 0 --data-dir {dir}",
        )),
        version: Version::Known("zzq-broker 0.5.0 --spin-us 0"),
        ..PUBLISHED
    },
    Setting {
        family: "mosquitto",
        name: "mosquitto",
        memory: Some(with(
            "{program} -c {home}/mosquitto.conf",
            &[(
                "mosquitto.conf",
                "listener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n\
                 max_queued_messages 0\n",
            )],
        )),
        storage: Some(with(
            "{program} -c {home}/mosquitto.conf",
            &[(
                "mosquitto.conf",
                "listener {port} 127.0.0.1\nallow_anonymous true\npersistence true\n\
                 persistence_location {dir}/\nautosave_on_changes true\n\
                 autosave_interval 1\nmax_queued_messages 0\nuser root\n",
            )],
        )),
        everywhere: true,
        ..MOSQUITTO
    },
    Setting {
        family: "mosquitto-default",
        name: "mosquitto-default",
        storage: Some(with(
            "{program} -c {home}/mosquitto.conf",
            &[(
                "mosquitto.conf",
                "listener {port} 127.0.0.1\nallow_anonymous true\npersistence true\n\
                 persistence_location {dir}/\nmax_queued_messages 0\nuser root\n",
            )],
        )),
        how: ", storage as it comes",
        ..MOSQUITTO
    },
    Setting {
        family: "nats-server",
        broker: "nats-server",
        name: "nats-server",
        program: "nats-server",
        memory: Some(with("{program} -c {home}/nats.conf", NATS)),
        storage: Some(with("{program} -c {home}/nats.conf", NATS)),
        grants: QoS::AtLeastOnce,
        lacks: "QoS 2, which it grants as QoS 1 before 2.10",
        install: "apt-get install nats-server",
        ..Setting::PLAIN
    },
    Setting {
        family: "rabbitmq",
        name: "rabbitmq",
        memory: Some(RABBITMQ_CLASSIC),
        storage: Some(with(
            "sh {home}/start {program}",
            &[
                ("start", RABBITMQ_START),
                ("plugins", "[rabbitmq_mqtt].\n"),
                (
                    "rabbitmq.conf",
                    "listeners.tcp = none\nmqtt.listeners.tcp.1 = 127.0.0.1:{port}\n\
                     mqtt.allow_anonymous = true\nmqtt.durable_queue_type = quorum\n",
                ),
            ],
        )),
        lacks: "QoS 2, which it grants as QoS 1",
        ..RABBITMQ
    },
    Setting {
        family: "rabbitmq-default",
        name: "rabbitmq-default",
        storage: Some(RABBITMQ_CLASSIC),
        how: ", storage as it comes",
        ..RABBITMQ
    },
    Setting {
        broker: "rumqttd",
        family: "rumqttd",
        name: "rumqttd",
        program: "rumqttd",
        memory: Some(with(
            "{program} -q -c {home}/rumqttd.toml",
            &[(
                "rumqttd.toml",
                "id = 0\n[router]\nid = 0\nmax_connections = 10010\n\
                 max_outgoing_packet_count = 200\nmax_segment_size = 104857600\n\
                 max_segment_count = 10\n[v4.1]\nname = \"v4-1\"\n\
                 listen = \"127.0.0.1:{port}\"\nnext_connection_delay_ms = 1\n\
                 [v4.1.connections]\nconnection_timeout_ms = 60000\nmax_payload_size = 20480\n\
                 max_inflight_count = 100\ndynamic_filters = true\n",
            )],
        )),
        lacks: "storage, which it has none of",
        install: "cargo install rumqttd --version 0.20.0",
        ..Setting::PLAIN
    },
    Setting {
        family: "aedes",
        name: "aedes",
        memory: Some(plain("{program} {port}")),
        storage: Some(plain("{program} {port} {dir} sync")),
        ..AEDES
    },
    Setting {
        family: "aedes-default",
        name: "aedes-default",
        storage: Some(plain("{program} {port} {dir}")),
        how: ", storage as it comes",
        ..AEDES
    },
    Setting {
        broker: "amqtt",
        family: "amqtt",
        name: "amqtt",
        program: "amqtt",
        memory: Some(with(
            "{program} -c {home}/amqtt.yaml",
            &[(
                "amqtt.yaml",
                "listeners:\n  default:\n    type: tcp\n    bind: 127.0.0.1:{port}\nplugins:\n  \
                 amqtt.plugins.authentication.AnonymousAuthPlugin:\n    allow_anonymous: true\n",
            )],
        )),
        idles: Duration::from_secs(2),
        behind: Duration::from_secs(15),
        lacks: "storage, which has no sessions of clients without a password",
        install: "pip install amqtt==0.12.1",
        ..Setting::PLAIN
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

    /// A peer where `said` (a broker and a path each) or `PATH` has its program.
    pub(crate) fn peer(setting: &'static Setting, said: &[(String, PathBuf)]) -> Option<Self> {
        if let Some((_, program)) = said.iter().find(|(broker, _)| broker == setting.broker) {
            return Self::new(setting, program.clone());
        }
        if setting.program.contains('/') {
            return Self::new(setting, PathBuf::from(setting.program));
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
            Version::Asked(flag) => named(setting.broker, &first_line(&program, flag)?),
            Version::Known(version) => version.to_owned(),
            Version::Named { folder, file } => {
                named(setting.broker, &rest_of_name(&program.parent()?.join(folder), file)?)
            }
        };
        let version = version + setting.how;
        Some(Self { setting, program, version })
    }

    /// How it is started, `{program}` filled in; `None` where it is not measured so.
    pub(crate) fn start(&self, stores: bool) -> Option<(String, Start)> {
        let start = if stores { self.setting.storage? } else { self.setting.memory? };
        let program = self.program.to_string_lossy();
        Some((start.command.replace("{program}", &program), start))
    }

    /// Tells this build from others.
    pub(crate) fn checksum(&self) -> std::io::Result<u32> {
        checksum(&self.program)
    }
}

fn rest_of_name(folder: &Path, begin: &str) -> Option<String> {
    let mut names =
        fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.find_map(|name| Some(name.strip_prefix(begin)?.to_owned()))
}

/// A version that is only a number says whose it is.
fn named(broker: &str, version: &str) -> String {
    if version.starts_with(|first: char| first.is_ascii_digit()) {
        format!("{broker} {version}")
    } else {
        version.to_owned()
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
            for start in [setting.memory, setting.storage].into_iter().flatten() {
                let files = start.files.iter().map(|(name, text)| {
                    // What nobody reads configures nothing.
                    let read = format!("{{home}}/{name}");
                    let texts = start.files.iter().map(|(_, text)| text);
                    let named = texts.chain([&start.command]).any(|text| text.contains(&read));
                    assert!(named, "{} of {}", name, setting.name);
                    *text
                });
                let all = files.chain([start.command]).collect::<Vec<_>>().join("\n");
                assert!(all.contains("{port}") && start.command.contains("{program}"), "{all}");
            }
        }
    }

    #[test]
    fn a_number_alone_is_no_version() {
        assert_eq!(named("a", "1.2"), "a 1.2");
        assert_eq!(named("a", "a/1.2"), "a/1.2");
    }
}
