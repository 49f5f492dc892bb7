//! What CONNACK tells a client that is let in.
//!
//! Owns: what it has to know and what it may do without, where it takes small packets only. A
//! client that is not told that its identifier is another one, or that less is served than it takes
//! for granted, would be let in to be cut off: it is refused instead.
//!
//! Does not know: what is granted, and when CONNACK leaves.

use zzq_codec::{ConnAck, Connect, Encoder};
use zzq_lanes::ConnId;
use zzq_types::{Properties, PropertiesBuf, Property, PropertyId, QoS};
use zzq_wal::disk::Disk;

use super::Shell;
use super::connect::Terms;

impl<D: Disk> Shell<D> {
    /// What CONNACK says beside its reason. `None`: the client does not take all that it has to
    /// know. It may be left without what is no more than an offer.
    //= MQTT5-3.1.2-24
    //= MQTT5-3.1.2-28
    pub(super) fn told_at_connect(
        &self,
        conn: ConnId,
        connect: &Connect<'_>,
        encoder: Encoder,
        terms: Terms,
        client: &str,
    ) -> Option<PropertiesBuf> {
        const OFFERS: [PropertyId; 2] = [PropertyId::ResponseInfo, PropertyId::TopicAliasMaximum];
        if !connect.version.is_v5() {
            return Some(PropertiesBuf::new());
        }
        let mut all = self.all_told_at_connect(connect, terms, client);
        //= MQTT5-4.12.0-5
        //= MQTT5-4.12.0-6
        if let Some(exchanging) = self.links.get(conn).and_then(|link| link.exchanging.as_ref()) {
            exchanging.put_last_word(&mut all);
        }
        (0..=OFFERS.len()).find_map(|left_out| {
            let mut told = PropertiesBuf::new();
            for (property, encoded) in all.as_properties().iter_encoded() {
                if !OFFERS[..left_out].contains(&property.id()) {
                    told.push_encoded(encoded);
                }
            }
            let ack = ConnAck::accepted(false, told.as_properties());
            encoder.conn_ack(&ack, &mut Vec::new()).is_ok().then_some(told)
        })
    }

    /// All that a client of MQTT 5 is told that is let in.
    //= MQTT5-3.1.2-28
    //= MQTT5-3.2.2-8
    fn all_told_at_connect(
        &self,
        connect: &Connect<'_>,
        terms: Terms,
        client: &str,
    ) -> PropertiesBuf {
        let mut properties = PropertiesBuf::new();
        let limits = &self.shared.options.limits;
        let mut say = |property: Property<'_>| {
            let pushed = properties.push(property);
            assert!(pushed.is_ok(), "a client identifier fits a string");
        };
        if terms.tell_expiry {
            say(Property::SessionExpiry(terms.expiry_s));
        }
        if limits.receive_maximum < u16::MAX {
            say(Property::ReceiveMaximum(limits.receive_maximum));
        }
        say(Property::MaximumPacketSize(limits.max_packet_size));
        if connect.client_id.is_empty() {
            say(Property::AssignedClientId(client));
        }
        if limits.topic_alias_maximum > 0 {
            say(Property::TopicAliasMaximum(limits.topic_alias_maximum));
        }
        //= MQTT5-3.2.2-9
        if limits.max_qos < QoS::ExactlyOnce {
            say(Property::MaximumQoS(limits.max_qos.bits()));
        }
        if !limits.retain {
            say(Property::RetainAvailable(0));
        }
        if !limits.wildcards {
            say(Property::WildcardAvailable(0));
        }
        if !limits.shared_subscriptions {
            say(Property::SharedAvailable(0));
        }
        if let Some(told) = self.response_information(connect, client) {
            say(Property::ResponseInfo(&told));
        }
        if terms.tell_keep_alive {
            //= MQTT5-3.2.2-21
            say(Property::ServerKeepAlive(terms.keep_alive));
        }
        properties
    }

    /// Where a client may expect responses, if it asks. One whose identifier fits no topic is not
    /// told.
    fn response_information(&self, connect: &Connect<'_>, client: &str) -> Option<String> {
        let wanted = connect.properties.find(PropertyId::RequestResponseInfo);
        let pattern = self.shared.options.response_information.as_ref()?;
        let told = pattern.replace("%c", client);
        let is_told = wanted == Some(Property::RequestResponseInfo(1))
            && u16::try_from(told.len()).is_ok()
            && (!client.contains(['+', '#']) || told == *pattern);
        is_told.then_some(told)
    }
}

/// CONNACK of a client that is let in, who takes what it is told.
//= MQTT311-3.2.2-1
//= MQTT311-3.2.2-2
//= MQTT311-3.2.2-3
//= MQTT5-3.2.2-1
//= MQTT5-3.2.2-2
//= MQTT5-3.2.2-3
pub(super) fn conn_ack(encoder: Encoder, present: bool, told: Properties<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = encoder.conn_ack(&ConnAck::accepted(present, told), &mut bytes);
    assert!(written.is_ok(), "what does not fit was refused: {written:?}");
    bytes
}
