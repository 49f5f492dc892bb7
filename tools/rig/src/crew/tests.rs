//! Brokers that do not heal, in this process: each is found out, and what it has not promised is
//! not held against it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use super::*;
use crate::accounts::{Accounts, Entry};

/// What does not come in this time does not come. Nothing is on its way here.
const PATIENCE: Duration = Duration::from_millis(300);

/// A broker that welcomes everybody to the session that it had, if it `welcomes`, and says nothing
/// more.
fn mute(welcomes: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the tests.
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream, welcomes));
        }
    });
    address
}

fn serve(mut stream: TcpStream, welcomes: bool) {
    let mut bytes = vec![0; 4096];
    let mut is_fresh = true;
    while let Ok(read @ 1..) = stream.read(&mut bytes) {
        if welcomes && is_fresh {
            let names = |name: &[u8]| bytes[..read].windows(name.len()).any(|word| word == name);
            let welcome: &[u8] = if names(b"MQTT\x05") {
                &[0x20, 3, 1, 0, 0]
            } else {
                &[0x20, 2, u8::from(names(b"MQTT\x04")), 0]
            };
            stream.write_all(welcome).unwrap();
            is_fresh = false;
        }
    }
}

/// What is held against a broker that had said this.
fn accused(welcomes: bool, said: &[Entry]) -> Vec<String> {
    let mut accounts = Accounts::default();
    for entry in said {
        accounts.apply(entry);
    }
    let mut book = Book::trial(accounts);
    let mut crew = Crew::new(mute(welcomes));
    crew.be_patient_for(PATIENCE);
    let deadline = Instant::now() + Duration::from_mins(1);
    let is_settled = crew.settle(&mut book, true, deadline).unwrap();
    let accused: Vec<_> = book.accounts().broken().iter().map(ToString::to_string).collect();
    assert_eq!(is_settled, accused.is_empty());
    accused
}

/// Everybody has subscribed, and one message was sent at QoS 1.
fn begun() -> Vec<Entry> {
    let churner = RECEIVERS.iter().position(|one| one.comes_and_goes).unwrap();
    let mut entries = vec![Entry::Subscribing { who: churner }];
    entries.extend((0..RECEIVERS.len()).map(|who| Entry::Subscribed { who }));
    entries.push(Entry::Sent { by: 0, seq: 1, id: 1 });
    entries
}

#[test]
fn a_broker_that_lets_nobody_in_does_not_heal() {
    assert_eq!(accused(false, &[]), ["heals: not everybody is let in"]);
}

#[test]
fn a_broker_that_leaves_a_message_unanswered_does_not_heal() {
    assert_eq!(accused(true, &begun()), ["heals: 1 handshakes do not come to their end"]);
}

#[test]
fn what_was_acknowledged_and_does_not_come_in_time_is_lost() {
    let acked = [Entry::Acked { by: 0, seq: 1 }, Entry::Done { by: 0, seq: 1 }];
    let accused = accused(true, &[&begun()[..], &acked].concat());
    // Who only hears was not connected.
    assert_eq!(accused.len(), AUDIENCES.len() - 1, "{accused:?}");
    let lost = |one: &String| one.starts_with("nothing lost: ") && one.contains("1 of rig-one-3");
    assert!(accused.iter().all(lost), "{accused:?}");
}

#[test]
fn who_owes_nothing_is_accused_of_nothing() {
    let refused = Entry::Refused { by: 0, seq: 1 };
    assert_eq!(accused(true, &[&begun()[..], &[refused]].concat()), [""; 0]);
}
