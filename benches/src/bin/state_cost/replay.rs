//! The cell of history: how fast it is read back, and how much of the log for it.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use zzq_bench::client::Client;
use zzq_types::QoS;
use zzq_wal::disk::{Disk, DiskFile};
use zzq_wal::io::{IoBuffer, ReadOnlyDisk};
use zzq_wal::segment_number;

use crate::cells::{Figure, Start, mib};
use crate::server::Server;

/// One message in so many is of the topic that few are of.
const FEW: u32 = 1000;

/// How long after the last message indexes of all that was closed may take.
const PATIENCE: Duration = Duration::from_mins(2);

/// Images only at the end, and nothing of the log goes.
const KEEPING: [&str; 3] =
    ["--snapshot-every=1000GiB", "--recovery-budget=1h", "--retain-log=1000GiB"];

pub(crate) fn replay(start: &Start<'_>, messages: u32) -> Result<Vec<Figure>> {
    let mut figures = dense(start, messages)?;
    figures.extend(sparse(start, messages)?);
    Ok(figures)
}

/// All of 1 GiB at QoS 0, in messages of 16 KiB, beside the log's files read by themselves; then
/// of small messages, for how many of these it is.
fn dense(start: &Start<'_>, messages: u32) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (payload, count, bound) in [(16 * 1024, 65_536, Some(0.5)), (100, messages, None)] {
        let server = start(&KEEPING)?;
        let mut publisher = Client::connect(server.address(), "p", false)?;
        publisher.publish(count, payload, false, |n| format!("site/{}", n % 100))?;
        let mut direct = Vec::new();
        let mut replayed = Vec::new();
        for round in 0..3 {
            let began = Instant::now();
            let read = read_log(server.folder())?;
            direct.push(mib(read) / began.elapsed().as_secs_f64());
            let began = Instant::now();
            let mut client = Client::connect(server.address(), &format!("c{round}"), false)?;
            client.subscribe_at("$replay/all/#", QoS::AtMostOnce)?;
            client.take(count)?;
            replayed.push(mib(read) / began.elapsed().as_secs_f64());
        }
        let (direct, replayed) = (median(direct), median(replayed));
        let what = format!("all messages of {payload} bytes, the log's");
        figures.push(Figure::new(&what, replayed, "MiB/s"));
        if let Some(bound) = bound {
            let what = "that, of the log's files read by themselves";
            figures.push(Figure::new(what, replayed / direct, "x").at_least(bound));
        }
    }
    Ok(figures)
}

/// One message in a thousand, of messages of 100 bytes.
fn sparse(start: &Start<'_>, messages: u32) -> Result<Vec<Figure>> {
    let server = start(&KEEPING)?;
    let mut publisher = Client::connect(server.address(), "p", false)?;
    let topic = |n| {
        if n % FEW == FEW / 2 { "few/them".to_owned() } else { format!("many/{}", n % 100) }
    };
    publisher.publish(messages, 100, false, topic)?;
    wait_for_indexes(&server)?;
    let wanted = || (FEW / 2..messages).step_by(FEW as usize);
    let log = read_log(server.folder())?;
    let mut figures = Vec::new();
    for (what, filter) in [("", "few/them"), (", with a wildcard", "+/them")] {
        let (before, began) = (server.bytes_read()?, Instant::now());
        let mut client = Client::connect(server.address(), filter, false)?;
        client.subscribe(&format!("$replay/all/{filter}"))?;
        client.take_these(wanted())?;
        let took = began.elapsed();
        let read = mib(server.bytes_read()? - before);
        let of_log = read / mib(log);
        let name = format!("bytes read for one message in {FEW}{what}, of the log's");
        figures.push(Figure::new(&name, of_log, "x").at_most(0.05));
        let rate = mib(log) / took.as_secs_f64();
        figures.push(Figure::new("the log that was passed over so", rate, "MiB/s"));
    }
    Ok(figures)
}

/// Waits until all closed segments have an index, and what is behind them was noted. Two have
/// none: the one that is written, and the one made ahead for when it is full.
fn wait_for_indexes(server: &Server) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while server.count("topics")? + 2 < server.count("log")? {
        ensure!(Instant::now() < end, "no indexes are made");
        sleep(Duration::from_millis(100));
    }
    // It looks twice a second.
    sleep(Duration::from_secs(3));
    Ok(())
}

/// Reads the segments one behind the other, past the cache; how many bytes of them were written.
fn read_log(folder: &Path) -> Result<u64> {
    let disk = ReadOnlyDisk::open(folder)?;
    let mut names: Vec<_> = disk.list()?.into_iter().map(|(name, _)| name).collect();
    names.retain(|name| segment_number(name).is_some());
    names.sort();
    let mut buffer = IoBuffer::with_blocks(128);
    let mut all = 0;
    for name in names {
        let (file, mut at, mut end) = (disk.open(&name)?, 0, 0);
        loop {
            let read = file.read_at(&mut buffer, at)?;
            // The last one has zeroes behind what was written.
            if let Some(last) = buffer[..read].iter().rposition(|byte| *byte != 0) {
                end = at + last as u64 + 1;
            }
            at += read as u64;
            if read < buffer.len() {
                break;
            }
        }
        all += end;
    }
    Ok(all)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
