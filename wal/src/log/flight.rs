//! Groups in flight: submission, completion, and the durable prefix that follows.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::disk::{Completion, Disk, Write};
use crate::format::group::GroupHeader;
use crate::io::IoBuffer;
use crate::log::core::{Core, FLIGHTS_MAX, Lane, Leader, Mode};
use crate::log::shared::Shared;
use crate::log::wanted::Published;
use crate::segment::Segment;

/// A group on its way to disk.
pub(crate) struct Flight<F> {
    pub(crate) header: GroupHeader,
    pub(crate) segment: Arc<Segment<F>>,
    pub(crate) offset: u64,
    /// Each producer's count once this group is durable.
    pub(crate) marks: Vec<(usize, u64)>,
    /// It failed elsewhere before, and is not moved again.
    pub(crate) moved: bool,
    /// Who comes when its write does.
    pub(crate) awaited: AwaitedBy,
    /// By the disk's clock.
    pub(crate) submitted_us: u64,
    pub(crate) state: State,
}

/// Whose notify fd a write was submitted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AwaitedBy {
    Producer(usize),
    Driver,
    /// Whoever has led without being either.
    Visitor,
    /// Its leader does not come back for it.
    Nobody,
}

impl AwaitedBy {
    fn by(leader: Leader<'_>) -> Self {
        match leader.producer {
            Some(number) => Self::Producer(number),
            None if leader.drives => Self::Driver,
            None => Self::Visitor,
        }
    }
}

/// The buffer is with the disk from submission to completion: nobody can touch it.
pub(crate) enum State {
    Ready(IoBuffer),
    InFlight { token: u64 },
    Done(IoBuffer),
    Failed(IoBuffer, String),
}

impl<F> Flight<F> {
    pub(crate) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready(_))
    }

    pub(crate) fn is_in_flight(&self) -> bool {
        matches!(self.state, State::InFlight { .. })
    }

    fn waits_for(&self, completed: u64) -> bool {
        matches!(self.state, State::InFlight { token } if token == completed)
    }
}

impl<D: Disk> Core<D> {
    /// Submits, in order, what is sealed and not yet with the disk.
    pub(crate) fn submit_ready(&mut self, shared: &Shared<D>, leader: Leader<'_>) {
        for flight in &mut self.flights {
            let token = self.next_token;
            let state = std::mem::replace(&mut flight.state, State::InFlight { token });
            let State::Ready(buffer) = state else {
                flight.state = state;
                continue;
            };
            let write = Write {
                file: flight.segment.file.clone(),
                buffer,
                offset: flight.offset,
                sync: true,
                token,
                notify: leader.notify.cloned(),
            };
            self.next_token += 1;
            flight.awaited = AwaitedBy::by(leader);
            flight.submitted_us = shared.disk.now_us();
            match shared.disk.submit(write) {
                Ok(()) => {}
                Err((write, error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    flight.state = State::Ready(write.buffer);
                    return;
                }
                Err((write, error)) => {
                    flight.state = State::Failed(write.buffer, error.to_string());
                    self.mode = Mode::Draining;
                    return;
                }
            }
        }
    }

    /// Takes completions and publishes the durable prefix.
    pub(crate) fn reap(&mut self, shared: &Shared<D>, leader: Leader<'_>) {
        if !self.flights.iter().any(Flight::is_in_flight) {
            return;
        }
        let mut completions = std::mem::take(&mut self.completions);
        shared.disk.reap(&mut completions);
        if !completions.is_empty() {
            let now_us = shared.disk.now_us();
            for completion in completions.drain(..) {
                if let Some(submitted_us) = self.complete(completion) {
                    shared.times.note(submitted_us, now_us);
                }
            }
        }
        self.completions = completions;
        // Behind a failure at the front nothing is durable; in front of it what is done is.
        while matches!(self.flights.front(), Some(Flight { state: State::Done(_), .. })) {
            if shared.is_read_only() {
                return;
            }
            self.publish_front(shared, leader);
        }
    }

    /// Wakes the lanes that wait for a record of whichever lane.
    fn wake_for_lsn(&self, leader: Leader<'_>) {
        let published = Published::so_far();
        for (at, lane) in self.lanes.iter().enumerate() {
            let due = lane.shared.wanted_lsn.is_met(self.durable.lsn.get(), &published);
            if due && leader.producer != Some(at) {
                lane.shared.wake.wake();
            }
        }
    }

    /// When it was submitted, if all of it was written.
    fn complete(&mut self, completion: Completion) -> Option<u64> {
        let flight = self.flights.iter_mut().find(|flight| flight.waits_for(completion.token));
        let Some(flight) = flight else { unreachable!("each write completes once") };
        flight.state = match completion.result {
            Ok(written) if written == flight.header.length => State::Done(completion.buffer),
            Ok(written) => {
                let short = format!("{written} of {} bytes written", flight.header.length);
                State::Failed(completion.buffer, short)
            }
            Err(error) => State::Failed(completion.buffer, error.to_string()),
        };
        if matches!(flight.state, State::Failed(..)) {
            self.mode = Mode::Draining;
            return None;
        }
        Some(flight.submitted_us)
    }

    fn publish_front(&mut self, shared: &Shared<D>, leader: Leader<'_>) {
        let Some(flight) = self.flights.pop_front() else { return };
        let header = &flight.header;
        assert_eq!(header.number, self.durable.group + 1, "durable is a contiguous prefix");
        assert_eq!(flight.lsn_before(), self.durable.lsn, "durable is a contiguous prefix");
        self.durable = flight.last_good();
        flight.segment.note_durable(header, &self.durable);
        shared.publish_durable(&self.durable);
        for (producer, handed) in &flight.marks {
            self.lanes[*producer].publish(*handed, leader.producer == Some(*producer));
        }
        self.wake_for_lsn(leader);
        let mut marks = flight.marks;
        marks.clear();
        self.free_marks.push(marks);
        if let State::Done(buffer) = flight.state
            && self.buffers.len() < FLIGHTS_MAX
        {
            self.buffers.push(buffer);
        }
    }
}

impl Lane {
    /// Publishes the producer's durable count, and wakes it if it waits for that.
    fn publish(&self, handed: u64, leads: bool) {
        self.shared.durable.publish(handed);
        assert!(handed <= self.shared.appended.load(Ordering::Relaxed), "durable is appended");
        if self.shared.wanted.is_met(handed, &Published::so_far()) && !leads {
            self.shared.wake.wake();
        }
    }
}
