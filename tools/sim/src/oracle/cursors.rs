//! Who subscribes from an offset or a time on gets nothing from before that, and all that lies
//! behind it, in the order of the log.
//!
//! Looked at is who has no subscriptions but to the past, where nothing of the log is let go. Times
//! are the broker's log time, of which only bounds are known. A SUBSCRIBE that is sent again goes
//! on with the one that is there, so the earliest of the same words may have set the start, or the
//! last one. Order is asked for where nothing was given up.

use std::collections::BTreeMap;

use super::past::{check_order, is_history};
use super::{Broken, Promise, Subject, has, miss};
use crate::history::{MessageId, Received};
use crate::ledger::{At, Ledger, SessionFacts, SubFacts};

pub(super) const PROMISE: Promise = Promise {
    name: "cursors",
    says: "a subscription from an offset or a time on brings all behind it, and nothing before it",
    check,
};

/// Between a clock's reading and its use, and the time of a group that a record waits for.
const SLACK_MS: u64 = 200;

/// Where a subscription starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    All,
    Offset(u64),
    /// In ms since 1970.
    Time(u64),
    /// So many ms ago.
    Ago(u64),
}

fn start_of(sub: &SubFacts) -> Option<Start> {
    let (from, _) = sub.filter.strip_prefix("$replay/")?.split_once('/')?;
    if from == "all" {
        return Some(Start::All);
    }
    if let Some(offset) = from.strip_prefix('@') {
        return offset.parse().ok().map(Start::Offset);
    }
    if let Some(span) = from.strip_prefix('-') {
        return span.strip_suffix("ms")?.parse().ok().map(Start::Ago);
    }
    from.parse().ok().map(Start::Time)
}

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    let readers = ledger.sessions.iter().enumerate().filter(|(_, one)| reads_by_cursor(one));
    let readers: Vec<_> = readers.collect();
    if readers.is_empty() {
        return;
    }
    let shown = shown(ledger);
    let all = !ledger.cut_short && !ledger.history.drops();
    let lasting: Vec<usize> = ledger.lasting().map(|(at, _)| at).collect();
    for (at, session) in readers {
        for (at, _, received) in &session.received {
            let Some(id) = received.message else { continue };
            let mut subs = session.subs.iter().filter(|sub| sub.sent < *at);
            if !subs.any(|sub| may_bring(ledger, session, sub, (id, received))) {
                let name = ledger.name(session.client);
                let offset = received.offset;
                let what = format!("{name} got {id:?} at {offset:?}, from before its start");
                let about = [Subject::Message(id), Subject::Client(session.client)];
                broken.push(Broken::new(PROMISE, what, &about));
            }
        }
        if session.subs.iter().all(|sub| sub.given_up.is_none()) {
            check_order(PROMISE, ledger, session, broken);
        }
        if let Some(sub) = session.subs.last().filter(|_| all && lasting.contains(&at)) {
            let owed = ledger.ids().filter(|id| is_history(ledger, *id));
            let missed =
                owed.filter(|id| is_behind(ledger, sub, *id, &shown) && !has(session, *id));
            broken.extend(missed.map(|id| miss(PROMISE, ledger, id, session)));
        }
    }
}

fn reads_by_cursor(session: &SessionFacts) -> bool {
    let is_all = |sub: &SubFacts| start_of(sub) == Some(Start::All);
    session.subs.iter().all(SubFacts::replays) && !session.subs.iter().all(is_all)
}

/// The highest offset that each message was shown at.
pub(super) fn shown(ledger: &Ledger<'_>) -> BTreeMap<MessageId, u64> {
    let received = ledger.sessions.iter().flat_map(|session| &session.received);
    let mut shown = BTreeMap::new();
    for (.., one) in received {
        if let (Some(id), Some(offset)) = (one.message, one.offset) {
            let highest = shown.entry(id).or_insert(offset);
            *highest = offset.max(*highest);
        }
    }
    shown
}

/// Whether a message is not, for certain, from before the start of a subscription.
fn may_bring(
    ledger: &Ledger<'_>,
    session: &SessionFacts,
    sub: &SubFacts,
    (id, received): (MessageId, &Received),
) -> bool {
    let same = session.subs.iter().filter(|other| other.filter == sub.filter);
    let wanted = same.map(|other| other.sent).min().unwrap_or(sub.sent);
    let Some(acked) = ledger.facts(id).acked else {
        let Some(Start::Offset(first)) = start_of(sub) else { return true };
        return received.offset.is_none_or(|offset| offset >= first);
    };
    match start_of(sub) {
        None | Some(Start::All) => true,
        Some(Start::Offset(first)) => received.offset.is_none_or(|offset| offset >= first),
        Some(Start::Ago(_)) if acked >= wanted => true,
        Some(Start::Ago(span_ms)) => {
            let (least, _) = ledger.time.between(ledger.ms(acked), ledger.ms(wanted));
            least <= span_ms + SLACK_MS
        }
        Some(Start::Time(from_ms)) => {
            let (_, latest) = ledger.time.at(ledger.ms(acked));
            latest + SLACK_MS >= from_ms
        }
    }
}

/// Whether a message is behind the start of a subscription that is there to the end, for certain.
fn is_behind(
    ledger: &Ledger<'_>,
    sub: &SubFacts,
    id: MessageId,
    shown: &BTreeMap<MessageId, u64>,
) -> bool {
    let (Some(acked), None, None) = (sub.acked, sub.leaves, sub.given_up) else { return false };
    let Some(sent): Option<At> = ledger.facts(id).sent else { return false };
    match start_of(sub) {
        None => false,
        Some(Start::All) => true,
        Some(Start::Offset(first)) => {
            sent > acked || shown.get(&id).is_some_and(|offset| *offset >= first)
        }
        Some(Start::Ago(_)) if sent > acked => true,
        Some(Start::Ago(span_ms)) => {
            let (_, most) = ledger.time.between(ledger.ms(sent), ledger.ms(acked));
            most + SLACK_MS < span_ms
        }
        Some(Start::Time(from_ms)) => {
            let (earliest, _) = ledger.time.at(ledger.ms(sent));
            earliest > from_ms + SLACK_MS
        }
    }
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::AtLeastOnce;

    use crate::clock::WALL_MS;
    use crate::history::{ClientId, MessageId, Received};
    use crate::ledger::script::{Script, breaks};

    fn receive(script: &mut Script, reader: ClientId, message: MessageId, offset: u64) {
        let received = script.received(message, AtLeastOnce);
        script.take(reader, Received { offset: Some(offset), ..received });
    }

    /// A reader that begins so after two messages, five seconds apart, and gets those of them.
    fn reads(filter: &str, gets: &[usize]) -> bool {
        let mut script = Script::new();
        let (reader, other, writer) = (script.member(), script.member(), script.member());
        script.subscribe(other, "$replay/all/#", AtLeastOnce);
        let mut sent = Vec::new();
        for offset in [3, 7] {
            script.pass(5000);
            let message = script.publish(writer, "a/1", AtLeastOnce);
            script.acked(writer, message);
            receive(&mut script, other, message, offset);
            sent.push((message, offset));
        }
        script.pass(1000);
        script.subscribe(reader, filter, AtLeastOnce);
        for at in gets {
            let (message, offset) = sent[*at];
            receive(&mut script, reader, message, offset);
        }
        let broken = breaks(&script);
        assert!(broken.is_empty() || broken == ["cursors"], "{filter} {gets:?} {broken:?}");
        broken.is_empty()
    }

    #[test]
    fn what_lies_behind_an_offset_or_a_time_comes_and_nothing_from_before() {
        let time = |after_ms: u64| format!("$replay/{}/#", WALL_MS + after_ms);
        for filter in ["$replay/@7/#", "$replay/@4/#", "$replay/-3000ms/#", &time(8000)] {
            assert!(reads(filter, &[1]), "{filter}");
            assert!(!reads(filter, &[0, 1]), "{filter}: it was before");
            assert!(!reads(filter, &[]), "{filter}: it is missing");
        }
        for filter in ["$replay/@1/#", "$replay/-60000ms/#", &time(0)] {
            assert!(reads(filter, &[0, 1]), "{filter}");
            assert!(!reads(filter, &[1]), "{filter}: it is missing");
            assert!(!reads(filter, &[1, 0]), "{filter}: not in order");
        }
        // Nobody can say whether it is from before.
        for gets in [&[1][..], &[0, 1]] {
            assert!(reads("$replay/-6100ms/#", gets));
        }
    }
}
