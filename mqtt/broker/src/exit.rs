//! How the binary ends: one exit status for each kind of fault, by sysexits where it has a name.

/// Exit statuses of `zzq_broker`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitStatus {
    /// Stopped cleanly.
    Clean = 0,
    /// The command line is wrong.
    Usage = 2,
    /// The store is damaged.
    Damaged = 65,
    /// An endpoint cannot be bound.
    Bind = 71,
    /// The store cannot be read or written.
    StoreIo = 74,
    /// The data directory is in use by another process.
    InUse = 75,
    /// The operating system does not permit it.
    NotPermitted = 77,
    /// The configuration makes no sense.
    Config = 78,
}

/// The table for the help.
pub const EXIT_STATUS_HELP: &str = "\
Exit status:
  0   stopped cleanly (SIGTERM, SIGINT)
  2   wrong usage of the command line
  65  the store in the data directory is damaged; nothing was changed in it
  71  an endpoint cannot be bound
  74  the store cannot be read or written
  75  the data directory is in use (the message names the process)
  77  not permitted by the operating system
  78  the configuration makes no sense";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_status() {
        for status in [
            ExitStatus::Clean,
            ExitStatus::Usage,
            ExitStatus::Damaged,
            ExitStatus::Bind,
            ExitStatus::StoreIo,
            ExitStatus::InUse,
            ExitStatus::NotPermitted,
            ExitStatus::Config,
        ] {
            let line = format!("\n  {:<4}", status as u8);
            assert!(EXIT_STATUS_HELP.contains(&line), "{status:?}");
        }
    }
}
