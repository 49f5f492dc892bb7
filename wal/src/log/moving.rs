//! After a failed write: the unacknowledged groups move, once, to a fresh segment.
//!
//! Owns: what a group becomes at another place, and the move of those in flight.

use std::sync::Arc;

use crate::disk::Disk;
use crate::format::group::{GroupHeader, Place};
use crate::format::segment::{LENGTH_MIN, SegmentHeader};
use crate::log::core::{Active, Core, Mode};
use crate::log::flight::{Flight, State};
use crate::log::helper::Task;
use crate::log::shared::Shared;
use crate::lsn::Lsn;
use crate::segment::Segment;

/// Groups that move to one segment, in order, with the numbers and LSNs that they have.
pub(crate) struct Moves<'s> {
    segment: &'s SegmentHeader,
    durable: Lsn,
    /// From where to where.
    places: Vec<(Place, Place)>,
}

impl<'s> Moves<'s> {
    /// Up to `durable` all is durable elsewhere.
    pub(crate) fn to(segment: &'s SegmentHeader, durable: Lsn) -> Self {
        Self { segment, durable, places: Vec::new() }
    }

    /// Seals a group that lay at the offset `from` for the offset `to`, behind the group with the
    /// checksum `previous`.
    pub(crate) fn seal(
        &mut self,
        header: &mut GroupHeader,
        (from, to): (u64, u64),
        previous: u32,
        bytes: &mut [u8],
    ) -> (Place, Place) {
        let old = Place { segment: header.segment, offset: from };
        let new = Place { segment: self.segment.number, offset: to };
        header.salt = self.segment.salt;
        header.segment = self.segment.number;
        header.previous = previous;
        header.durable = self.durable;
        // A big record may begin in a group that moved before this one.
        let renamed = self.places.iter().find(|(old, _)| header.open == Some(*old));
        header.open = renamed.map_or(header.open, |(_, new)| Some(*new));
        header.seal_again(bytes);
        self.places.push((old, new));
        (old, new)
    }
}

impl<D: Disk> Core<D> {
    /// With nothing in flight any more, asks for a segment to move to, or gives up.
    pub(crate) fn begin_move(&mut self, shared: &Shared<D>) {
        assert_eq!(self.mode, Mode::Draining);
        if self.flights.iter().any(Flight::is_in_flight) {
            return;
        }
        let Some(failed) = self.failed_write() else { unreachable!("a failure is why it drains") };
        if self.flights.iter().any(|flight| flight.moved) {
            shared.poison(failed);
            return;
        }
        shared.note_cured(failed);
        self.mode = Mode::Moving;
        self.ask_for_move();
    }

    /// The first write that failed and has not moved yet, for people.
    pub(crate) fn failed_write(&self) -> Option<String> {
        self.flights.iter().find_map(|flight| match &flight.state {
            State::Failed(_, reason) => Some(format!(
                "writing {} bytes at {} of {}: {reason}",
                flight.header.length,
                flight.offset,
                flight.segment.name()
            )),
            _ => None,
        })
    }

    fn ask_for_move(&mut self) {
        let needed: u64 = self.flights.iter().map(|flight| 2 * flight.header.length as u64).sum();
        let least = needed.next_power_of_two().max(LENGTH_MIN);
        let length = self.active.segment.header.length.max(least);
        self.tasks.push_back(Task::Move { last_good: self.durable, length, least });
    }

    /// The helper found no space for a move or a truncation, and may find some by now.
    pub(crate) fn move_again(&mut self) {
        if self.move_at.take_if(|at| *at <= self.now_ms).is_none() {
            return;
        }
        assert_eq!(self.mode, Mode::Moving);
        match self.cut {
            // What moves has priority: a truncation waits until all writes have come back.
            Some(cut) if self.flights.is_empty() => self.ask_for_cut(cut),
            _ => self.ask_for_move(),
        }
    }

    /// Gives the groups their new places, with the LSNs and numbers that they have.
    pub(crate) fn finish_move(&mut self, shared: &Shared<D>, segment: Arc<Segment<D::File>>) {
        assert_eq!(self.mode, Mode::Moving);
        shared.set_no_space(false);
        self.go_on_in(segment);
        let mut flights = std::mem::take(&mut self.flights);
        let target = self.active.segment.header;
        let mut moves = Moves::to(&target, self.durable.lsn);
        for flight in &mut flights {
            self.place_again(flight, &mut moves);
        }
        self.flights = flights;
        assert_eq!(self.appended.lsn, shared.appended(), "all that had an LSN keeps it");
    }

    /// A segment that breaks behind what is durable is the one that is written now.
    pub(crate) fn go_on_in(&mut self, segment: Arc<Segment<D::File>>) {
        assert_eq!(segment.header.last_good, self.durable, "it breaks behind what is durable");
        // Made to roll on from a segment that is void now.
        self.next = None;
        self.full.retain(|full| full.last.group <= self.durable.group);
        self.active = Active::new(segment);
        self.appended = self.durable;
        self.mode = Mode::Running;
    }

    fn place_again(&mut self, flight: &mut Flight<D::File>, moves: &mut Moves<'_>) {
        let state = std::mem::replace(&mut flight.state, State::InFlight { token: u64::MAX });
        let mut buffer = match state {
            State::Ready(buffer) | State::Done(buffer) | State::Failed(buffer, _) => buffer,
            State::InFlight { .. } => unreachable!("all writes have come back"),
        };
        let places = (flight.offset, self.active.end);
        let previous = self.appended.checksum;
        let (old, new) = moves.seal(&mut flight.header, places, previous, &mut buffer);
        flight.segment = Arc::clone(&self.active.segment);
        flight.offset = new.offset;
        flight.moved = true;
        flight.state = State::Ready(buffer);
        self.append(flight);
        for lane in &mut self.lanes {
            if lane.open == Some(old) {
                lane.open = Some(new);
            }
        }
    }
}
