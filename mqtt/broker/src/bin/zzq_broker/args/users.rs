//! Flags of who may connect: a file of keys, and how its lines are made.

use std::path::PathBuf;

use clap::Args;

/// See the file.
#[derive(Debug, Args)]
pub(crate) struct UserFlags {
    /// Clients have to show who they are, by the keys in this file: by SCRAM-SHA-256 or by user
    /// name and password. A line is what --scram-entry prints.
    #[arg(long, value_name = "FILE")]
    pub(crate) scram_file: Option<PathBuf>,

    /// With --scram-file, lets in who shows neither user name nor password as well.
    #[arg(long, requires = "scram_file")]
    pub(crate) allow_anonymous: bool,

    /// Prints the line of a user for --scram-file and ends. The password is the first line of
    /// stdin.
    #[arg(long, value_name = "USER")]
    pub(crate) scram_entry: Option<String>,

    /// How long a guess at a password of --scram-entry takes; RFC 7677 asks for 4096 at least.
    #[arg(long, value_name = "N", default_value_t = 15_000, requires = "scram_entry",
          value_parser = clap::value_parser!(u32).range(4096..))]
    pub(crate) scram_iterations: u32,
}
