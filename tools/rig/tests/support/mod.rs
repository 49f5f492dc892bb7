//! The rig and the broker as programs. The broker lies beside the rig; where only this package is
//! built, the test has it made.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub(crate) const RIG: &str = env!("CARGO_BIN_EXE_zzq_rig");

pub(crate) fn broker() -> PathBuf {
    let path = Path::new(RIG).with_file_name("zzq_broker");
    if !path.exists() {
        let release = (!cfg!(debug_assertions)).then_some("--release");
        let made = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "-p", "zzq-broker", "--bin", "zzq_broker"])
            .args(release)
            .status();
        assert!(made.unwrap().success() && path.exists(), "{}", path.display());
    }
    path
}

pub(crate) fn rig(directory: &Path, broker: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(RIG);
    command.arg("--data-dir").arg(directory).arg("--broker").arg(broker).args(flags);
    command.stdin(Stdio::null()).output().unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr].map(String::from_utf8_lossy).concat()
}
