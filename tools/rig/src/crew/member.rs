//! One client: its connection, and how it goes on with what the accounts say about it.
//!
//! Owns: CONNECT and CONNACK, and whose turn it is. What a client remembers stands in the accounts
//! alone. Does not know: when anybody should be connected.

use std::net::SocketAddr;

use anyhow::Result;
use zzq_codec::{Connect, Disconnect, Packet};
use zzq_types::{PacketId, PropertiesBuf, Property, ProtocolVersion, ReasonCode};

use super::line::Line;
use super::{mourned, publisher, receiver};
use crate::accounts::{Book, Entry};
use crate::cast::{PUBLISHERS, RECEIVERS, Who};

/// See the file.
#[derive(Debug)]
pub(super) struct Member {
    who: Who,
    line: Option<Line>,
    /// CONNACK has come.
    is_up: bool,
    /// Turns since then, of whom somebody mourns; of who comes and goes, since it has changed its
    /// subscription.
    turns: u64,
}

impl Member {
    /// A client that is not connected.
    pub(super) fn new(who: Who) -> Self {
        Self { who, line: None, is_up: false, turns: 0 }
    }

    /// Which one.
    pub(super) fn who(&self) -> Who {
        self.who
    }

    /// Its connection.
    pub(super) fn line(&self) -> Option<&Line> {
        self.line.as_ref()
    }

    /// Whether it has been let in.
    pub(super) fn is_up(&self) -> bool {
        self.is_up
    }

    fn version(&self) -> ProtocolVersion {
        match self.who {
            Who::Publisher(at) => PUBLISHERS[at].version,
            Who::Receiver(at) => RECEIVERS[at].version,
        }
    }

    fn name(&self) -> &'static str {
        match self.who {
            Who::Publisher(at) => PUBLISHERS[at].name,
            Who::Receiver(at) => RECEIVERS[at].name,
        }
    }

    fn number(&self) -> usize {
        match self.who {
            Who::Publisher(at) | Who::Receiver(at) => at,
        }
    }

    /// Connects, if anybody listens, and asks for its session.
    pub(super) fn connect(&mut self, address: SocketAddr, book: &mut Book) -> Result<()> {
        self.hang_up();
        let Ok(mut line) = Line::dial(address, self.version()) else { return Ok(()) };
        let will = match self.who {
            Who::Publisher(at) => mourned::make_will(at, book),
            Who::Receiver(_) => None,
        };
        let will = will.as_ref().map(mourned::Will::as_packet).transpose()?;
        let mut properties = PropertiesBuf::new();
        if self.version().is_v5() {
            properties.push(Property::SessionExpiry(u32::MAX))?;
        }
        let connect = Connect {
            clean_start: false,
            keep_alive: KEEP_ALIVE[self.number() % KEEP_ALIVE.len()],
            properties: properties.as_properties(),
            will,
            ..Connect::new(self.version(), self.name())
        };
        line.send(&Packet::Connect(connect))?;
        self.line = Some(line);
        Ok(())
    }

    /// Connects while it is connected: the broker ends the connection before.
    pub(super) fn come_again(&mut self, address: SocketAddr, book: &mut Book) -> Result<()> {
        let before = self.line.take();
        self.connect(address, book)?;
        if let Some(line) = &mut self.line {
            line.flush();
        }
        drop(before);
        Ok(())
    }

    /// Drops the connection without a word.
    pub(super) fn hang_up(&mut self) {
        self.line = None;
        self.is_up = false;
        self.turns = 0;
    }

    /// Says that it goes, and goes.
    pub(super) fn leave(&mut self) -> Result<()> {
        if let Some(line) = &mut self.line {
            line.send(&Packet::Disconnect(Disconnect::with_reason(ReasonCode::Success)))?;
            line.flush();
        }
        self.hang_up();
        Ok(())
    }

    /// Takes what has come; the answers leave with [`flush`](Self::flush), when the accounts are
    /// synced.
    pub(super) fn take(&mut self, book: &mut Book) -> Result<()> {
        let Some(mut line) = self.line.take() else { return Ok(()) };
        let stands = line.fill();
        let mut is_welcome = true;
        line.packets(|line, packet| {
            is_welcome &= !is_refusal(&packet);
            if is_welcome { self.packet(packet, line, book) } else { Ok(()) }
        })?;
        if stands && is_welcome {
            self.line = Some(line);
        } else {
            self.is_up = false;
        }
        Ok(())
    }

    /// Publishes as much as its window allows.
    pub(super) fn go_on(&mut self, book: &mut Book) -> Result<()> {
        match (self.who, &mut self.line) {
            (Who::Publisher(at), Some(_)) if self.is_up && PUBLISHERS[at].is_mourned => {
                if mourned::is_lost(at, self.turns, book) {
                    self.hang_up();
                }
                self.turns += 1;
                Ok(())
            }
            (Who::Publisher(at), Some(line)) if self.is_up => publisher::go_on(at, line, book),
            (Who::Receiver(at), Some(line)) if self.is_up && RECEIVERS[at].comes_and_goes => {
                receiver::go_on(at, &mut self.turns, line, book)
            }
            _ => Ok(()),
        }
    }

    /// Whether it leaves in order when all is settled, and comes again.
    pub(super) fn is_mourned(&self) -> bool {
        matches!(self.who, Who::Publisher(at) if PUBLISHERS[at].is_mourned)
    }

    /// Says that it goes; the broker closes when it has heard.
    pub(super) fn say_farewell(&mut self, book: &mut Book) -> Result<()> {
        let Who::Publisher(at) = self.who else { return Ok(()) };
        if let Some(line) = self.line.as_mut().filter(|_| self.is_up) {
            mourned::leave(at, book);
            line.send(&Packet::Disconnect(Disconnect::with_reason(ReasonCode::Success)))?;
        }
        Ok(())
    }

    /// The broker has closed behind the farewell.
    pub(super) fn has_left(&self, book: &mut Book) {
        if let Who::Publisher(at) = self.who {
            mourned::has_left(at, book);
        }
    }

    /// Sends what is to be sent.
    pub(super) fn flush(&mut self) {
        if self.line.as_mut().is_some_and(|line| !line.flush()) {
            self.hang_up();
        }
    }

    fn packet(&mut self, packet: Packet<'_>, line: &mut Line, book: &mut Book) -> Result<()> {
        match (packet, self.who) {
            (Packet::ConnAck(ack), _) => self.let_in(ack.session_present, line, book),
            // The broker says why it closes; the close says enough.
            (Packet::Disconnect(_) | Packet::PingResp, _) => Ok(()),
            (packet, Who::Publisher(at)) => publisher::packet(at, &packet, line, book),
            (packet, Who::Receiver(at)) => receiver::packet(at, &packet, line, book),
        }
    }

    fn let_in(&mut self, session: bool, line: &mut Line, book: &mut Book) -> Result<()> {
        self.is_up = true;
        // MQTT 3.1 has no word for it; what is missing shows.
        let says_so = self.version() != ProtocolVersion::V31;
        if says_so && book.accounts().began(self.who) && !session {
            book.accuse("sessions stay", format!("the session of {} is lost", self.name()));
        }
        book.enter(Entry::Began { who: self.who });
        match self.who {
            Who::Publisher(at) if PUBLISHERS[at].is_mourned => {
                mourned::let_in(at, book);
                Ok(())
            }
            Who::Publisher(at) => publisher::resume(at, line, book),
            Who::Receiver(at) => receiver::resume(at, line, book),
        }
    }
}

/// A broker that has lost its disk may refuse; who is refused comes again.
fn is_refusal(packet: &Packet<'_>) -> bool {
    match packet {
        Packet::ConnAck(ack) => ack.reason.is_failure(),
        Packet::SubAck(ack) => ack.codes.iter().any(ReasonCode::is_failure),
        _ => false,
    }
}

/// In seconds. Nobody pings: who says nothing for so long is cut off, and comes back.
const KEEP_ALIVE: [u16; 2] = [60, 2];

/// An identifier of the accounts in a packet.
pub(super) fn packet_id(id: u16) -> Result<PacketId> {
    let id = PacketId::new(id);
    id.ok_or_else(|| anyhow::anyhow!("packet identifiers begin with 1"))
}
