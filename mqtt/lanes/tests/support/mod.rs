//! A handler that echoes frames (a length of two bytes, then as many) and notes what it is told.
#![allow(dead_code, reason = "each test binary uses its part")]
use std::collections::BTreeMap;

use zzq_lanes::{
    Close, CloseReason, ConnId, Handler, LaneIndex, LaneIo, Millis, PeerInfo, TimerSlot,
};

/// What a handler was told, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Accepted,
    Adopted(u32),
    Frame(usize),
    Ended,
    Drained,
    Closed(CloseReason),
    Timer(TimerSlot),
    Message(LaneIndex, u32),
}

/// Echoes, unless told otherwise by a frame of one byte.
#[derive(Default)]
pub(crate) struct Echo {
    pub(crate) told: Vec<(ConnId, Told)>,
    pub(crate) messages: Vec<(LaneIndex, u32)>,
    pub(crate) woken: usize,
    /// Frames handled in one call before the connection pauses itself.
    pub(crate) pause_after: Option<usize>,
    pub(crate) due: Option<Millis>,
    pub(crate) due_behind: Option<Millis>,
    /// Bytes that were sent each time when it heard that output had been.
    pub(crate) sent: Vec<u64>,
    /// What connections left behind, read so far: to see that none gets another's.
    pub(crate) seen: BTreeMap<ConnId, Vec<u8>>,
}

/// Frames of one byte that ask for something.
pub(crate) mod ask {
    pub(crate) const CLOSE_NOW: u8 = 250;
    pub(crate) const CLOSE_AFTER: u8 = 251;
    pub(crate) const TIMER: u8 = 252;
    pub(crate) const MOVE: u8 = 253;
    pub(crate) const NOTIFY: u8 = 254;
    pub(crate) const SEND: u8 = 255;
}

pub(crate) fn frame(payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap();
    [&length.to_be_bytes()[..], payload].concat()
}

impl Echo {
    pub(crate) fn told(&self) -> Vec<Told> {
        self.told.iter().map(|(_, told)| told.clone()).collect()
    }

    fn obey(io: &mut LaneIo<'_, Self>, conn: ConnId, what: u8) -> bool {
        let other = LaneIndex((io.lane().0 + 1) % u16::try_from(io.lanes()).unwrap());
        match what {
            ask::CLOSE_NOW => io.close(conn, Close::Now),
            ask::CLOSE_AFTER => io.close(conn, Close::AfterFlush),
            ask::TIMER => {
                let due = io.now() + std::time::Duration::from_millis(100);
                io.set_timer(conn, TimerSlot::A, due);
            }
            ask::MOVE => assert!(io.move_to(other, conn, 77)),
            ask::NOTIFY => io.notify_drained(conn),
            // A full ring gives it back; nobody here needs it.
            ask::SEND => drop(io.send(other, 5, zzq_lanes::Class::Bulk)),
            _ => return false,
        }
        true
    }
}

impl Handler for Echo {
    type Message = u32;
    type Carried = u32;

    fn accepted(&mut self, _: &mut LaneIo<'_, Self>, conn: ConnId, _: &PeerInfo) {
        self.told.push((conn, Told::Accepted));
    }

    fn adopted(&mut self, _: &mut LaneIo<'_, Self>, conn: ConnId, _: &PeerInfo, carried: u32) {
        self.told.push((conn, Told::Adopted(carried)));
    }

    fn bytes(&mut self, io: &mut LaneIo<'_, Self>, conn: ConnId, input: &[u8]) -> usize {
        let (mut at, mut frames) = (0, 0);
        while let [a, b, rest @ ..] = &input[at..] {
            let length = usize::from(u16::from_be_bytes([*a, *b]));
            if self.pause_after.is_some_and(|most| frames == most) {
                io.pause(conn);
                break;
            }
            let Some(payload) = rest.get(..length) else {
                io.want(conn, 2 + length);
                break;
            };
            (at, frames) = (at + 2 + length, frames + 1);
            self.told.push((conn, Told::Frame(length)));
            self.seen.entry(conn).or_default().extend_from_slice(payload);
            if payload.len() == 1 && Self::obey(io, conn, payload[0]) {
                if payload[0] == ask::MOVE {
                    break;
                }
                continue;
            }
            if length > 4096 {
                io.write(conn, &[*a, *b]);
                io.write_ref(conn, bytes::Bytes::copy_from_slice(payload));
            } else if let Some(mut output) = io.output(conn) {
                // The length is patched afterwards, as packet identifiers are.
                let at = output.len();
                output.extend_from_slice(&[0, 0]);
                output.extend_from_slice(payload);
                output[at..at + 2].copy_from_slice(&[*a, *b]);
            }
        }
        at
    }

    fn ended(&mut self, io: &mut LaneIo<'_, Self>, conn: ConnId) {
        self.told.push((conn, Told::Ended));
        io.close(conn, Close::AfterFlush);
    }

    fn drained(&mut self, _: &mut LaneIo<'_, Self>, conn: ConnId) {
        self.told.push((conn, Told::Drained));
    }

    fn closed(&mut self, _: &mut LaneIo<'_, Self>, conn: ConnId, why: CloseReason) {
        self.told.push((conn, Told::Closed(why)));
    }

    fn timer(&mut self, _: &mut LaneIo<'_, Self>, conn: ConnId, slot: TimerSlot) {
        self.told.push((conn, Told::Timer(slot)));
    }

    fn woken(&mut self, _: &mut LaneIo<'_, Self>) {
        self.woken += 1;
    }

    fn message(&mut self, _: &mut LaneIo<'_, Self>, from: LaneIndex, message: u32) {
        self.messages.push((from, message));
    }

    fn turn_end(&mut self, _: &mut LaneIo<'_, Self>) -> Option<Millis> {
        self.due
    }

    fn sent(&mut self, io: &mut LaneIo<'_, Self>) -> Option<Millis> {
        self.sent.push(io.counters().bytes_out);
        self.due_behind
    }
}
