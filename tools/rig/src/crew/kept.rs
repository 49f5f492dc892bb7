//! Who looks at what is retained, and keeps nothing.
//!
//! Owns: that question to a broker. Does not know: what was published meanwhile: nothing is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use zzq_codec::{Connect, Packet};
use zzq_types::{ProtocolVersion, QoS, SubscribeOptions};

use super::line::Line;
use super::receiver::{subscribe, whose};
use crate::accounts::Book;
use crate::cast::{KEPT_FILTER, PUBLISHERS};

/// Asks for everything retained, and takes down what should be another message. Nobody publishes
/// meanwhile. What does not come in time is not there.
pub fn check_kept(address: SocketAddr, patience: Duration, book: &mut Book) -> Result<()> {
    let Some(found) = ask(address, patience, book)? else {
        let what = "the broker closes in front of who looks at retained messages";
        book.accuse("heals", what.to_owned());
        return Ok(());
    };
    for (by, publisher) in PUBLISHERS.iter().enumerate() {
        for round in 0..publisher.kept.unwrap_or_default() {
            let topic = publisher.topic(by, round);
            let kept = book.accounts().may_be_kept(by, &topic);
            let found = found.get(&topic).copied();
            if !kept.allows(found) {
                let what = format!("{topic} holds {found:?}, not {kept:?}");
                book.accuse("retained is the last acknowledged", what);
            }
        }
    }
    Ok(())
}

/// The messages that come, by topic. It is over when all that must be there has come, and the
/// broker has answered once more. `None`: it closes before.
fn ask(
    address: SocketAddr,
    patience: Duration,
    book: &mut Book,
) -> Result<Option<BTreeMap<String, u64>>> {
    let version = ProtocolVersion::V5;
    let Ok(mut line) = Line::dial(address, version) else { return Ok(None) };
    line.send(&Packet::Connect(Connect::new(version, "rig-looks")))?;
    subscribe(KEPT_FILTER, SubscribeOptions::with_qos(QoS::AtMostOnce), &mut line)?;
    line.send(&Packet::PingReq)?;
    let mut found = BTreeMap::new();
    let mut is_answered = false;
    let until = Instant::now() + patience;
    while Instant::now() < until && !(is_answered && has_all(&found, book)) {
        if !line.flush() {
            return Ok(None);
        }
        let wait = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        poll(&mut [PollFd::new(&line, PollFlags::IN)], Some(&wait))?;
        let stands = line.fill();
        line.packets(|_, packet| {
            match packet {
                Packet::PingResp => is_answered = true,
                Packet::Publish(publish) => {
                    let topic = publish.topic.map(zzq_types::TopicName::as_str).unwrap_or_default();
                    match whose(topic, publish.payload) {
                        Some((_, seq)) => drop(found.insert(topic.to_owned(), seq)),
                        None => book.accuse("whole and unchanged", format!("retained on {topic}")),
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        if !stands {
            return Ok(None);
        }
    }
    Ok(Some(found))
}

fn has_all(found: &BTreeMap<String, u64>, book: &Book) -> bool {
    let topics = PUBLISHERS.iter().enumerate().flat_map(|(by, publisher)| {
        (0..publisher.kept.unwrap_or_default()).map(move |seq| (by, publisher.topic(by, seq)))
    });
    topics.into_iter().all(|(by, topic)| {
        found.contains_key(&topic) || book.accounts().may_be_kept(by, &topic).last.is_none()
    })
}
