//! As much of a broker as the load generator needs, with faults at will: no sessions, no memory.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use zzq_bench::load::Stamp;
use zzq_codec::{
    AckKind, ConnAck, Connect, Decoder, Delivery, Encoder, Limits, Packet, Publish, ReasonCodes,
    SubAck, Subscribe, encode_ack,
};
use zzq_types::{Properties, ProtocolVersion, ReasonCode};

/// How the n-th message of a publisher is treated: how often it is forwarded.
pub(crate) type Forward = fn(u64) -> usize;

/// Instead of how often: the message is neither forwarded nor acknowledged.
pub(crate) const IGNORED: usize = usize::MAX;

/// Who is subscribed, by filter.
type Subscribers = Arc<Mutex<HashMap<String, Vec<TcpStream>>>>;

/// Serves until the process ends, with a thread for each connection.
pub(crate) fn stand_in(forward: Forward) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let subscribers = Subscribers::default();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            let connection = Connection::new(stream, &subscribers, forward);
            thread::spawn(move || connection.serve());
        }
    });
    address
}

struct Connection {
    stream: TcpStream,
    subscribers: Subscribers,
    forward: Forward,
    decoder: Decoder,
    encoder: Encoder,
}

impl Connection {
    fn new(stream: TcpStream, subscribers: &Subscribers, forward: Forward) -> Self {
        Self {
            stream,
            subscribers: Arc::clone(subscribers),
            forward,
            decoder: Decoder::of_clients(Limits::default()),
            encoder: Encoder::new(ProtocolVersion::V311),
        }
    }

    fn serve(mut self) {
        let (mut bytes, mut buffer) = (Vec::new(), vec![0; 64 * 1024]);
        loop {
            let len = self.stream.read(&mut buffer).unwrap_or(0);
            if len == 0 {
                return;
            }
            bytes.extend_from_slice(&buffer[..len]);
            let (mut taken, mut out) = (0, Vec::new());
            while taken < bytes.len() {
                let Some((packet, size)) = self.decoder.decode(&bytes[taken..]).unwrap() else {
                    break;
                };
                taken += size;
                self.packet(&packet, &mut out);
            }
            bytes.drain(..taken);
            if self.stream.write_all(&out).is_err() {
                return;
            }
        }
    }

    fn packet(&mut self, packet: &Packet<'_>, out: &mut Vec<u8>) {
        match packet {
            Packet::Connect(connect) => self.connect(connect, out),
            Packet::Subscribe(subscribe) => self.subscribe(subscribe, out),
            Packet::Publish(publish) => self.publish(publish, out),
            Packet::PubRel(ack) => encode_ack(AckKind::PubComp, ack.packet_id, out),
            Packet::PubRec(ack) => encode_ack(AckKind::PubRel, ack.packet_id, out),
            _ => {}
        }
    }

    fn connect(&mut self, connect: &Connect<'_>, out: &mut Vec<u8>) {
        self.decoder.connected(connect.version);
        self.encoder = Encoder::new(connect.version);
        self.encoder.conn_ack(&ConnAck::accepted(false, Properties::EMPTY), out).unwrap();
    }

    fn subscribe(&mut self, subscribe: &Subscribe<'_>, out: &mut Vec<u8>) {
        let mut codes = Vec::new();
        for subscription in subscribe.subscriptions {
            let mut subscribers = self.subscribers.lock().unwrap();
            let filter = format!("{}", subscription.filter.unwrap());
            subscribers.entry(filter).or_default().push(self.stream.try_clone().unwrap());
            codes.push(ReasonCode::from_code(subscription.options.qos.bits()).unwrap());
        }
        let ack = SubAck {
            packet_id: subscribe.packet_id,
            properties: Properties::EMPTY,
            codes: ReasonCodes::new(&codes),
        };
        self.encoder.sub_ack(&ack, out).unwrap();
    }

    fn publish(&mut self, publish: &Publish<'_>, out: &mut Vec<u8>) {
        // What has no mark has no number.
        let sequence = Stamp::read(publish.payload).map_or(0, |stamp| stamp.sequence);
        let times = (self.forward)(sequence);
        if times == IGNORED {
            return;
        }
        self.deliver(publish, times);
        match publish.delivery {
            Delivery::AtMostOnce => {}
            Delivery::AtLeastOnce(id) => encode_ack(AckKind::PubAck, id, out),
            Delivery::ExactlyOnce(id) => encode_ack(AckKind::PubRec, id, out),
        }
    }

    /// Sends a message on to everybody who subscribed to its topic, or to all topics, and to the
    /// members of the group in turns.
    fn deliver(&mut self, publish: &Publish<'_>, times: usize) {
        let mut copy = Vec::new();
        self.encoder.publish(publish, &mut copy).unwrap();
        let mut subscribers = self.subscribers.lock().unwrap();
        for filter in [publish.topic.unwrap().as_str(), "load/+", "load/+/+"] {
            for stream in subscribers.get_mut(filter).into_iter().flatten() {
                // A run that has ended reads no more.
                let _gone = stream.write_all(&copy.repeat(times));
            }
        }
        for _ in 0..times {
            let Some(members) = subscribers.get_mut("$share/load/load/0") else { break };
            members.rotate_left(1);
            let _gone = members[0].write_all(&copy);
        }
    }
}
