//! Clients that fill a broker and empty it again, one packet behind the other, without waiting for
//! each answer.

mod back;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use zzq_codec::{
    AckKind, Connect, Decoder, Delivery, Encoder, Limits, Packet, PublishHead, Subscribe,
    SubscriptionsBuf, Unsubscribe, encode_ack,
};
use zzq_types::{PacketId, Properties, ProtocolVersion, QoS, SubscribeOptions, TopicName};

pub use back::{Came, Patience, come_back};

const V: ProtocolVersion = ProtocolVersion::V311;

/// Publishes that are answered together; two of these are under way.
const BATCH: u32 = 500;

/// Filters whose SUBSCRIBE, and UNSUBSCRIBE, are answered together.
const CHURN: usize = 50;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// A connection, and what was read of it and not looked at.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    input: Vec<u8>,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects, with a session that outlives the connection, or without.
    pub fn connect(address: SocketAddr, id: &str, stays: bool) -> Result<Self> {
        Self::connect_within(address, id, stays, PATIENCE)
    }

    /// The same; no answer may take longer than this.
    fn connect_within(
        address: SocketAddr,
        id: &str,
        stays: bool,
        patience: Duration,
    ) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        let mut client = Self { stream, input: Vec::new(), buffer: vec![0; 64 * 1024] };
        let connect = Connect { clean_start: !stays, ..Connect::new(V, id) };
        let mut out = Vec::new();
        Encoder::new(V).connect(&connect, &mut out)?;
        client.stream.write_all(&out)?;
        client.each(|packet, _| match packet {
            Packet::ConnAck(_) => Ok(false),
            other => bail!("instead of CONNACK: {other:?}"),
        })?;
        Ok(client)
    }

    /// Subscribes at QoS 1.
    pub fn subscribe(&mut self, filter: &str) -> Result<()> {
        self.subscribe_at(filter, QoS::AtLeastOnce)
    }

    /// Subscribes at this QoS.
    pub fn subscribe_at(&mut self, filter: &str, qos: QoS) -> Result<()> {
        let mut filters = SubscriptionsBuf::new();
        filters.push(filter, SubscribeOptions::with_qos(qos))?;
        let subscribe = Subscribe {
            packet_id: PacketId::of_queue_number(1),
            properties: Properties::EMPTY,
            subscriptions: filters.subscriptions(),
        };
        let mut out = Vec::new();
        Encoder::new(V).subscribe(&subscribe, &mut out)?;
        self.stream.write_all(&out)?;
        self.each(|packet, _| match packet {
            Packet::SubAck(_) => Ok(false),
            other => bail!("instead of SUBACK: {other:?}"),
        })
    }

    /// Leaves, and waits until the broker has closed.
    pub fn disconnect(mut self) -> Result<()> {
        self.stream.write_all(&[0xE0, 0])?;
        // The broker closes when the end is committed.
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).map(drop).context("the end")
    }

    /// Publishes at QoS 1 as many messages of so many bytes, which begin with their number; returns
    /// when all are acknowledged.
    pub fn publish(
        &mut self,
        count: u32,
        bytes: usize,
        retain: bool,
        topic: impl Fn(u32) -> String,
    ) -> Result<()> {
        let (mut sent, mut answered) = (0, 0);
        let mut out = Vec::new();
        while answered < count {
            out.clear();
            for number in sent..count.min(sent + BATCH) {
                make(&mut out, number, bytes, retain, &topic(number))?;
            }
            sent = count.min(sent + BATCH);
            self.stream.write_all(&out)?;
            let due = if sent < count { sent - BATCH } else { count };
            while answered < due {
                self.each(|packet, _| match packet {
                    Packet::PubAck(ack) => {
                        ensure!(ack.packet_id == id_of(answered), "PUBACKs out of order");
                        answered += 1;
                        Ok(answered < due)
                    }
                    other => bail!("instead of PUBACK: {other:?}"),
                })?;
            }
        }
        Ok(())
    }

    /// Takes messages up to `count`, which have to come in their order, each once.
    pub fn take(&mut self, count: u32) -> Result<()> {
        self.take_these(0..count)
    }

    /// Takes the messages with these numbers, which have to come in their order, each once.
    pub fn take_these(&mut self, numbers: impl IntoIterator<Item = u32>) -> Result<()> {
        let mut numbers = numbers.into_iter().peekable();
        while numbers.peek().is_some() {
            self.each(|packet, out| {
                let Packet::Publish(publish) = packet else {
                    bail!("instead of PUBLISH: {packet:?}")
                };
                let number = publish.payload.first_chunk().map(|n| u32::from_be_bytes(*n));
                let next = numbers.next();
                ensure!(number == next, "message {number:?} instead of {next:?}");
                if let Delivery::AtLeastOnce(id) = publish.delivery {
                    encode_ack(AckKind::PubAck, id, out);
                }
                Ok(numbers.peek().is_some())
            })?;
        }
        Ok(())
    }

    /// Subscribes at QoS 1 to `count` filters, without waiting for each answer.
    pub fn subscribe_all(&mut self, count: u32, filter: impl Fn(u32) -> String) -> Result<()> {
        self.subscriptions(count, false, filter)
    }

    /// Subscribes to a filter and leaves it again, `count` times, without waiting for each answer.
    pub fn churn(&mut self, count: u32, filter: impl Fn(u32) -> String) -> Result<()> {
        self.subscriptions(count, true, filter)
    }

    fn subscriptions(
        &mut self,
        count: u32,
        leaves: bool,
        filter: impl Fn(u32) -> String,
    ) -> Result<()> {
        let (none, qos) = (Properties::EMPTY, SubscribeOptions::with_qos(QoS::AtLeastOnce));
        let mut out = Vec::new();
        for batch in (0..count).step_by(CHURN) {
            out.clear();
            let end = count.min(batch.saturating_add(u32::try_from(CHURN)?));
            for number in batch..end {
                let filter = filter(number);
                let mut list = SubscriptionsBuf::new();
                list.push(&filter, qos)?;
                let (packet_id, subscriptions) = (id_of(number), list.subscriptions());
                let subscribe = Subscribe { packet_id, properties: none, subscriptions };
                Encoder::new(V).subscribe(&subscribe, &mut out)?;
                if leaves {
                    let filters = list.filters();
                    let unsubscribe = Unsubscribe { packet_id, properties: none, filters };
                    Encoder::new(V).unsubscribe(&unsubscribe, &mut out)?;
                }
            }
            self.stream.write_all(&out)?;
            let mut left = (end - batch) * if leaves { 2 } else { 1 };
            self.each(|packet, _| match packet {
                Packet::SubAck(_) | Packet::UnsubAck(_) => {
                    left -= 1;
                    Ok(left > 0)
                }
                other => bail!("instead of SUBACK or UNSUBACK: {other:?}"),
            })?;
        }
        Ok(())
    }

    /// Subscribes at QoS 0 to a filter that finds `retained` messages, and leaves it again; how
    /// long it took until all had come.
    pub fn fetch(&mut self, filter: &str, retained: u32) -> Result<Duration> {
        let (packet_id, none) = (PacketId::of_queue_number(1), Properties::EMPTY);
        let mut list = SubscriptionsBuf::new();
        list.push(filter, SubscribeOptions::with_qos(QoS::AtMostOnce))?;
        let subscribe =
            Subscribe { packet_id, properties: none, subscriptions: list.subscriptions() };
        let mut out = Vec::new();
        Encoder::new(V).subscribe(&subscribe, &mut out)?;
        let began = Instant::now();
        self.stream.write_all(&out)?;
        let (mut answers, mut messages) = (0, 0);
        self.each(|packet, _| {
            match packet {
                Packet::SubAck(_) => answers += 1,
                Packet::Publish(publish) if publish.retain => messages += 1,
                other => bail!("instead of a retained message: {other:?}"),
            }
            Ok(answers == 0 || messages < retained)
        })?;
        let took = began.elapsed();
        out.clear();
        let unsubscribe = Unsubscribe { packet_id, properties: none, filters: list.filters() };
        Encoder::new(V).unsubscribe(&unsubscribe, &mut out)?;
        self.stream.write_all(&out)?;
        self.each(|packet, _| match packet {
            Packet::UnsubAck(_) => Ok(false),
            other => bail!("instead of UNSUBACK: {other:?}"),
        })?;
        Ok(took)
    }

    /// Reads, and calls `each` with every packet until it says that it has enough. What it writes
    /// is sent behind each read.
    fn each(
        &mut self,
        mut each: impl FnMut(&Packet<'_>, &mut Vec<u8>) -> Result<bool>,
    ) -> Result<()> {
        let decoder = Decoder::of_servers(V, Limits::default());
        let mut out = Vec::new();
        let mut goes_on = true;
        while goes_on {
            let mut taken = 0;
            while goes_on && let Some((packet, len)) = decoder.decode(&self.input[taken..])? {
                taken += len;
                goes_on = each(&packet, &mut out)?;
            }
            self.input.drain(..taken);
            self.stream.write_all(&out)?;
            out.clear();
            if goes_on {
                let read = self.stream.read(&mut self.buffer)?;
                ensure!(read > 0, "the broker closed the connection");
                self.input.extend_from_slice(&self.buffer[..read]);
            }
        }
        Ok(())
    }
}

/// A session that stays, with a subscription, whose client is away.
pub fn leave(address: SocketAddr, id: &str, filter: &str) -> Result<()> {
    let mut client = Client::connect(address, id, true)?;
    client.subscribe(filter)?;
    client.disconnect()
}

/// Does something with a range of numbers on each of a few threads.
pub fn spread(count: u32, each: impl Fn(u32, u32) -> Result<()> + Sync) -> Result<()> {
    const THREADS: u32 = 32;
    thread::scope(|scope| {
        let part = count.div_ceil(THREADS);
        let threads: Vec<_> = (0..THREADS)
            .map(|at| ((at * part).min(count), count.min((at + 1) * part)))
            .map(|(from, to)| {
                scope.spawn({
                    let each = &each;
                    move || each(from, to)
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| anyhow!("a client's thread panicked"))?
        })
    })
}

fn id_of(number: u32) -> PacketId {
    PacketId::of_queue_number(u64::from(number) + 1)
}

fn make(out: &mut Vec<u8>, number: u32, bytes: usize, retain: bool, topic: &str) -> Result<()> {
    let topic = TopicName::new(topic).map_err(|_| anyhow!("no topic: {topic}"))?;
    let head = PublishHead {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain,
        topic: Some(topic),
        properties: &[Properties::EMPTY],
    };
    let start = out.len();
    let place = Encoder::new(V).publish_header(&head, bytes, out)?;
    out.resize(start + place.total_len, b'.');
    let packet = &mut out[start..];
    if let Some(at) = place.packet_id_at {
        packet[at..at + 2].copy_from_slice(&id_of(number).get().to_be_bytes());
    }
    packet[place.header_len..place.header_len + 4].copy_from_slice(&number.to_be_bytes());
    Ok(())
}
