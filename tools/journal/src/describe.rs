//! The records of the engine as named values.
//!
//! Owns: the names under which fields are shown, and the question which topics a record names.
//! Does not know: how they are printed, what records do.

use zzq_engine::record::{
    Closing, Connect, Expire, History, LateDecision, LateItem, Publish, RangeSets, Receipt,
    Subscribe, WillMessage,
};
use zzq_engine::{Destination, Record, SubscriptionIds};
use zzq_types::{Properties, Property, TopicFilter, TopicName};

use crate::value::{Bytes, Fields, PayloadForm, Value};

/// Makes named values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Describe {
    pub(crate) form: PayloadForm,
}

impl Describe {
    /// All fields of a record.
    pub(crate) fn record(self, record: &Record<'_>) -> Fields {
        let mut to = Fields::new();
        match record {
            Record::Start(start) => to.set("jump", start.jump),
            Record::Connect(connect) => self.connect(connect, &mut to),
            Record::Publish(publish) => self.publish(publish, &mut to),
            Record::LateDecision(late) => late_decision(late, &mut to),
            Record::History(history) => self::history(history, &mut to),
            Record::Release(release) => {
                to.number("session", release.session.get());
                to.number("id", release.id.get());
            }
            Record::SessionDown(down) => {
                to.number("session", down.session.get());
                to.number("sent", down.sent.get());
                to.set("drop_will", down.drop_will);
                to.some("expiry_s", down.expiry_s.map(u64::from));
            }
            Record::SessionEnd(end) => {
                to.number("session", end.session.get());
                to.set("forget", end.forget);
            }
            Record::Subscribe(subscribe) => subscribe_items(subscribe, &mut to),
            Record::Unsubscribe(unsubscribe) => {
                to.number("session", unsubscribe.session.get());
                let filters = unsubscribe.filters.iter();
                to.list("filters", filters.map(|filter| Value::Text(filter.to_owned())));
            }
            Record::WillSet(set) => {
                to.number("session", set.session.get());
                self.will(set.will.as_ref(), &mut to);
            }
            Record::Receipt(Receipt { sets }) => range_sets(*sets, &mut to),
            Record::Expire(expire) => expired(expire, &mut to),
            _ => self.fact(record, &mut to),
        }
        to
    }

    fn fact(self, record: &Record<'_>, to: &mut Fields) {
        match record {
            Record::Config(config) => {
                to.add("key", self.bytes(config.key));
                to.add("value", self.bytes(config.value));
            }
            Record::SnTopic(topic) => {
                to.text("client", topic.client);
                to.number("id", topic.topic_id);
                to.text("topic", topic.topic);
            }
            Record::Identity(identity) => {
                to.text("client", identity.client);
                to.text("user", identity.user);
            }
            Record::Membership(member) => {
                to.number("node", member.id);
                to.add("value", self.bytes(member.bytes));
            }
            Record::Feature(feature) => {
                to.number("feature", feature.id);
                to.add("value", self.bytes(feature.bytes));
            }
            _ => {}
        }
    }

    /// Bytes of which nothing is known.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Value {
        Value::Bytes(Bytes::new(bytes, self.form))
    }

    fn connect(self, connect: &Connect<'_>, to: &mut Fields) {
        to.number("session", connect.session.get());
        to.text("client", connect.client);
        match connect.expiry_s {
            u32::MAX => to.add("expiry_s", Value::Word("never")),
            expiry_s => to.number("expiry_s", expiry_s),
        }
        to.number("window", connect.window);
        to.some("joins", connect.joins.map(zzq_engine::QueueNumber::get));
        self.will(connect.will.as_ref(), to);
    }

    fn publish(self, publish: &Publish<'_>, to: &mut Fields) {
        to.text("topic", publish.topic.as_str());
        to.number("qos", publish.qos.bits());
        to.set("retain", publish.retain);
        to.some("publisher", publish.publisher.map(zzq_engine::SessionNumber::get));
        to.some("id", publish.inbound.map(|id| u64::from(id.get())));
        to.some("will_of", publish.will_of.map(zzq_engine::SessionNumber::get));
        if !publish.decision.is_empty() {
            to.list("to", publish.decision.iter().map(destination));
        }
        self.properties(publish.properties, to);
        to.add("payload", self.bytes(publish.payload));
    }

    fn will(self, will: Option<&WillMessage<'_>>, to: &mut Fields) {
        let Some(will) = will else { return };
        let mut inner = Fields::new();
        inner.text("topic", will.topic.as_str());
        inner.number("qos", will.qos.bits());
        inner.set("retain", will.retain);
        inner.number("delay_s", will.delay_s);
        self.properties(will.properties, &mut inner);
        inner.add("payload", self.bytes(will.payload));
        to.add("will", Value::Fields(inner));
    }

    fn properties(self, properties: Properties<'_>, to: &mut Fields) {
        if properties.is_empty() {
            return;
        }
        let mut inner = Fields::new();
        for property in properties {
            self.property(property, &mut inner);
        }
        to.add("properties", Value::Fields(inner));
    }

    fn property(self, property: Property<'_>, to: &mut Fields) {
        match property {
            Property::PayloadFormat(format) => to.number("payload_format", format),
            Property::MessageExpiry(expiry_s) => to.number("message_expiry_s", expiry_s),
            Property::ContentType(text) => to.text("content_type", text),
            Property::ResponseTopic(text) => to.text("response_topic", text),
            Property::CorrelationData(bytes) => to.add("correlation_data", self.bytes(bytes)),
            Property::UserProperty(name, value) => {
                let pair = [name, value].map(|text| Value::Text(text.to_owned()));
                to.list("user_property", pair.into_iter());
            }
            // No writer stores others in a record.
            other => to.text("other", &format!("{other:?}")),
        }
    }
}

fn destination(destination: Destination<'_>) -> Value {
    let mut to = Fields::new();
    to.number("session", destination.session.get());
    to.number("qos", destination.qos.bits());
    to.set("retain", destination.retain);
    to.some("pick", destination.pick.map(|pick| u64::from(pick.get())));
    subscription_ids(destination.ids, &mut to);
    Value::Fields(to)
}

fn subscription_ids(ids: SubscriptionIds<'_>, to: &mut Fields) {
    if !ids.is_empty() {
        to.list("ids", ids.into_iter().map(|id| Value::Number(u64::from(id.get()))));
    }
}

fn late_decision(late: &LateDecision<'_>, to: &mut Fields) {
    to.number("session", late.session.get());
    to.list("items", late.items.iter().map(|item| late_item(&item)));
}

fn history(history: &History<'_>, to: &mut Fields) {
    to.number("session", history.session.get());
    to.number("number", history.sub.get());
    to.number("from", history.from.get());
    to.number("next", history.next.get());
    to.set("may_be_all", history.may_be_all);
    to.list("items", history.items.iter().map(|item| late_item(&item)));
}

fn late_item(item: &LateItem<'_>) -> Value {
    let mut to = Fields::new();
    to.number("lsn", item.lsn.get());
    to.number("qos", item.qos.bits());
    to.set("retain", item.retain);
    to.number("size", item.size);
    to.some("expires_ms", item.expires_ms);
    to.some("pick", item.pick.map(|pick| u64::from(pick.get())));
    if let Some(orphan) = item.orphan {
        to.number("orphan_of", orphan.session.get());
        to.number("orphan_number", orphan.number.get());
    }
    subscription_ids(item.ids, &mut to);
    Value::Fields(to)
}

fn subscribe_items(subscribe: &Subscribe<'_>, to: &mut Fields) {
    to.number("session", subscribe.session.get());
    let items = subscribe.items.iter().map(|item| {
        let mut to = Fields::new();
        to.text("filter", item.filter);
        to.number("number", item.number.get());
        to.number("qos", item.options.qos.bits());
        to.set("no_local", item.options.no_local);
        to.set("retain_as_published", item.options.retain_as_published);
        to.some("id", item.id.map(|id| u64::from(id.get())));
        if let Some(replay) = item.replay {
            to.number("replay_next", replay.next.get());
            to.number("replay_since_ms", replay.since_ms);
            to.number("replay_passed_by", replay.passed_by.get());
            to.set("replay_is_live", replay.is_live);
        }
        Value::Fields(to)
    });
    to.list("items", items);
}

fn range_sets(sets: RangeSets<'_>, to: &mut Fields) {
    let sets = sets.iter().map(|set| {
        let mut to = Fields::new();
        to.number("session", set.session.get());
        let why = match set.closing {
            Closing::Taken => "taken",
            Closing::Closed => "closed",
            Closing::Expired => "expired",
            Closing::Dropped => "dropped",
        };
        to.add("why", Value::Word(why));
        let ends = set.ranges.into_iter().map(|range| {
            let ends = [range.first, range.last].map(|number| Value::Number(number.get()));
            Value::List(ends.into())
        });
        to.list("numbers", ends);
        Value::Fields(to)
    });
    to.list("sets", sets);
}

fn expired(expire: &Expire<'_>, to: &mut Fields) {
    range_sets(expire.sets, to);
    let topics = expire.topics.iter().map(|expired| {
        let mut to = Fields::new();
        to.text("topic", expired.topic.as_str());
        to.number("lsn", expired.lsn.get());
        Value::Fields(to)
    });
    to.list("topics", topics);
}

/// Whether a record names a topic that `filter` matches.
pub(crate) fn names_topic(record: &Record<'_>, filter: TopicFilter<'_>) -> bool {
    let will = |will: &Option<WillMessage<'_>>| will.is_some_and(|will| filter.matches(will.topic));
    match record {
        Record::Publish(publish) => filter.matches(publish.topic),
        Record::Connect(connect) => will(&connect.will),
        Record::WillSet(set) => will(&set.will),
        Record::Expire(expire) => expire.topics.iter().any(|gone| filter.matches(gone.topic)),
        Record::SnTopic(sn) => TopicName::new(sn.topic).is_ok_and(|topic| filter.matches(topic)),
        _ => false,
    }
}
