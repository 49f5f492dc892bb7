//! A run as a whole: its packets are found once, in one pass over their headers, and copied to
//! each receiver in one piece.
//!
//! Owns: which packets form a run, and where their identifiers and payloads are. What ends a run
//! is not judged here, however wrong it may be: [`Decoder::decode`] reads it next.

use alloc::vec::Vec;

use zzq_types::{PacketId, QoS, TopicName, read_varint};

use crate::{Decoder, Publish};

/// Memory for the places in a run, to be used again.
#[derive(Clone, Debug, Default)]
pub struct RunPlaces(Vec<Place>);

/// Where a packet is in the bytes of its run: it begins where the one before ends.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The first byte behind the topic: the identifier, above QoS 0.
    behind_topic: u32,
    end: u32,
}

/// Two or more PUBLISH with the same first byte and topic, without DUP, RETAIN and properties.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    topic: TopicName<'a>,
    qos: QoS,
    v5: bool,
    /// From the first packet that was found on; `start` is where this run begins.
    bytes: &'a [u8],
    places: &'a [Place],
    start: u32,
    longest: u32,
}

/// What tells one packet of a run from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunMessage<'a> {
    /// Above QoS 0.
    pub id: Option<PacketId>,
    /// May be empty.
    pub payload: &'a [u8],
}

impl Decoder {
    /// The run at the front of `bytes` that begins with `first`, which this decoder has read there.
    /// `None` if it is the only one, or if its kind makes no runs.
    pub fn run<'a>(
        self,
        first: &Publish<'a>,
        bytes: &'a [u8],
        places: &'a mut RunPlaces,
    ) -> Option<Run<'a>> {
        let (topic, version) = (first.topic?, self.version()?);
        if first.dup || first.retain || !first.properties.is_empty() {
            return None;
        }
        let (qos, v5) = (first.delivery.qos(), version.is_v5());
        let (_, taken) = read_varint(bytes.get(1..)?).ok()?;
        let shape = Shape {
            first: *bytes.first()?,
            topic: bytes.get(1 + taken..1 + taken + 2 + topic.as_str().len())?,
            numbered: qos.is_acknowledged(),
            v5,
            most: self.limits().max_packet as usize,
        };
        let places = &mut places.0;
        places.clear();
        let (mut end, mut longest) = (0, 0);
        while let Some(place) = shape.place(bytes, end) {
            longest = longest.max(place.end - end);
            end = place.end;
            places.push(place);
        }
        let run = Run { topic, qos, v5, bytes, places, start: 0, longest };
        (run.len() > 1).then_some(run)
    }
}

/// What all packets of a run have in common.
struct Shape<'a> {
    first: u8,
    /// Its length and its text.
    topic: &'a [u8],
    numbered: bool,
    v5: bool,
    most: usize,
}

impl Shape<'_> {
    /// The packet that begins at `start`, if it is there in full, right, and of this shape.
    #[inline]
    fn place(&self, bytes: &[u8], start: u32) -> Option<Place> {
        let rest = bytes.get(start as usize..)?;
        let (&first, behind_first) = rest.split_first()?;
        if first != self.first {
            return None;
        }
        let (remaining, taken) = read_varint(behind_first).ok()?;
        let header = 1 + taken;
        let size = header + remaining as usize;
        if size > self.most {
            return None;
        }
        let body = rest.get(header..size)?.strip_prefix(self.topic)?;
        let payload = if self.numbered {
            let (id, behind_id) = body.split_first_chunk::<2>()?;
            if *id == [0, 0] {
                return None;
            }
            behind_id
        } else {
            body
        };
        if self.v5 && *payload.first()? != 0 {
            return None;
        }
        let place = |at: usize| u32::try_from(at).ok()?.checked_add(start);
        Some(Place { behind_topic: place(header + self.topic.len())?, end: place(size)? })
    }
}

impl<'a> Run<'a> {
    /// The topic of all.
    pub const fn topic(&self) -> TopicName<'a> {
        self.topic
    }

    /// The QoS of all.
    pub const fn qos(&self) -> QoS {
        self.qos
    }

    /// Whether they are MQTT 5 packets; those of 3.1 and 3.1.1 are the same.
    pub const fn is_v5(&self) -> bool {
        self.v5
    }

    /// How many packets there are.
    pub const fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The size of the longest packet, or more.
    pub const fn longest(&self) -> usize {
        self.longest as usize
    }

    /// Bytes of all payloads.
    pub fn payload_bytes(&self) -> usize {
        let behind_topics = |place: &Place| (place.end - place.behind_topic) as usize;
        let all: usize = self.places.iter().map(behind_topics).sum();
        all - self.len() * self.before_payload()
    }

    /// The packets as they came.
    pub fn as_bytes(&self) -> &'a [u8] {
        let end = self.places.last().map_or(self.start, |place| place.end);
        &self.bytes[self.start as usize..end as usize]
    }

    /// The first `count` packets, or all, and the others.
    #[must_use]
    pub fn split_at(self, count: usize) -> (Self, Self) {
        let (front, back) = self.places.split_at(count.min(self.places.len()));
        let start = front.last().map_or(self.start, |place| place.end);
        (Self { places: front, ..self }, Self { places: back, start, ..self })
    }

    /// What they differ in, in their order.
    pub fn messages(self) -> impl ExactSizeIterator<Item = RunMessage<'a>> + use<'a> {
        let behind_id = if self.qos.is_acknowledged() { 2 } else { 0 };
        let before_payload = self.before_payload();
        self.places.iter().map(move |place| {
            let body = &self.bytes[place.behind_topic as usize..place.end as usize];
            let id = body.first_chunk::<2>().map(|id| u16::from_be_bytes(*id));
            let id = id.filter(|_| behind_id > 0).and_then(PacketId::new);
            RunMessage { id, payload: &body[before_payload..] }
        })
    }

    /// Bytes between topic and payload: an identifier, and the length of no properties.
    fn before_payload(&self) -> usize {
        usize::from(self.v5) + if self.qos.is_acknowledged() { 2 } else { 0 }
    }

    /// Their identifiers, in their order; none at QoS 0.
    pub fn ids(self) -> impl Iterator<Item = PacketId> + use<'a> {
        self.messages().filter_map(|message| message.id)
    }

    /// Appends the packets for a receiver who takes them as they are, but for their identifiers,
    /// which are the next of `ids`, above QoS 0.
    ///
    /// # Panics
    /// If there are fewer identifiers than packets.
    pub fn copy_to(self, out: &mut Vec<u8>, mut ids: impl Iterator<Item = PacketId>) {
        let start = out.len();
        out.extend_from_slice(self.as_bytes());
        if !self.qos.is_acknowledged() {
            return;
        }
        let copy = &mut out[start..];
        for place in self.places {
            let at = (place.behind_topic - self.start) as usize;
            let id = ids.next();
            assert!(id.is_some(), "each copy has an identifier");
            let Some(id) = id else { return };
            copy[at..at + 2].copy_from_slice(&id.get().to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use proptest::prelude::*;
    use zzq_types::ProtocolVersion;

    use super::*;
    use crate::{Delivery, Encoder, Limits, Packet};

    fn decoder(version: ProtocolVersion) -> Decoder {
        let mut decoder = Decoder::of_clients(Limits { max_packet: 400 });
        decoder.connected(version);
        decoder
    }

    fn first(decoder: Decoder, bytes: &[u8]) -> Publish<'_> {
        match decoder.decode(bytes) {
            Ok(Some((Packet::Publish(publish), _))) => publish,
            other => panic!("{other:?}"),
        }
    }

    /// What one packet after the other gives, up to where a run must end.
    fn one_by_one<'a>(decoder: Decoder, bytes: &'a [u8]) -> Vec<Publish<'a>> {
        let (mut all, mut at) = (Vec::<Publish<'a>>::new(), 0);
        while let Ok(Some((Packet::Publish(publish), size))) = decoder.decode(&bytes[at..]) {
            let odd = publish.dup || publish.retain || !publish.properties.is_empty();
            let other = all.first().is_some_and(|first| {
                first.topic != publish.topic || first.delivery.qos() != publish.delivery.qos()
            });
            if odd || other {
                break;
            }
            all.push(publish);
            at += size;
        }
        all
    }

    fn versions() -> impl Strategy<Value = ProtocolVersion> {
        prop_oneof![Just(ProtocolVersion::V311), Just(ProtocolVersion::V5)]
    }

    fn delivery(qos: u8, id: u16) -> Delivery {
        match (qos, PacketId::new(id)) {
            (1, Some(id)) => Delivery::AtLeastOnce(id),
            (2, Some(id)) => Delivery::ExactlyOnce(id),
            _ => Delivery::AtMostOnce,
        }
    }

    proptest! {
        /// A stream of like and unlike packets, cut or spoilt anywhere: a run is exactly what the
        /// packets read one by one have in common, and a copy of it is what each one encoded for
        /// the receiver would be.
        #[test]
        fn a_run_is_what_its_packets_are_one_by_one(
            version in versions(),
            qos in 0..3_u8,
            parts in prop::collection::vec((0..12_u8, 1..=u16::MAX, 0..300_usize), 1..12),
            cut in 0..9_usize,
            spoilt in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
            split in 0..12_usize,
        ) {
            let encoder = Encoder::new(version);
            let mut bytes = Vec::new();
            for (kind, id, len) in parts {
                let topic = TopicName::new(if kind == 0 { "a/c" } else { "a/b" }).unwrap();
                let qos = if kind == 1 { 0 } else { qos };
                let payload = std::vec![kind; len];
                let mut publish = Publish::new(topic, delivery(qos, id), &payload);
                publish.retain = kind == 2;
                publish.dup = kind == 3 && qos > 0;
                encoder.publish(&publish, &mut bytes).unwrap();
            }
            bytes.truncate(bytes.len() - cut.min(bytes.len()));
            if let Some((at, byte)) = spoilt.filter(|_| !bytes.is_empty()) {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let decoder = decoder(version);
            let wanted = one_by_one(decoder, &bytes);
            let mut places = RunPlaces::default();
            if wanted.is_empty() {
                return Ok(());
            }
            let run = decoder.run(&first(decoder, &bytes), &bytes, &mut places);
            let Some(run) = run else {
                prop_assert_eq!(wanted.len(), 1);
                return Ok(());
            };
            prop_assert_eq!(run.len(), wanted.len());
            prop_assert_eq!(run.topic(), wanted[0].topic.unwrap());
            let read = run.messages().map(|message| (message.id, message.payload));
            let each = wanted.iter().map(|one| (one.delivery.packet_id(), one.payload));
            prop_assert!(read.eq(each));
            let (front, back) = run.split_at(split);
            for (part, from) in [(front, 0), (back, front.len())] {
                let ids = || (1..).filter_map(PacketId::new);
                let (mut copy, mut encoded) = (Vec::new(), Vec::new());
                part.copy_to(&mut copy, ids());
                for (one, id) in wanted[from..from + part.len()].iter().zip(ids()) {
                    let delivery = delivery(one.delivery.qos().bits(), id.get());
                    let before = encoded.len();
                    encoder.publish(&Publish { delivery, ..*one }, &mut encoded).unwrap();
                    prop_assert!(encoded.len() - before <= run.longest());
                }
                prop_assert_eq!(copy, encoded);
                let payloads = wanted[from..from + part.len()].iter().map(|one| one.payload.len());
                prop_assert_eq!(part.payload_bytes(), payloads.sum::<usize>());
            }
        }
    }

    #[test]
    fn what_is_alone_or_has_something_of_its_own_makes_no_run() {
        let decoder = decoder(ProtocolVersion::V5);
        let mut places = RunPlaces::default();
        let bytes: [&[u8]; 4] = [
            &[0x30, 5, 0, 1, b't', 0, b'a'],
            &[0x31, 4, 0, 1, b't', 0, 0x31, 4, 0, 1, b't', 0],
            &[0x30, 6, 0, 0, 3, 0x23, 0, 1, 0x30, 6, 0, 0, 3, 0x23, 0, 1],
            &[0x3A, 6, 0, 1, b't', 0, 1, 0, 0x3A, 6, 0, 1, b't', 0, 1, 0],
        ];
        for bytes in bytes {
            let publish = first(decoder, bytes);
            assert!(decoder.run(&publish, bytes, &mut places).is_none(), "{bytes:?}");
        }
    }
}
