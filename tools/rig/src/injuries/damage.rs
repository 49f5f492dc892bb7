//! Damaged files: in a copy of the data directory one file is changed, of any kind and in any way,
//! and a broker is started on it. What was durable has to be there, or to be refused with its file;
//! what nobody was told of has to be passed over.
//!
//! Owns: the copies, and the brokers on them. Does not know: what has to follow from which damage.

mod change;
mod judge;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use zzq_journal::{Event, Survey, walk};
use zzq_wal::io::ReadOnlyDisk;
use zzq_wal::{Lsn, segment_name};

use self::change::{Expected, Group, Store};
use self::judge::{Outcome, judge};
use super::with_away;
use crate::accounts::{Book, Broken};
use crate::broker::{Launch, Start};
use crate::run::Tally;
use crate::scene::Scene;
use zzq_wal::sim_disk::Random;

/// How a broker ends on a damaged store.
const DAMAGED: i32 = 65;
/// Copies of one directory.
const COPIES: usize = 4;
/// So long is waited for what a damaged file may have held.
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) fn damage(scene: &mut Scene, random: &mut Random, tally: &mut Tally) -> Result<()> {
    scene.kill_after(Duration::from_micros(1000 + random.below(100_000)), tally)?;
    // Of a broker that keeps nothing there is nothing to damage, which its clients find out.
    let store = if scene.data.exists() { look(&scene.data)? } else { Store::default() };
    for _ in 0..COPIES {
        let Some(change) = store.draw(random) else { continue };
        let copy = scene.home.join("damaged");
        copy_directory(&scene.data, &copy)?;
        if change.carry_out(&store, &copy, random)? {
            let expected = store.expected(&change);
            let outcome = try_on(&copy, &expected, scene, tally)?;
            tally.damaged(change.kind());
            tally.refused += u64::from(matches!(outcome, Outcome::Refused(_)));
            if let Some((promise, what)) = judge(&expected, &store, &outcome) {
                let what = format!("on {} with {change}: {what}", copy.display());
                scene.book().accuse(promise, what);
                return Ok(());
            }
        }
        std::fs::remove_dir_all(&copy)?;
    }
    scene.recover(with_away(random), tally)
}

/// What a broker makes of the copy.
fn try_on(
    copy: &Path,
    expected: &Expected,
    scene: &mut Scene,
    tally: &mut Tally,
) -> Result<Outcome> {
    let mut launch = scene.launch.clone();
    copy.clone_into(&mut launch.data);
    // Its own, so that what it names can be told from what was named before.
    launch.log = copy.with_extension("log");
    let _ = std::fs::remove_file(&launch.log);
    let broker = match launch.start(|_| ())? {
        Start::Up(broker) => broker,
        Start::Ended(status) if status.code() == Some(DAMAGED) => {
            return Ok(Outcome::Refused(launch.last_words()));
        }
        Start::Ended(status) => {
            let how = format!("ends with {status}:\n{}", launch.last_words());
            return Ok(Outcome::Fell(how));
        }
        Start::Hung => return Ok(Outcome::Fell("says nothing".to_owned())),
    };
    tally.recovered(broker.recovered_in());
    if matches!(expected, Expected::Prefix(..)) {
        // What a shorter log does not hold is not there for clients either.
        broker.kill();
        return Ok(served(&launch, Vec::new(), look(&launch.data)?));
    }
    let book = Book::trial(scene.book().accounts().clone());
    let mut trial = Scene::on(launch.clone(), &scene.home, book, scene.deadline);
    if matches!(expected, Expected::Named(_)) {
        trial.be_patient_for(PATIENCE);
    }
    trial.take_over(broker);
    trial.check_all(true)?;
    trial.bury()?;
    Ok(served(&launch, trial.broken().to_vec(), Store::default()))
}

fn served(launch: &Launch, broken: Vec<Broken>, after: Store) -> Outcome {
    let log = std::fs::read(&launch.log).unwrap_or_default();
    let log = String::from_utf8_lossy(&log).into_owned();
    Outcome::Served { broken, log, after }
}

/// The files, and what counts of the log.
fn look(data: &Path) -> Result<Store> {
    let mut store = Store::default();
    for entry in std::fs::read_dir(data)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        store.files.insert(name, entry.metadata()?.len());
    }
    let disk = ReadOnlyDisk::open(data)?;
    let survey = Survey::read(&disk)?;
    let mut file = String::new();
    walk(&survey, Lsn::new(1), &mut |event| {
        match event {
            Event::Segment { number } => file = segment_name(number),
            Event::Group { at, header } => {
                let (len, lsn) = (header.length as u64, header.first_lsn.get());
                store.groups.push(Group { file: file.clone(), at, len, lsn });
            }
            Event::Record(found) => {
                let mut hasher = DefaultHasher::new();
                (found.time_ms, found.kind, found.body).hash(&mut hasher);
                store.records.insert(found.lsn.get(), hasher.finish());
            }
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok(store)
}

fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
