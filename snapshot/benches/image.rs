//! How fast volumes are written, synced and read back, streamed, and asked for one entry: on the
//! device below the target folder, in bytes of their files.

#![expect(clippy::unwrap_used, reason = "a bench")]
#![allow(missing_docs, reason = "criterion's macros")]

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use zzq_snapshot::{Heading, Kind, Volume, Writer, at_full_speed};
use zzq_wal::disk::Disk;
use zzq_wal::format::segment::Identity;
use zzq_wal::io::{Backend, FileDisk};

const NODE_SIZE: usize = 16 * 1024;
const ENTRIES: u64 = 500_000;

/// As retained topics are: keys of 30 bytes with common beginnings, values of 14.
fn key(n: u64) -> String {
    format!("site/{:04}/device/{:06}/value", n / 1000, n)
}

fn write(disk: &FileDisk, number: u64) -> Volume<<FileDisk as Disk>::File> {
    let heading = Heading { number, ..Heading::new(Kind::Image, Identity::default()) };
    let mut writer = Writer::begin_with(disk, heading, NODE_SIZE, at_full_speed()).unwrap();
    for n in 0..ENTRIES {
        writer.entry(9, key(n).as_bytes(), &[n.to_le_bytes()[0]; 14]).unwrap();
    }
    writer.finish().unwrap()
}

fn volumes(criterion: &mut Criterion) {
    let directory = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).unwrap();
    let disk = FileDisk::open(directory.path(), Backend::Pwrite).unwrap();
    let volume = write(&disk, 1);
    let mut group = criterion.benchmark_group("image");
    group.sample_size(10).throughput(Throughput::Bytes(volume.size()));
    group.bench_function("write, sync and read back", |bench| {
        bench.iter(|| black_box(write(&disk, 2)));
    });
    group.bench_function("verify", |bench| {
        bench.iter(|| volume.verify(at_full_speed()).unwrap());
    });
    group.bench_function("stream", |bench| {
        bench.iter(|| {
            let mut entries = volume.entries(|_| true, at_full_speed());
            let mut bytes = 0;
            while let Some(entry) = entries.next_entry().unwrap() {
                bytes += entry.value.len();
            }
            black_box(bytes)
        });
    });
    group.throughput(Throughput::Elements(1));
    let mut n = 0;
    group.bench_function("get", |bench| {
        bench.iter(|| {
            n = (n + 7919) % ENTRIES;
            black_box(volume.get(9, key(n).as_bytes()).unwrap())
        });
    });
    group.finish();
}

criterion_group!(benches, volumes);
criterion_main!(benches);
