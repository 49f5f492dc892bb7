//! The golden log with changes, as devices and people make them: recovery ends without a panic and
//! gives the front of what was written, or refuses; whoever opens it goes on behind that front.
//! With forged checksums nothing is promised about what is given, but all the rest holds.

#![no_main]

use std::sync::Arc;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use zzq_fuzz::{
    DURABLE, RECORDS, SEGMENTS, body, golden, mend_block, mend_segment, options, recovered, walked,
};
use zzq_wal::disk::{BLOCK, Disk};
use zzq_wal::sim_disk::SimDisk;
use zzq_wal::{Log, META_NAME, Staging, Wake, segment_name};

/// One change; places are taken modulo what is there.
#[derive(Arbitrary, Debug)]
enum Change {
    Flip { file: u8, at: u16, bit: u8 },
    Fill { file: u8, at: u16, len: u16, byte: u8 },
    CopyBlocks { from: u8, from_block: u8, to: u8, to_block: u8, count: u8 },
    Cut { file: u8, len: u16 },
    Grow { file: u8, len: u16 },
    Delete { file: u8 },
    Swap { one: u8, other: u8 },
    Copy { file: u8, number: u8 },
    Break { file: u8, block: u8 },
    Stray { name: u8 },
    Field { file: u8, block: u8, field: u8, value: u64 },
    Forge { file: u8 },
}

#[derive(Arbitrary, Debug)]
struct Input {
    forges: bool,
    changes: Vec<Change>,
}

fuzz_target!(|input: Input| {
    let disk = golden();
    let mut touched = Touched::default();
    for change in input.changes.iter().take(12) {
        // A change of what is not there is none.
        let _ = apply(&disk, change, input.forges, &mut touched);
    }
    let (outcome, seen) = recovered(&disk);
    let walked = touched.reads.then(|| walked(&disk));
    if let Some(walked) = &walked {
        assert!(outcome.is_err() || *walked == seen, "{outcome:?}");
    }
    if !input.forges {
        for (nth, (lsn, kind, found)) in (1..).zip(&seen) {
            assert!(*lsn == nth && *kind == 1 && *found == body(nth), "{lsn} is {nth}");
        }
        let kept = seen.len() as u64;
        assert!(kept <= RECORDS);
        assert!(outcome.is_err() || touched.meta || kept >= DURABLE, "{outcome:?}");
    }
    go_on(&disk, outcome.is_ok(), &seen, input.forges);
});

/// What the changes have done.
struct Touched {
    meta: bool,
    /// All can be read.
    reads: bool,
}

impl Default for Touched {
    fn default() -> Self {
        Self { meta: false, reads: true }
    }
}

fn apply(
    disk: &SimDisk,
    change: &Change,
    forges: bool,
    touched: &mut Touched,
) -> std::io::Result<()> {
    let named = |file: u8| match usize::from(file) % (SEGMENTS.len() + 1) {
        0 => META_NAME.to_owned(),
        nth => segment_name(SEGMENTS[nth - 1].0),
    };
    let mut name = |file: u8| {
        let name = named(file);
        touched.meta |= name == META_NAME;
        name
    };
    match *change {
        Change::Flip { file, at, bit } => disk.flip(&name(file), u64::from(at), bit),
        Change::Fill { file, at, len, byte } => {
            disk.overwrite(&name(file), u64::from(at), &vec![byte; usize::from(len)])
        }
        Change::CopyBlocks { from, from_block, to, to_block, count } => {
            let bytes = disk.bytes(&named(from))?;
            let start = usize::from(from_block % 16) * BLOCK;
            let end = (start + usize::from(count % 8) * BLOCK).min(bytes.len());
            let bytes = bytes.get(start..end).unwrap_or_default();
            disk.overwrite(&name(to), u64::from(to_block % 16) * BLOCK as u64, bytes)
        }
        Change::Cut { file, len } => disk.cut(&name(file), u64::from(len)),
        Change::Grow { file, len } => {
            let name = name(file);
            let mut bytes = disk.bytes(&name)?;
            bytes.extend(std::iter::repeat_n(0x5a, usize::from(len)));
            disk.insert(&name, bytes);
            Ok(())
        }
        Change::Delete { file } => disk.delete(&name(file)),
        Change::Swap { one, other } => disk.swap(&name(one), &name(other)),
        Change::Copy { file, number } => {
            let bytes = disk.bytes(&named(file))?;
            disk.insert(&segment_name(u64::from(number)), bytes);
            Ok(())
        }
        Change::Break { file, block } => {
            touched.reads = false;
            let at = u64::from(block % 16) * BLOCK as u64;
            disk.break_bytes(&named(file), at..at + BLOCK as u64)
        }
        Change::Stray { name } => {
            let names = ["spare-1", "spare-9", "meta.new", "notes", "1.log", "spare-x"];
            disk.insert(names[usize::from(name) % names.len()], vec![name; 5000]);
            Ok(())
        }
        Change::Field { file, block, field, value } if forges => {
            let at = u64::from(block % 16) * BLOCK as u64 + u64::from(field) * 4;
            disk.overwrite(&name(file), at, &value.to_le_bytes())
        }
        Change::Forge { file } if forges => {
            let name = name(file);
            let mut bytes = disk.bytes(&name)?;
            if name == META_NAME {
                bytes.chunks_exact_mut(BLOCK).for_each(mend_block);
            } else {
                mend_segment(&mut bytes);
            }
            disk.insert(&name, bytes);
            Ok(())
        }
        Change::Field { .. } | Change::Forge { .. } => Ok(()),
    }
}

struct Nobody;

impl Wake for Nobody {
    fn wake(&self) {}
}

/// Opens it, writes one record, and finds it behind the others at the next start.
fn go_on(disk: &SimDisk, is_good: bool, seen: &[zzq_fuzz::Seen], forged: bool) {
    if !is_good {
        // A refusal leaves everything as it is.
        let before = disk.image_hash();
        assert!(Log::open(disk.clone(), options(), 0, &mut |_| Ok(())).is_err());
        assert_eq!(disk.image_hash(), before, "a log that is refused is left alone");
        return;
    }
    let Ok((log, _)) = Log::open(disk.clone(), options(), 0, &mut |_| Ok(())) else {
        assert!(forged, "recovery takes what opening refuses");
        return;
    };
    let Ok(mut lane) = log.producer(Arc::new(Nobody), None) else { unreachable!("the first") };
    let how = Staging { kind: 2, waits: true, ..Staging::default() };
    let Ok(handed) = lane.stage(&how, |out| out.extend_from_slice(b"behind")) else {
        unreachable!("it has just been opened")
    };
    for _ in 0..100 {
        if lane.durable() >= handed {
            break;
        }
        lane.drive(1000);
    }
    assert!(lane.durable() >= handed, "{log:?}");
    drop((lane, log));
    let (outcome, again) = recovered(&disk.restart());
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!(&again[..again.len() - 1], seen);
    assert!(again.last().is_some_and(|last| last.2 == b"behind"));
    assert!(disk.list().is_ok());
}
