//! Each flag changes its option and no other, and has its line in the documentation.

use std::path::PathBuf;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use zzq_broker::{
    BrokerOptions, DeliverPolicy, DiskBackend, DriverKind, GroupStrategy, LogPolicy, Qos0Full,
    QueueFull, Redirect, Retention,
};
use zzq_types::QoS;

use super::Args;

fn parse(words: &[&str]) -> Args {
    Args::parse_from([&["zzq_broker"], words].concat())
}

#[test]
fn no_flags_mean_the_default_options() {
    assert_eq!(parse(&[]).options(), Ok(BrokerOptions::default()));
    assert_eq!(parse(&[]).bind, ["tcp://0.0.0.0:1883"]);
    assert_eq!(parse(&[]).driver(), DriverKind::default());
}

/// A flag, and what it changes of the options.
type Change = (&'static str, fn(&mut BrokerOptions));

const CHANGES: &[Change] = &[
    ("--data-dir=d", |o| o.data_dir = Some(PathBuf::from("d"))),
    ("--log=needed", |o| o.log = LogPolicy::Needed),
    ("--deliver=committed", |o| o.deliver = DeliverPolicy::Committed),
    ("--disk=uring", |o| o.disk = DiskBackend::Uring),
    ("--log-thread", |o| o.log_thread = true),
    ("--segment-size=8MiB", |o| o.segment_size = 8 << 20),
    ("--snapshot-every=1GiB", |o| o.snapshot_every = 1 << 30),
    ("--retain-log=2GiB,7d", |o| {
        let age = Some(Duration::from_hours(7 * 24));
        o.retain_log = Retention { bytes: Some(2 << 30), age };
    }),
    ("--disk-reserve=32MiB", |o| o.disk_limits.reserve = Some(32 << 20)),
    ("--disk-low=1GiB", |o| o.disk_limits.low = Some(1 << 30)),
    ("--recovery-budget=500ms", |o| o.recovery_budget = Duration::from_millis(500)),
    ("--max-packet-size=4KiB", |o| o.limits.max_packet_size = 4096),
    ("--max-connections=3", |o| o.limits.max_connections = 3),
    ("--max-connections-each=4", |o| o.limits.max_connections_each = 4),
    ("--receive-maximum=5", |o| o.limits.receive_maximum = 5),
    ("--max-inflight=6", |o| o.limits.max_inflight = 6),
    ("--max-topic-aliases=7", |o| o.limits.topic_alias_maximum = 7),
    ("--max-keep-alive=8", |o| o.limits.max_keep_alive = 8),
    ("--tcp-keep-alive=9s", |o| o.limits.tcp_keep_alive = Duration::from_secs(9)),
    ("--max-session-expiry=1d", |o| o.limits.max_session_expiry = 86_400),
    ("--connect-timeout=2s", |o| o.limits.connect_timeout = Duration::from_secs(2)),
    ("--max-connect-size=1KiB", |o| o.limits.max_connect_size = 1024),
    ("--max-input-total=5MiB", |o| o.limits.max_input_bytes_total = 5 << 20),
    ("--max-aliases-total=6MiB", |o| o.limits.max_alias_bytes_total = 6 << 20),
    ("--max-output=32KiB", |o| o.limits.max_output_bytes = 32 << 10),
    ("--max-output-total=3MiB", |o| o.limits.max_output_bytes_total = 3 << 20),
    ("--max-cached-total=2MiB", |o| o.limits.max_cached_bytes_total = 2 << 20),
    ("--max-sessions=9", |o| o.limits.max_sessions = 9),
    ("--max-sessions-total=8MiB", |o| o.limits.max_session_bytes_total = Some(8 << 20)),
    ("--max-subscriptions=10", |o| o.limits.max_subscriptions = 10),
    ("--max-queued-messages=11", |o| o.limits.max_queued_messages = 11),
    ("--max-queued-bytes=12", |o| o.limits.max_queued_bytes = 12),
    ("--max-queued-total=9MiB", |o| o.limits.max_queued_bytes_total = 9 << 20),
    ("--queue-full=drop-oldest", |o| o.limits.queue_full = QueueFull::DropOldest),
    ("--queue-grace=2m", |o| o.limits.queue_grace = Duration::from_mins(2)),
    ("--max-hold=3s", |o| o.limits.max_hold = Duration::from_secs(3)),
    ("--max-held=13", |o| o.limits.max_held_bytes = 13),
    ("--max-held-total=2MiB", |o| o.limits.max_held_bytes_total = 2 << 20),
    ("--max-topic-levels=14", |o| o.limits.max_topic_levels = 14),
    ("--max-topic-length=15", |o| o.limits.max_topic_length = 15),
    ("--max-client-id=24", |o| o.limits.max_client_id = 24),
    ("--max-retained=16", |o| o.limits.max_retained_messages = 16),
    ("--max-retained-bytes=1KiB", |o| o.limits.max_retained_bytes = 1024),
    ("--max-message-rate=17", |o| o.limits.max_message_rate = 17),
    ("--max-byte-rate=1MiB", |o| o.limits.max_byte_rate = 1 << 20),
    ("--max-qos=1", |o| o.limits.max_qos = QoS::AtLeastOnce),
    ("--no-retain", |o| o.limits.retain = false),
    ("--no-wildcards", |o| o.limits.wildcards = false),
    ("--no-shared", |o| o.limits.shared_subscriptions = false),
    ("--check-payload-format", |o| o.limits.check_payload_format = true),
    ("--response-information=r/%c", |o| o.response_information = Some("r/%c".to_owned())),
    ("--qos0-full=drop", |o| o.qos0_full = Qos0Full::Drop),
    ("--shared-strategy=sticky", |o| o.shared.others = GroupStrategy::Sticky),
    ("--sys-interval=18s", |o| o.sys_interval = Duration::from_secs(18)),
    ("--redirect-to=a", |o| {
        o.redirect = Some(Redirect { server: "a".to_owned(), moved: false });
    }),
    ("--moved-to=b", |o| o.redirect = Some(Redirect { server: "b".to_owned(), moved: true })),
];

/// A limit that is another on each machine unless it is given.
const COMPUTED: &str = "--max-sessions-total";

/// What else a command line can say.
const OTHERS: [&str; 15] = [
    "--allow-anonymous",
    "--bind",
    "--busy-poll",
    "--cert",
    "--client-ca",
    "--client-cert",
    "--help",
    "--io",
    "--key",
    "--lanes",
    "--log-level",
    "--scram-entry",
    "--scram-file",
    "--scram-iterations",
    "--version",
];

fn name(flag: &str) -> &str {
    flag.split_once('=').map_or(flag, |(name, _)| name)
}

#[test]
fn each_flag_changes_its_option_and_no_other() {
    for (flag, change) in CHANGES {
        let mut wanted = BrokerOptions::default();
        change(&mut wanted);
        assert_ne!(wanted, BrokerOptions::default(), "{flag}");
        assert_eq!(parse(&[flag]).options(), Ok(wanted), "{flag}");
    }
    let args = parse(&["--bind=tcp://127.0.0.1:0", "--bind=tcp://[::1]:0", "--io=uring"]);
    assert_eq!(args.bind, ["tcp://127.0.0.1:0", "tcp://[::1]:0"]);
    assert_eq!(args.driver(), DriverKind::Uring);
}

/// Those of the command, all of them.
fn all_flags() -> Vec<(String, String)> {
    let mut command = Args::command();
    command.build();
    let flags = command.get_arguments().filter_map(|flag| {
        let defaults: Vec<_> = flag.get_default_values().iter().collect();
        let default = defaults.first().map(|text| text.to_string_lossy().into_owned());
        Some((format!("--{}", flag.get_long()?), default.unwrap_or_default()))
    });
    flags.collect()
}

#[test]
fn no_flag_is_left_out_above() {
    let mut all: Vec<_> = all_flags().into_iter().map(|(flag, _)| flag).collect();
    let mut known: Vec<_> = CHANGES.iter().map(|(flag, _)| name(flag)).chain(OTHERS).collect();
    all.sort_unstable();
    known.sort_unstable();
    assert_eq!(known, all);
}

#[test]
fn each_limit_is_a_line_in_the_documentation_with_its_default() {
    let text = include_str!("../../../../../../doc/limits.md");
    let rows = text.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        Some((cells.next()?.trim_end_matches('`'), cells.next()?.trim_matches('`')))
    });
    let rows: Vec<(&str, &str)> = rows.collect();
    let flags = all_flags();
    for (row, _) in &rows {
        assert!(flags.iter().any(|(flag, _)| flag == row), "{row} is no flag");
    }
    let no_limits = BrokerOptions::default().limits;
    for (flag, change) in CHANGES {
        let mut options = BrokerOptions::default();
        change(&mut options);
        if options.limits == no_limits {
            continue;
        }
        let flag = name(flag);
        let found: Vec<_> = rows.iter().filter(|(row, _)| *row == flag).collect();
        assert_eq!(found.len(), 1, "{flag} in doc/limits.md");
        let default = flags.iter().find(|(known, _)| known == flag).map(|(_, text)| &**text);
        let wanted = match default {
            _ if flag == COMPUTED => "computed",
            Some("") | None => "none",
            Some("false") => "off",
            Some(default) => default,
        };
        assert_eq!(found[0].1, wanted, "{flag} in doc/limits.md");
    }
}

#[test]
fn a_keep_alive_that_the_system_does_not_take_is_refused() {
    assert_eq!(parse(&["--tcp-keep-alive=0s"]).options().map(|_| ()), Ok(()));
    for bad in ["--tcp-keep-alive=1500ms", "--tcp-keep-alive=1d"] {
        let error = parse(&[bad]).options().unwrap_err();
        assert!(error.contains("--tcp-keep-alive"), "{error}");
    }
}

#[test]
fn sizes_out_of_range_name_their_flag() {
    // A total of nothing is no word for one without a bound.
    for flag in [
        "--segment-size=1KiB",
        "--max-output-total=0",
        "--max-input-total=0",
        "--max-queued-total=0",
    ] {
        let error = parse(&[flag]).options().unwrap_err();
        assert!(error.contains(name(flag)) && error.contains("at least"), "{error}");
    }
}

#[test]
fn groups_have_the_strategy_of_their_name_or_that_of_all() {
    let args = parse(&[
        "--shared-strategy=sticky",
        "--shared-strategy=workers=round-robin",
        "--shared-strategy=a=b=hash-topic",
        "--shared-strategy=workers=least-inflight",
    ]);
    let shared = args.options().unwrap().shared;
    assert_eq!(shared.of("other"), GroupStrategy::Sticky);
    assert_eq!(shared.of("workers"), GroupStrategy::LeastInflight, "the last one counts");
    assert_eq!(shared.of("a=b"), GroupStrategy::HashTopic);
    for bad in ["random", "=sticky", "a/b=sticky", "g+=sticky", "g="] {
        let words = ["zzq_broker", "--shared-strategy", bad];
        let error = Args::try_parse_from(words).unwrap_err().to_string();
        assert!(error.contains("--shared-strategy"), "{error}");
    }
}

#[test]
fn the_command_line_is_well_formed() {
    Args::command().debug_assert();
}
