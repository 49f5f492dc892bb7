//! Damaged files: of a copy of the data directory some bytes are changed, and a broker is started
//! on it. What was durable and is changed has to be refused, with file and offset; remains of a
//! write that was cut off have to be passed over.
//!
//! Owns: what is changed, and what has to follow. Does not know: how a broker finds out.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use zzq_journal::{Event, Survey, walk};
use zzq_wal::io::ReadOnlyDisk;
use zzq_wal::{Lsn, segment_name};

use super::with_away;
use crate::accounts::Book;
use crate::broker::Start;
use crate::faulty::Kind;
use crate::run::Tally;
use crate::scene::Scene;
use zzq_wal::sim_disk::Random;

/// How a broker ends on a damaged store.
const DAMAGED: i32 = 65;
const BLOCK: u64 = 4096;
/// An image that was not finished: it means nothing.
const UNFINISHED: &str = "image.new";
/// At most two groups are under way: with so many behind it, a group is durable.
const BEHIND: usize = 3;

/// A group that counts.
#[derive(Clone, Debug)]
struct Group {
    file: String,
    at: u64,
    len: u64,
}

/// What is changed.
#[derive(Clone, Debug)]
enum Change {
    /// A bit of a group that others follow.
    Durable(Group),
    /// A bit in the header of a segment that holds such a group.
    Header(String),
    /// One of the two pages of `meta`.
    Meta,
    /// A bit of an image: the one before is as good.
    Image(String),
    /// The first half of a group stands once more behind the last one.
    Remains(Group),
}

pub(super) fn damage(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    scene.kill_after(Duration::from_micros(1000 + random.below(100_000)), tally)?;
    let (groups, images) = (groups(&scene.data)?, images(&scene.data)?);
    for _ in 0..3 {
        if let Some(change) = choose(&groups, &images, random) {
            let copy = scene.home.join("damaged");
            copy_directory(&scene.data, &copy)?;
            let is_good = try_change(&change, &copy, scene, random, tally)?;
            if !is_good {
                return Ok(());
            }
            std::fs::remove_dir_all(&copy)?;
        }
    }
    scene.recover(with_away(random), tally)
}

/// What an image covers is looked at when somebody needs it, so a start need not refuse it.
fn choose(groups: &[Group], images: &[String], random: &mut Random) -> Option<Change> {
    if !images.is_empty() {
        return Some(match random.below(3) {
            0 => Change::Meta,
            1 => Change::Remains(groups.last()?.clone()),
            _ => Change::Image(images[random.index(images.len())].clone()),
        });
    }
    let durable = &groups[..groups.len().saturating_sub(BEHIND)];
    let any = durable.get(random.index(durable.len().max(1)))?.clone();
    Some(match random.below(6) {
        0 => Change::Header(any.file),
        1 => Change::Meta,
        2 | 3 => Change::Remains(groups.last()?.clone()),
        _ => Change::Durable(any),
    })
}

/// Returns whether what had to follow has followed.
fn try_change(
    change: &Change,
    copy: &Path,
    scene: &mut Scene,
    random: &mut Random,
    tally: &mut Tally,
) -> Result<bool> {
    tally.damaged();
    match change {
        Change::Durable(group) => {
            flip(&copy.join(&group.file), group.at + random.below(group.len), random)?;
            let words = format!("{} is damaged at byte {}:", group.file, group.at);
            must_refuse(copy, &words, scene, tally)
        }
        Change::Header(file) => {
            flip(&copy.join(file), random.below(BLOCK), random)?;
            must_refuse(copy, &format!("{file} is damaged at byte 0:"), scene, tally)
        }
        Change::Meta => {
            flip(&copy.join(zzq_wal::META_NAME), random.below(2 * BLOCK), random)?;
            must_serve(copy, change, scene, tally)
        }
        Change::Image(name) => {
            let path = copy.join(name);
            let len = path.metadata()?.len();
            flip(&path, random.below(len), random)?;
            must_serve(copy, change, scene, tally)
        }
        Change::Remains(group) => {
            let file = File::options().read(true).write(true).open(copy.join(&group.file))?;
            let mut bytes = vec![0; usize::try_from(group.len / 2)?];
            file.read_exact_at(&mut bytes, group.at)?;
            let end = group.at + group.len;
            // A full segment has its index there.
            if end + group.len < file.metadata()?.len() - 4 * BLOCK {
                file.write_all_at(&bytes, end)?;
            }
            must_serve(copy, change, scene, tally)
        }
    }
}

fn must_refuse(copy: &Path, words: &str, scene: &mut Scene, tally: &mut Tally) -> Result<bool> {
    let mut launch = scene.launch.clone();
    copy.clone_into(&mut launch.data);
    let how = match launch.start(|_| ())? {
        Start::Ended(status) if status.code() == Some(DAMAGED) => {
            if launch.last_words().contains(words) {
                tally.refused += 1;
                return Ok(true);
            }
            format!("refuses, but does not say that {words}\n{}", launch.last_words())
        }
        Start::Ended(status) => format!("ends with {status}\n{}", launch.last_words()),
        Start::Hung => "says nothing".to_owned(),
        Start::Up(_) => "starts".to_owned(),
    };
    let what = format!("on {}, where {words} the broker {how}", copy.display());
    scene.book().accuse("damage is refused", what);
    Ok(false)
}

fn must_serve(copy: &Path, change: &Change, scene: &mut Scene, tally: &mut Tally) -> Result<bool> {
    let mut launch = scene.launch.clone();
    copy.clone_into(&mut launch.data);
    let book = Book::trial(scene.book().accounts().clone());
    let mut trial = Scene::on(launch, &scene.home, book, scene.deadline);
    // What a copy has says nothing about the directory that was struck.
    let mut own = Tally::new(Instant::now());
    trial.recover(true, &mut own)?;
    trial.bury()?;
    own.recoveries.iter().for_each(|one| tally.recovered(one.span));
    let Some(broken) = trial.broken().first() else { return Ok(true) };
    let what = format!("on {} with {change:?}: {broken}", copy.display());
    scene.book().accuse("what nobody was told of is passed over", what);
    Ok(false)
}

/// The groups that count, in the log's order.
fn groups(data: &Path) -> Result<Vec<Group>> {
    let disk = ReadOnlyDisk::open(data)?;
    let survey = Survey::read(&disk)?;
    let mut groups = Vec::new();
    let mut file = String::new();
    walk(&survey, Lsn::new(1), &mut |event| {
        match event {
            Event::Segment { number } => file = segment_name(number),
            Event::Group { at, header } => {
                groups.push(Group { file: file.clone(), at, len: header.length as u64 });
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok(groups)
}

fn images(data: &Path) -> Result<Vec<String>> {
    let mut images = Vec::new();
    for entry in std::fs::read_dir(data)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if Kind::of(&name) == Kind::Image && name != UNFINISHED {
            images.push(name);
        }
    }
    images.sort();
    Ok(images)
}

fn flip(path: &Path, at: u64, random: &mut Random) -> Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).with_context(|| path.display().to_string())?;
    byte[0] ^= 1 << random.below(8);
    Ok(file.write_all_at(&byte, at)?)
}

fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
