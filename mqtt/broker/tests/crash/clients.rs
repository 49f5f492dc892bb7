//! Publishers and subscribers whose state outlives the broker, and what they have seen.

use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{
    Accepted, Broker, Client, Connect, Message, PATIENCE, Publish, Random, Received, Version, show,
};

const WINDOW: usize = 32;
const PUBACK: u8 = 0x40;
const PUBREC: u8 = 0x50;
const PUBREL: u8 = 0x62;
const PUBCOMP: u8 = 0x70;

/// Connects and goes on with a session; `None` if the broker is killed meanwhile.
fn resume(address: SocketAddr, id: &str, established: &mut bool) -> Option<Client> {
    let mut client = Client::try_open(address, Version::V4)?;
    client.send(&Connect::persistent(Version::V4, id).encode());
    match client.receive(PATIENCE) {
        Received::Packet(packet) => {
            let accepted = Accepted::decode(&packet, Version::V4);
            assert!(accepted.session_present || !*established, "the session of {id} is lost");
            *established = true;
            Some(client)
        }
        Received::Closed => None,
        Received::Nothing => panic!("no answer to {id}"),
    }
}

/// The moment at which a broker is killed: so many acknowledgements from now, however long they
/// take on a busy machine, and this much later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) acknowledgements: u64,
    pub(crate) later: Duration,
}

impl Moment {
    /// Any moment of a round, or of the start of all clients.
    pub(crate) fn random(random: &mut Random, early: bool) -> Self {
        if early {
            let later = Duration::from_micros(2000 + random.below(20_000));
            return Self { acknowledgements: 0, later };
        }
        let later = Duration::from_micros(random.below(10_000));
        Self { acknowledgements: 100 + random.below(400), later }
    }

    pub(crate) fn wait(self, acknowledged: &AtomicU64) {
        let enough = acknowledged.load(Ordering::Relaxed) + self.acknowledgements;
        let end = Instant::now() + PATIENCE;
        while acknowledged.load(Ordering::Relaxed) < enough {
            assert!(Instant::now() < end, "nothing is acknowledged");
            thread::sleep(Duration::from_micros(200));
        }
        thread::sleep(self.later);
    }
}

/// A publish without the end of its handshake.
#[derive(Debug)]
struct Open {
    id: u16,
    sequence: u64,
    /// PUBREC has come.
    received: bool,
}

/// Publishes 1, 2, 3 and so on, on a topic of its own.
#[derive(Debug)]
pub(crate) struct Publisher<'a> {
    number: u8,
    qos: u8,
    established: bool,
    sent: u64,
    acknowledged: &'a AtomicU64,
    open: VecDeque<Open>,
}

impl<'a> Publisher<'a> {
    /// Counts in `acknowledged` the publishes for which PUBACK or PUBREC came.
    pub(crate) fn new(number: u8, qos: u8, acknowledged: &'a AtomicU64) -> Self {
        Self { number, qos, established: false, sent: 0, acknowledged, open: VecDeque::new() }
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// Publishes until the connection ends, or, without `more`, completes what is open.
    pub(crate) fn run(&mut self, address: SocketAddr, more: bool) {
        let id = format!("publisher {}", self.number);
        let Some(mut client) = resume(address, &id, &mut self.established) else { return };
        for open in &self.open {
            if open.received {
                client.send_ack(PUBREL, open.id);
            } else {
                client.publish(&self.publish(open).dup());
            }
        }
        loop {
            while more && self.open.len() < WINDOW {
                self.publish_next(&mut client);
            }
            if self.open.is_empty() {
                return client.disconnect();
            }
            match client.receive(PATIENCE) {
                Received::Packet(packet) => self.answered(&packet, &mut client),
                Received::Closed => return,
                Received::Nothing => panic!("{id} waits for {:?}", self.open),
            }
        }
    }

    fn publish(&self, open: &Open) -> Publish {
        let payload = open.sequence.to_string();
        Publish::new(&format!("crash/{}", self.number), payload).qos(self.qos, open.id)
    }

    fn publish_next(&mut self, client: &mut Client) {
        self.sent += 1;
        // Few identifiers, so that each is used again and again.
        let taken: HashSet<u16> = self.open.iter().map(|open| open.id).collect();
        let id = (1..=u16::MAX).find(|id| !taken.contains(id)).expect("a free identifier");
        let open = Open { id, sequence: self.sent, received: false };
        client.publish(&self.publish(&open));
        self.open.push_back(open);
    }

    fn answered(&mut self, packet: &[u8], client: &mut Client) {
        let id = u16::from_be_bytes([packet[2], packet[3]]);
        let at = self.open.iter().position(|open| open.id == id);
        let at = at.unwrap_or_else(|| panic!("an answer to nothing: {}", show(packet)));
        let open = &mut self.open[at];
        match (packet[0], self.qos, open.received) {
            (PUBACK, 1, _) => {
                self.acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            (PUBREC, 2, received) => {
                self.acknowledged.fetch_add(u64::from(!received), Ordering::Relaxed);
                open.received = true;
                return client.send_ack(PUBREL, id);
            }
            (PUBCOMP, 2, true) => {}
            _ => panic!("an unexpected answer: {}", show(packet)),
        }
        self.open.remove(at);
    }
}

/// What a subscriber has got from one publisher.
#[derive(Debug, Default)]
struct Got {
    seen: HashSet<u64>,
    highest: u64,
    /// Came once more at QoS 2, or behind a later one.
    faults: Vec<String>,
}

impl Got {
    fn arrived(&mut self, sequence: u64, qos: u8) {
        if !self.seen.insert(sequence) {
            if qos == 2 {
                self.faults.push(format!("{sequence} came twice at QoS 2"));
            }
            return;
        }
        if sequence < self.highest {
            self.faults.push(format!("{sequence} came behind {}", self.highest));
        }
        self.highest = self.highest.max(sequence);
    }
}

/// Takes all of `crash/#`.
#[derive(Debug)]
pub(crate) struct Subscriber {
    id: &'static str,
    qos: u8,
    established: bool,
    /// QoS 2 messages taken and not yet released, by identifier.
    taken: HashSet<u16>,
    got: [Got; 4],
}

impl Subscriber {
    pub(crate) fn new(id: &'static str, qos: u8) -> Self {
        let got = std::array::from_fn(|_| Got::default());
        Self { id, qos, established: false, taken: HashSet::new(), got }
    }

    /// Subscribes, with nobody to disturb it.
    pub(crate) fn subscribe(&mut self, broker: &Broker) {
        let client = resume(broker.address(), self.id, &mut self.established);
        let mut client = client.expect("the broker runs");
        client.subscribe("crash/#", self.qos);
        client.disconnect();
    }

    /// Whether every message up to these numbers has come.
    pub(crate) fn has_all(&self, sent: &[u64]) -> bool {
        self.got.iter().zip(sent).all(|(got, &sent)| got.seen.len() as u64 == sent)
    }

    /// Takes what comes until the connection ends, or enough has come.
    pub(crate) fn run(&mut self, address: SocketAddr, enough: impl Fn(&Self) -> bool) {
        let Some(mut client) = resume(address, self.id, &mut self.established) else { return };
        while !enough(self) {
            match client.receive(PATIENCE) {
                Received::Packet(packet) => self.packet(&packet, &mut client),
                // What is missing, `check` says.
                Received::Closed | Received::Nothing => return,
            }
        }
        client.disconnect();
    }

    fn packet(&mut self, packet: &[u8], client: &mut Client) {
        if packet[0] == PUBREL {
            let id = u16::from_be_bytes([packet[2], packet[3]]);
            self.taken.remove(&id);
            return client.send_ack(PUBCOMP, id);
        }
        let message = Message::decode(packet, Version::V4);
        if message.qos == 1 {
            self.arrived(&message);
            return client.send_ack(PUBACK, message.id);
        }
        if self.taken.insert(message.id) {
            self.arrived(&message);
        }
        client.send_ack(PUBREC, message.id);
    }

    fn arrived(&mut self, message: &Message) {
        let publisher: usize = message.topic["crash/".len()..].parse().expect("a publisher");
        let sequence = message.payload_text().parse().expect("a sequence number");
        self.got[publisher].arrived(sequence, message.qos);
    }

    /// All that was sent has come, once at QoS 2, in order.
    pub(crate) fn check(&self, publishers: &[Publisher<'_>]) {
        for (publisher, got) in publishers.iter().zip(&self.got) {
            let Publisher { number, qos, sent, .. } = publisher;
            let missing: Vec<u64> = (1..=*sent).filter(|n| !got.seen.contains(n)).collect();
            assert!(
                missing.is_empty() && got.faults.is_empty(),
                "{}: of {sent} from publisher {number} at QoS {qos}, missing {missing:?}, {:?}",
                self.id,
                got.faults
            );
        }
    }
}
