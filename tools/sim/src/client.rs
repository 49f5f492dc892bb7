//! A client: one state machine that speaks MQTT 3.1, 3.1.1 or 5.0 through the product's codec,
//! keeps its side of the protocol, and notes what it sees.
//!
//! Owns: the connection of the moment, what the client remembers over connections (`memory`), what
//! it does about packets that come (`inbox`) and about time (`acts`).
//! Does not know: the network, other clients, what the broker should have done.

mod acts;
mod aliases;
mod inbox;
mod input;
mod memory;
mod packets;
pub mod quote;
mod subscriptions;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use zzq_codec::{AckKind, Packet};
use zzq_wal::sim_disk::SimDisk;

use self::aliases::{Aliases, Own};
use self::input::Input;
use self::memory::Memory;
use crate::chance::Chance;
use crate::coverage::Coverage;
use crate::history::{ClientId, Conn, Ending, Event, Hello, History, MessageId};
use crate::plan::{ClientPlan, Keeps};

pub use self::acts::Act;
pub(crate) use self::acts::TOPICS;

/// Where a client notes what happens.
pub struct Desk<'a> {
    /// All that happened.
    pub history: &'a mut History,
    /// What the run has reached.
    pub coverage: &'a mut Coverage,
    /// True time.
    pub now: u64,
    /// Nothing new is begun any more: everything comes to its end.
    pub calm: bool,
    /// The broker's disk, for who knows what lies there.
    pub disk: Option<&'a SimDisk>,
}

impl Desk<'_> {
    fn note(&mut self, event: Event) {
        self.history.note(self.now, event);
    }
}

/// See the file.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one client")]
pub struct Client {
    id: ClientId,
    name: String,
    plan: ClientPlan,
    line: Line,
    /// When it wants to do something.
    next_at: u64,
    memory: Memory,
    input: Input,
    aliases: Aliases,
    own_aliases: Own,
    output: Vec<u8>,
    /// Answers that it has not given yet, in their order.
    owed: VecDeque<Owed>,
    /// What waits for SUBACK and UNSUBACK.
    requests: BTreeMap<u16, Request>,
    /// Messages at QoS 2 of this connection that it has refused: nothing more is said of them.
    refused: BTreeSet<u16>,
    /// Messages of this connection that it has not answered to the end.
    unanswered: BTreeMap<u16, Option<MessageId>>,
    /// Those at QoS 1 when the connection ended, if the next one is the next that the broker knows
    /// of: over two crashes numbers jump a whole round.
    left_unanswered: BTreeMap<u16, Option<MessageId>>,
    /// It has thrown its session away, and says so until it is heard.
    must_clean: bool,
    /// The session ends with this connection.
    is_guest: bool,
    /// The session that it knows may end by itself.
    is_unsure: bool,
    /// It has been ended since the last CONNECT was sent.
    is_ended: bool,
    /// The last CONNECT was not answered: the broker may have carried it out, and yet may.
    is_unheard: bool,
    heard_at: u64,
    said_at: u64,
    pinged: bool,
    /// It authenticates again.
    proves: bool,
    chance: Chance,
    quotes: Chance,
}

/// The connection of the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Down,
    /// An old one, whose CONNECT was not answered, is not over at the broker: of two such nobody
    /// could say which the broker takes last.
    Waiting(Conn),
    Opening(Conn, Hello),
    Up(Conn, Hello),
    /// DISCONNECT was sent: what comes is not looked at, but DISCONNECT.
    Leaving(Conn),
}

/// An answer that is owed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owed {
    kind: AckKind,
    packet_id: u16,
    /// It says that the message is not taken.
    refuses: bool,
}

#[derive(Clone, Debug)]
enum Request {
    Subscribe(Vec<String>),
    Unsubscribe(String),
}

impl Client {
    /// A client that has not connected yet.
    pub fn new(id: ClientId, name: String, plan: ClientPlan, seed: u64) -> Self {
        let chance = Chance::new(seed, &name);
        let quotes = Chance::new(seed, &format!("{name} quotes"));
        Self {
            id,
            name,
            plan,
            line: Line::Down,
            next_at: 0,
            memory: Memory::default(),
            input: Input::default(),
            aliases: Aliases::default(),
            own_aliases: Own::default(),
            output: Vec::new(),
            owed: VecDeque::new(),
            requests: BTreeMap::new(),
            refused: BTreeSet::new(),
            unanswered: BTreeMap::new(),
            left_unanswered: BTreeMap::new(),
            must_clean: false,
            is_guest: false,
            is_unsure: false,
            is_ended: false,
            is_unheard: false,
            heard_at: 0,
            said_at: 0,
            pinged: false,
            proves: false,
            chance,
            quotes,
        }
    }

    /// The broker has ended its session. It hears so by the next CONNACK only, and never if that is
    /// lost: then it could not tell a new session from the one that it knew. One that was not
    /// answered may be carried out behind that end.
    pub fn session_ended(&mut self) {
        (self.is_unsure, self.is_ended) = (true, true);
        self.must_clean |= self.is_unheard;
    }

    /// Which one.
    pub fn id(&self) -> ClientId {
        self.id
    }

    /// The connection that it sends on.
    pub fn conn(&self) -> Option<Conn> {
        match self.line {
            Line::Opening(conn, _) | Line::Up(conn, _) | Line::Leaving(conn) => Some(conn),
            Line::Down | Line::Waiting(_) => None,
        }
    }

    /// A connection that has to be over before it connects again.
    pub fn waits_for(&self) -> Option<Conn> {
        match self.line {
            Line::Waiting(conn) => Some(conn),
            _ => None,
        }
    }

    /// What it wants to send.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// When it wants to do something.
    pub fn next_at(&self) -> u64 {
        self.next_at
    }

    /// It does nothing before.
    pub fn rest_until(&mut self, at_ms: u64) {
        self.next_at = at_ms;
    }

    /// It lets its connection go without a word, and is back at a time.
    pub fn drop_until(&mut self, desk: &mut Desk<'_>, at_ms: u64) -> Option<Conn> {
        let conn = self.conn()?;
        desk.coverage.hit("op drop");
        self.ended(desk, Ending::GivenUp);
        self.rest_until(at_ms);
        Some(conn)
    }

    /// Whether it holds a message that it has not answered.
    pub fn owes_an_answer(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Whether it is connected and waits for nothing.
    pub fn is_at_rest(&self) -> bool {
        matches!(self.line, Line::Up(..)) && self.waits_for_what().is_none()
    }

    /// Whether it is connected and waits for nothing, or is away.
    pub fn is_quiet(&self) -> bool {
        self.line == Line::Down || self.is_at_rest()
    }

    /// What it waits for, in words.
    pub fn waits_for_what(&self) -> Option<String> {
        if !matches!(self.line, Line::Up(..)) {
            return Some(format!("a connection: {:?}", self.line));
        }
        if self.proves {
            return Some("the end of its authentication".into());
        }
        if let Some((id, request)) = self.requests.first_key_value() {
            return Some(format!("the answer to {id} {request:?}"));
        }
        if !self.owed.is_empty() {
            return Some("its own answers".into());
        }
        self.memory.waits_for_what()
    }

    /// Its connection has ended.
    pub fn ended(&mut self, desk: &mut Desk<'_>, how: Ending) {
        let Some(conn) = self.conn() else { return };
        let was_opening = matches!(self.line, Line::Opening(..));
        self.is_unheard = was_opening;
        desk.note(Event::Ended { conn, how });
        self.line = if was_opening { Line::Waiting(conn) } else { Line::Down };
        self.left_unanswered = std::mem::take(&mut self.unanswered);
        if was_opening {
            self.left_unanswered.clear();
        }
        let open = &self.memory.open;
        self.left_unanswered.retain(|id, _| !open.contains_key(id));
        self.forget_connection();
        //= MQTT311-3.1.2-6
        if self.is_guest {
            self.forget(desk);
        }
        // A CONNECT that was not answered may have opened another session than the one it knows, if
        // that may have ended before or with it: what is present then, it could not tell.
        self.must_clean |= was_opening && (self.is_guest || self.is_unsure);
        let pause = if desk.calm { 50 } else { self.plan.pause_ms * 10 };
        self.next_at = desk.now + self.chance.within(0, pause);
    }

    fn forget_connection(&mut self) {
        self.input = Input::default();
        self.aliases = Aliases::default();
        self.own_aliases = Own::default();
        self.output.clear();
        self.owed.clear();
        self.requests.clear();
        self.refused.clear();
        self.unanswered.clear();
        self.pinged = false;
        self.proves = false;
    }

    /// The old connection is over.
    pub fn waited(&mut self) {
        if matches!(self.line, Line::Waiting(_)) {
            self.line = Line::Down;
        }
    }

    fn send(&mut self, desk: &Desk<'_>, packet: &Packet<'_>) {
        packets::encode(self.plan.version, packet, &mut self.output);
        self.said_at = desk.now;
    }

    fn keeps(&mut self) -> bool {
        match self.plan.keeps {
            Keeps::Always | Keeps::Briefly => true,
            Keeps::Never => false,
            Keeps::Changes => self.chance.below(3) > 0,
        }
    }

    /// An identifier that nothing under way has.
    fn free_id(&mut self) -> u16 {
        loop {
            let id = self.memory.next_id();
            if !self.requests.contains_key(&id) {
                return id;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::ClientPlan;

    /// CONNECT, and the connection breaks before it is answered.
    fn dials_unheard(client: &mut Client, desk: &mut Desk<'_>, conn: Conn) -> bool {
        client.dial(desk, conn);
        let Line::Opening(_, hello) = client.line else { return false };
        client.ended(desk, Ending::Broken);
        client.waited();
        hello.clean
    }

    /// The broker carries an unanswered CONNECT out behind the end of the session that the client
    /// knew: what is present then is another one.
    #[test]
    fn a_client_whose_session_ends_behind_an_unanswered_connect_begins_anew() {
        for ended in [false, true] {
            let (mut history, mut coverage) = (History::default(), Coverage::default());
            let desk = &mut Desk {
                history: &mut history,
                coverage: &mut coverage,
                now: 0,
                calm: true,
                disk: None,
            };
            let mut client = Client::new(ClientId(0), "c".into(), ClientPlan::PLAIN, 1);
            assert!(!dials_unheard(&mut client, desk, Conn(0)));
            if ended {
                client.session_ended();
            }
            assert_eq!(dials_unheard(&mut client, desk, Conn(1)), ended);
        }
    }
}
