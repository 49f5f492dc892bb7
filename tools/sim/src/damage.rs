//! Damage to a disk that nobody is told of, and what has to follow from it at the next start.
//!
//! Owns: what a disk holds, what can be done to it, and the rules by which that is refused, passed
//! over, or ends the log early. Does not know: when it is done, how a broker starts.
//!
//! A group is proven to be durable when one that says so is behind it, and is not touched itself.
//! What is proven and needed is refused, with the file; what nothing proves may end the log there;
//! what says nothing that counts is passed over, and the state is the same.

mod draw;
mod judge;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{ControlFlow, Range};

use zzq_journal::{Event, Survey, walk};
use zzq_wal::disk::Disk;
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Lsn, META_NAME, read_facts, segment_name, segment_number};

pub use self::judge::{Outcome, Served, judge};
use crate::client::quote::is_quoted_on_a_block;
use crate::images::stated_images;

/// What the log is written in at least.
const BLOCK: u64 = 4096;

/// What a broker says that goes by a page of `meta` which names files that have gone since: they
/// are missing, or a stranger has the name of one.
const OLDER_META: &str = ".log is damaged at byte 0: ";

/// What a broker says that has no image to begin with.
const NO_IMAGE: &str = "no good image covers it";

/// A group that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its file.
    pub file: String,
    /// Where it begins.
    pub at: u64,
    /// Its bytes.
    pub len: u64,
    /// The first record that it completes.
    pub first: u64,
    /// The last one; one less if there is none.
    pub last: u64,
    /// What was durable when it was sealed.
    pub durable: u64,
}

/// What a disk holds.
#[derive(Clone, Debug, Default)]
pub struct Store {
    /// Each with its length.
    pub files: BTreeMap<String, u64>,
    /// In the log's order.
    pub groups: Vec<Group>,
    /// What stands for each record.
    pub records: BTreeMap<u64, u64>,
    /// The last record that each good image covers, the newest last.
    pub images: Vec<u64>,
    /// Both pages of `meta` say the same. A power cut may leave an older one: it is synced with
    /// what is stated next.
    pub is_meta_whole: bool,
    /// There is a group with a copy of a group within, where recovery could look for one.
    pub quotes: bool,
    /// An image may have come back of which nothing else is there any more.
    pub may_lack: bool,
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The facts of the log.
    Meta,
    /// The log.
    Segment,
    /// The state.
    Image,
    /// Messages that the log has let go.
    Cold,
    /// What can be found without it, or means nothing.
    Other,
}

impl Kind {
    fn of(name: &str) -> Self {
        match name {
            _ if name == META_NAME => Self::Meta,
            _ if segment_number(name).is_some() => Self::Segment,
            // One that was not finished means nothing.
            "image.new" | "cold.new" => Self::Other,
            _ => match name.rsplit_once('.') {
                Some((_, "image")) => Self::Image,
                Some((_, "cold")) => Self::Cold,
                _ => Self::Other,
            },
        }
    }
}

/// What is done to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// A bit of this byte changes.
    Bit(u64, u8),
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
    /// A write was reported as done, flush and all, and went nowhere.
    Lost(Range<u64>),
    /// It went to another place in the file.
    Shifted(Range<u64>, u64),
    /// It went to the same place in another file.
    Misdirected(Range<u64>, String),
}

/// A damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// To which file.
    pub file: String,
    /// What.
    pub way: Way,
}

/// What has to follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The broker starts, and has all.
    Exact,
    /// It refuses, and says one of these words.
    Refused(Vec<String>),
    /// One of these two.
    ExactOrRefused(Vec<String>),
    /// It refuses with one of these words, or it has the log up to some place, which is at this
    /// record or behind it.
    Prefix(u64, Vec<String>),
}

impl Store {
    /// What counts of a disk; `None`: it cannot be read.
    pub fn look(disk: &SimDisk) -> Option<Self> {
        let files = disk.list().ok()?.into_iter().collect();
        let mut store = Self { files, ..Self::default() };
        let facts = read_facts(disk).ok()?;
        let (images, ..) = stated_images(disk, &facts).ok()?;
        store.images = images.images().map(|image| image.heading().lsn.get()).collect();
        let pages = [0, BLOCK].map(|page| {
            let probe = disk.restart();
            let zeroes = vec![0; usize::try_from(BLOCK).unwrap_or(0)];
            probe.overwrite(META_NAME, page, &zeroes).ok()?;
            read_facts(&probe).ok()
        });
        store.is_meta_whole = pages[0].is_some() && pages[0] == pages[1];
        let survey = Survey::read(disk).ok()?;
        let mut file = String::new();
        let walked = walk(&survey, Lsn::new(1), &mut |event| {
            match event {
                Event::Segment { number } => file = segment_name(number),
                Event::Group { at, header } => {
                    let first = header.first_lsn.get();
                    store.groups.push(Group {
                        file: file.clone(),
                        at,
                        len: header.length as u64,
                        first,
                        last: first + u64::from(header.records) - 1,
                        durable: header.durable.get(),
                    });
                }
                Event::Record(found) => {
                    let mut hasher = DefaultHasher::new();
                    (found.time_ms, found.kind, found.body).hash(&mut hasher);
                    store.records.insert(found.lsn.get(), hasher.finish());
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
        walked.ok()?;
        store.quotes = store.groups.iter().any(|group| {
            let bytes = disk.bytes(&group.file).unwrap_or_default();
            let index = |at| usize::try_from(at).unwrap_or(usize::MAX);
            let long = group.len > BLOCK;
            let group = bytes.get(index(group.at)..index(group.at + group.len));
            long && group.is_some_and(is_quoted_on_a_block)
        });
        Some(store)
    }

    /// What a start finds ends with this record: what lies behind counts for nothing.
    pub fn end_with(&mut self, last: u64) {
        self.groups.retain(|group| group.last <= last);
        self.records.retain(|lsn, _| *lsn <= last);
    }

    /// The last record that a start finds in an image.
    fn covered(&self) -> u64 {
        self.images.last().copied().unwrap_or(0)
    }

    /// What has to follow from a damage.
    pub fn expected(&self, change: &Change) -> Expected {
        let Change { file, way } = change;
        let either = |names: &[&String]| {
            Expected::ExactOrRefused(names.iter().map(|name| (*name).clone()).collect())
        };
        match (Kind::of(file), way) {
            // The page before is as good.
            (Kind::Meta, Way::Bit(..) | Way::Zeroed(_)) if self.is_meta_whole => Expected::Exact,
            (Kind::Meta, _) => either(&[file, &OLDER_META.to_owned()]),
            // Not those that the one before it needs. The broker's log tells which are bad, and
            // what it says at last is that none is left.
            (Kind::Image | Kind::Cold, Way::Exchanged(other)) => {
                either(&[file, other, &NO_IMAGE.to_owned()])
            }
            // The one before it is as good; the first one has all of the log behind it.
            (Kind::Image, _) if !self.may_lack && self.is_image_spare() => Expected::Exact,
            (Kind::Image | Kind::Cold, _) => either(&[file, &NO_IMAGE.to_owned()]),
            (Kind::Segment, way) if *way != Way::Remains => self.expected_of_segment(file, way),
            // Files that say nothing, or what can be found without them; remains behind the end.
            _ => Expected::Exact,
        }
    }

    fn is_image_spare(&self) -> bool {
        let begins = self.groups.first().is_some_and(|group| group.first == 1);
        self.images.len() > 1 || begins
    }

    fn expected_of_segment(&self, file: &str, way: &Way) -> Expected {
        let touched = touched(file, way);
        let is_hit = |group: &Group| {
            touched.iter().any(|(file, bytes)| {
                let end = group.at + group.len;
                group.file == *file && bytes.start < end && group.at < bytes.end
            })
        };
        let names: Vec<_> = touched.iter().map(|(file, _)| file.clone()).collect();
        // A start does not look at all that an image covers.
        let needed = |group: &Group| group.last > self.covered();
        let hit = self.groups.iter().position(|group| is_hit(group) && needed(group));
        let Some(at) = hit else {
            let is_inner = matches!(way, Way::Bit(at, _) | Way::Zeroed(at) if *at >= BLOCK);
            let none = !self.groups.iter().any(is_hit);
            // Others name it, and its header is looked at, whether anything counts in it or not.
            return if is_inner && none {
                Expected::Exact
            } else {
                Expected::ExactOrRefused(names)
            };
        };
        let hit = &self.groups[at];
        let behind = self.groups[at + 1..].iter().filter(|group| !is_hit(group));
        let is_proven = behind.into_iter().any(|group| group.durable >= hit.last);
        let is_header = touched.iter().any(|(_, bytes)| bytes.start < BLOCK);
        if !is_proven {
            let is_of_file = is_header || matches!(way, Way::Cut(_));
            return Expected::Prefix(if is_of_file { 0 } else { hit.first }, names);
        }
        Expected::Refused(match way {
            Way::Bit(..) | Way::Zeroed(_) | Way::Lost(_) if !is_header => {
                vec![format!("{file} is damaged at byte {}:", hit.at)]
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
}

/// The bytes that are not what they were. What is in a segment counts for nothing without its
/// header.
fn touched(file: &str, way: &Way) -> Vec<(String, Range<u64>)> {
    let own = |bytes: Range<u64>| (file.to_owned(), bytes);
    let block = |at: u64, len: u64| if at < BLOCK { 0..u64::MAX } else { at..at + len };
    match way {
        Way::Bit(at, _) => vec![own(block(*at, 1))],
        Way::Zeroed(at) => vec![own(block(*at, BLOCK))],
        Way::Cut(at) => vec![own(if *at < BLOCK { 0..u64::MAX } else { *at..u64::MAX })],
        Way::Gone => vec![own(0..u64::MAX)],
        Way::Exchanged(other) => vec![own(0..u64::MAX), (other.clone(), 0..u64::MAX)],
        Way::Remains => Vec::new(),
        Way::Lost(bytes) => vec![own(bytes.clone())],
        Way::Shifted(bytes, to) => {
            vec![own(bytes.clone()), own(*to..*to + (bytes.end - bytes.start))]
        }
        Way::Misdirected(bytes, other) => vec![own(bytes.clone()), (other.clone(), bytes.clone())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "00000000000000000001.log";
    const SECOND: &str = "00000000000000000002.log";
    const VOID: &str = "00000000000000000003.log";
    const IMAGE: &str = "00000000000000000004.image";

    /// Four groups in the first segment, two in the second, none in the third; each says that all
    /// up to the one but two before it is durable.
    pub(super) fn store(images: &[u64]) -> Store {
        let group = |(at, file): (u64, &str)| Group {
            file: file.to_owned(),
            at: BLOCK * (1 + at % 4),
            len: BLOCK,
            first: at * 10 + 1,
            last: at * 10 + 10,
            durable: (at * 10).saturating_sub(10),
        };
        let groups = [(0, FIRST), (1, FIRST), (2, FIRST), (3, FIRST), (4, SECOND), (5, SECOND)];
        let names = [FIRST, SECOND, VOID, "meta", "spare-5", "x.cold", "x.topics", IMAGE];
        Store {
            files: names.map(|name| (name.to_owned(), 1 << 20)).into(),
            groups: groups.map(group).into(),
            images: images.to_vec(),
            is_meta_whole: true,
            ..Store::default()
        }
    }

    fn expected(images: &[u64], file: &str, way: Way) -> Expected {
        store(images).expected(&Change { file: file.to_owned(), way })
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn what_is_proven_and_needed_is_refused_with_file_and_place() {
        let damaged =
            |at: u64| Expected::Refused(vec![format!("{FIRST} is damaged at byte {at}:")]);
        let second = 2 * BLOCK..3 * BLOCK;
        assert_eq!(expected(&[], FIRST, Way::Bit(2 * BLOCK + 7, 1)), damaged(2 * BLOCK));
        assert_eq!(expected(&[], FIRST, Way::Zeroed(3 * BLOCK)), damaged(3 * BLOCK));
        assert_eq!(expected(&[], FIRST, Way::Lost(second.clone())), damaged(2 * BLOCK));
        assert_eq!(expected(&[15], FIRST, Way::Lost(second.clone())), damaged(2 * BLOCK));
        let around = Expected::Refused(names(&[FIRST, FIRST, SECOND]));
        assert_eq!(expected(&[], FIRST, Way::Gone), around);
        assert_eq!(expected(&[], FIRST, Way::Bit(9, 0)), around);
        let around = Expected::Refused(names(&[FIRST, SECOND, FIRST, SECOND]));
        assert_eq!(expected(&[], FIRST, Way::Misdirected(second, SECOND.to_owned())), around);
    }

    #[test]
    fn where_nothing_proves_that_it_was_durable_the_log_may_end() {
        let prefix = |lsn| Expected::Prefix(lsn, names(&[SECOND]));
        assert_eq!(expected(&[], SECOND, Way::Bit(BLOCK + 1, 0)), prefix(41));
        assert_eq!(expected(&[], SECOND, Way::Cut(BLOCK)), prefix(0));
        assert_eq!(expected(&[], SECOND, Way::Gone), prefix(0));
        let last = 2 * BLOCK..3 * BLOCK;
        assert_eq!(expected(&[], SECOND, Way::Lost(last)), prefix(51));
    }

    #[test]
    fn what_an_image_covers_may_be_passed_over() {
        let either = |words: &[&str]| Expected::ExactOrRefused(names(words));
        assert_eq!(expected(&[30], FIRST, Way::Bit(2 * BLOCK, 0)), either(&[FIRST]));
        assert_eq!(expected(&[40], FIRST, Way::Gone), either(&[FIRST]));
        assert_eq!(expected(&[], "x.cold", Way::Gone), either(&["x.cold", NO_IMAGE]));
    }

    #[test]
    fn what_says_nothing_that_counts_may_be_damaged_in_any_way() {
        let exact = [
            (VOID, Way::Bit(BLOCK, 0)),
            (FIRST, Way::Bit(9 * BLOCK, 0)),
            ("spare-5", Way::Zeroed(0)),
            ("x.topics", Way::Gone),
            ("meta", Way::Bit(5000, 3)),
            (IMAGE, Way::Cut(7)),
            (SECOND, Way::Remains),
        ];
        for (file, way) in exact {
            assert_eq!(expected(&[7, 9], file, way.clone()), Expected::Exact, "{file} {way:?}");
        }
    }

    #[test]
    fn an_image_without_another_or_a_log_is_needed() {
        let mut store = store(&[9]);
        store.groups.remove(0);
        let change = Change { file: IMAGE.to_owned(), way: Way::Gone };
        assert_eq!(store.expected(&change), Expected::ExactOrRefused(names(&[IMAGE, NO_IMAGE])));
        store.is_meta_whole = false;
        let change = Change { file: META_NAME.to_owned(), way: Way::Bit(1, 1) };
        assert_eq!(
            store.expected(&change),
            Expected::ExactOrRefused(names(&[META_NAME, OLDER_META]))
        );
    }
}
