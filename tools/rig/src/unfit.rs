//! What an error is about that stands for flags that name nothing the rig can use: a program that
//! does not run, a directory that cannot be made.
//!
//! Owns: that mark, and the exit code of wrong use. Does not know: flags.

use std::fmt;

/// The exit code of wrong use, as for a flag that there is not.
pub const WRONG_USE: u8 = 2;

/// The context of such an error.
#[derive(Clone, Copy, Debug)]
pub struct Unfit;

impl fmt::Display for Unfit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("unfit flags")
    }
}

/// The exit code of what ends with this error.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<Unfit>() { WRONG_USE } else { 1 }
}
