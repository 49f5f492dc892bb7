//! What is changed in a copy of a data directory, and what has to follow from it.
//!
//! Owns: the ways of damage, and what each promises for each kind of file, as `doc/format.md` has
//! it. Does not know: brokers.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use zzq_wal::sim_disk::Random;

use crate::faulty::Kind;

pub(super) const BLOCK: u64 = 4096;
/// At most two groups are under way: with so many behind it, a group is durable.
const BEHIND: usize = 3;

/// A group that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) file: String,
    pub(super) at: u64,
    pub(super) len: u64,
    /// Of its first record.
    pub(super) lsn: u64,
}

/// A data directory: its files, and what the log in it holds.
#[derive(Clone, Debug, Default)]
pub(super) struct Store {
    /// Each with its length.
    pub(super) files: BTreeMap<String, u64>,
    /// In the log's order.
    pub(super) groups: Vec<Group>,
    /// What stands for each record.
    pub(super) records: BTreeMap<u64, u64>,
}

/// What is done to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A bit of this byte changes.
    Bit(u64),
    /// The block at this place is zeroes.
    Zeroed(u64),
    /// It ends here.
    Cut(u64),
    /// It is not there.
    Gone,
    /// It and another one have each other's name.
    Exchanged(String),
    /// The first half of the last group stands once more behind it.
    Remains,
}

/// A damage.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) file: String,
    pub(super) way: Way,
}

/// What has to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// The broker serves, and has all.
    Exact,
    /// It ends with the status of damage, and says these words.
    Refused(Vec<String>),
    /// One of these two.
    ExactOrRefused(Vec<String>),
    /// One of these two, or it has the log up to some place, which is at this record or behind it.
    Prefix(u64, Vec<String>),
    /// It may have lost something, and says one of these words.
    Named(Vec<String>),
}

impl Store {
    /// Draws a damage: a kind of file, those that matter often, then one of them, then how.
    pub(super) fn draw(&self, random: &mut Random) -> Option<Change> {
        if random.one_in(6) {
            let last = self.groups.last()?;
            return Some(Change { file: last.file.clone(), way: Way::Remains });
        }
        let mut kinds: BTreeMap<Kind, Vec<&String>> = BTreeMap::new();
        for file in self.files.keys() {
            kinds.entry(Kind::of(file)).or_default().push(file);
        }
        let mut weighed = Vec::new();
        for (kind, files) in &kinds {
            weighed.extend((0..often(*kind)).map(|_| files));
        }
        let of_kind = *weighed.get(random.index(weighed.len().max(1)))?;
        let file = of_kind[random.index(of_kind.len())].clone();
        let len = self.files[&file];
        // What is zeroes may be so for long: what counts is near the front.
        let within = if random.one_in(2) { len } else { self.end_of(&file).min(len) };
        let at = random.below(within.max(1));
        let others: Vec<_> = of_kind.iter().filter(|other| ***other != file).collect();
        let way = match random.below(5) {
            0 if !others.is_empty() => {
                Way::Exchanged((*others[random.index(others.len())]).clone())
            }
            0 | 1 => Way::Gone,
            _ if len == 0 => Way::Gone,
            2 => Way::Cut(at),
            3 => Way::Zeroed(at / BLOCK * BLOCK),
            _ => Way::Bit(at),
        };
        Some(Change { file, way })
    }

    /// Where the groups of a file end.
    fn end_of(&self, file: &str) -> u64 {
        let last = self.groups.iter().rfind(|group| group.file == file);
        last.map_or(u64::MAX, |group| group.at + group.len)
    }

    /// What has to follow from a damage.
    pub(super) fn expected(&self, change: &Change) -> Expected {
        let Change { file, way } = change;
        match (Kind::of(file), way) {
            // Both of its pages.
            (Kind::Meta, Way::Cut(_) | Way::Gone | Way::Exchanged(_)) => {
                Expected::ExactOrRefused(vec![zzq_wal::META_NAME.to_owned()])
            }
            // Not those that the one before it needs.
            (Kind::Image, Way::Exchanged(other)) => {
                Expected::ExactOrRefused(vec![file.clone(), other.clone()])
            }
            (Kind::Cold, Way::Exchanged(other)) => {
                Expected::Named(vec![file.clone(), other.clone()])
            }
            (Kind::Cold, _) => Expected::Named(vec![file.clone()]),
            (Kind::Segment, way) if *way != Way::Remains => self.expected_of_segment(file, way),
            // One page of meta; one image, the one before is as good; files that say nothing, or
            // what can be found without them; remains behind the end.
            _ => Expected::Exact,
        }
    }

    fn expected_of_segment(&self, file: &str, way: &Way) -> Expected {
        let other = match way {
            Way::Exchanged(other) => Some(other.as_str()),
            _ => None,
        };
        let is_hit = |group: &Group| {
            let own = group.file == file;
            let end = group.at + group.len;
            match way {
                Way::Bit(at) => own && ((group.at..end).contains(at) || *at < BLOCK),
                Way::Zeroed(at) => own && (*at < end && group.at < at + BLOCK || *at == 0),
                Way::Cut(at) => own && *at < end,
                Way::Gone | Way::Remains => own,
                Way::Exchanged(other) => own || group.file == *other,
            }
        };
        let names: Vec<_> = [Some(file), other].into_iter().flatten().map(str::to_owned).collect();
        let Some(first) = self.groups.iter().position(is_hit) else {
            // Others name it, and its header is looked at, whether anything counts in it or not.
            return match way {
                Way::Bit(at) | Way::Zeroed(at) if *at >= BLOCK => Expected::Exact,
                _ => Expected::ExactOrRefused(names),
            };
        };
        let hit = &self.groups[first];
        let is_durable = first + BEHIND < self.groups.len();
        // What proves that a group was durable lies behind it; a file that goes takes that along.
        let last = self.groups.last().map_or("", |group| &group.file);
        let is_proven = match way {
            Way::Bit(_) | Way::Zeroed(_) => is_durable,
            _ => is_durable && file != last && other != Some(last),
        };
        if self.has_images() {
            // A start does not look at all that an image covers.
            return if is_proven { Expected::Named(names) } else { Expected::Prefix(0, names) };
        }
        if !is_proven {
            let kept = if matches!(way, Way::Bit(_) | Way::Zeroed(_)) { hit.lsn } else { 0 };
            return Expected::Prefix(kept, names);
        }
        Expected::Refused(match way {
            Way::Bit(at) | Way::Zeroed(at) => {
                let at = if *at < BLOCK { 0 } else { hit.at };
                vec![format!("{file} is damaged at byte {at}:")]
            }
            // What is found in its place, or what should have been, is as good a name.
            _ => [names, self.segments_around(hit)].concat(),
        })
    }

    /// The segments around this group.
    fn segments_around(&self, hit: &Group) -> Vec<String> {
        let mut files: Vec<_> = self.groups.iter().map(|group| group.file.clone()).collect();
        files.dedup();
        let at = files.iter().position(|file| *file == hit.file).unwrap_or_default();
        files.drain(at.saturating_sub(1)..).take(3).collect()
    }

    fn has_images(&self) -> bool {
        self.files.keys().any(|name| Kind::of(name) == Kind::Image && name != UNFINISHED)
    }
}

/// The log is what it is about.
fn often(kind: Kind) -> usize {
    match kind {
        Kind::Segment => 6,
        Kind::Image | Kind::Cold | Kind::Meta => 3,
        _ => 1,
    }
}

/// An image that was not finished: it means nothing.
const UNFINISHED: &str = "image.new";

impl Change {
    /// What is done to what, in words.
    pub(super) fn kind(&self) -> String {
        let way = match self.way {
            Way::Bit(_) => "a bit",
            Way::Zeroed(_) => "zeroes",
            Way::Cut(_) => "cut short",
            Way::Gone => "gone",
            Way::Exchanged(_) => "exchanged",
            Way::Remains => "remains",
        };
        format!("{}: {way}", Kind::of(&self.file).name())
    }

    /// Does it, in the copy of the directory; `false`: nothing has changed.
    pub(super) fn carry_out(
        &self,
        store: &Store,
        copy: &Path,
        random: &mut Random,
    ) -> Result<bool> {
        let path = copy.join(&self.file);
        let open = || {
            let file = File::options().read(true).write(true).open(&path);
            file.with_context(|| path.display().to_string())
        };
        match &self.way {
            Way::Bit(at) => {
                let file = open()?;
                let mut byte = [0];
                file.read_exact_at(&mut byte, *at)?;
                byte[0] ^= 1 << random.below(8);
                file.write_all_at(&byte, *at)?;
            }
            Way::Zeroed(at) => {
                let file = open()?;
                let len = BLOCK.min(store.files[&self.file] - at);
                let mut bytes = vec![0; usize::try_from(len)?];
                file.read_exact_at(&mut bytes, *at)?;
                if bytes.iter().all(|byte| *byte == 0) {
                    return Ok(false);
                }
                bytes.fill(0);
                file.write_all_at(&bytes, *at)?;
            }
            Way::Cut(len) => open()?.set_len(*len)?,
            Way::Gone => std::fs::remove_file(&path)?,
            Way::Exchanged(other) => {
                let (other, aside) = (copy.join(other), copy.with_extension("aside"));
                std::fs::rename(&path, &aside)?;
                std::fs::rename(&other, &path)?;
                std::fs::rename(&aside, &other)?;
            }
            Way::Remains => return repeat(store, &open()?),
        }
        Ok(true)
    }
}

fn repeat(store: &Store, file: &File) -> Result<bool> {
    let Some(group) = store.groups.last() else { return Ok(false) };
    let mut bytes = vec![0; usize::try_from(group.len / 2)?];
    file.read_exact_at(&mut bytes, group.at)?;
    let end = group.at + group.len;
    // A full segment has its index there.
    if end + group.len >= file.metadata()?.len() - 4 * BLOCK {
        return Ok(false);
    }
    file.write_all_at(&bytes, end)?;
    Ok(true)
}

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = &self.file;
        match &self.way {
            Way::Bit(at) => write!(out, "a bit changed in byte {at} of {file}"),
            Way::Zeroed(at) => write!(out, "zeroes from byte {at} of {file} on"),
            Way::Cut(len) => write!(out, "{file} cut to {len} bytes"),
            Way::Gone => write!(out, "{file} gone"),
            Way::Exchanged(other) => write!(out, "{file} and {other} exchanged"),
            Way::Remains => write!(out, "half of the last group of {file} behind it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "00000000000000000001.log";
    const SECOND: &str = "00000000000000000002.log";
    const VOID: &str = "00000000000000000003.log";
    const IMAGE: &str = "00000000000000000004.image";

    /// Four groups in the first segment, two in the second, none in the third.
    fn store(images: bool) -> Store {
        let group = |(at, file): (u64, &str)| Group {
            file: file.to_owned(),
            at: BLOCK * (1 + at % 4),
            len: BLOCK,
            lsn: at * 10 + 1,
        };
        let groups = [(0, FIRST), (1, FIRST), (2, FIRST), (3, FIRST), (4, SECOND), (5, SECOND)];
        let names = [FIRST, SECOND, VOID, "meta", "spare-5", "x.cold", "x.topics", "lock"];
        let names = names.into_iter().chain(images.then_some(IMAGE));
        Store {
            files: names.map(|name| (name.to_owned(), 1 << 20)).collect(),
            groups: groups.map(group).into(),
            records: BTreeMap::new(),
        }
    }

    fn expected(images: bool, file: &str, way: Way) -> Expected {
        store(images).expected(&Change { file: file.to_owned(), way })
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn what_was_durable_is_refused_with_file_and_place() {
        let damaged =
            |at: u64| Expected::Refused(vec![format!("{FIRST} is damaged at byte {at}:")]);
        assert_eq!(expected(false, FIRST, Way::Bit(2 * BLOCK + 7)), damaged(2 * BLOCK));
        assert_eq!(expected(false, FIRST, Way::Zeroed(3 * BLOCK)), damaged(3 * BLOCK));
        assert_eq!(expected(false, FIRST, Way::Bit(9)), damaged(0));
        let around = Expected::Refused(names(&[FIRST, FIRST, SECOND]));
        assert_eq!(expected(false, FIRST, Way::Cut(BLOCK)), around);
        assert_eq!(expected(false, FIRST, Way::Gone), around);
        let both = Expected::Refused(names(&[FIRST, VOID, FIRST, SECOND]));
        assert_eq!(expected(false, FIRST, Way::Exchanged(VOID.to_owned())), both);
    }

    #[test]
    fn where_nothing_proves_that_it_was_durable_the_log_may_end() {
        let prefix = |lsn| Expected::Prefix(lsn, names(&[SECOND]));
        assert_eq!(expected(false, SECOND, Way::Bit(BLOCK + 1)), prefix(41));
        assert_eq!(expected(false, SECOND, Way::Cut(BLOCK)), prefix(0));
        assert_eq!(expected(false, SECOND, Way::Gone), prefix(0));
        let fourth = Expected::Prefix(31, names(&[FIRST]));
        assert_eq!(expected(false, FIRST, Way::Bit(4 * BLOCK)), fourth);
    }

    #[test]
    fn what_says_nothing_that_counts_may_be_damaged_in_any_way() {
        let exact = [
            (VOID, Way::Bit(BLOCK)),
            (FIRST, Way::Bit(9 * BLOCK)),
            ("spare-5", Way::Zeroed(0)),
            ("x.topics", Way::Gone),
            ("lock", Way::Gone),
            ("meta", Way::Bit(5000)),
            (IMAGE, Way::Cut(7)),
            (SECOND, Way::Remains),
        ];
        for (file, way) in exact {
            assert_eq!(expected(true, file, way.clone()), Expected::Exact, "{file} {way:?}");
        }
    }

    #[test]
    fn what_an_image_covers_is_named_when_somebody_needs_it() {
        assert_eq!(expected(true, FIRST, Way::Gone), Expected::Named(names(&[FIRST])));
        assert_eq!(expected(true, "x.cold", Way::Bit(3)), Expected::Named(names(&["x.cold"])));
        assert_eq!(expected(true, "meta", Way::Gone), Expected::ExactOrRefused(names(&["meta"])));
        assert_eq!(expected(true, VOID, Way::Gone), Expected::ExactOrRefused(names(&[VOID])));
    }

    #[test]
    fn every_kind_of_file_is_drawn_and_every_way() {
        let (store, mut random) = (store(true), Random::new(3));
        let mut drawn = std::collections::BTreeSet::new();
        for _ in 0..2000 {
            let Change { file, way } = store.draw(&mut random).unwrap();
            let way = format!("{way:?}");
            drawn.insert((Kind::of(&file), way.split('(').next().unwrap().to_owned()));
        }
        for kind in [Kind::Lock, Kind::Meta, Kind::Spare, Kind::Image, Kind::Cold, Kind::Topics] {
            for way in ["Bit", "Zeroed", "Cut", "Gone"] {
                assert!(drawn.contains(&(kind, way.to_owned())), "{kind:?} {way}");
            }
        }
        assert!(drawn.contains(&(Kind::Segment, "Exchanged".to_owned())));
        assert!(drawn.contains(&(Kind::Segment, "Remains".to_owned())));
    }
}
