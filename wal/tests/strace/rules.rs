//! The order of calls by which files, names and pages become durable.
//!
//! Owns: the rules. Does not know: how calls were observed.

use crate::trace::Call;

/// The directory of the log in the trace.
pub(crate) const DIRECTORY: &str = "traced-log";

/// The one that it lies in.
pub(crate) const PARENT: &str = "traced-parent";

/// Begins what is said of a log whose own name may go with the power.
pub(crate) const NO_NAME: &str = "the log's directory is used before its name is durable";

/// Ends what is said of a file that goes although `meta` may still count on it.
pub(crate) const TOO_SOON: &str = "goes before meta can do without it";

/// How often each rule had something to say, so that none holds for want of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cases {
    pub(crate) made: usize,
    pub(crate) opened: usize,
    pub(crate) named: usize,
    pub(crate) recycled: usize,
    pub(crate) removed: usize,
    pub(crate) groups: usize,
    pub(crate) pages: usize,
}

/// All that is out of order.
pub(crate) fn judge(calls: &[Call]) -> (Cases, Vec<String>) {
    let calls: Vec<&Call> = calls.iter().filter(|call| call.succeeded).collect();
    let rules = Rules { calls };
    let mut cases = Cases::default();
    let mut broken = Vec::new();
    rules.parent(&mut cases, &mut broken);
    rules.opens(&mut cases, &mut broken);
    rules.goes(&mut cases, &mut broken);
    rules.names(&mut cases, &mut broken);
    rules.groups(&mut cases, &mut broken);
    rules.pages(&mut cases, &mut broken);
    rules.plain_writes(&mut broken);
    (cases, broken)
}

struct Rules<'c> {
    calls: Vec<&'c Call>,
}

fn is_segment(name: &str) -> bool {
    zzq_wal::segment_number(name).is_some()
}

fn is_sync(call: &Call) -> bool {
    matches!(call.name.as_str(), "fsync" | "fdatasync")
}

fn is_plain_write(call: &Call) -> bool {
    call.name == "pwrite64"
}

/// A write of a group: by AIO, or by the backend's thread.
fn is_group(call: &Call) -> bool {
    let by_backend = matches!(call.name.as_str(), "io_submit" | "pwritev2");
    by_backend && call.file().is_some_and(is_segment)
}

impl<'c> Rules<'c> {
    fn about<'a>(&'a self, file: &'a str) -> impl Iterator<Item = &'c Call> + use<'a, 'c> {
        self.calls.iter().copied().filter(move |call| call.file() == Some(file))
    }

    /// The first sync of a file or directory that was made behind this line.
    fn synced(&self, file: &str, behind: usize) -> Option<&'c Call> {
        self.about(file).find(|call| is_sync(call) && call.began > behind)
    }

    /// The directory of a new log is lost with all that is in it, unless its own name is durable
    /// before a segment has one.
    fn parent(&self, cases: &mut Cases, broken: &mut Vec<String>) {
        let makes = |call: &&&Call| {
            call.name.starts_with("mkdir") && call.names().last() == Some(&DIRECTORY)
        };
        let first = self.renames().find(|(_, _, to)| is_segment(to));
        let first = first.map_or(usize::MAX, |(rename, ..)| rename.began);
        for call in self.calls.iter().filter(makes) {
            cases.made += 1;
            let synced = self.synced(PARENT, call.ended);
            if synced.is_none_or(|synced| synced.ended >= first) {
                broken.push(format!("{NO_NAME}: {}", call.arguments));
            }
        }
    }

    /// Every file is opened for direct I/O: nothing goes by way of the page cache.
    fn opens(&self, cases: &mut Cases, broken: &mut Vec<String>) {
        for call in self.calls.iter().filter(|call| call.name == "openat") {
            if call.file() == Some(DIRECTORY) && !call.has("O_DIRECTORY") {
                cases.opened += 1;
                if !call.has("O_DIRECT") {
                    broken.push(format!("opened without O_DIRECT: {}", call.arguments));
                }
            }
        }
    }

    fn renames(&self) -> impl Iterator<Item = (&Call, &str, &str)> {
        self.calls.iter().filter(|call| call.name.starts_with("rename")).filter_map(|call| {
            match call.names()[..] {
                [from, to] => Some((*call, from, to)),
                _ => None,
            }
        })
    }

    fn removals(&self) -> impl Iterator<Item = (&Call, &str)> {
        let removals = self.calls.iter().filter(|call| call.name.starts_with("unlink"));
        removals.filter_map(|call| Some((*call, *call.names().last()?)))
    }

    /// A segment's file becomes a spare, or is removed, only when `meta` has been synced since it
    /// was written last: it says that the segment is gone. `meta` itself never goes.
    fn goes(&self, cases: &mut Cases, broken: &mut Vec<String>) {
        for (_, name) in self.removals() {
            cases.removed += 1;
            if name == "meta" {
                broken.push("meta is removed".to_owned());
            }
        }
        let removed = self.removals();
        let renamed = self.renames().map(|(call, from, _)| (call, from));
        for (call, name) in removed.chain(renamed).filter(|(_, name)| is_segment(name)) {
            let writes = self.about(name).filter(|write| is_group(write) || is_plain_write(write));
            let named = self.renames().filter(|(_, _, to)| *to == name).map(|(call, ..)| call);
            let earlier = |other: &&Call| other.began < call.began;
            let last = writes.chain(named).filter(earlier).map(|other| other.ended).max();
            let told = ["meta", "meta.new"].into_iter().any(|meta| {
                let synced = self.synced(meta, last.unwrap_or(0));
                synced.is_some_and(|synced| synced.ended < call.began)
            });
            if !told {
                broken.push(format!("{name} {TOO_SOON}"));
            }
        }
    }

    /// What a file holds is synced before it gets its name, and the name before anything rests on
    /// it: the next write to the file, whatever its new name.
    fn names(&self, cases: &mut Cases, broken: &mut Vec<String>) {
        for (rename, from, to) in self.renames() {
            // What a spare holds means nothing, whatever it was called before.
            let is_spare = to.starts_with("spare-");
            if is_spare {
                cases.recycled += 1;
            } else {
                cases.named += 1;
                let written = self.about(from).filter(|call| is_plain_write(call));
                let written = written.filter(|call| call.began < rename.began).last();
                let Some(written) = written else {
                    broken.push(format!("{to} has a name and was not written"));
                    continue;
                };
                let synced = self.synced(from, written.ended);
                if synced.is_none_or(|synced| synced.ended >= rename.began) {
                    broken.push(format!("{from} becomes {to} before it is synced"));
                }
            }
            let synced = self.synced(DIRECTORY, rename.ended);
            if synced.is_none() && !is_spare {
                broken.push(format!("{to} has a name that is not durable"));
            }
            let ended = synced.map_or(usize::MAX, |synced| synced.ended);
            let writes = |call: &&&Call| is_group(call) || is_plain_write(call);
            let of_file = |call: &&&Call| call.file() == Some(to);
            let mut later = self.calls.iter().filter(writes).filter(of_file);
            if later.any(|call| call.began > rename.ended && call.began <= ended) {
                broken.push(format!("{to} is written before its name is durable"));
            }
        }
    }

    /// The end of a group's write means that it is durable.
    fn groups(&self, cases: &mut Cases, broken: &mut Vec<String>) {
        for call in self.calls.iter().filter(|call| is_group(call)) {
            cases.groups += 1;
            if !call.has("RWF_DSYNC") {
                broken.push(format!("a group without RWF_DSYNC: {}", call.arguments));
            }
        }
    }

    /// Never are both pages of `meta` under way. The one that is may be written again.
    fn pages(&self, cases: &mut Cases, broken: &mut Vec<String>) {
        let is_meta = |call: &&&Call| matches!(call.file(), Some("meta" | "meta.new"));
        let mut unsynced: Option<&Call> = None;
        for call in self.calls.iter().filter(is_meta) {
            if is_sync(call) {
                unsynced = None;
            } else if is_plain_write(call) {
                cases.pages += 1;
                // Each start makes another file, whatever the one before was left with.
                let is_other = |before: &&Call| {
                    before.file() == call.file() && before.offset() != call.offset()
                };
                if let Some(before) = unsynced.replace(call).filter(is_other) {
                    let (page, before) = (&call.arguments, &before.arguments);
                    broken.push(format!("a page of meta is written: {page}\nupon: {before}"));
                }
            }
        }
    }

    /// The other page of `meta` says the same, and is synced.
    fn is_second_page(&self, call: &Call) -> bool {
        let bytes =
            |call: &Call| call.arguments.rsplit_once(',').map(|(bytes, _)| bytes.to_owned());
        let mut writes = self.about("meta").filter(|other| is_plain_write(other));
        let other = writes.find(|other| other.ended < call.began && bytes(other) == bytes(call));
        other.is_some_and(|other| {
            let synced = self.synced("meta", other.ended);
            synced.is_some_and(|synced| synced.ended < call.began)
        })
    }

    /// Headers, closings, indexes and pages are synced in the end.
    fn plain_writes(&self, broken: &mut Vec<String>) {
        for call in self.calls.iter().filter(|call| is_plain_write(call)) {
            let Some(file) = call.file().filter(|file| *file != "probe") else { continue };
            let later_name =
                self.renames().find(|(rename, from, _)| *from == file && rename.began > call.ended);
            let synced = self.synced(file, call.ended).is_some()
                || later_name.is_some_and(|(_, _, to)| self.synced(to, call.ended).is_some());
            if !synced && !self.is_second_page(call) {
                broken.push(format!("{file} is written and never synced"));
            }
        }
    }
}
