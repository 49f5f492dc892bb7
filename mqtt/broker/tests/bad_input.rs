//! Peers that send garbage, or nothing: they are closed, others are served, memory stays bounded.

#![allow(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use Version::{V4, V5};
use support::{Broker, Client, Connect, Publish, Random, Received, Version, in_both_modes};
use support::{packet, text};

/// What the broker may hold while it deals with bad input, in KiB.
const MEMORY: u64 = 96 * 1024;

/// A pair that shows that others are served.
struct Witness {
    client: Client,
    count: u32,
}

impl Witness {
    fn new(broker: &Broker) -> Self {
        let mut client = Client::connect(broker, V5, "witness");
        client.subscribe("witness", 1);
        Self { client, count: 0 }
    }

    #[track_caller]
    fn is_served(&mut self) {
        self.is_served_with("");
    }

    #[track_caller]
    fn is_served_with(&mut self, filling: &str) {
        self.count += 1;
        let payload = format!("{} {filling}", self.count);
        self.client.say("witness", &payload, 1);
        self.client.expect("witness", &payload);
    }
}

/// The broker ends the connection by itself; what it says before is free.
#[track_caller]
fn is_closed(client: &mut Client) {
    loop {
        match client.receive(support::PATIENCE) {
            Received::Packet(_) => {}
            Received::Closed => return,
            Received::Nothing => panic!("the broker keeps the connection"),
        }
    }
}

fn is_small(broker: &Broker) {
    let resident = broker.resident_kib();
    assert!(resident < MEMORY, "{resident} KiB");
}

#[test]
fn random_bytes_instead_of_connect() {
    in_both_modes(|broker| {
        let mut witness = Witness::new(broker);
        let mut random = Random::new(1);
        for n in 0..300 {
            let mut client = Client::open(broker, V4);
            let len = usize::try_from(1 + random.below(2000)).unwrap();
            client.send(&random.bytes(len));
            client.finish();
            if n % 50 == 0 {
                witness.is_served();
            }
        }
        witness.is_served();
        is_small(broker);
    });
}

#[test]
fn random_bytes_after_connect() {
    in_both_modes(|broker| {
        let mut witness = Witness::new(broker);
        let mut random = Random::new(2);
        for n in 0..300 {
            let version = if n % 2 == 0 { V4 } else { V5 };
            let mut client = Client::connect(broker, version, "random");
            let len = usize::try_from(1 + random.below(2000)).unwrap();
            client.send(&random.bytes(len));
            client.finish();
        }
        witness.is_served();
        is_small(broker);
    });
}

#[test]
fn packets_with_bytes_changed() {
    in_both_modes(|broker| {
        let mut witness = Witness::new(broker);
        let mut random = Random::new(3);
        let publish = Publish::new("t/x", "payload").qos(2, 7);
        let properties = "01 01 03 00 01 61 26 00 01 61 00 01 62 08 00 01 72";
        let mut subscribe = vec![0, 9, 2, 0x0B, 5];
        subscribe.extend(text("a/+/#"));
        subscribe.push(1);
        let originals = [
            Connect::new(V5, "changed").will("w", "x", 1, true).encode(),
            publish.clone().properties(properties).encode(V5),
            packet(0x82, &subscribe),
            packet(0xA2, &[&[0, 9, 0][..], &text("a/+/#")].concat()),
            packet(0x62, &[0, 7]),
            packet(0xE0, &[0, 5, 0x11, 0, 0, 0, 0]),
        ];
        for _ in 0..50 {
            for original in &originals {
                let mut changed = original.clone();
                for _ in 0..=random.below(2) {
                    let at = random.below(u64::try_from(changed.len()).unwrap());
                    let byte = u8::try_from(random.below(256)).unwrap();
                    changed[usize::try_from(at).unwrap()] = byte;
                }
                let mut client = if original[0] == 0x10 {
                    Client::open(broker, V5)
                } else {
                    Client::connect(broker, V5, "changed")
                };
                client.send(&changed);
                client.finish();
            }
        }
        witness.is_served();
        is_small(broker);
    });
}

#[test]
fn packets_cut_off_at_each_byte() {
    in_both_modes(|broker| {
        let mut witness = Witness::new(broker);
        let connect =
            Connect::new(V5, "cut").properties("21 00 05").will("w", "x", 1, true).encode();
        for len in 1..connect.len() {
            let mut client = Client::open(broker, V5);
            client.send(&connect[..len]);
            client.finish();
        }
        let publish = Publish::new("t", "x").qos(1, 1).properties("03 00 01 61").encode(V5);
        for len in 1..publish.len() {
            let mut client = Client::connect(broker, V5, "cut");
            client.send(&publish[..len]);
            client.finish();
        }
        witness.is_served();
    });
}

#[test]
fn bodies_shorter_than_their_fields() {
    //= MQTT5-4.13.1-1, MQTT311-4.8.0-1
    in_both_modes(|broker| {
        for digits in ["30 00", "30 01 00", "30 02 00 05", "32 04 00 01 74 00", "82 00", "82 01 00"]
        {
            let mut client = Client::connect(broker, V4, "short");
            client.send_hex(digits);
            client.expect_end(&[]);
        }
        for digits in
            ["30 03 00 01 74", "30 04 00 01 74 05", "62 00", "40 01 00", "A2 00", "C0 01 00"]
        {
            let mut client = Client::connect(broker, V5, "short");
            client.send_hex(digits);
            client.expect_end(&[0x81, 0x82]);
        }
    });
}

#[test]
fn lengths_that_are_no_variable_byte_integer() {
    //= MQTT5-1.5.5-1, MQTT5-4.13.1-1, MQTT311-4.8.0-1
    in_both_modes(|broker| {
        for digits in ["30 FF FF FF FF 7F", "C0 80 80 80 80 00", "30 80 80 80 80"] {
            let mut four = Client::connect(broker, V4, "four");
            four.send_hex(digits);
            four.expect_end(&[]);
            let mut five = Client::connect(broker, V5, "five");
            five.send_hex(digits);
            five.expect_end(&[0x81]);
        }
        let mut five = Client::connect(broker, V5, "five");
        five.send_hex("C0 80 00");
        five.expect_end(&[0x81]);
    });
}

#[test]
fn a_declared_size_beyond_the_limit_is_refused_before_it_arrives() {
    //= B21
    in_both_modes(|broker| {
        let mut witness = Witness::new(broker);
        for _ in 0..20 {
            let mut first = Client::open(broker, V5);
            first.send_hex("10 FF FF FF 7F 00 04 4D 51 54 54");
            is_closed(&mut first);
            let mut five = Client::connect(broker, V5, "five");
            five.send_hex("30 FF FF FF 7F 00 01 74");
            five.expect_end(&[0x95]);
            let mut four = Client::connect(broker, V4, "four");
            four.send_hex("32 FF FF FF 7F 00 01 74");
            four.expect_end(&[]);
        }
        witness.is_served();
        is_small(broker);
    });
}

#[test]
fn half_of_many_large_packets() {
    in_both_modes(|broker| {
        let mut witness = Witness::new(broker);
        // One MiB declared by each, 16 KiB sent.
        let started: Vec<Client> = (0..200)
            .map(|n| {
                let mut client = Client::connect(broker, V4, &format!("half {n}"));
                client.send_hex("30 80 80 40 00 01 74");
                client.send(&[0x78; 16 * 1024]);
                client
            })
            .collect();
        witness.is_served();
        is_small(broker);
        drop(started);
        witness.is_served();
    });
}

#[test]
fn a_flood_of_connections_that_say_nothing() {
    in_both_modes(|broker| {
        let mut witness = Witness::new(broker);
        let mut silent: Vec<Client> = (0..500).map(|_| Client::open(broker, V4)).collect();
        for (n, client) in silent.iter_mut().enumerate() {
            // Some begin a CONNECT and go no further.
            if n % 2 == 0 {
                client.send_hex("10 0D 00 04 4D 51");
            }
        }
        witness.is_served();
        let mut late = Client::connect(broker, V5, "late");
        late.subscribe("late", 2);
        late.say("late", "served", 2);
        late.expect("late", "served");
        is_small(broker);
        drop(silent);
        witness.is_served();
    });
}

#[test]
fn a_connection_that_says_nothing_is_closed_in_time() {
    for logged in [false, true] {
        let broker = Broker::start(logged, &[]);
        let mut silent = Client::open(&broker, V4);
        let mut half = Client::open(&broker, V4);
        half.send_hex("10 0D 00 04 4D 51");
        for client in [&mut silent, &mut half] {
            assert_eq!(client.receive(support::PATIENCE), Received::Closed);
        }
    }
}

#[test]
fn a_flood_of_connections_that_come_and_go() {
    in_both_modes(|broker| {
        let mut witness = Witness::new(broker);
        for n in 0..1000 {
            let mut client = Client::open(broker, V4);
            if n % 3 == 0 {
                client.send(&Connect::new(V4, "come and go").encode());
            }
            client.reset();
        }
        witness.is_served();
        is_small(broker);
    });
}

#[test]
fn at_the_limit_of_open_files_those_inside_are_served_and_the_broker_is_at_rest() {
    //= B42
    in_both_modes(|broker| {
        let mut witness = Witness::new(broker);
        broker.limit_files(64);
        let mut waiting: Vec<Client> = (0..100).map(|_| Client::open(broker, V4)).collect();
        witness.is_served();
        let before = broker.processor_time();
        std::thread::sleep(Duration::from_secs(1));
        let busy = broker.processor_time().saturating_sub(before);
        assert!(busy < Duration::from_millis(500), "busy for {busy:?} of a second");
        // More than the first segments of the log hold: the files that follow can be made.
        for _ in 0..20 {
            witness.is_served_with(&"x".repeat(500_000));
        }
        witness.is_served();
        // Half of them leave: there is room for those that wait.
        waiting.truncate(50);
        waiting.drain(..25);
        Client::connect(broker, V4, "late").ping();
        for mut client in waiting {
            client.send(&Connect::new(V4, "waited").encode());
            support::Accepted::decode(&client.expect_packet(), V4);
        }
        witness.is_served();
    });
}

#[test]
fn a_subscriber_that_does_not_read_holds_bounded_memory() {
    in_both_modes(|broker| {
        let mut witness = Witness::new(broker);
        let mut deaf = Client::connect(broker, V4, "deaf");
        deaf.subscribe("t", 0);
        let mut publisher = Client::connect(broker, V4, "publisher");
        let publish = Publish::new("t", vec![b'x'; 100_000]).encode(V4);
        std::thread::scope(|scope| {
            // The broker may stop reading from this publisher; it is closed in the end.
            let sender = scope.spawn(move || {
                for _ in 0..2000 {
                    publisher.send(&publish);
                }
            });
            for _ in 0..20 {
                witness.is_served();
            }
            is_small(broker);
            // Its end lets the publisher go on.
            deaf.reset();
            sender.join().expect("all is sent or refused");
        });
        witness.is_served();
        is_small(broker);
    });
}

#[test]
fn a_client_that_asks_and_does_not_read_the_answers_holds_bounded_memory() {
    in_both_modes(|broker| {
        let mut witness = Witness::new(broker);
        let deaf = Client::connect(broker, V4, "deaf");
        let address = broker.address();
        drop(deaf);
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        std::io::Write::write_all(&mut stream, &Connect::new(V4, "deaf").encode()).unwrap();
        let pings = [0xC0, 0].repeat(32 * 1024);
        for _ in 0..400 {
            // Blocked, closed or served: all are allowed, a heap of answers is not.
            if std::io::Write::write_all(&mut stream, &pings).is_err() {
                break;
            }
        }
        witness.is_served();
        is_small(broker);
    });
}

/// There is no answer that is short enough: it would be neither refused nor let in.
#[test]
fn who_takes_no_packet_at_all_is_not_let_in() {
    //= MQTT5-3.1.2-24
    in_both_modes(|broker| {
        for most in 1..5 {
            let properties = format!("27 00 00 00 {most:02X}");
            let mut client = Client::open(broker, V5);
            client.send(&Connect::new(V5, "a").properties(&properties).encode());
            client.publish(&Publish::new("nobody", "").qos(1, 1));
            client.send(&Connect::new(V5, "a").encode());
            client.expect_close();
        }
        // It is told so from the shortest CONNACK on.
        let mut client = Client::open(broker, V5);
        client.send(&Connect::new(V5, "a").properties("27 00 00 00 05").encode());
        client.expect_hex("20 03 00 95 00");
        client.expect_close();
    });
}
