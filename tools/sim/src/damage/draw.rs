//! Which damage it is, and how it is done to a disk.
//!
//! Owns: the choice, by kinds of files and ways; the bytes that change.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;

use zzq_wal::sim_disk::SimDisk;

use super::{BLOCK, Change, Kind, Store, Way};
use crate::chance::Chance;

impl Store {
    /// Draws a damage: a kind of file, those that matter often, then one of them, then how.
    /// `None`: there is nothing to be damaged so.
    pub fn draw(&self, chance: &mut Chance) -> Option<Change> {
        match chance.below(3) {
            0 => self.draw_astray(chance),
            1 if chance.once_in(3) => {
                let last = self.groups.last()?;
                Some(Change { file: last.file.clone(), way: Way::Remains })
            }
            _ => self.draw_outside(chance),
        }
    }

    /// A write that was synced, and is not where it should be.
    fn draw_astray(&self, chance: &mut Chance) -> Option<Change> {
        if self.groups.is_empty() {
            return None;
        }
        let group = chance.pick(&self.groups);
        let bytes = group.at..group.at + group.len;
        let file = group.file.clone();
        let fits = |len: u64| len >= bytes.end;
        let others = self
            .files
            .iter()
            .filter(|(name, len)| **name != file && Kind::of(name) == Kind::Segment && fits(**len));
        let others: Vec<_> = others.map(|(name, _)| name).collect();
        let way = match chance.below(3) {
            0 => Way::Lost(bytes),
            1 if !others.is_empty() => Way::Misdirected(bytes, (*chance.pick(&others)).clone()),
            _ => {
                let room = self.files.get(&file)?.checked_sub(BLOCK + group.len)? / BLOCK;
                let to = BLOCK * (1 + chance.below(room + 1));
                // Where it stands there is nothing that is not as it should be.
                if to == bytes.start { Way::Lost(bytes) } else { Way::Shifted(bytes, to) }
            }
        };
        Some(Change { file, way })
    }

    fn draw_outside(&self, chance: &mut Chance) -> Option<Change> {
        let mut kinds: BTreeMap<Kind, Vec<&String>> = BTreeMap::new();
        for file in self.files.keys() {
            kinds.entry(Kind::of(file)).or_default().push(file);
        }
        let mut weighed = Vec::new();
        for (kind, files) in &kinds {
            weighed.extend((0..often(*kind)).map(|_| files));
        }
        if weighed.is_empty() {
            return None;
        }
        let of_kind = *chance.pick(&weighed);
        let file = (*chance.pick(of_kind)).clone();
        let len = self.files[&file];
        // What is zeroes may be so for long: what counts is near the front.
        let within = if chance.once_in(2) { len } else { self.end_of(&file).min(len) };
        let at = chance.below(within.max(1));
        let others: Vec<_> = of_kind.iter().filter(|other| ***other != file).collect();
        let way = match chance.below(6) {
            0 | 1 if !others.is_empty() => Way::Exchanged((**chance.pick(&others)).clone()),
            0..=2 => Way::Gone,
            _ if len == 0 => Way::Gone,
            3 => Way::Cut(at),
            4 => Way::Zeroed(at / BLOCK * BLOCK),
            _ => Way::Bit(at, u8::try_from(chance.below(8)).unwrap_or(0)),
        };
        Some(Change { file, way })
    }

    /// Where the groups of a file end.
    fn end_of(&self, file: &str) -> u64 {
        let last = self.groups.iter().rfind(|group| group.file == file);
        last.map_or(u64::MAX, |group| group.at + group.len)
    }
}

/// The log is what it is about.
fn often(kind: Kind) -> usize {
    match kind {
        Kind::Segment => 6,
        Kind::Image | Kind::Cold | Kind::Meta => 3,
        Kind::Other => 1,
    }
}

impl Change {
    /// What coverage calls it.
    pub fn kind(&self) -> &'static str {
        match (Kind::of(&self.file), &self.way) {
            (_, Way::Lost(_)) => "damage synced write lost",
            (_, Way::Shifted(..)) => "damage synced write shifted",
            (_, Way::Misdirected(..)) => "damage synced write in another file",
            (_, Way::Remains) => "damage remains behind the end",
            (Kind::Segment, Way::Bit(..)) => "damage segment has a bit changed",
            (Kind::Segment, Way::Zeroed(_)) => "damage segment has zeroes",
            (Kind::Segment, Way::Cut(_)) => "damage segment cut short",
            (Kind::Segment, Way::Gone) => "damage segment gone",
            (Kind::Segment, Way::Exchanged(_)) => "damage segments exchanged",
            (Kind::Meta, Way::Bit(..) | Way::Zeroed(_)) => "damage meta has a bad page",
            (Kind::Meta, _) => "damage meta gone",
            (Kind::Image, Way::Exchanged(_)) => "damage images exchanged",
            (Kind::Image, Way::Gone) => "damage image gone",
            (Kind::Image, _) => "damage image changed",
            (Kind::Cold, _) => "damage cold file",
            (Kind::Other, _) => "damage other file",
        }
    }

    /// Does it; `false`: nothing has changed.
    pub fn carry_out(&self, store: &Store, disk: &SimDisk) -> io::Result<bool> {
        let file = &self.file;
        let before = disk.image_hash();
        match &self.way {
            Way::Bit(at, bit) => disk.flip(file, *at, *bit)?,
            Way::Zeroed(at) => clear(disk, file, *at..(*at + BLOCK).min(store.files[file]))?,
            Way::Cut(len) => disk.cut(file, *len)?,
            Way::Gone => disk.delete(file)?,
            Way::Exchanged(other) => disk.swap(file, other)?,
            Way::Remains => repeat(store, disk)?,
            Way::Lost(bytes) => clear(disk, file, bytes.clone())?,
            Way::Shifted(bytes, to) => {
                let gone = piece(disk, file, bytes)?;
                clear(disk, file, bytes.clone())?;
                disk.overwrite(file, *to, &gone)?;
            }
            Way::Misdirected(bytes, other) => {
                let gone = piece(disk, file, bytes)?;
                clear(disk, file, bytes.clone())?;
                disk.overwrite(other, bytes.start, &gone)?;
            }
        }
        Ok(disk.image_hash() != before)
    }
}

fn index(at: u64) -> usize {
    usize::try_from(at).unwrap_or(usize::MAX)
}

fn piece(disk: &SimDisk, file: &str, bytes: &Range<u64>) -> io::Result<Vec<u8>> {
    let all = disk.bytes(file)?;
    let piece = all.get(index(bytes.start)..index(bytes.end));
    piece.map(<[u8]>::to_vec).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn clear(disk: &SimDisk, file: &str, bytes: Range<u64>) -> io::Result<()> {
    disk.overwrite(file, bytes.start, &vec![0; index(bytes.end - bytes.start)])
}

/// See [`Way::Remains`]. A full segment has its index there.
fn repeat(store: &Store, disk: &SimDisk) -> io::Result<()> {
    let Some(last) = store.groups.last() else { return Ok(()) };
    let end = last.at + last.len;
    if end + last.len + 4 * BLOCK >= store.files[&last.file] {
        return Ok(());
    }
    let half = piece(disk, &last.file, &(last.at..last.at + last.len / 2))?;
    disk.overwrite(&last.file, end, &half)
}

impl fmt::Display for Change {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = &self.file;
        match &self.way {
            Way::Bit(at, bit) => write!(out, "bit {bit} changed in byte {at} of {file}"),
            Way::Zeroed(at) => write!(out, "zeroes from byte {at} of {file} on"),
            Way::Cut(len) => write!(out, "{file} cut to {len} bytes"),
            Way::Gone => write!(out, "{file} gone"),
            Way::Exchanged(other) => write!(out, "{file} and {other} exchanged"),
            Way::Remains => write!(out, "half of the last group of {file} behind it"),
            Way::Lost(bytes) => write!(out, "the write of {bytes:?} of {file} lost"),
            Way::Shifted(bytes, to) => write!(out, "the write of {bytes:?} of {file} at {to}"),
            Way::Misdirected(bytes, to) => write!(out, "the write of {bytes:?} of {file} in {to}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::tests::store;
    use super::*;
    use crate::coverage::KINDS;

    #[test]
    fn every_kind_of_damage_is_drawn_and_listed() {
        let mut store = store(&[]);
        for name in ["5.image", "y.cold"] {
            store.files.insert(name.to_owned(), 9000);
        }
        let mut chance = Chance::new(3, "damage");
        let drawn: BTreeSet<_> =
            (0..3000).filter_map(|_| Some(store.draw(&mut chance)?.kind())).collect();
        let are_kinds = KINDS.into_iter().filter(|kind| kind.starts_with("damage "));
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), {
            let mut listed: Vec<_> = are_kinds.collect();
            listed.sort_unstable();
            listed
        });
    }

    #[test]
    fn a_write_that_went_astray_is_not_where_it_was() {
        let disk = SimDisk::new();
        for name in ["1.log", "2.log"] {
            disk.insert(name, vec![0; 5 * index(BLOCK)]);
        }
        disk.overwrite("1.log", BLOCK, &vec![7; index(BLOCK)]).unwrap();
        let files = [("1.log".to_owned(), 5 * BLOCK), ("2.log".to_owned(), 5 * BLOCK)].into();
        let store = Store { files, ..Store::default() };
        let bytes = BLOCK..2 * BLOCK;
        let after = |way| {
            let copy = disk.restart();
            let change = Change { file: "1.log".to_owned(), way };
            assert!(change.carry_out(&store, &copy).unwrap(), "{change}");
            let at = |name| copy.bytes(name).unwrap().iter().position(|byte| *byte == 7);
            (at("1.log"), at("2.log"))
        };
        assert_eq!(after(Way::Lost(bytes.clone())), (None, None));
        assert_eq!(after(Way::Shifted(bytes.clone(), 3 * BLOCK)), (Some(index(3 * BLOCK)), None));
        let misdirected = after(Way::Misdirected(bytes, "2.log".to_owned()));
        assert_eq!(misdirected, (None, Some(index(BLOCK))));
        let nothing = Change { file: "2.log".to_owned(), way: Way::Zeroed(0) };
        assert!(!nothing.carry_out(&store, &disk).unwrap());
    }
}
