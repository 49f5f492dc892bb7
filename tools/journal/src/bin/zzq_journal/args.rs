//! The command line of `zzq_journal`.

use std::path::{Path, PathBuf};

use clap::{Args as Flags, Parser, Subcommand, ValueEnum};
use zzq_engine::Record;
use zzq_journal::{BackupOptions, DumpOptions, PayloadForm, VerifyOptions, Wish};
use zzq_types::{Moment, TopicFilter};
use zzq_wal::Lsn;

const AFTER: &str = "\
Examples:
  zzq_journal verify /var/lib/zzq
  zzq_journal verify --json /var/lib/zzq | tail -1
  zzq_journal dump /var/lib/zzq --topic 'news/#' --payload full
  zzq_journal dump /var/lib/zzq --from 1000 --to 1010 --json
  zzq_journal dump --live /var/lib/zzq --kind connect --kind sessionend
  zzq_journal copy /var/lib/zzq /backup/today
  zzq_journal restore /backup/today /var/lib/zzq-then --until 2026-05-01T12:00:00Z

It only reads: nothing in the directory is made, changed, locked or removed. A copy goes to a
directory of its own.

Exit status:
  0  clean, or torn by a crash: nothing that was acknowledged is lost; the copy is whole
  1  damaged: durable bytes are gone or changed
  2  wrong usage, no log there, in use, of a newer version, or it cannot be read; no copy
  3  intact, but a record has a body that a broker does not take";

/// Looks at the log in a broker's data directory, copies it, and changes nothing in it.
#[derive(Debug, Parser)]
#[command(name = "zzq_journal", version, after_help = AFTER, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Reads every byte that counts and says what is wrong, if anything is.
    #[command(after_help = AFTER)]
    Verify(VerifyFlags),
    /// Prints records, one a line.
    #[command(after_help = AFTER)]
    Dump(DumpFlags),
    /// Copies all of it to a new directory that a broker starts from, also while a broker runs.
    #[command(after_help = AFTER)]
    Copy(CopyFlags),
    /// Makes a new directory with what the log had at a moment.
    #[command(after_help = AFTER)]
    Restore(RestoreFlags),
}

#[derive(Debug, Flags)]
pub(crate) struct Common {
    /// The directory that the broker was given with --data-dir.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Take a log that is in use; where it ends moves while it is read.
    #[arg(long)]
    live: bool,

    /// One JSON object a line.
    #[arg(long)]
    json: bool,

    /// Another program than the broker wrote the log: its bodies are bytes and nothing more.
    #[arg(long)]
    opaque: bool,
}

#[derive(Debug, Flags)]
pub(crate) struct VerifyFlags {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Flags)]
pub(crate) struct DumpFlags {
    #[command(flatten)]
    common: Common,

    /// From the record with this LSN.
    #[arg(long, value_name = "LSN", default_value_t = 1)]
    from: u64,

    /// To the record with this LSN, which is printed too.
    #[arg(long, value_name = "LSN", default_value_t = u64::MAX, hide_default_value = true)]
    to: u64,

    /// Only records of this kind, by name or number; may be given several times.
    #[arg(long, value_name = "KIND", value_parser = parse_kind)]
    kind: Vec<u8>,

    /// Only records that name a topic which this filter matches, as in 'news/+/today' or 'news/#'.
    #[arg(long, value_name = "FILTER", value_parser = parse_filter, conflicts_with = "opaque")]
    topic: Option<String>,

    /// How much of payloads and unknown bodies.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Payload::Preview)]
    payload: Payload,

    /// At most so many records.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

#[derive(Debug, Flags)]
pub(crate) struct CopyFlags {
    /// The directory that the broker was given with --data-dir, or a copy.
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Where the copy goes: a directory that is not there, or an empty one.
    #[arg(value_name = "NEW")]
    pub(crate) new: PathBuf,

    /// One JSON object.
    #[arg(long)]
    json: bool,

    /// Another program than the broker wrote the log: its bodies are bytes and nothing more.
    #[arg(long)]
    opaque: bool,
}

#[derive(Debug, Flags)]
pub(crate) struct RestoreFlags {
    #[command(flatten)]
    pub(crate) copy: CopyFlags,

    /// The last record: @OFFSET, or the last one that is not younger than a time, as
    /// 2026-05-01T12:00:00Z, in ms since 1970, or a span ago, as -1h.
    #[arg(long, value_name = "MOMENT", value_parser = parse_moment, allow_hyphen_values = true)]
    until: Moment,
}

/// `--payload`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Payload {
    /// Only how long they are.
    None,
    /// The first 64 characters, or bytes in hexadecimal where they are no text.
    Preview,
    /// Whole, in hexadecimal.
    Hex,
    /// Whole, as text where they are text.
    Full,
}

impl Command {
    /// The directory, and whether it may be in use.
    pub(crate) fn place(&self) -> (&Path, bool) {
        match self {
            Self::Verify(VerifyFlags { common }) | Self::Dump(DumpFlags { common, .. }) => {
                (&common.directory, common.live)
            }
            Self::Copy(copy) | Self::Restore(RestoreFlags { copy, .. }) => (&copy.directory, true),
        }
    }
}

impl VerifyFlags {
    pub(crate) fn options(&self, progress: bool) -> VerifyOptions {
        VerifyOptions { json: self.common.json, opaque: self.common.opaque, progress }
    }
}

impl CopyFlags {
    pub(crate) fn options(&self, progress: bool) -> BackupOptions {
        BackupOptions { json: self.json, opaque: self.opaque, progress }
    }
}

impl RestoreFlags {
    pub(crate) fn wish(&self) -> Wish {
        Wish::until(self.until)
    }
}

impl DumpFlags {
    pub(crate) fn options(&self) -> DumpOptions {
        DumpOptions {
            from: Lsn::new(self.from.max(1)),
            to: Lsn::new(self.to),
            kinds: self.kind.clone(),
            topic: self.topic.clone(),
            payload: match self.payload {
                Payload::None => PayloadForm::None,
                Payload::Preview => PayloadForm::Preview,
                Payload::Hex => PayloadForm::Hex,
                Payload::Full => PayloadForm::Full,
            },
            limit: self.limit,
            json: self.common.json,
            opaque: self.common.opaque,
        }
    }
}

fn parse_kind(text: &str) -> Result<u8, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let known = |kind: u8| Record::kind_name(kind).map(|name| (kind, name));
    let all = || (0..=u8::MAX).filter_map(known);
    let found = all().find(|(_, name)| name.eq_ignore_ascii_case(text));
    found.map(|(kind, _)| kind).ok_or_else(|| {
        let names: Vec<_> = all().map(|(_, name)| name).collect();
        format!("no kind has this name; a number, or one of {}", names.join(", "))
    })
}

fn parse_filter(text: &str) -> Result<String, String> {
    TopicFilter::new(text).map(|filter| filter.to_string()).map_err(|error| error.to_string())
}

fn parse_moment(text: &str) -> Result<Moment, String> {
    Moment::parse(text).ok_or_else(|| {
        "write @OFFSET, a time as 2026-05-01T12:00:00Z or in ms since 1970, or -SPAN, as in -1h"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }

    #[test]
    fn kinds_have_names_and_numbers() {
        assert_eq!(parse_kind("publish"), Ok(3));
        assert_eq!(parse_kind("SessionEnd"), Ok(7));
        assert_eq!(parse_kind("200"), Ok(200));
        assert!(parse_kind("nothing").unwrap_err().contains("Publish"));
    }
}
