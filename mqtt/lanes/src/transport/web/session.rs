//! One connection's WebSocket: frames of its socket on one side, bytes of the lane on the other.
//!
//! Owns: its request, and the control frames between those of the lane. Payload is neither copied
//! nor kept but what came together with the request.
//! Assumes: the driver tells of room and of input as [`Driver`] says; the lane writes again from
//! the first byte that was not taken, and more only behind it.
use std::{
    io::{ErrorKind, IoSlice},
    sync::Arc,
};

use super::{
    frames::{End, Inbound, Owed, answer_to, put_data_header},
    settings::{WebFault, WebServer},
    upgrade::{REQUEST_MOST, Upgraded, refusal, upgrade},
};
use crate::{
    core::MAX_SLICES,
    driver::{Driver, Read, Write},
    id::ConnId,
    time::Millis,
    transport::{
        TlsPeer,
        layer::{self, Session, Step},
    },
};

/// Memory for headers and short control frames that is kept.
const BEGUN_KEPT: usize = 64;

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its request is under way.
    Upgrade,
    /// The lane reads and writes it.
    Open,
    /// Nothing follows, or its handshake has failed: what comes is thrown away.
    Shut,
}

/// See the file.
#[derive(Debug)]
pub struct WebSession {
    conn: ConnId,
    server: Arc<WebServer>,
    stage: Stage,
    /// What the layer below has shown.
    tls: Option<Arc<TlsPeer>>,
    /// Before it is open: what of its request is there. Then: what came with it, or what another
    /// driver had taken from the socket.
    early: Vec<u8>,
    inbound: Inbound,
    owed: Owed,
    /// What goes before anything else: of an answer to the request, of control frames, of a header.
    begun: Vec<u8>,
    /// What the lane has to send of the frame that has begun.
    left: usize,
    /// Why nothing more is sent.
    broken: Option<ErrorKind>,
    /// The socket is shut once all is sent.
    shuts: bool,
    /// Its socket has ended.
    ended: bool,
}

impl Session for WebSession {
    type Server = WebServer;
    type Fault = WebFault;

    const STEPS: usize = 64;
    const OVERDUE: WebFault = WebFault::Timeout;

    fn new(server: Arc<WebServer>) -> Self {
        Self {
            // Known when a driver takes it.
            conn: ConnId { index: 0, generation: 0 },
            server,
            stage: Stage::Upgrade,
            tls: None,
            early: Vec::new(),
            inbound: Inbound::default(),
            owed: Owed::default(),
            begun: Vec::new(),
            left: 0,
            broken: None,
            shuts: false,
            ended: false,
        }
    }

    fn begin(&mut self, conn: ConnId, _: Millis) {
        self.conn = conn;
    }

    fn below_done(&mut self, peer: Option<Arc<TlsPeer>>) {
        self.tls = peer;
    }

    fn is_handshaking(&self) -> bool {
        self.stage == Stage::Upgrade
    }

    fn has_begun(&self) -> bool {
        !self.early.is_empty()
    }

    fn held(&self) -> usize {
        self.early.capacity() + self.begun.capacity() + self.owed.held()
    }

    fn has_input(&self) -> bool {
        self.stage != Stage::Upgrade
            && (!self.early.is_empty() || self.inbound.end.is_some() || self.ended)
    }

    fn unread(&self, below: usize) -> usize {
        below + self.early.len()
    }

    fn step<D: Driver>(
        &mut self,
        driver: &mut D,
        scratch: &mut [u8],
        end: layer::End,
    ) -> Step<WebFault> {
        if driver.is_handshaking(self.conn) {
            return Step::Waits;
        }
        let gone = |what: &str| Step::Failed(WebFault::Gone, false, what.to_owned());
        // However much of it is there: a driver may refuse to read less.
        let (is_worth_it, more) = match driver.read(self.conn, &mut scratch[..REQUEST_MOST]) {
            Read::Bytes(count, more) => {
                // A line has ended, what is no HTTP begins, or it is too long.
                let is_worth_it = self.early.is_empty()
                    || self.early.len() + count >= REQUEST_MOST
                    || scratch[..count].contains(&b'\n');
                self.early.extend_from_slice(&scratch[..count]);
                (is_worth_it, more || end.is_in_sight())
            }
            Read::Blocked if end.broken => return gone("its socket broke"),
            Read::Blocked => return Step::Waits,
            Read::Ended => return gone("the end of it"),
            Read::Failed(kind) | Read::Refused(kind) => return gone(&kind.to_string()),
        };
        let upgraded = if is_worth_it { upgrade(&self.early, &self.server) } else { Ok(None) };
        match upgraded {
            Ok(None) if more => Step::More,
            Ok(None) => Step::Waits,
            Ok(Some(Upgraded { length, response })) => {
                self.early.drain(..length);
                self.early.shrink_to_fit();
                self.begun = response;
                self.stage = Stage::Open;
                self.flush_late(driver);
                Step::Done(self.tls.take())
            }
            Err(why) => {
                self.early = Vec::new();
                self.begun = refusal(why);
                self.flush_late(driver);
                Step::Failed(why, true, why.name().to_owned())
            }
        }
    }

    fn refuse(&mut self) {
        self.stage = Stage::Shut;
    }

    fn read<D: Driver>(&mut self, driver: &mut D, into: &mut [u8], _: &mut [u8]) -> Read {
        if self.stage == Stage::Shut {
            return driver.read(self.conn, into);
        }
        match self.inbound.end {
            Some(End::Closed(_)) => return Read::Ended,
            Some(End::Fault(_)) => return Read::Refused(ErrorKind::InvalidData),
            None if self.ended => return Read::Ended,
            None => {}
        }
        let (count, more) = if self.early.is_empty() {
            match driver.read(self.conn, into) {
                Read::Bytes(count, more) => (count, more),
                // Without a close: that is an end as any other, as it is for brokers.
                Read::Ended => {
                    self.ended = true;
                    return Read::Ended;
                }
                other => return other,
            }
        } else {
            let count = into.len().min(self.early.len());
            into[..count].copy_from_slice(&self.early[..count]);
            self.early.drain(..count);
            if self.early.is_empty() {
                self.early = Vec::new();
            }
            (count, true)
        };
        let given = self.inbound.take(&mut into[..count], &mut self.owed);
        if let Some(End::Fault(fault)) = self.inbound.end {
            self.owed.close = Some(fault.code());
        }
        self.flush_late(driver);
        Read::Bytes(given, more || self.has_input())
    }

    fn write<D: Driver>(&mut self, driver: &mut D, pieces: &[IoSlice<'_>]) -> (Write, bool) {
        if let Some(End::Fault(_)) = self.inbound.end {
            // It was told why, and no more may follow.
            return (Write::Refused(ErrorKind::InvalidData), false);
        }
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let mut at = 0;
        while at < total {
            if self.left == 0 {
                self.owed.put(&mut self.begun);
                put_data_header(total - at, &mut self.begun);
                self.left = total - at;
            }
            match self.send(driver, pieces, at) {
                Ok((sent, true)) => at += sent,
                Ok((sent, false)) => return (Write::Took(at + sent), false),
                Err(kind) => return (Write::Failed(kind), false),
            }
        }
        // What is owed now goes before the next frame.
        self.flush_late(driver);
        (Write::Took(at), false)
    }

    fn flush_late<D: Driver>(&mut self, driver: &mut D) {
        let sent = loop {
            // Behind what waits for room nothing is put: of many pings the last is answered.
            if self.left == 0 && self.begun.is_empty() {
                self.owed.put(&mut self.begun);
            }
            let sent = self.send(driver, &[], 0);
            if !matches!(sent, Ok((_, true))) || self.left > 0 || self.owed.is_empty() {
                break sent;
            }
        };
        // Nor does anything follow where it fails.
        if !matches!(sent, Ok((_, false))) && std::mem::take(&mut self.shuts) {
            driver.shut(self.conn);
        }
    }

    fn waits_for_room(&self) -> bool {
        let waits = !self.begun.is_empty() || self.left == 0 && !self.owed.is_empty();
        self.broken.is_none() && waits
    }

    fn shut<D: Driver>(&mut self, driver: &mut D) {
        if self.stage == Stage::Open && self.left == 0 {
            match self.inbound.end {
                Some(End::Closed(code)) => self.owed.close = Some(answer_to(code)),
                // It has been said why.
                Some(End::Fault(_)) => {}
                None => self.owed.close = Some(answer_to(None)),
            }
        }
        self.stage = Stage::Shut;
        self.shuts = true;
        self.flush_late(driver);
    }

    fn travel(&mut self, unread: &[u8], unsent: Vec<u8>) {
        self.early.extend_from_slice(unread);
        let behind = std::mem::replace(&mut self.begun, unsent);
        self.begun.extend_from_slice(&behind);
    }

    fn count_done(&self, _: Option<&TlsPeer>) {
        self.server.count_done();
    }

    fn count_failed(&self, why: WebFault) -> bool {
        self.server.count_failed(why);
        // Those who look whether the port is open do just that.
        why != WebFault::Gone
    }

    fn say_failed(why: WebFault, _: &str, failed: u64) {
        tracing::warn!(fault = why.name(), failed, "WebSocket handshakes fail");
    }
}

impl WebSession {
    /// Sends what has begun and then of the lane's frame, from byte `at` of the pieces on, in one
    /// write. How much of the pieces went, and whether the socket took all that it was given.
    fn send<D: Driver>(
        &mut self,
        driver: &mut D,
        pieces: &[IoSlice<'_>],
        at: usize,
    ) -> Result<(usize, bool), ErrorKind> {
        if let Some(kind) = self.broken {
            return Err(kind);
        }
        let mut slots = [IoSlice::new(&[]); MAX_SLICES];
        let mut used = 0;
        if !self.begun.is_empty() {
            slots[0] = IoSlice::new(&self.begun);
            used = 1;
        }
        let (mut skip, mut left, mut given) = (at, self.left, self.begun.len());
        for piece in pieces {
            let (cut, rest) = (skip.min(piece.len()), piece.len().saturating_sub(skip));
            skip -= cut;
            let piece = &piece[cut..cut + rest.min(left)];
            if piece.is_empty() {
                continue;
            }
            if used == MAX_SLICES {
                break;
            }
            slots[used] = IoSlice::new(piece);
            (used, left, given) = (used + 1, left - piece.len(), given + piece.len());
        }
        if used == 0 {
            return Ok((0, true));
        }
        match driver.write(self.conn, &slots[..used]) {
            Write::Took(count) => {
                let own = count.min(self.begun.len());
                self.begun.drain(..own);
                if self.begun.is_empty() && self.begun.capacity() > BEGUN_KEPT {
                    self.begun = Vec::new();
                }
                let sent = count - own;
                self.left -= sent;
                Ok((sent, count == given))
            }
            Write::Failed(kind) | Write::Refused(kind) => {
                self.broken = Some(kind);
                Err(kind)
            }
        }
    }
}
