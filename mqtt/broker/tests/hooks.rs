//! An application decides who may connect and what clients may do, at once or later, and is told
//! what happens.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod embedded;
mod support;

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use embedded::{Door, Embedded};
use support::{Client, Connect, Publish, Version};
use zzq_broker::hooks::{
    Answer, Authenticator, Authoriser, Client as Who, Event, Identity, Login, Permit, Publishing,
    Receiving, Refusal, Right, Subscribing, Verdict, events,
};
use zzq_broker::{Hooks, ReasonCode};

const VERSIONS: [Version; 2] = [Version::V4, Version::V5];

/// Decides by the user name: `late`, `never`, or a refusal; everybody else may.
#[derive(Default)]
struct Porter {
    door: Door,
    seen: Mutex<Vec<String>>,
}

impl Authenticator for Porter {
    fn authenticate(&self, login: &Login<'_>) -> Answer<Verdict> {
        let seen = format!("{login:?} {:?}", login.password);
        self.seen.lock().expect("a lock").push(seen);
        let welcome = || Verdict::Admit(Identity { user: Some("known".into()), data: None });
        let other = || "other:1883".into();
        let refusal = match login.user {
            Some("late") => return Answer::later(self.door.through(welcome())),
            Some("never") => return Answer::later(std::future::pending()),
            Some("panics") => return Answer::later(async { panic!("a hook fails") }),
            Some("wrong") => Refusal::BadUserNameOrPassword,
            Some("stranger") => Refusal::NotAuthorized,
            Some("busy") => Refusal::Unavailable,
            Some("banned") => Refusal::Banned,
            Some("elsewhere") => Refusal::UseAnotherServer(other()),
            Some("moved") => Refusal::ServerMoved(other()),
            _ => return welcome().into(),
        };
        Verdict::Refuse(refusal).into()
    }
}

/// Decides by the first level: `no` is denied, `cut` ends the connection, `late` waits for the
/// door, `never` has no answer; `hidden` reaches only who is called `insider`, `later` nobody once
/// it is closed; `slow` and `slow-no` are received or not behind the door, `lost` has no answer.
#[derive(Default)]
struct Warden {
    door: Door,
    /// History may be read.
    replay: bool,
    /// Nobody receives what is below `later` any more.
    closed: AtomicBool,
}

impl Warden {
    fn answer(&self, topic: &str) -> Answer<Permit> {
        match topic.split('/').next() {
            Some("no") => Permit::Deny.into(),
            Some("cut") => Permit::Disconnect.into(),
            Some("late") => Answer::later(self.door.through(Permit::Allow)),
            Some("late-no") => Answer::later(self.door.through(Permit::Deny)),
            Some("never") => Answer::later(std::future::pending()),
            _ => Permit::Allow.into(),
        }
    }
}

impl Authoriser for Warden {
    fn publish(&self, _: &Arc<Who>, publish: &Publishing<'_>) -> Answer<Permit> {
        self.answer(publish.topic)
    }

    fn subscribe(&self, _: &Arc<Who>, subscribe: &Subscribing<'_>) -> Answer<Permit> {
        self.answer(subscribe.filter)
    }

    fn replay(&self, _: &Arc<Who>, _: &Subscribing<'_>) -> Answer<Permit> {
        if self.replay { Permit::Allow.into() } else { Permit::Deny.into() }
    }

    fn receive(&self, client: &Arc<Who>, message: &Receiving<'_>) -> Answer<bool> {
        let is_closed = self.closed.load(Ordering::SeqCst);
        match message.topic.split('/').next() {
            Some("hidden") => (&*client.id == "insider").into(),
            Some("later") => (!is_closed).into(),
            Some("slow") => Answer::later(self.door.through(true)),
            Some("slow-no") => Answer::later(self.door.through(false)),
            Some("lost") => Answer::later(std::future::pending()),
            _ => true.into(),
        }
    }
}

fn guarded(by: Arc<Porter>) -> Hooks {
    Hooks { authenticator: Some(by), ..Hooks::default() }
}

fn ruled(by: Arc<Warden>) -> Hooks {
    Hooks { authoriser: Some(by), ..Hooks::default() }
}

#[test]
fn a_refused_client_is_told_why_in_the_words_of_its_version() {
    //= MQTT5-3.1.4-2, MQTT5-3.1.4-6, MQTT5-3.2.2-6, MQTT5-3.2.2-7
    //= MQTT311-3.1.4-5, MQTT311-3.2.2-4, MQTT311-3.2.2-5
    let broker = Embedded::start(guarded(Arc::default()));
    let mut reader = broker.connect(Version::V4, "reader");
    reader.subscribe("t", 0);
    for (user, v4, v5) in [
        ("wrong", "20 02 00 04", "20 03 00 86 00"),
        ("stranger", "20 02 00 05", "20 03 00 87 00"),
        ("busy", "20 02 00 03", "20 03 00 88 00"),
        ("banned", "20 02 00 05", "20 03 00 8A 00"),
        ("panics", "20 02 00 03", "20 03 00 88 00"),
        ("elsewhere", "20 02 00 03", "20 10 00 9C 0D 1C 00 0A 6F 74 68 65 72 3A 31 38 38 33"),
        ("moved", "20 02 00 03", "20 10 00 9D 0D 1C 00 0A 6F 74 68 65 72 3A 31 38 38 33"),
    ] {
        for (version, told) in [(Version::V4, v4), (Version::V5, v5)] {
            let mut bytes = Connect::new(version, "c").login(user, "x").encode();
            bytes.extend(Publish::new("t", "refused").encode(version));
            let mut client = broker.open(version);
            client.send(&bytes);
            client.expect_hex(told);
            client.expect_close();
        }
    }
    broker.connect(Version::V4, "other").say("t", "accepted", 0);
    reader.expect("t", "accepted");
}

#[test]
fn an_authenticator_sees_who_comes_and_from_where() {
    let porter = Arc::new(Porter::default());
    let broker = Embedded::start(guarded(Arc::clone(&porter)));
    let (client, _) = broker.accept(&Connect::new(Version::V5, "me").login("anna", "pw"));
    let seen = porter.seen.lock().expect("a lock").join("\n");
    let from = client.stream().local_addr().expect("an address").to_string();
    for part in ["\"me\"", "Some(\"anna\")", "[112, 119]", "V5", "Tcp", &from, &broker.endpoint] {
        assert!(seen.contains(part), "{part} in {seen}");
    }
}

#[test]
fn a_connect_waits_for_its_answer_and_nobody_else_does() {
    for version in VERSIONS {
        let porter = Arc::new(Porter::default());
        let broker = Embedded::start(guarded(Arc::clone(&porter)));
        let mut late = broker.open(version);
        // Behind CONNECT comes more, which waits as well.
        let mut bytes = Connect::new(version, "late one").login("late", "").encode();
        bytes.extend(Publish::new("a", "behind").encode(version));
        late.send(&bytes);
        porter.door.await_somebody();
        // On both lanes somebody is served.
        for id in ["a", "b", "c", "d", "e", "f"] {
            broker.connect(version, id).ping();
        }
        let mut reader = broker.connect(version, "reader");
        reader.subscribe("a", 0);
        reader.ping_without_messages();
        porter.door.open();
        let answer = late.expect_packet();
        assert_eq!((answer[0], answer[3]), (0x20, 0));
        reader.expect("a", "behind");
    }
}

#[test]
fn no_answer_in_time_is_a_refusal() {
    let hooks = guarded(Arc::default());
    let broker = Embedded::start(Hooks { answer_within: Duration::from_millis(50), ..hooks });
    for (version, told) in [(Version::V4, "20 02 00 03"), (Version::V5, "20 03 00 88 00")] {
        let mut client = broker.dial(version, &Connect::new(version, "c").login("never", ""));
        client.expect_hex(told);
        client.expect_close();
    }
    embedded::until("both are counted", || broker.broker().counts().unanswered == 2);
}

#[test]
fn who_has_gone_takes_the_question_back() {
    let porter = Arc::new(Porter::default());
    let broker = Embedded::start(guarded(Arc::clone(&porter)));
    let client = broker.dial(Version::V4, &Connect::new(Version::V4, "c").login("late", ""));
    porter.door.await_somebody();
    client.reset();
    porter.door.await_leaving();
    porter.door.open();
    broker.connect(Version::V4, "c").ping();
}

#[test]
fn made_client_identifiers_stay_over_a_wait() {
    let porter = Arc::new(Porter::default());
    let broker = Embedded::start(guarded(Arc::clone(&porter)));
    let mut client = broker.dial(Version::V5, &Connect::new(Version::V5, "").login("late", ""));
    porter.door.await_somebody();
    porter.door.open();
    let accepted = support::Accepted::decode(&client.expect_packet(), Version::V5);
    assert_eq!(accepted.all(0x12).len(), 1, "one Assigned Client Identifier");
    client.ping();
}

#[test]
fn a_denied_publish_reaches_nobody() {
    //= MQTT311-3.3.5-2
    //= MQTT5-4.3.3-9
    let broker = Embedded::start(ruled(Arc::default()));
    let mut reader = broker.connect(Version::V5, "reader");
    reader.subscribe("#", 1);
    for version in VERSIONS {
        let denied = if version == Version::V5 { 0x87 } else { 0 };
        let mut writer = broker.connect(version, "writer");
        writer.publish(&Publish::new("no/0", "x"));
        writer.publish(&Publish::new("no/1", "x").qos(1, 7));
        assert_eq!(writer.expect_ack_code(0x40, 7), denied);
        writer.publish(&Publish::new("no/2", "x").qos(2, 8));
        assert_eq!(writer.expect_ack_code(0x50, 8), denied);
        // Many in one piece are denied as one is.
        let run: Vec<u8> =
            (0..50).flat_map(|_| Publish::new("no/0", "x").encode(version)).collect();
        writer.send(&run);
        writer.say("yes", "done", 1);
        reader.expect("yes", "done");
    }
    // A run counts packet by packet.
    embedded::until("all are counted", || broker.broker().counts().denied_publishes == 2 * 53);
}

#[test]
fn a_run_that_is_allowed_arrives() {
    let broker = Embedded::start(ruled(Arc::default()));
    for version in VERSIONS {
        let mut reader = broker.connect(version, "reader");
        reader.subscribe("yes/#", 1);
        let mut writer = broker.connect(version, "writer");
        let encoded = |n: u16| Publish::new("yes/1", n.to_string()).qos(1, n).encode(version);
        writer.send(&(1..=50).flat_map(encoded).collect::<Vec<u8>>());
        for n in 1..=50_u16 {
            reader.expect("yes/1", &n.to_string());
            writer.expect_ack(0x40, n);
        }
    }
}

#[test]
fn a_publish_may_end_its_connection() {
    let broker = Embedded::start(ruled(Arc::default()));
    for version in VERSIONS {
        let mut writer = broker.connect(version, "writer");
        writer.publish(&Publish::new("cut/1", "x").qos(1, 7));
        writer.expect_end(&[0x87]);
    }
}

#[test]
fn a_publish_waits_for_its_answer_and_what_follows_comes_behind_it() {
    for version in VERSIONS {
        let warden = Arc::new(Warden::default());
        let broker = Embedded::start(ruled(Arc::clone(&warden)));
        let mut reader = broker.connect(version, "reader");
        reader.subscribe_with("", &[("yes", 1), ("+/1", 1)]);
        let mut writer = broker.connect(version, "writer");
        let mut bytes = Vec::new();
        for (topic, id) in [("late/1", 1), ("late-no/1", 2), ("yes", 3), ("late/1", 4)] {
            bytes.extend(Publish::new(topic, topic).qos(1, id).encode(version));
        }
        writer.send(&bytes);
        warden.door.await_somebody();
        reader.ping_without_messages();
        warden.door.open();
        let denied = if version == Version::V5 { 0x87 } else { 0 };
        let codes = [1, 2, 3, 4].map(|id| writer.expect_ack_code(0x40, id));
        assert_eq!(codes, [0, denied, 0, 0]);
        for topic in ["late/1", "yes", "late/1"] {
            reader.expect(topic, topic);
        }
    }
}

#[test]
fn a_publish_without_an_answer_is_not_taken() {
    let hooks = ruled(Arc::default());
    let broker = Embedded::start(Hooks { answer_within: Duration::from_millis(50), ..hooks });
    let mut writer = broker.connect(Version::V5, "writer");
    writer.publish(&Publish::new("never/1", "x").qos(1, 7));
    assert_eq!(writer.expect_ack_code(0x40, 7), 0x80);
    writer.ping();
    // MQTT 3 would take an acknowledgement for a promise.
    let mut writer = broker.connect(Version::V4, "writer");
    writer.publish(&Publish::new("never/1", "x").qos(1, 7));
    writer.expect_close();
}

#[test]
fn filters_are_denied_one_by_one() {
    for version in VERSIONS {
        let warden = Arc::new(Warden::default());
        let broker = Embedded::start(ruled(Arc::clone(&warden)));
        let mut reader = broker.connect(version, "reader");
        let denied = if version == Version::V5 { 0x87 } else { 0x80 };
        let codes = reader.subscribe_with("", &[("yes", 1), ("no/#", 0), ("$share/g/no/1", 2)]);
        assert_eq!(codes, [1, denied, denied]);
        warden.door.open();
        let codes = reader.subscribe_with("", &[("late/#", 2), ("no/1", 0), ("late-no/#", 0)]);
        assert_eq!(codes, [2, denied, denied]);
        let mut writer = broker.connect(version, "writer");
        writer.say("yes", "1", 1);
        reader.expect("yes", "1");
        embedded::until("all are counted", || broker.broker().counts().denied_filters == 4);
        reader.send(&support::packet(0x82, &subscribe_body(version, "cut/#")));
        reader.expect_end(&[0x87]);
    }
}

fn subscribe_body(version: Version, filter: &str) -> Vec<u8> {
    let properties: &[u8] = if version == Version::V5 { &[0] } else { &[] };
    [&[0, 9], properties, &support::text(filter), &[0]].concat()
}

#[test]
fn what_a_client_may_not_receive_is_dropped_for_it_alone() {
    for version in VERSIONS {
        let broker = Embedded::on_disk(ruled(Arc::default()));
        let mut insider = broker.connect(version, "insider");
        insider.subscribe("hidden/#", 2);
        let (mut outsider, _) = broker.accept(&Connect::persistent(version, "outsider"));
        outsider.subscribe("#", 2);
        let mut writer = broker.connect(version, "writer");
        for qos in [0, 1, 2] {
            writer.say("hidden/1", &qos.to_string(), qos);
            insider.expect("hidden/1", &qos.to_string());
        }
        writer.retain("hidden/2", "retained", 1);
        insider.expect("hidden/2", "retained");
        writer.say("open", "done", 1);
        outsider.expect("open", "done");
        // It is not owed them any more.
        outsider.disconnect();
        let (mut outsider, accepted) = broker.accept(&Connect::persistent(version, "outsider"));
        assert!(accepted.session_present);
        outsider.subscribe("hidden/2", 1);
        outsider.ping_without_messages();
        embedded::until("all are counted", || broker.broker().counts().dropped_denied == 5);
    }
}

/// Messages for a reader of one QoS, as many together as a client may send at once.
fn say_together(writer: &mut Client, qos: u8, texts: &[(&str, &str)]) {
    if qos > 0 {
        for (topic, text) in texts {
            writer.say(topic, text, qos);
        }
    } else {
        let encode = |(topic, text): &(&str, &str)| Publish::new(topic, text).encode(Version::V5);
        writer.send(&texts.iter().flat_map(encode).collect::<Vec<_>>());
    }
}

#[test]
fn a_message_waits_for_its_answer_and_what_goes_to_others_does_not() {
    for (version, qos) in
        VERSIONS.into_iter().flat_map(|version| [0, 1, 2].map(|qos| (version, qos)))
    {
        let warden = Arc::new(Warden::default());
        let broker = Embedded::on_disk(ruled(Arc::clone(&warden)));
        let mut writer = broker.connect(Version::V5, "writer");
        writer.retain("slow/1", "retained", qos);
        let [mut reader, mut other] = ["reader", "other"].map(|id| broker.connect(version, id));
        reader.subscribe("+/#", qos);
        other.subscribe("open/#", qos);
        warden.door.await_somebody();
        let texts = [
            ("open/1", "1"),
            ("open/1", "2"),
            ("slow/2", "3"),
            ("slow/2", "4"),
            ("slow-no/1", "5"),
            ("open/1", "6"),
        ];
        say_together(&mut writer, qos, &texts);
        for (topic, text) in texts.iter().filter(|(topic, _)| topic.starts_with("open")) {
            other.expect(topic, text);
        }
        reader.ping_without_messages();
        warden.door.open();
        reader.expect("slow/1", "retained");
        for (topic, text) in texts.iter().filter(|(topic, _)| *topic != "slow-no/1") {
            reader.expect(topic, text);
        }
        embedded::until("it is counted", || broker.broker().counts().dropped_denied == 1);
        // Nothing is left to wait for.
        say_together(&mut writer, qos, &texts[..2]);
        reader.expect("open/1", "1");
        reader.expect("open/1", "2");
    }
}

#[test]
fn a_message_without_an_answer_in_time_is_not_received() {
    for qos in [0, 1, 2] {
        let hooks = ruled(Arc::default());
        let broker = Embedded::start(Hooks { answer_within: Duration::from_millis(50), ..hooks });
        let mut client = broker.connect(Version::V5, "c");
        client.subscribe("+/#", qos);
        say_together(&mut client, qos, &[("lost/1", "x"), ("lost/1", "x"), ("open", "y")]);
        client.expect("open", "y");
        let counts = || broker.broker().counts();
        embedded::until("both are counted", || {
            (counts().unanswered, counts().dropped_denied) == (2, 2)
        });
    }
}

/// Who waits at QoS 0 is a slow receiver: what it is sent is bounded, and its publisher is held.
#[test]
fn what_waits_for_an_answer_at_qos_0_slows_its_publisher() {
    const MESSAGES: usize = 2000;
    let warden = Arc::new(Warden::default());
    let broker = Embedded::start(ruled(Arc::clone(&warden)));
    let [mut reader, mut writer] = ["reader", "writer"].map(|id| broker.connect(Version::V5, id));
    reader.subscribe("slow/#", 0);
    let text = "x".repeat(16 << 10);
    let publishing = std::thread::spawn(move || {
        for _ in 0..MESSAGES {
            writer.say("slow/1", &text, 0);
        }
        writer
    });
    embedded::until("its publisher is held", || broker.broker().counts().held_bytes > 0);
    reader.ping_without_messages();
    assert!(!publishing.is_finished());
    warden.door.open();
    for _ in 0..MESSAGES {
        assert_eq!(reader.expect_message().payload.len(), 16 << 10);
    }
    publishing.join().expect("a writer").ping();
    assert_eq!(broker.broker().counts().dropped_slow, 0);
}

#[test]
fn a_receiver_that_goes_takes_its_questions_along() {
    for qos in [0, 1] {
        let warden = Arc::new(Warden::default());
        let hooks = ruled(Arc::clone(&warden));
        // Nor does it end by itself.
        let broker = Embedded::start(Hooks { answer_within: 10 * support::PATIENCE, ..hooks });
        let mut reader = broker.connect(Version::V5, "reader");
        reader.subscribe("slow/#", qos);
        broker.connect(Version::V5, "writer").say("slow/1", "x", qos);
        warden.door.await_somebody();
        reader.reset();
        warden.door.await_leaving();
    }
}

/// Its client may have the first copy, and would take another message with the same identifier for
/// a repeat of it.
#[test]
fn what_was_begun_at_qos_2_and_may_not_be_received_any_more_is_released() {
    //= MQTT5-4.3.3-4, MQTT311-4.3.3-1
    for version in VERSIONS {
        let warden = Arc::new(Warden::default());
        let broker = Embedded::on_disk(ruled(Arc::clone(&warden)));
        let connect = Connect::persistent(version, "reader");
        let (mut reader, _) = broker.accept(&connect);
        reader.subscribe("later/#", 2);
        let mut writer = broker.connect(version, "writer");
        let begun = ["later/1", "later/2"].map(|topic| {
            writer.say(topic, "begun", 2);
            reader.expect_message()
        });
        reader.reset();
        warden.closed.store(true, Ordering::SeqCst);
        let (mut reader, accepted) = broker.accept(&connect);
        assert!(accepted.session_present);
        for message in &begun {
            reader.expect_ack(0x62, message.id);
        }
        // The release stays owed, the message does not.
        reader.reset();
        let (mut reader, _) = broker.accept(&connect);
        for message in &begun {
            reader.expect_ack(0x62, message.id);
            reader.send_ack(0x70, message.id);
        }
        reader.ping_without_messages();
        reader.disconnect();
        broker.accept(&connect).0.ping_without_messages();
        embedded::until("both are counted", || broker.broker().counts().dropped_denied == 2);
    }
}

#[test]
fn history_is_a_right_of_its_own() {
    for (replay, code) in [(false, 0x87), (true, 1)] {
        let warden = Warden { replay, ..Warden::default() };
        let broker = Embedded::on_disk(ruled(Arc::new(warden)));
        let mut writer = broker.connect(Version::V5, "writer");
        writer.say("news", "old", 1);
        let mut reader = broker.connect(Version::V5, "reader");
        assert_eq!(reader.subscribe_with("", &[("news", 1)]), [1]);
        assert_eq!(reader.subscribe_with("", &[("$replay/all/news", 1)]), [code]);
        assert_eq!(reader.subscribe_with("", &[("$replay/all/no/#", 1)]), [0x87]);
        if replay {
            reader.expect("news", "old");
        }
    }
}

#[test]
fn a_will_that_may_not_be_published_keeps_its_client_out() {
    let broker = Embedded::start(ruled(Arc::default()));
    for (version, told) in [(Version::V4, "20 02 00 05"), (Version::V5, "20 03 00 87 00")] {
        let connect = Connect::new(version, "c").will("no/will", "x", 1, false);
        let mut client = broker.dial(version, &connect);
        client.expect_hex(told);
        client.expect_close();
    }
    broker.accept(&Connect::new(Version::V5, "c").will("yes", "x", 1, false));
}

#[test]
fn an_application_is_told_what_happens() {
    let (sink, mut stream) = events(NonZeroUsize::new(100).expect("not zero"));
    let hooks = Hooks {
        authenticator: Some(Arc::new(Porter::default())),
        authoriser: Some(Arc::new(Warden::default())),
        events: Some(sink),
        ..Hooks::default()
    };
    let broker = Embedded::start(hooks);
    let mut next = || stream.next_blocking().expect("an event");

    let mut refused = broker.dial(Version::V5, &Connect::new(Version::V5, "r").login("wrong", ""));
    refused.expect_refusal();
    let Event::Refused { client_id, reason, .. } = next() else { panic!("a refusal") };
    assert_eq!((&*client_id, reason), ("r", ReasonCode::BadUserNameOrPassword));

    let mut client = broker.connect(Version::V5, "c");
    let Event::Connected { client: who } = next() else { panic!("a client") };
    assert_eq!((&*who.id, who.user.as_deref()), ("c", Some("known")));

    client.subscribe_with("", &[("a/+", 1), ("no/1", 1)]);
    let Event::Denied { right, topic, .. } = next() else { panic!("a denial") };
    assert_eq!((right, &*topic), (Right::Subscribe, "no/1"));
    let Event::Subscribed { filter, .. } = next() else { panic!("a subscription") };
    assert_eq!(&*filter, "a/+");

    client.unsubscribe(&["a/+", "nothing"]);
    let Event::Unsubscribed { filter, .. } = next() else { panic!("its end") };
    assert_eq!(&*filter, "a/+");

    client.subscribe("#", 1);
    assert!(matches!(next(), Event::Subscribed { .. }));
    client.say("hidden/1", "x", 1);
    let Event::Dropped { count: 1, .. } = next() else { panic!("a loss") };

    client.disconnect();
    let Event::Disconnected { client: who, reason, .. } = next() else { panic!("its end") };
    assert_eq!((&*who.id, reason), ("c", Some(ReasonCode::Success)));

    let client = broker.connect(Version::V4, "d");
    assert!(matches!(next(), Event::Connected { .. }));
    client.reset();
    let Event::Disconnected { reason: None, .. } = next() else { panic!("its end") };
}

#[test]
fn who_does_not_read_events_holds_up_nobody() {
    let (sink, stream) = events(NonZeroUsize::MIN);
    let broker = Embedded::start(Hooks { events: Some(sink), ..Hooks::default() });
    for id in ["a", "b", "c"] {
        broker.connect(Version::V5, id).disconnect();
    }
    // Six events, room for one.
    embedded::until("five are lost", || stream.lost() == 5);
    embedded::until("they are counted", || broker.broker().counts().events_lost == 5);
}
