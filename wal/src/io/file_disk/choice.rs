//! Which backend carries the writes of a disk, found by writing.
//!
//! Owns: the probe, its bounds, and the rule. Does not know: what a log writes.
//!
//! The rule: the first of AIO, `io_uring` and `pwritev2` that proves itself (one durable block,
//! read back) is taken, unless another one is *clearly* quicker. All that work write the block
//! in turns, [`ROUNDS`] times; another one is clearly quicker when its median is at most three
//! quarters of the first one's and it was the quicker in all rounds but one. Noise does not turn
//! that: it would have to slow down the same one in seven of eight rounds, by a third. What does is
//! a machine whose processors are all busy with others, where the kernel's flush worker waits for
//! one (AIO and `io_uring` need it, `pwritev2` does not): it is not compared.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::engine::{BACKENDS, Backend, Engine};
use crate::disk::{BLOCK, Completion, DiskFile, Write};
use crate::io::{IoBuffer, Issuers, OpenFile, event};

/// Writes of each backend that are compared. Fewer prove nothing.
const ROUNDS: usize = 8;

/// No round begins later than this after the probe.
const ROUNDS_WITHIN: Duration = Duration::from_millis(50);

/// With one that works, no other is tried later than this after the first was begun.
const TRIES_WITHIN: Duration = Duration::from_millis(250);

/// How long a probe's write may take before the backend counts as unusable.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// A backend that has been chosen, and why.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) engine: Engine,
    pub(super) reason: String,
}

/// The backend that is wanted, or the one that the rule names; or how each of them failed.
/// Without a file, on a full disk, it is the first that starts.
pub(super) fn choose(
    wanted: Backend,
    issuers: Issuers,
    file: Option<&OpenFile>,
) -> Result<Choice, String> {
    let candidates: Vec<_> =
        BACKENDS.into_iter().filter(|one| [*one, Backend::Auto].contains(&wanted)).collect();
    let mut failures = Vec::new();
    let Some(file) = file else {
        return start_first(&candidates, issuers, &mut failures)
            .map(|engine| finish(wanted, engine, "too full for a probe", &failures));
    };
    let mut works = prove(&candidates, issuers, file, &mut failures);
    let Comparison { timings, busy } = compare(&mut works, file);
    let chosen = if busy { 0 } else { clearly_quickest(&timings) };
    // A ring may belong to the thread that has used it, and the log's is another one: what is used
    // is started anew. The others are the next best.
    let mut order: Vec<_> = works.iter().map(Engine::backend).collect();
    drop(works);
    if !order.is_empty() {
        order[..=chosen].rotate_right(1);
    }
    let mut proof = figures(&timings);
    if candidates.len() > 1 {
        proof.push_str(doubt(&timings, busy));
    }
    start_first(&order, issuers, &mut failures)
        .map(|engine| finish(wanted, engine, &proof, &failures))
}

fn finish(wanted: Backend, engine: Engine, proof: &str, failures: &[String]) -> Choice {
    let asked = (wanted != Backend::Auto).then(|| "asked for".to_owned());
    let parts = asked.into_iter().chain(failures.iter().cloned());
    let parts: Vec<_> = parts.chain([proof.to_owned()]).collect();
    let reason = format!("{}: {}", engine.describe(), parts.join(", "));
    Choice { engine, reason }
}

fn start_first(
    candidates: &[Backend],
    issuers: Issuers,
    failures: &mut Vec<String>,
) -> Result<Engine, String> {
    for backend in candidates {
        match Engine::start(*backend, issuers) {
            Ok(engine) => return Ok(engine),
            Err(error) => failures.push(format!("{backend} failed ({error})")),
        }
    }
    Err(failures.join(", "))
}

/// Those of the candidates whose durable write is there when it is read back.
fn prove(
    candidates: &[Backend],
    issuers: Issuers,
    file: &OpenFile,
    failures: &mut Vec<String>,
) -> Vec<Engine> {
    let began = Instant::now();
    let mut works = Vec::new();
    for backend in candidates {
        if !works.is_empty() && began.elapsed() > TRIES_WITHIN {
            break;
        }
        match Engine::start(*backend, issuers).and_then(|engine| engine.prove(file)) {
            Ok(engine) => works.push(engine),
            Err(error) => failures.push(format!("{backend} failed ({error})")),
        }
    }
    works
}

/// A backend with the times of its writes, one for each round, in their order.
type Timing = (Backend, Vec<Duration>);

#[derive(Debug, Default)]
struct Comparison {
    timings: Vec<Timing>,
    /// The processors were all taken in more than one round.
    busy: bool,
}

/// Lets them write in turns. A backend that fails now is compared no further.
fn compare(works: &mut Vec<Engine>, file: &OpenFile) -> Comparison {
    let began = Instant::now();
    let mut timings: Vec<Timing> = works.iter().map(|one| (one.backend(), Vec::new())).collect();
    let (mut rounds, mut busy) = (0, 0);
    while rounds < ROUNDS && (rounds == 0 || began.elapsed() < ROUNDS_WITHIN) {
        rounds += 1;
        busy += usize::from(is_busy());
        let mut at = 0;
        while at < works.len() {
            let start = Instant::now();
            let written = works[at].write_and_wait(file, IoBuffer::with_blocks(1));
            timings[at].1.push(start.elapsed());
            if let Ok(Completion { result: Ok(BLOCK), .. }) = written {
                at += 1;
            } else {
                works.remove(at);
                timings.remove(at);
            }
        }
    }
    Comparison { timings, busy: busy > 1 }
}

/// Others keep all processors busy. Where that is not told, nobody is known to.
fn is_busy() -> bool {
    let running = std::fs::read_to_string("/proc/loadavg").ok().as_deref().and_then(running);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // One of them is this thread.
    running.is_some_and(|running| running > processors)
}

/// The running threads in a line such as `0.20 0.18 0.12 1/80 11206`.
fn running(line: &str) -> Option<usize> {
    line.split_whitespace().nth(3)?.split('/').next()?.parse().ok()
}

/// The place of the first one, or of the quickest that is clearly quicker.
fn clearly_quickest(timings: &[Timing]) -> usize {
    let Some((_, first)) = timings.first() else { return 0 };
    if first.len() < ROUNDS {
        return 0;
    }
    let quicker = timings.iter().enumerate().skip(1).filter(|(_, (_, times))| {
        let wins = times.iter().zip(first).filter(|(time, first)| time < first).count();
        median(times) * 4 <= median(first) * 3 && wins + 1 >= ROUNDS
    });
    quicker.min_by_key(|(_, (_, times))| median(times)).map_or(0, |(at, _)| at)
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// `aio 178 us, uring 181 us, pwrite 195 us, medians of 8 durable writes`.
fn figures(timings: &[Timing]) -> String {
    let rounds = timings.first().map_or(0, |(_, times)| times.len());
    let one = |(backend, times): &Timing| format!("{backend} {} us", median(times).as_micros());
    let all: Vec<_> = timings.iter().map(one).collect();
    format!("{}, medians of {rounds} durable writes", all.join(", "))
}

/// Why the figures prove nothing, if so.
fn doubt(timings: &[Timing], busy: bool) -> &'static str {
    match timings.first() {
        Some((_, times)) if times.len() < ROUNDS => ", too slow to compare",
        _ if busy => ", too busy to compare",
        _ => "",
    }
}

impl Engine {
    /// Writes one durable block and reads it back.
    fn prove(self, file: &OpenFile) -> io::Result<Self> {
        let mut buffer = IoBuffer::with_blocks(1);
        buffer.fill(0xa5);
        let mut read = IoBuffer::with_blocks(1);
        let completion = self.write_and_wait(file, buffer)?;
        let written = completion.result?;
        let count = file.read_at(&mut read, 0)?;
        if written != BLOCK || count != BLOCK || *read != *completion.buffer {
            return Err(io::Error::other("what was written is not there"));
        }
        Ok(self)
    }

    fn write_and_wait(&self, file: &OpenFile, buffer: IoBuffer) -> io::Result<Completion> {
        let event = event::create()?;
        let notify = Some(Arc::clone(&event));
        let write = Write { file: file.clone(), buffer, offset: 0, sync: true, token: 0, notify };
        self.submit(write).map_err(|(_, error)| error)?;
        await_one(&event, PROBE_TIMEOUT, |completions| self.reap(completions))
    }
}

/// The completion that `event` calls for. A call may come before it, and for nothing.
fn await_one(
    event: &OwnedFd,
    timeout: Duration,
    mut reap: impl FnMut(&mut Vec<Completion>),
) -> io::Result<Completion> {
    let end = Instant::now() + timeout;
    let mut completions = Vec::new();
    loop {
        let called = event::wait(event, end.saturating_duration_since(Instant::now()))?;
        event::drain(event);
        reap(&mut completions);
        match completions.pop() {
            Some(completion) => return Ok(completion),
            None if called => {}
            None => return Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(backend: Backend, micros: [u64; ROUNDS]) -> Timing {
        (backend, micros.map(Duration::from_micros).to_vec())
    }

    fn winner(aio: [u64; ROUNDS], uring: [u64; ROUNDS]) -> Backend {
        let timings = [timing(Backend::Aio, aio), timing(Backend::Uring, uring)];
        timings[clearly_quickest(&timings)].0
    }

    const EVEN: [u64; ROUNDS] = [200, 180, 190, 210, 205, 195, 185, 200];

    #[test]
    fn a_call_for_nothing_is_no_failure_of_a_backend() {
        let event = event::create().unwrap();
        event::signal(&event);
        let mut calls = 0;
        let done = await_one(&event, PROBE_TIMEOUT, |completions| {
            calls += 1;
            if calls == 3 {
                let buffer = IoBuffer::new();
                completions.push(Completion { token: 7, buffer, result: Ok(0) });
            }
            event::signal(&event);
        });
        assert_eq!((done.unwrap().token, calls), (7, 3));
        event::drain(&event);
        let nothing = await_one(&event, Duration::ZERO, |_| {}).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_backend_that_is_not_clearly_quicker_changes_nothing() {
        assert_eq!(winner(EVEN, EVEN), Backend::Aio);
        assert_eq!(winner(EVEN, EVEN.map(|time| time * 4 / 5)), Backend::Aio, "a fifth");
        let mut lucky = EVEN.map(|time| time / 2);
        lucky[0] = 300;
        assert_eq!(winner(EVEN, lucky), Backend::Uring, "one round may go wrong");
        lucky[1] = 300;
        assert_eq!(winner(EVEN, lucky), Backend::Aio, "two may not");
    }

    #[test]
    fn a_backend_that_is_clearly_quicker_is_taken() {
        assert_eq!(winner(EVEN, EVEN.map(|time| time * 7 / 10)), Backend::Uring);
        let timings = [
            timing(Backend::Aio, EVEN),
            timing(Backend::Uring, EVEN.map(|time| time / 2)),
            timing(Backend::Pwrite, EVEN.map(|time| time / 3)),
        ];
        assert_eq!(clearly_quickest(&timings), 2, "of two the quicker");
    }

    #[test]
    fn few_rounds_prove_nothing() {
        let mut timings =
            [timing(Backend::Aio, EVEN), timing(Backend::Uring, EVEN.map(|time| time / 9))];
        for (_, times) in &mut timings {
            times.pop();
        }
        assert_eq!(clearly_quickest(&timings), 0);
        assert_eq!(figures(&timings), "aio 195 us, uring 21 us, medians of 7 durable writes");
        assert_eq!(doubt(&timings, false), ", too slow to compare");
        assert_eq!(clearly_quickest(&[]), 0);
    }

    #[test]
    fn a_busy_machine_is_told_from_its_running_threads() {
        assert_eq!(running("0.20 0.18 0.12 13/80 11206\n"), Some(13));
        assert_eq!(running(""), None);
        assert_eq!(doubt(&[timing(Backend::Aio, EVEN)], true), ", too busy to compare");
        assert_eq!(doubt(&[timing(Backend::Aio, EVEN)], false), "");
    }
}
