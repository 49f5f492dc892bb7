//! Where and when: what a table says about its machine, and the date.

use std::fs;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

/// Processors, kernel, and the file system below `place`.
pub fn machine(place: &Path) -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let model = value(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".into());
    let count = available_parallelism().map_or(1, usize::from);
    let release = read("/proc/sys/kernel/osrelease");
    let kernel = release.split(['.', '-']).take(2).collect::<Vec<_>>().join(".");
    let place = fs::canonicalize(place).unwrap_or_else(|_| place.to_owned());
    let system = file_system(&read("/proc/mounts"), &place);
    format!("Linux {kernel}, {system}, {count} x {model}")
}

fn value(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Of the mount that lies nearest above; the last of equals covers the others.
fn file_system(mounts: &str, place: &Path) -> String {
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        let above = fields.next()?.to_owned();
        let system = fields.next()?.to_owned();
        place.starts_with(&above).then_some((above.len(), system))
    };
    let nearest = mounts.lines().filter_map(mount).max_by_key(|(len, _)| *len);
    nearest.map_or_else(|| "an unknown file system".into(), |(_, system)| system)
}

/// Today in UTC, as 2026-05-01.
pub fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / 86_400)
}

/// The date of a day since 1970: the calendar of eras of 400 years that begin in March.
fn date(days: u64) -> String {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..=9 => (era * 400 + year, month + 3),
        _ => (era * 400 + year + 1, month - 9),
    };
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        let dates = [0, 58, 59, 11_016, 11_017, 20_575, 20_787].map(date);
        let want = [
            "1970-01-01",
            "1970-02-28",
            "1970-03-01",
            "2000-02-29",
            "2000-03-01",
            "2026-05-02",
            "2026-11-30",
        ];
        assert_eq!(dates, want);
    }

    #[test]
    fn the_nearest_mount_is_the_one() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmpx xfs rw 0 0\n";
        assert_eq!(file_system(mounts, Path::new("/tmp/x")), "tmpfs");
        assert_eq!(file_system(mounts, Path::new("/home/x")), "ext4");
        assert_eq!(file_system("", Path::new("/")), "an unknown file system");
    }
}
