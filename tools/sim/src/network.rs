//! The network between clients and the broker: streams of bytes with delay and bounded room, split
//! and joined at any byte, cut without anybody being told.
//!
//! Owns: what is on its way in each direction of each connection. The broker's end is a
//! [`MemPeer`].
//! Does not know: packets.

use std::collections::{BTreeMap, VecDeque};

use zzq_lanes::driver::mem::MemPeer;

use crate::chance::Chance;
use crate::history::{Conn, Ending};

/// How the network is today.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// The longest delay of a piece, in ms.
    pub delay_ms: u64,
    /// Once in so many pieces one is late by a second or so; 0: never.
    pub late_once_in: u64,
    /// Bytes that one direction of a connection holds.
    pub room: usize,
    /// Pieces have at most so many bytes.
    pub piece: usize,
}

impl Weather {
    /// Nothing is slow and nothing is split.
    pub const CALM: Self = Self { delay_ms: 0, late_once_in: 0, room: 1 << 20, piece: 1 << 20 };
}

/// A connection that takes less at once keeps what the broker has sent waiting for seconds.
const SLOW: usize = 300;

/// The least that a connection takes at once when nothing goes wrong.
const CALM_WRITE: usize = 64;

/// All connections.
#[derive(Debug)]
pub struct Network {
    /// See [`Weather`].
    pub weather: Weather,
    links: BTreeMap<Conn, Link>,
    chance: Chance,
    /// What pieces have met on their way, as the coverage calls it.
    met: Vec<&'static str>,
    /// No connection takes less at once.
    least_write: usize,
}

#[derive(Debug)]
struct Link {
    /// The broker's end, while there is a broker.
    peer: Option<MemPeer>,
    to_broker: Way,
    to_client: Way,
    is_cut: bool,
    /// The client has let it go: nothing is delivered to it any more.
    is_left: bool,
    /// The client does not read before.
    deaf_until: u64,
    stalled: bool,
    /// Bytes that it takes at once.
    write_limit: usize,
}

#[derive(Debug, Default)]
struct Way {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// Behind all pieces.
    end: Option<(u64, Ending)>,
    latest_due: u64,
    /// Writes so far.
    writes: u64,
}

#[derive(Debug)]
struct Piece {
    due_ms: u64,
    written_ms: u64,
    /// The last write that has bytes in it.
    write: u64,
    is_late: bool,
    bytes: Vec<u8>,
}

/// Where something is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toward {
    /// The broker is to get it.
    Broker,
    /// The client is.
    Client,
}

/// What a client gets.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Bytes, when they left the broker, and whether what was sent before may have waited there.
    Bytes(Vec<u8>, u64, bool),
    /// The end of the connection, and whether what was sent before may have waited there.
    End(Ending, bool),
}

impl Way {
    fn push(&mut self, bytes: &[u8], now: u64, weather: Weather, chance: &mut Chance) {
        let mut rest = bytes;
        self.writes += 1;
        while !rest.is_empty() {
            let most = rest.len().min(weather.piece);
            let len = if chance.once_in(3) { 1 + chance.index(most) } else { most };
            let (due_ms, is_late) = self.due(now, weather, chance);
            let bytes = rest[..len].to_vec();
            self.append(Piece { due_ms, written_ms: now, write: self.writes, is_late, bytes });
            rest = &rest[len..];
        }
    }

    /// Nothing overtakes what was sent before. When it comes, and whether by itself that is late.
    fn due(&mut self, now: u64, weather: Weather, chance: &mut Chance) -> (u64, bool) {
        let late = if chance.once_in(weather.late_once_in) { chance.within(500, 2500) } else { 0 };
        let due = now + chance.within(0, weather.delay_ms) + late;
        self.latest_due = self.latest_due.max(due);
        (self.latest_due, late > 0)
    }

    /// What is due together comes together.
    fn append(&mut self, piece: Piece) {
        self.bytes += piece.bytes.len();
        match self.pieces.back_mut() {
            Some(last) if (last.due_ms, last.written_ms) == (piece.due_ms, piece.written_ms) => {
                last.bytes.extend_from_slice(&piece.bytes);
                last.write = piece.write;
                last.is_late |= piece.is_late;
            }
            _ => self.pieces.push_back(piece),
        }
    }

    /// The piece that is due next, and what it has met.
    fn take(&mut self, met: &mut Vec<&'static str>) -> Option<Piece> {
        let piece = self.pieces.pop_front()?;
        self.bytes -= piece.bytes.len();
        let goes_on = self.pieces.front().is_some_and(|next| next.write == piece.write);
        let ways = [
            ("net delay", piece.due_ms > piece.written_ms),
            ("net late piece", piece.is_late),
            ("net split", goes_on),
        ];
        met.extend(ways.into_iter().filter(|(_, is_so)| *is_so).map(|(way, _)| way));
        Some(piece)
    }

    fn next_due(&self) -> Option<u64> {
        self.pieces.front().map(|piece| piece.due_ms).or(self.end.map(|(due, _)| due))
    }

    fn lose(&mut self) {
        self.pieces.clear();
        self.bytes = 0;
        self.end = None;
    }
}

impl Network {
    /// Without connections.
    pub fn new(weather: Weather, chance: Chance) -> Self {
        Self { weather, links: BTreeMap::new(), chance, met: Vec::new(), least_write: 1 }
    }

    /// Nothing goes wrong from now on. A large message takes no step for each of its bytes: a queue
    /// of some would have no end that anybody waits for.
    pub fn calm(&mut self) {
        self.weather = Weather::CALM;
        self.least_write = CALM_WRITE;
        for link in self.links.values_mut() {
            link.write_limit = link.write_limit.max(CALM_WRITE);
            if let Some(peer) = &link.peer {
                peer.set_write_limit(link.write_limit);
            }
        }
    }

    /// A connection whose other end the broker will accept.
    pub fn open(&mut self, conn: Conn, peer: MemPeer) {
        peer.set_window(self.weather.room);
        let (mut stalled, mut write_limit) = (false, usize::MAX);
        if self.chance.once_in(4) {
            write_limit = (1 + self.chance.index(600)).max(self.least_write);
            peer.set_write_limit(write_limit);
            stalled = write_limit < SLOW;
        }
        let link = Link {
            peer: Some(peer),
            to_broker: Way::default(),
            to_client: Way::default(),
            is_cut: false,
            is_left: false,
            deaf_until: 0,
            stalled,
            write_limit,
        };
        self.links.insert(conn, link);
    }

    /// The client sends.
    pub fn send(&mut self, conn: Conn, bytes: &[u8], now: u64) {
        let (weather, chance) = (self.weather, &mut self.chance);
        if let Some(link) = self.links.get_mut(&conn)
            && !link.is_cut
            && link.peer.is_some()
        {
            link.to_broker.push(bytes, now, weather, chance);
        }
    }

    /// The client sends nothing more, and reads until the broker closes.
    pub fn finish(&mut self, conn: Conn, now: u64) {
        let (weather, chance) = (self.weather, &mut self.chance);
        if let Some(link) = self.links.get_mut(&conn).filter(|link| !link.is_cut) {
            let (due, _) = link.to_broker.due(now, weather, chance);
            link.to_broker.end = Some((due, Ending::Closed));
        }
    }

    /// The client has turned to another connection: what it sent arrives, and it closes this one
    /// after so many ms.
    pub fn leave(&mut self, conn: Conn, now: u64, after: u64) {
        let (weather, chance) = (self.weather, &mut self.chance);
        let Some(link) = self.links.get_mut(&conn) else { return };
        if !link.is_cut {
            let (due, _) = link.to_broker.due(now, weather, chance);
            let due = due.max(now + after);
            link.to_broker.end = Some((due, Ending::GivenUp));
        }
        link.is_left = true;
        link.to_client.lose();
    }

    /// What is on its way is lost and nothing follows. Each end learns of it after so many ms, or
    /// never.
    pub fn cut(&mut self, conn: Conn, now: u64, broker: Option<u64>, client: Option<u64>) {
        let Some(link) = self.links.get_mut(&conn) else { return };
        link.is_cut = true;
        for (way, told) in [(&mut link.to_broker, broker), (&mut link.to_client, client)] {
            way.lose();
            way.end = told.map(|after| (now + after, Ending::Broken));
        }
    }

    /// The client lets a connection go without a word: the broker learns of it after so many ms.
    pub fn abandon(&mut self, conn: Conn, now: u64, broker: u64) {
        self.cut(conn, now, Some(broker), None);
        if let Some(link) = self.links.get_mut(&conn) {
            link.is_left = true;
        }
    }

    /// The client does not read for a while.
    pub fn deafen(&mut self, conn: Conn, until_ms: u64) {
        if let Some(link) = self.links.get_mut(&conn) {
            link.deaf_until = until_ms;
        }
    }

    /// Connections on which the network still carries something.
    pub fn uncut(&self) -> Vec<Conn> {
        let uncut = self.links.iter().filter(|(_, link)| !link.is_cut && link.peer.is_some());
        uncut.map(|(conn, _)| *conn).collect()
    }

    /// The broker is gone. What it has written arrives, unless `all_lost`; then each client learns
    /// of it after some time, or by its own patience.
    pub fn broker_died(&mut self, now: u64, all_lost: bool) {
        for link in self.links.values_mut() {
            let cut = link.is_cut;
            link.peer = None;
            link.to_broker.lose();
            if cut {
                continue;
            }
            if all_lost {
                link.to_client.lose();
                link.is_cut = true;
            }
            let told = self.chance.within(0, 4000);
            if !(all_lost && self.chance.once_in(3)) {
                let due = link.to_client.latest_due.max(now + told);
                link.to_client.end = link.to_client.end.or(Some((due, Ending::Broken)));
            }
        }
        self.links.retain(|_, link| !link.is_left);
    }

    /// Whether the broker has no part in a connection any more.
    pub fn is_over(&self, conn: Conn) -> bool {
        let peer = self.links.get(&conn).and_then(|link| link.peer.as_ref());
        peer.is_none_or(MemPeer::is_closed)
    }

    /// Takes over what the broker has written, and gives it room.
    pub fn pull(&mut self, now: u64) {
        let (weather, chance) = (self.weather, &mut self.chance);
        for link in self.links.values_mut() {
            let Some(peer) = &link.peer else { continue };
            let bytes = peer.receive();
            let ended = peer.is_ended();
            let lost = link.is_cut || link.is_left;
            if lost && bytes.is_empty() {
                // What is written into a broken connection piles up, and nobody takes it.
                continue;
            }
            if lost {
                peer.set_window(weather.room.saturating_sub(bytes.len()));
                continue;
            }
            link.to_client.push(&bytes, now, weather, chance);
            let left = weather.room.saturating_sub(link.to_client.bytes);
            link.stalled |= left == 0;
            peer.set_window(left);
            if ended && link.to_client.end.is_none() {
                let (due, _) = link.to_client.due(now, weather, chance);
                link.to_client.end = Some((due, Ending::Closed));
            }
        }
        self.links.retain(|_, link| {
            let over = link.peer.as_ref().is_none_or(MemPeer::is_closed);
            !(over && link.is_left)
        });
    }

    /// Where something is due now.
    pub fn due(&self, now: u64) -> Vec<(Conn, Toward)> {
        let mut due = Vec::new();
        for (conn, link) in &self.links {
            let is_due = |way: &Way| way.next_due().is_some_and(|due| due <= now);
            let room = link.peer.as_ref().is_some_and(|peer| peer.unread() < self.weather.room);
            if room && is_due(&link.to_broker) {
                due.push((*conn, Toward::Broker));
            }
            if !link.is_left && is_due(&link.to_client) && link.deaf_until <= now {
                due.push((*conn, Toward::Client));
            }
        }
        due
    }

    /// When something is due next.
    pub fn next_due(&self) -> Option<u64> {
        let links = self.links.values();
        let next = links.flat_map(|link| {
            let to_broker = link.peer.as_ref().and(link.to_broker.next_due());
            let to_client = link.to_client.next_due().filter(|_| !link.is_left);
            [to_broker, to_client.map(|due| due.max(link.deaf_until))]
        });
        next.flatten().min()
    }

    /// Delivers the next piece; what comes of it for the client.
    pub fn deliver(&mut self, conn: Conn, toward: Toward) -> Option<Arrival> {
        let link = self.links.get_mut(&conn)?;
        if toward == Toward::Broker {
            link.give_broker(&mut self.met);
            return None;
        }
        let way = &mut link.to_client;
        if let Some(piece) = way.take(&mut self.met) {
            if !link.is_cut
                && let Some(peer) = &link.peer
            {
                peer.set_window(self.weather.room.saturating_sub(way.bytes));
            }
            return Some(Arrival::Bytes(piece.bytes, piece.written_ms, link.stalled));
        }
        let (_, how) = way.end.take()?;
        // Who was told closes its own end, too.
        link.is_left = true;
        if let Some(peer) = &link.peer {
            peer.go();
        }
        Some(Arrival::End(how, link.stalled))
    }

    /// What pieces have met since this was asked last.
    pub fn take_met(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.met)
    }

    /// Whether the broker has not read all that came to it.
    pub fn has_unread(&self) -> bool {
        let mut peers = self.links.values().filter_map(|link| link.peer.as_ref());
        peers.any(|peer| peer.unread() > 0)
    }

    /// Whether nothing is on its way.
    pub fn is_idle(&self) -> bool {
        self.next_due().is_none()
    }
}

impl Link {
    fn give_broker(&mut self, met: &mut Vec<&'static str>) {
        let Some(peer) = &self.peer else { return };
        if let Some(piece) = self.to_broker.take(met) {
            peer.send(&piece.bytes);
            return;
        }
        match self.to_broker.end.take() {
            Some((_, Ending::Broken)) => peer.reset(),
            Some((_, Ending::GivenUp)) => peer.go(),
            Some((_, Ending::Closed)) => peer.finish(),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use zzq_lanes::driver::mem::MemDriver;

    use super::*;

    const ONE: Conn = Conn(1);

    fn network() -> (Network, MemDriver) {
        let weather = Weather { delay_ms: 20, late_once_in: 5, room: 64, piece: 7 };
        let mut network = Network::new(weather, Chance::new(5, "network"));
        let mut driver = MemDriver::default();
        network.open(ONE, driver.connect());
        (network, driver)
    }

    fn unread(network: &Network) -> usize {
        network.links[&ONE].peer.as_ref().unwrap().unread()
    }

    #[test]
    fn bytes_arrive_in_pieces_and_never_out_of_order() {
        let mut way = Way::default();
        let weather = Weather { delay_ms: 20, late_once_in: 5, room: 64, piece: 7 };
        let mut chance = Chance::new(5, "network");
        let sent: Vec<u8> = (0..200).collect();
        for (now, bytes) in sent.chunks(11).enumerate() {
            way.push(bytes, now as u64, weather, &mut chance);
        }
        assert!(way.pieces.len() > 20 && way.bytes == 200);
        assert!(way.pieces.iter().map(|piece| piece.due_ms).is_sorted());
        let got: Vec<u8> = way.pieces.into_iter().flat_map(|piece| piece.bytes).collect();
        assert_eq!(got, sent);
    }

    #[test]
    fn nothing_goes_on_byte_by_byte_once_nothing_goes_wrong() {
        let (mut network, mut driver) = network();
        let conns: Vec<_> = (2..1000).map(Conn).collect();
        for conn in &conns[..900] {
            network.open(*conn, driver.connect());
        }
        let least = |network: &Network| network.links.values().map(|link| link.write_limit).min();
        assert!(least(&network) < Some(CALM_WRITE));
        network.calm();
        for conn in &conns[900..] {
            network.open(*conn, driver.connect());
        }
        assert!(least(&network) >= Some(CALM_WRITE));
    }

    #[test]
    fn what_a_piece_meets_is_told() {
        let (mut network, _driver) = network();
        network.send(ONE, &[7; 60], 0);
        network.send(ONE, &[7; 60], 1);
        while let Some(&(conn, toward)) = network.due(100_000).first() {
            network.deliver(conn, toward);
        }
        let met = network.take_met();
        for way in ["net delay", "net late piece", "net split"] {
            assert!(met.contains(&way), "{way}: {met:?}");
        }
        assert_eq!(network.take_met(), [""; 0]);
    }

    #[test]
    fn a_full_broker_is_given_nothing_more() {
        let (mut network, _driver) = network();
        network.send(ONE, &[7; 500], 0);
        while let Some(&(conn, toward)) = network.due(100_000).first() {
            assert_eq!(network.deliver(conn, toward), None);
        }
        // Pieces that are due together come together, so the last may go beyond it.
        assert!((64..200).contains(&unread(&network)), "{}", unread(&network));
    }

    #[test]
    fn a_cut_loses_what_is_on_its_way_and_tells_whom_it_is_told_to() {
        let (mut network, _driver) = network();
        network.send(ONE, &[7; 10], 0);
        network.cut(ONE, 5, None, Some(100));
        network.send(ONE, &[7; 10], 6);
        assert_eq!(network.due(104), []);
        assert_eq!(network.due(105), [(ONE, Toward::Client)]);
        let arrival = network.deliver(ONE, Toward::Client);
        assert!(matches!(arrival, Some(Arrival::End(Ending::Broken, _))));
        assert_eq!(unread(&network), 0);
    }

    #[test]
    fn what_a_dead_broker_has_written_may_still_arrive() {
        let (mut network, _driver) = network();
        let weather = network.weather;
        let link = network.links.get_mut(&ONE).unwrap();
        link.to_client.push(&[1, 2], 0, weather, &mut Chance::new(1, "x"));
        network.broker_died(0, false);
        assert!(network.is_over(ONE));
        let mut got = Vec::new();
        loop {
            match network.deliver(ONE, Toward::Client) {
                Some(Arrival::Bytes(bytes, ..)) => got.extend(bytes),
                end => break assert!(matches!(end, Some(Arrival::End(Ending::Broken, _)))),
            }
        }
        assert_eq!(got, [1, 2]);
    }
}
