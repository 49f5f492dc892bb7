//! State to entries.

use zzq_types::QoS;

use crate::number::{SessionNumber, SubNumber};
use crate::record::put_replay;
use crate::retained::{Retained, RetainedCursor};
use crate::session::{Link, Queue, Session, Untouched, Waiting};
use crate::state::State;
use crate::wire::{put, put_bytes, put_some};

use super::{
    BLOCK, EXPIRES, HAS_EXPIRY, HAS_ID, HAS_WILL, IDS, LATE, LEFT, Marks, PICK, PLACED, QOS2,
    RETAIN, Section, Select, TAKEN, UP, UntouchedReader, VOLATILE, WILL_DUE,
};

/// Calls `entry` with the section, key and value of each entry: sections in their order, keys
/// ascending within each.
///
/// # Panics
/// If a part of a queue is in an image only: see [`write_with`].
pub fn write(state: &State, select: Select, entry: impl FnMut(Section, &[u8], &[u8])) {
    write_with(state, select, UntouchedReader::new, entry);
}

/// As [`write()`]; `read` reads those parts of queues that are in an image only, whole.
pub fn write_with(
    state: &State,
    select: Select,
    mut read: impl FnMut(SessionNumber, Untouched) -> UntouchedReader,
    mut entry: impl FnMut(Section, &[u8], &[u8]),
) {
    let sessions: Vec<&Session> = state
        .sessions()
        .filter(|session| select == Select::All || !session.is_volatile())
        .collect();
    if select == Select::All {
        let (applied, next_session) = (state.applied, state.next_session);
        entry(Section::Marks, &[], &Marks { applied, next_session }.write());
    }
    for session in &sessions {
        entry(Section::Sessions, &key(session.number()), &session_value(session));
    }
    for session in &sessions {
        for (sub_key, value) in subscriptions(session) {
            entry(Section::Subscriptions, &sub_key, &value);
        }
    }
    for session in sessions.iter().filter(|session| !session.inbound().is_empty()) {
        entry(Section::Inbound, &key(session.number()), &inbound(session));
    }
    for session in &sessions {
        let number = session.number();
        let front = session.queue().untouched().map(|front| read(number, front));
        let joined = front.map(|front| front.joined_to(session.queue()));
        let whole = joined.as_ref().unwrap_or_else(|| session.queue());
        queue(number, whole, |key, value| entry(Section::Queues, key, value));
    }
    for (session, lsn, will) in state.detached_wills() {
        let mut value = Vec::new();
        put_bytes(&mut value, will.client.as_bytes());
        put(&mut value, will.due_ms);
        entry(Section::Wills, &key_with(session, lsn.get()), &value);
    }
    write_ended(state, select, &mut entry);
    for (topic, retained) in state.retained().iter_from(&RetainedCursor::START) {
        let Retained { lsn, time_ms, expiry, qos, size } = *retained;
        let mut value = vec![qos.bits() | if expiry.is_some() { HAS_EXPIRY } else { 0 }];
        put(&mut value, lsn.get());
        put(&mut value, time_ms);
        put(&mut value, u64::from(size));
        put_some(&mut value, expiry.map(u64::from));
        entry(Section::Retained, topic.as_bytes(), &value);
    }
    for ((kind, fact), value) in &state.facts.0 {
        entry(Section::Facts, &[&[*kind][..], fact].concat(), value);
    }
    for session in &sessions {
        for (number, replay) in session.replays() {
            let mut value = Vec::new();
            put_replay(&mut value, *replay);
            entry(Section::Replays, &sub_key(session.number(), number), &value);
        }
    }
}

fn write_ended(state: &State, select: Select, entry: &mut impl FnMut(Section, &[u8], &[u8])) {
    let all = || state.all_ended().filter(|(_, ended)| select == Select::All || !ended.volatile);
    for (session, ended) in all() {
        let mut value = vec![if ended.volatile { VOLATILE } else { 0 }];
        put_bytes(&mut value, ended.client.as_bytes());
        put(&mut value, ended.last);
        for (number, filter) in &ended.shares {
            put(&mut value, u64::from(number.get()));
            put_bytes(&mut value, filter.as_bytes());
        }
        entry(Section::Ended, &key(session), &value);
    }
    for (session, ended) in all() {
        for (&number, orphan) in &ended.orphans {
            let has_expiry = if orphan.expires_ms.is_some() { HAS_EXPIRY } else { 0 };
            let mut value = vec![orphan.qos.bits() | has_expiry];
            put(&mut value, orphan.lsn.get());
            put(&mut value, u64::from(orphan.size));
            put(&mut value, u64::from(orphan.pick.get()));
            put_some(&mut value, orphan.expires_ms);
            entry(Section::Orphans, &key_with(session, number), &value);
        }
    }
}

fn session_value(session: &Session) -> Vec<u8> {
    let mut value = Vec::new();
    let due_ms = session.will().and_then(|will| will.due_ms);
    value.push(
        if session.link() == Link::Up { UP } else { 0 }
            | if session.will().is_some() { HAS_WILL } else { 0 }
            | if due_ms.is_some() { WILL_DUE } else { 0 },
    );
    put_bytes(&mut value, session.client().as_bytes());
    put(&mut value, u64::from(session.expiry_s()));
    put(&mut value, u64::from(session.window()));
    put(&mut value, u64::from(session.next_subscription().get()));
    let queue = session.queue();
    for mark in [queue.last(), queue.dup_through(), queue.doubtful()] {
        put(&mut value, mark.get());
    }
    put(&mut value, queue.late_at().get());
    if let Link::Down { since_ms } = session.link() {
        put(&mut value, since_ms);
    }
    if let Some(will) = session.will() {
        put(&mut value, will.lsn.get());
        put(&mut value, u64::from(will.delay_s));
    }
    put_some(&mut value, due_ms);
    value
}

fn subscriptions(session: &Session) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries = Vec::new();
    for (filter, sub) in session.subscriptions().iter() {
        let mut value = vec![sub.options.to_byte() | if sub.id.is_some() { HAS_ID } else { 0 }];
        put_some(&mut value, sub.id.map(|id| u64::from(id.get())));
        value.extend_from_slice(filter.as_bytes());
        entries.push((sub.number, value));
    }
    for (number, filter) in session.left() {
        entries.push((*number, [&[LEFT][..], filter.as_bytes()].concat()));
    }
    entries.sort_unstable();
    let session = session.number();
    entries.into_iter().map(|(number, value)| (sub_key(session, number), value)).collect()
}

fn inbound(session: &Session) -> Vec<u8> {
    let mut value = Vec::new();
    let mut before = 0;
    for id in session.inbound().iter() {
        put(&mut value, u64::from(id.get() - before));
        before = id.get();
    }
    value
}

fn queue(session: SessionNumber, queue: &Queue, mut entry: impl FnMut(&[u8], &[u8])) {
    let mut value = Vec::new();
    let mut first = 0;
    let mut before = 0;
    let mut lsn_before = 0;
    for (at, waiting) in queue.iter().enumerate() {
        let number = waiting.number.get();
        if at % BLOCK == 0 {
            if at > 0 {
                entry(&key_with(session, first), &value);
                value.clear();
            }
            (first, before, lsn_before) = (number, number, 0);
        }
        put(&mut value, number - before);
        put_waiting(&mut value, queue, &waiting, lsn_before);
        (before, lsn_before) = (number, waiting.lsn.get());
    }
    if !queue.is_empty() {
        entry(&key_with(session, first), &value);
    }
}

fn put_waiting(value: &mut Vec<u8>, queue: &Queue, waiting: &Waiting, lsn_before: u64) {
    let number = waiting.number;
    let ids = queue.ids(number);
    let pick = queue.pick(number);
    let expires_ms = queue.expires_ms(number);
    value.push(
        if waiting.qos == QoS::ExactlyOnce { QOS2 } else { 0 }
            | if waiting.retain { RETAIN } else { 0 }
            | if waiting.taken { TAKEN } else { 0 }
            | if queue.is_late(number) { LATE } else { 0 }
            | if pick.is_some() { PICK } else { 0 }
            | if ids.is_empty() { 0 } else { IDS }
            | if expires_ms.is_some() { EXPIRES } else { 0 }
            | if waiting.placed { PLACED } else { 0 },
    );
    put(value, zigzag(waiting.lsn.get().wrapping_sub(lsn_before)));
    put(value, u64::from(waiting.size));
    put_some(value, pick.map(|pick| u64::from(pick.get())));
    if !ids.is_empty() {
        ids.write(value);
    }
    put_some(value, expires_ms);
}

pub(super) fn key(session: SessionNumber) -> [u8; 8] {
    session.get().to_be_bytes()
}

fn sub_key(session: SessionNumber, number: SubNumber) -> Vec<u8> {
    [&key(session)[..], &number.get().to_be_bytes()].concat()
}

pub(super) fn key_with(session: SessionNumber, number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&session.get().to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Small differences of either sign as small numbers.
pub(super) const fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (0_u64.wrapping_sub(difference >> 63))
}

pub(super) const fn unzigzag(coded: u64) -> u64 {
    (coded >> 1) ^ (0_u64.wrapping_sub(coded & 1))
}
