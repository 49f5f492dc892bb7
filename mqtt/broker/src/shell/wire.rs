//! Messages onto connections: a PUBLISH is encoded once for all receivers of one version, QoS and
//! RETAIN flag, then copied; a large payload for many is shared.
//!
//! Does not know: windows, queues, who may receive.

use bytes::Bytes;
use zzq_codec::{EncodeError, Encoder, PublishHead, PublishPlace, Run};
use zzq_engine::record::Publish as PublishRecord;
use zzq_engine::{Decision, Destination, SubscriptionIds};
use zzq_lanes::{ConnId, Handler, LaneIo};
use zzq_types::{
    Lsn, PacketId, Properties, PropertiesBuf, Property, QoS, SubscriptionId, TopicName, rfc3339,
};

use super::alias::{Given, Naming};
use super::link::Link;
use crate::metrics::Counts;
use crate::planted::{self, Bug};

/// From here on a payload for many is shared and not copied.
const SHARE_MIN: usize = 4096;

/// What a PUBLISH has at most beside its topic, properties and payload: a byte, four of its length,
/// two of the topic's, two of its identifier, and four of the properties' length.
const HEADER_MOST: usize = 13;

/// What a message says, wherever it is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'a> {
    pub(crate) topic: TopicName<'a>,
    pub(crate) properties: Properties<'a>,
    pub(crate) payload: &'a [u8],
    /// Log time.
    pub(crate) expires_ms: Option<u64>,
    /// When it was published, in log time.
    pub(crate) time_ms: u64,
    /// Its place in the log, if the receiver is to be told: then it is committed.
    pub(crate) place: Option<Lsn>,
}

impl<'a> Content<'a> {
    /// What a record says that was made at `time_ms`, log time.
    pub(crate) fn of(record: &PublishRecord<'a>, time_ms: u64) -> Self {
        Self {
            topic: record.topic,
            properties: record.properties,
            payload: record.payload,
            expires_ms: record.expires_ms(time_ms),
            time_ms,
            place: None,
        }
    }

    /// A message without properties that is in no log.
    pub(super) const fn plain(topic: TopicName<'a>, payload: &'a [u8]) -> Self {
        let properties = Properties::EMPTY;
        Self { topic, properties, payload, expires_ms: None, time_ms: 0, place: None }
    }

    /// Whether it is the same to a receiver, but for what that is told of its place.
    pub(super) fn says_the_same(self, other: Content<'_>) -> bool {
        (self.topic, self.expires_ms, self.time_ms)
            == (other.topic, other.expires_ms, other.time_ms)
            && self.properties.as_bytes() == other.properties.as_bytes()
            && self.payload == other.payload
    }

    /// What it weighs, as its record says.
    pub(super) fn size(self) -> u32 {
        self.record(QoS::AtMostOnce, Decision::NOBODY).size()
    }

    /// A record of it, by no client and not to be retained.
    pub(super) const fn record(self, qos: QoS, decision: Decision<'a>) -> PublishRecord<'a> {
        PublishRecord {
            publisher: None,
            inbound: None,
            will_of: None,
            qos,
            retain: false,
            decision,
            topic: self.topic,
            properties: self.properties,
            payload: self.payload,
        }
    }
}

/// How a message goes to one receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner<'a> {
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) dup: bool,
    /// Above QoS 0.
    pub(crate) id: Option<PacketId>,
    pub(crate) ids: Ids<'a>,
}

/// Who gets it.
#[derive(Debug)]
pub(crate) struct Receiver<'a> {
    conn: ConnId,
    encoder: Encoder,
    given: Option<&'a mut Given>,
}

impl<'a> Receiver<'a> {
    /// The client of a link.
    pub(crate) fn of(conn: ConnId, link: &'a mut Link) -> Self {
        Self { conn, encoder: link.encoder, given: link.given.as_deref_mut() }
    }

    /// Whether it gets the packets of a run as they came, but for their identifiers.
    pub(super) fn takes_as_is(&self, run: &Run<'_>, to: &Destination<'_>) -> bool {
        self.encoder.version.is_v5() == run.is_v5()
            && self.given.is_none()
            && (to.qos, to.retain, to.ids.is_empty()) == (run.qos(), false, true)
            && run.longest() <= self.encoder.limits.max_packet as usize
    }

    /// Writes a run that it takes as it is. False: the connection is absent.
    pub(super) fn write_run<H: Handler>(
        self,
        io: &mut LaneIo<'_, H>,
        run: Run<'_>,
        ids: impl Iterator<Item = PacketId>,
    ) -> bool {
        let bytes = run.as_bytes().len();
        let Some(mut output) = io.output_for(self.conn, bytes) else { return false };
        run.copy_to(&mut output, ids);
        true
    }
}

/// The subscription identifiers that go along.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ids<'a> {
    /// As a decision or a queue has them.
    Of(SubscriptionIds<'a>),
    /// One by one.
    List(&'a [SubscriptionId]),
}

impl Ids<'_> {
    fn is_empty(self) -> bool {
        match self {
            Self::Of(ids) => ids.is_empty(),
            Self::List(ids) => ids.is_empty(),
        }
    }

    pub(crate) fn to_vec(self) -> Vec<SubscriptionId> {
        match self {
            Self::Of(ids) => ids.into_iter().collect(),
            Self::List(ids) => ids.to_vec(),
        }
    }

    fn put(self, out: &mut PropertiesBuf) {
        let mut put = |id: SubscriptionId| {
            let pushed = out.push(Property::SubscriptionId(id.get()));
            assert!(pushed.is_ok(), "an integer is never too long");
        };
        match self {
            Self::Of(ids) => ids.into_iter().for_each(&mut put),
            Self::List(ids) => ids.iter().copied().for_each(&mut put),
        }
    }
}

/// A message did not go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// It exceeds what the receiver takes.
    TooLarge,
    /// The connection is absent.
    Gone,
}

impl Counts {
    /// Counts messages of a run that went out.
    pub(super) fn sent_run(&mut self, run: &Run<'_>) {
        self.publishes_out += run.len() as u64;
        self.packets_out += run.len() as u64;
        self.payload_out += run.payload_bytes() as u64;
    }

    /// Counts a message of so many bytes of payload that went out, or did not.
    pub(super) fn sent(&mut self, sent: Result<(), Unsent>, payload: usize) {
        match sent {
            Ok(()) => {
                self.payload_out += payload as u64;
                self.publishes_out += 1;
                self.packets_out += 1;
            }
            Err(Unsent::TooLarge) => self.dropped_large += 1,
            Err(Unsent::Gone) => {}
        }
    }
}

/// Writes messages; holds the memory for it, and the encoded forms of the current one.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    /// The current message has more than one receiver.
    many: bool,
    /// Forms of it in use.
    used: usize,
    forms: Vec<Form>,
    shared: Option<Bytes>,
    properties: PropertiesBuf,
    extra: PropertiesBuf,
}

/// One encoding of the current message.
#[derive(Debug)]
struct Form {
    v5: bool,
    qos: QoS,
    retain: bool,
    place: PublishPlace,
    /// Header, and the payload unless it is shared.
    bytes: Vec<u8>,
}

impl Wire {
    /// Another message follows, for so many receivers. A form pays from the second on.
    pub(crate) fn begin(&mut self, receivers: usize) {
        self.many = receivers > 1;
        self.used = 0;
        self.shared = None;
    }

    /// Writes the current message to one of many receivers: the same one since
    /// [`Wire::begin`].
    pub(crate) fn send_one_of_many<H: Handler>(
        &mut self,
        io: &mut LaneIo<'_, H>,
        to: Receiver<'_>,
        content: Content<'_>,
        manner: Manner<'_>,
        now_ms: u64,
    ) -> Result<(), Unsent> {
        let plain = self.many
            && manner.ids.is_empty()
            && !manner.dup
            && to.given.is_none()
            && content.place.is_none();
        if !plain || (content.expires_ms.is_some() && to.encoder.version.is_v5()) {
            return self.send(io, to, content, manner, now_ms);
        }
        let Receiver { conn, encoder, .. } = to;
        let at = self.form(encoder, content, manner)?;
        let form = &self.forms[at];
        if form.place.total_len > encoder.limits.max_packet as usize {
            return Err(Unsent::TooLarge);
        }
        let mut output = io.output_for(conn, form.bytes.len()).ok_or(Unsent::Gone)?;
        let start = output.len();
        output.extend_from_slice(&form.bytes);
        if let Some(id) = manner.id {
            form.place.set_packet_id(&mut output[start..], id);
        }
        drop(output);
        if let Some(payload) = &self.shared {
            io.write_ref(conn, payload.clone());
        }
        Ok(())
    }

    /// The place of the form that fits, made if it is not there yet.
    fn form(
        &mut self,
        encoder: Encoder,
        content: Content<'_>,
        manner: Manner<'_>,
    ) -> Result<usize, Unsent> {
        let v5 = encoder.version.is_v5();
        let fits =
            |form: &Form| (form.v5, form.qos, form.retain) == (v5, manner.qos, manner.retain);
        if let Some(at) = self.forms[..self.used].iter().position(fits) {
            return Ok(at);
        }
        if self.used == self.forms.len() {
            let place = PublishPlace { header_len: 0, total_len: 0, packet_id_at: None };
            let bytes = Vec::new();
            self.forms.push(Form { v5, qos: manner.qos, retain: manner.retain, place, bytes });
        }
        if content.payload.len() >= SHARE_MIN && self.shared.is_none() {
            self.shared = Some(Bytes::copy_from_slice(content.payload));
        }
        let form = &mut self.forms[self.used];
        (form.v5, form.qos, form.retain) = (v5, manner.qos, manner.retain);
        form.bytes.clear();
        let head = PublishHead {
            dup: false,
            qos: manner.qos,
            retain: manner.retain,
            topic: Some(content.topic),
            properties: &[content.properties],
        };
        // Made for all receivers of this form: what one of them takes is checked for it alone.
        let anyone = Encoder::new(encoder.version);
        let place = anyone.publish_header(&head, content.payload.len(), &mut form.bytes);
        form.place = place.map_err(unsent)?;
        if self.shared.is_none() {
            form.bytes.extend_from_slice(content.payload);
        }
        self.used += 1;
        Ok(self.used - 1)
    }

    /// Writes a message to its only receiver, or to one that gets a form of its own.
    //= MQTT5-3.3.4-3
    //= MQTT5-3.3.4-4
    //= MQTT5-3.3.4-5
    pub(crate) fn send<H: Handler>(
        &mut self,
        io: &mut LaneIo<'_, H>,
        to: Receiver<'_>,
        content: Content<'_>,
        manner: Manner<'_>,
        now_ms: u64,
    ) -> Result<(), Unsent> {
        let Receiver { conn, encoder, given } = to;
        self.renew(encoder, &content, now_ms);
        let naming = given.as_ref().map_or(Naming::Name, |given| given.naming(content.topic));
        let sent = self.send_named(io, conn, encoder, content, manner, naming);
        let (sent, naming) = match sent {
            Err(Unsent::TooLarge) => {
                self.send_with_less(io, conn, encoder, content, manner, naming)
            }
            sent => (sent, naming),
        };
        if let Some(given) = given.filter(|_| sent.is_ok()) {
            given.went_out(content.topic, naming);
        }
        sent
    }

    /// What is added here must not be what makes a message too large: an alias is given up first,
    /// then the message's place.
    #[cold]
    fn send_with_less<H: Handler>(
        &mut self,
        io: &mut LaneIo<'_, H>,
        conn: ConnId,
        encoder: Encoder,
        content: Content<'_>,
        manner: Manner<'_>,
        naming: Naming,
    ) -> (Result<(), Unsent>, Naming) {
        let without = Content { place: None, ..content };
        let ways = [(content, Naming::Name), (without, naming), (without, Naming::Name)];
        for (content, naming) in ways {
            let sent = self.send_named(io, conn, encoder, content, manner, naming);
            if sent != Err(Unsent::TooLarge) {
                return (sent, naming);
            }
        }
        (Err(Unsent::TooLarge), naming)
    }

    /// Makes the properties that are sent in place of the publisher's, where they differ.
    fn renew(&mut self, encoder: Encoder, content: &Content<'_>, now_ms: u64) {
        if let Some(expires_ms) = content.expires_ms
            && encoder.version.is_v5()
        {
            renew_expiry(&mut self.properties, content.properties, expires_ms, now_ms);
        }
    }

    fn send_named<H: Handler>(
        &mut self,
        io: &mut LaneIo<'_, H>,
        conn: ConnId,
        encoder: Encoder,
        content: Content<'_>,
        manner: Manner<'_>,
        naming: Naming,
    ) -> Result<(), Unsent> {
        self.extra.clear();
        manner.ids.put(&mut self.extra);
        if let Some(place) = content.place.filter(|_| encoder.version.is_v5()) {
            let (offset, time) = (place.get().to_string(), rfc3339(content.time_ms));
            for (name, value) in [("replay-offset", &offset), ("replay-time", &time)] {
                let pushed = self.extra.push(Property::UserProperty(name, value));
                assert!(pushed.is_ok(), "a number is never too long");
            }
        }
        if let Naming::Define(alias) | Naming::Alias(alias) = naming {
            let pushed = self.extra.push(Property::TopicAlias(alias.get()));
            assert!(pushed.is_ok(), "an integer is never too long");
        }
        let renewed = content.expires_ms.is_some() && encoder.version.is_v5();
        let properties = if renewed { self.properties.as_properties() } else { content.properties };
        let head = PublishHead {
            dup: manner.dup,
            qos: manner.qos,
            retain: manner.retain,
            topic: (!matches!(naming, Naming::Alias(_))).then_some(content.topic),
            properties: &[self.extra.as_properties(), properties],
        };
        let extra = self.extra.as_properties().as_bytes().len() + properties.as_bytes().len();
        let bytes = content.topic.as_str().len() + extra + content.payload.len() + HEADER_MOST;
        // What is too large for its receiver takes no room.
        let bytes = bytes.min(encoder.limits.max_packet as usize);
        let mut output = io.output_for(conn, bytes).ok_or(Unsent::Gone)?;
        let start = output.len();
        let place =
            encoder.publish_header(&head, content.payload.len(), &mut output).map_err(unsent)?;
        if let Some(id) = manner.id {
            place.set_packet_id(&mut output[start..], id);
        }
        output.extend_from_slice(content.payload);
        Ok(())
    }
}

/// The publisher's properties with the expiry that is left, in whole seconds begun.
//= MQTT5-3.3.2-6
fn renew_expiry(out: &mut PropertiesBuf, from: Properties<'_>, expires_ms: u64, now_ms: u64) {
    let left = expires_ms.saturating_sub(now_ms).div_ceil(1000);
    out.clear();
    for (property, encoded) in from.iter_encoded() {
        match property {
            Property::MessageExpiry(all) => {
                // Log time may be ahead of this lane's clock: nobody is told more than was asked.
                let left = u32::try_from(left).unwrap_or(u32::MAX).min(all);
                let left = if planted::is(Bug::ExpiryNotLowered) { all } else { left };
                let pushed = out.push(Property::MessageExpiry(left));
                assert!(pushed.is_ok(), "an integer is never too long");
            }
            _ => out.push_encoded(encoded),
        }
    }
}

fn unsent(error: EncodeError) -> Unsent {
    match error {
        EncodeError::TooLarge { .. } | EncodeError::TooLong(..) => Unsent::TooLarge,
        // Topic, QoS and version were checked when the message was taken.
        other => unreachable!("a message that was taken can be sent: {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_counts_down_in_seconds_begun_and_the_rest_stays_in_order() {
        //= MQTT5-3.3.2-6
        let mut from = PropertiesBuf::new();
        from.push(Property::ContentType("a")).unwrap();
        from.push(Property::MessageExpiry(10)).unwrap();
        from.push(Property::UserProperty("k", "v")).unwrap();
        let mut out = PropertiesBuf::new();
        renew_expiry(&mut out, from.as_properties(), 20_000, 13_001);
        let read: Vec<_> = out.as_properties().iter().collect();
        let wanted = [
            Property::ContentType("a"),
            Property::MessageExpiry(7),
            Property::UserProperty("k", "v"),
        ];
        assert_eq!(read, wanted);
    }

    /// The log stamped it a moment after this lane last looked at its clock.
    #[test]
    fn nobody_is_told_more_than_the_publisher_asked_for() {
        //= MQTT5-3.3.2-6
        let mut from = PropertiesBuf::new();
        from.push(Property::MessageExpiry(10)).unwrap();
        let mut out = PropertiesBuf::new();
        renew_expiry(&mut out, from.as_properties(), 20_000, 9_999);
        let read: Vec<_> = out.as_properties().iter().collect();
        assert_eq!(read, [Property::MessageExpiry(10)]);
    }
}
