//! After a failed write: the unacknowledged groups move, once, to a fresh segment.

use std::sync::Arc;

use crate::disk::Disk;
use crate::format::group::Place;
use crate::log::core::{Active, Core, Mode};
use crate::log::flight::{Flight, State};
use crate::log::helper::Task;
use crate::log::shared::Shared;
use crate::segment::Segment;

impl<D: Disk> Core<D> {
    /// With nothing in flight any more, asks for a segment to move to, or gives up.
    pub(crate) fn begin_move(&mut self, shared: &Shared<D>) {
        assert_eq!(self.mode, Mode::Draining);
        if self.flights.iter().any(Flight::is_in_flight) {
            return;
        }
        let failed = self.flights.iter().find_map(|flight| match &flight.state {
            State::Failed(_, reason) => Some(format!(
                "writing {} bytes at {} of {}: {reason}",
                flight.header.length,
                flight.offset,
                flight.segment.name()
            )),
            _ => None,
        });
        let Some(failed) = failed else { unreachable!("a failure is why it drains") };
        if self.flights.iter().any(|flight| flight.moved) {
            shared.poison(failed);
            return;
        }
        shared.note_cured(failed);
        self.mode = Mode::Moving;
        let needed: u64 = self.flights.iter().map(|flight| 2 * flight.header.length as u64).sum();
        let length = self.active.segment.header.length.max(needed.next_power_of_two());
        self.tasks.push_back(Task::Move { last_good: self.durable, length });
    }

    /// Gives the groups their new places, with the LSNs and numbers that they have.
    pub(crate) fn finish_move(&mut self, shared: &Shared<D>, segment: Arc<Segment<D::File>>) {
        assert_eq!(self.mode, Mode::Moving);
        self.go_on_in(segment);
        let mut flights = std::mem::take(&mut self.flights);
        let mut moves = Vec::new();
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

    fn place_again(&mut self, flight: &mut Flight<D::File>, moves: &mut Vec<(Place, Place)>) {
        let state = std::mem::replace(&mut flight.state, State::InFlight { token: u64::MAX });
        let mut buffer = match state {
            State::Ready(buffer) | State::Done(buffer) | State::Failed(buffer, _) => buffer,
            State::InFlight { .. } => unreachable!("all writes have come back"),
        };
        let header = &self.active.segment.header;
        let old = Place { segment: flight.header.segment, offset: flight.offset };
        let new = Place { segment: header.number, offset: self.active.end };
        flight.header.salt = header.salt;
        flight.header.segment = header.number;
        flight.header.previous = self.appended.checksum;
        flight.header.durable = self.durable.lsn;
        // A big record may begin in the group that moved before this one.
        let renamed = moves.iter().find(|(old, _)| flight.header.open == Some(*old));
        flight.header.open = renamed.map_or(flight.header.open, |(_, new)| Some(*new));
        flight.header.seal_again(&mut buffer);
        flight.segment = Arc::clone(&self.active.segment);
        flight.offset = new.offset;
        flight.moved = true;
        flight.state = State::Ready(buffer);
        self.append(flight);
        moves.push((old, new));
        for lane in &mut self.lanes {
            if lane.open == Some(old) {
                lane.open = Some(new);
            }
        }
    }
}
