//! The thread that reads the log for subscriptions that start in the past, a bounded stretch at a
//! time, each in its turn; and, while nobody asks, for topic indexes of what was closed.
//!
//! Owns: places in the log for who reads on, and the choice between reading all of a segment and
//! only what its index names. Does not know: sessions, queues, what is live.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use zzq_engine::{Record, SessionNumber, SubNumber};
use zzq_types::{Lsn, TopicFilter};
use zzq_wal::disk::Disk;
use zzq_wal::{KeptSegment, Log, Places, ReadError, Reader};

use super::topics::{DENSE, Noting, Plan, Topics, closed};
use super::turn::{READ_MOST, Seen, Turn};
use super::{Holds, Request, Stretch, Wanted};
use crate::planted;

/// Who reads on at most. Each keeps a segment's file.
const OPEN_MOST: usize = 8;

/// Who does not read on for so long begins anew.
const IDLE: Duration = Duration::from_millis(500);

/// Making indexes ahead rests so many times as long as it works.
const RESTS: u32 = 3;

/// What passing over a segment counts as, in bytes that were read.
const PASS: usize = 4096;

/// Where requests are served.
pub(crate) struct Archive<D: Disk> {
    log: Log<D>,
    holds: Arc<Holds>,
    requests: Receiver<Request>,
    /// Who read last is last.
    open: Vec<Open<D>>,
    topics: Topics<D>,
    /// See [`DENSE`].
    pub(super) dense: usize,
    /// For messages whose places are known.
    places: Option<Places<D>>,
    /// Whether history is wanted here: then it is noted before somebody asks.
    looks_ahead: bool,
    /// Notes for the next index, up to the end of the log at last.
    ahead: Option<(Reader<D>, Noting)>,
    /// Messages that were read by their places.
    picked: u64,
    /// Bytes of segments that were read to look for messages, of records or of blocks.
    pub(super) read: u64,
}

type Key = (SessionNumber, SubNumber);

/// Somebody who reads on.
struct Open<D: Disk> {
    key: Key,
    filter: Box<str>,
    /// `None`: it is not where reading goes on.
    reader: Option<Reader<D>>,
    /// What it has seen of the segment that it is in, if that is all so far.
    noting: Option<Noting>,
    /// What its filter finds in that segment.
    plan: Option<Plan>,
}

impl<D: Disk> Archive<D> {
    pub(super) fn new(log: Log<D>, holds: Arc<Holds>, requests: Receiver<Request>) -> Self {
        Self {
            topics: Topics::new(log.clone()),
            log,
            holds,
            requests,
            open: Vec::new(),
            dense: DENSE,
            places: None,
            looks_ahead: false,
            ahead: None,
            picked: 0,
            read: 0,
        }
    }

    /// Makes topic indexes of closed segments from the beginning, if `looks`, and otherwise once
    /// somebody has asked for history.
    pub(crate) fn looking_ahead(mut self, looks: bool) -> Self {
        self.looks_ahead = looks;
        self
    }

    /// Reads by their places all messages whose places it knows, also where that is more work.
    pub(crate) fn by_places(mut self) -> Self {
        self.dense = 1;
        self
    }

    /// Messages that it has read by their places.
    pub(crate) fn picked(&self) -> u64 {
        self.picked
    }

    /// Serves on a thread that ends when all seats are gone.
    pub(crate) fn spawn(self) -> io::Result<()> {
        thread::Builder::new().name("zzq-replay".into()).spawn(move || self.run()).map(drop)
    }

    fn run(mut self) {
        let (mut wait, mut asked) = (IDLE, Instant::now());
        loop {
            match self.requests.recv_timeout(wait) {
                Ok(request) => {
                    self.serve(request);
                    (wait, asked) = (IDLE, Instant::now());
                }
                Err(RecvTimeoutError::Timeout) => {
                    let began = Instant::now();
                    // Files that nobody reads are not kept.
                    if asked.elapsed() >= IDLE {
                        self.let_go();
                    }
                    wait = if self.look_ahead() { began.elapsed() * RESTS } else { IDLE };
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }

    /// Serves one request; false if there is none, and nothing to be made ahead.
    pub(crate) fn step(&mut self) -> bool {
        if let Ok(request) = self.requests.try_recv() {
            self.serve(request);
            return true;
        }
        self.look_ahead()
    }

    /// Lets the files go that are kept for who reads on: nobody has for a while.
    pub(crate) fn let_go(&mut self) {
        self.open.clear();
        self.places = None;
        self.topics.tidy();
    }

    /// Reads some of what is in no index yet; false if there is no more for now.
    fn look_ahead(&mut self) -> bool {
        if !self.looks_ahead {
            return false;
        }
        let segments = self.log.segments();
        let Some((mut reader, mut noting)) =
            self.ahead.take().or_else(|| self.next_ahead(&segments))
        else {
            return false;
        };
        // It may have been let go.
        let number = noting.number();
        let Some(at) = segments.iter().position(|segment| segment.number == number) else {
            return true;
        };
        let segment = segments[at];
        let mut read = 0;
        while reader.next_lsn() <= segment.last {
            if read >= READ_MOST {
                self.ahead = Some((reader, noting));
                return true;
            }
            // Whoever asks for it is told what cannot be read.
            let Ok(Some(found)) = reader.next_record() else {
                self.topics.give_up(number);
                return true;
            };
            read += found.body.len();
            let record = Record::decode(found.kind, found.body);
            if !record.is_ok_and(|record| noting.note(&found, topic_of(&record))) {
                self.topics.give_up(number);
                return true;
            }
        }
        let is_closed = at + 1 < segments.len();
        if is_closed {
            self.topics.admit(&noting, &segment);
        } else {
            self.ahead = Some((reader, noting));
        }
        is_closed
    }

    /// Begins with the first segment that wants an index. Without space for it none is begun: those
    /// that were closed meanwhile have their turn when there is some again.
    fn next_ahead(&mut self, segments: &[KeptSegment]) -> Option<(Reader<D>, Noting)> {
        if !self.topics.have_space() {
            return None;
        }
        // What is kept in front of that is for others that begin in it, and is no history.
        let whole = self.log.first_whole();
        let wanted = |segment: &&KeptSegment| segment.first >= whole && self.topics.wants(segment);
        let segment = segments.iter().find(wanted)?;
        let reader = self.log.reader(segment.first);
        if reader.is_err() {
            self.topics.give_up(segment.number);
        }
        Some((reader.ok()?, Noting::new(segment)))
    }

    fn serve(&mut self, Request { wanted, inbox }: Request) {
        self.looks_ahead = true;
        let stretch = self.read(&wanted);
        inbox.stretches.lock().unwrap_or_else(PoisonError::into_inner).push(stretch);
        inbox.waker.wake();
    }

    fn read(&mut self, wanted: &Wanted) -> Stretch {
        let (hold, begin) = self.holds.take(wanted.from, || {
            let (first, last) = (self.log.stays_from().get(), self.log.committed().get());
            Lsn::new(planted::oldest(first, last))
        });
        let stretch = Stretch {
            session: wanted.session,
            sub: wanted.sub,
            ticket: wanted.ticket,
            messages: Vec::new(),
            bytes: 0,
            next: begin,
            is_end: false,
            has_no_room: false,
            begins: (begin > wanted.from).then_some(begin),
            hold,
            error: None,
        };
        let Ok(filter) = TopicFilter::new(&wanted.filter) else { return stretch };
        let mut turn = Turn::new(wanted, filter, stretch);
        if let Err(error) = self.fill(&mut turn) {
            turn.stretch.error = Some(error);
        }
        turn.stretch
    }

    fn fill(&mut self, turn: &mut Turn<'_>) -> Result<(), String> {
        let mut open = self.take_open(turn.wanted);
        while !turn.stretch.is_end && turn.has_room() {
            let next = turn.stretch.next;
            if !open.plan.as_ref().is_some_and(|plan| plan.covers(next)) {
                open.plan = self.plan(next, turn.filter);
            }
            let few = open.plan.as_ref().filter(|plan| plan.few(next).is_some());
            let flow = match few {
                Some(plan) => self.pick(plan, turn)?,
                None => self.read_through(&mut open, turn)?,
            };
            if flow.is_break() {
                break;
            }
        }
        self.open.push(open);
        Ok(())
    }

    /// What the filter finds where this record lies, if that is in an index, or in the notes for
    /// one.
    fn plan(&mut self, lsn: Lsn, filter: TopicFilter<'_>) -> Option<Plan> {
        let ahead = self.ahead.as_ref();
        let noted = ahead.and_then(|(_, noting)| noting.plan(lsn, filter, self.dense));
        noted.or_else(|| self.topics.plan(lsn, filter, self.dense))
    }

    fn take_open(&mut self, wanted: &Wanted) -> Open<D> {
        let key = (wanted.session, wanted.sub);
        let at = self.open.iter().position(|open| open.key == key);
        let open = at.map(|at| self.open.remove(at)).filter(|open| open.filter == wanted.filter);
        if self.open.len() >= OPEN_MOST {
            self.open.remove(0);
        }
        let filter = wanted.filter.clone();
        open.unwrap_or(Open { key, filter, reader: None, noting: None, plan: None })
    }

    /// Reads the messages of a segment that its plan names, and no others; `Break`: one of them is
    /// to be read again.
    fn pick(&mut self, plan: &Plan, turn: &mut Turn<'_>) -> Result<ControlFlow<()>, String> {
        let places = self.places.get_or_insert_with(|| self.log.places());
        for found in plan.few(turn.stretch.next).unwrap_or_default() {
            if !turn.has_room() {
                return Ok(ControlFlow::Continue(()));
            }
            let lsn = zzq_wal::Lsn::new(found.lsn.get());
            let (is_over, read) = match found.place {
                Some(_) if found.time_ms < turn.wanted.since_ms => (false, 0),
                Some(place) => {
                    let before = places.bytes_read();
                    let record = places.read(lsn, place).map_err(said)?;
                    self.picked += 1;
                    let bytes = record.body.len();
                    let record = &decode(found.lsn, record.kind, record.body)?;
                    let (lsn, time_ms) = (found.lsn, found.time_ms);
                    let is_over = turn.add(&Seen { lsn, time_ms, record, bytes });
                    (is_over, places.bytes_read() - before)
                }
                None => {
                    let mut reader = self.log.reader(lsn).map_err(said)?;
                    let record = reader.next_record().map_err(said)?;
                    let Some(record) = record else { return Err(format!("record {lsn} is gone")) };
                    let (time_ms, bytes) = (record.time_ms, record.body.len());
                    let record = &decode(found.lsn, record.kind, record.body)?;
                    let is_over = turn.add(&Seen { lsn: found.lsn, time_ms, record, bytes });
                    (is_over, bytes as u64)
                }
            };
            turn.read += usize::try_from(read).unwrap_or(usize::MAX);
            self.read += read;
            if is_over {
                return Ok(ControlFlow::Break(()));
            }
            turn.stretch.next = found.lsn.next();
        }
        turn.stretch.next = plan.last().next();
        turn.read += PASS;
        Ok(ControlFlow::Continue(()))
    }

    /// Reads all of the log up to the end of a segment, and notes where the messages of its topics
    /// lie; `Break`: the last message is to be read again.
    fn read_through(
        &mut self,
        open: &mut Open<D>,
        turn: &mut Turn<'_>,
    ) -> Result<ControlFlow<()>, String> {
        let mut reader = self.reader(open, turn)?;
        let next = reader.next_lsn();
        let mut noting = open.noting.take().filter(|noting| noting.next().get() == next.get());
        let segments = closed(&self.log);
        let segment = segments.iter().find(|one| (one.first..=one.last).contains(&next));
        let begins = segment.filter(|segment| segment.first == next);
        if let Some(segment) = begins.filter(|segment| self.topics.wants(segment)) {
            noting = Some(Noting::new(segment));
        }
        while turn.has_room() {
            let Some(found) = reader.next_record().map_err(said)? else {
                turn.stretch.is_end = true;
                break;
            };
            let (lsn, time_ms, bytes) =
                (Lsn::new(found.lsn.get()), found.time_ms, found.body.len());
            turn.read += bytes;
            self.read += bytes as u64;
            if time_ms >= turn.wanted.since_ms || noting.is_some() {
                let record = decode(lsn, found.kind, found.body)?;
                if turn.add(&Seen { lsn, time_ms, record: &record, bytes }) {
                    open.noting = noting;
                    return Ok(ControlFlow::Break(()));
                }
                let noted = |noting: &mut Noting| noting.note(&found, topic_of(&record));
                if let Some(failed) = noting.take_if(|noting| !noted(noting)) {
                    self.topics.give_up(failed.number());
                }
            }
            turn.stretch.next = lsn.next();
            if let Some(segment) = segment.filter(|segment| segment.last == found.lsn) {
                if let Some(noting) = noting.take() {
                    self.topics.admit(&noting, segment);
                }
                break;
            }
        }
        (open.reader, open.noting) = (Some(reader), noting);
        Ok(ControlFlow::Continue(()))
    }

    /// One that reads on, or from where the log comes to a time.
    fn reader(&self, open: &mut Open<D>, turn: &Turn<'_>) -> Result<Reader<D>, String> {
        let next = zzq_wal::Lsn::new(turn.stretch.next.get());
        if let Some(reader) = open.reader.take().filter(|reader| reader.next_lsn() == next) {
            return Ok(reader);
        }
        let since_ms = turn.wanted.since_ms;
        let place = if since_ms == 0 { Ok(next) } else { self.find_time(next, since_ms) };
        self.log.reader(place.map_err(said)?).map_err(said)
    }

    /// A record from which on all of that time come: the first of a segment, or `from`.
    fn find_time(&self, from: zzq_wal::Lsn, since_ms: u64) -> Result<zzq_wal::Lsn, ReadError> {
        let segments = self.log.segments();
        let (mut low, mut high) = (0, segments.len());
        while low < high {
            let middle = low.midpoint(high);
            let first = segments[middle].first.max(from);
            let found = self.log.reader(first)?.next_record()?.map(|found| found.time_ms);
            if found.is_some_and(|time_ms| time_ms < since_ms) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let last_before = low.checked_sub(1).map(|at| segments[at].first);
        Ok(last_before.map_or(from, |first| first.max(from)))
    }
}

fn topic_of<'r>(record: &Record<'r>) -> Option<&'r str> {
    match record {
        Record::Publish(publish) => Some(publish.topic.as_str()),
        _ => None,
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is what errors are mapped with")]
fn said(error: ReadError) -> String {
    error.to_string()
}

fn decode(lsn: Lsn, kind: u8, body: &[u8]) -> Result<Record<'_>, String> {
    Record::decode(kind, body).map_err(|error| format!("record {lsn}: {error}"))
}
