//! A delayed will is published when its delay is over, or its session if that ends before, and not
//! at all if its client is back by then.
//!
//! Time is the broker's log time, of which only bounds are known, and so is when it took the
//! connection for lost. What begins a session anew ends the one before, with its will.

use super::{MessageId, first, is_lost, miss};
use crate::ledger::{At, ConnFacts, Ledger, SLACK_MS, SessionFacts};

//= MQTT5-3.1.3-9
pub(super) fn check(
    ledger: &Ledger<'_>,
    facts: &ConnFacts,
    will: MessageId,
    delay_s: u32,
    tell: &mut impl FnMut(&str, &SessionFacts),
) {
    let waits_ms = u64::from(delay_s) * 1000;
    let from_ms = ledger.lost_from_ms(facts);
    let is_within = |at_ms: u64| {
        let (_, most) = ledger.time.between(from_ms.min(at_ms), at_ms);
        most + SLACK_MS < waits_ms
    };
    let is_back = ledger.next_of(facts).and_then(|next| back(ledger, facts, next));
    let is_back_in_time = is_back.is_some_and(|at| is_within(ledger.ms(at)));
    for session in &ledger.sessions {
        let Some(at) = first(session, will) else { continue };
        if is_back_in_time {
            tell("a delayed will came of a client that was back in time", session);
        } else if is_within(ledger.ms(at)) && !may_be_ended(ledger, facts, at) {
            tell("a delayed will came early", session);
        }
    }
    if is_lost(facts) && is_due(ledger, facts, waits_ms) {
        miss(ledger, facts, will, tell);
    }
}

/// When the client heard that its session goes on, if it does.
fn back(ledger: &Ledger<'_>, facts: &ConnFacts, next: &ConnFacts) -> Option<At> {
    let (at, present) = next.accepted?;
    let goes_on = present == Some(true) && !next.hello.clean;
    (goes_on && !ledger.may_be_ended_full(facts)).then_some(at)
}

/// Whether the session may have ended before a place, other than by itself.
fn may_be_ended(ledger: &Ledger<'_>, facts: &ConnFacts, at: At) -> bool {
    let mut later = ledger.later_of(facts).filter(|other| other.dialed < at);
    later.any(|other| other.hello.clean) || ledger.may_be_ended_full(facts)
}

/// Whether the will was published for certain: the next CONNECT has ended the session, or came when
/// the delay was over and a broker that works had published it.
fn is_due(ledger: &Ledger<'_>, facts: &ConnFacts, waits_ms: u64) -> bool {
    let Some(next) = ledger.next_of(facts) else { return false };
    if next.hello.clean {
        return next.accepted.is_some();
    }
    ledger.is_done_before(facts, next, waits_ms)
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::AtLeastOnce;

    use super::*;
    use crate::history::{ClientId, Ending, Event, Hello};
    use crate::ledger::script::{HELLO, Script, breaks};

    /// A will with a delay of four seconds, of a client whose session has this expiry.
    fn with_will(expiry_s: u32) -> (Script, ClientId, ClientId, MessageId) {
        Script::with_will(4, Hello { expiry_s, ..HELLO })
    }

    #[test]
    fn a_delayed_will_that_comes_early() {
        for (expiry_s, waits_ms, fits) in [
            (u32::MAX, 3000, false),
            (u32::MAX, 5000, true),
            (2, 1000, false),
            (2, 3000, true),
            (0, 0, true),
        ] {
            let (mut script, reader, client, will) = with_will(expiry_s);
            script.end(client, Ending::Broken);
            script.pass(waits_ms);
            script.receive(reader, will, AtLeastOnce);
            assert_eq!(breaks(&script).is_empty(), fits, "{expiry_s} {waits_ms}");
        }
    }

    /// The broker may have ended the connection up to twelve seconds before its client hears of it:
    /// a delay that is shorter says nothing, but for one that began when all had healed.
    #[test]
    fn a_delayed_will_of_a_connection_that_the_broker_may_have_ended() {
        for (delay_s, is_healed, is_back, fits) in [
            (4, false, false, true),
            (20, false, false, false),
            (4, true, false, false),
            (4, false, true, true),
            (20, false, true, false),
            (4, true, true, false),
        ] {
            let mut script = Script::new();
            script.history.disk_may_fail = true;
            let reader = script.member();
            script.subscribe(reader, "a/1", AtLeastOnce);
            if is_healed {
                script.note(Event::Healed);
            }
            let (client, will) = script.client_with_will(delay_s, HELLO);
            script.pass(20_000);
            script.end(client, Ending::GivenUp);
            script.pass(1000);
            if is_back {
                script.reconnect(client);
                script.pass(1000);
            }
            script.receive(reader, will, AtLeastOnce);
            assert_eq!(breaks(&script).is_empty(), fits, "{delay_s} {is_healed} {is_back}");
        }
    }

    #[test]
    fn a_delayed_will_of_a_client_that_is_back_in_time() {
        for (away_ms, fits) in [(2000, false), (5000, true)] {
            let (mut script, reader, client, will) = with_will(u32::MAX);
            script.end(client, Ending::Broken);
            script.pass(away_ms);
            script.reconnect(client);
            script.pass(9000);
            script.receive(reader, will, AtLeastOnce);
            assert_eq!(breaks(&script).is_empty(), fits, "{away_ms}");
        }
    }

    #[test]
    fn a_delayed_will_comes_with_the_end_of_its_session() {
        for clean in [false, true] {
            let (mut script, reader, client, will) = with_will(u32::MAX);
            script.end(client, Ending::Broken);
            script.connect(client, Hello { clean, ..HELLO }, !clean);
            assert_eq!(breaks(&script) == ["wills"], clean, "it never came");
            script.receive(reader, will, AtLeastOnce);
            assert_eq!(breaks(&script).is_empty(), clean, "it came");
        }
    }

    #[test]
    fn a_delayed_will_that_never_comes() {
        for (how, keeps_will, away_ms, owed) in [
            // The broker has read DISCONNECT.
            (Ending::Closed, true, 6000, true),
            (Ending::Closed, true, 3000, false),
            (Ending::Closed, false, 6000, false),
            // It may know later that its client has gone, or never.
            (Ending::GivenUp, true, 6000, false),
            (Ending::GivenUp, true, 16_000, true),
            (Ending::Broken, true, 16_000, false),
        ] {
            let (mut script, reader, client, will) = with_will(u32::MAX);
            let conn = script.conn(client);
            if how == Ending::Closed {
                script.note(Event::Left { conn, keeps_will });
            }
            script.end(client, how);
            script.pass(away_ms);
            script.reconnect(client);
            assert_eq!(breaks(&script) == ["wills"], owed, "{how:?} {keeps_will} {away_ms}");
            script.receive(reader, will, AtLeastOnce);
            assert_eq!(breaks(&script).is_empty(), owed || how != Ending::Closed, "{how:?}");
        }
    }

    /// A crash makes the broker forget of a lost connection what it had not recorded.
    #[test]
    fn a_delayed_will_over_a_crash() {
        for (away_ms, owed) in [(5000, false), (6000, true)] {
            let (mut script, _, client, _) = with_will(u32::MAX);
            script.end(client, Ending::Broken);
            script.pass(9000);
            script.crash();
            script.pass(away_ms);
            script.reconnect(client);
            assert_eq!(breaks(&script) == ["wills"], owed, "{away_ms}");
        }
    }

    /// What time brings takes a record, which a disk without space and a log that has failed do not
    /// take.
    #[test]
    fn a_delayed_will_on_a_log_that_does_not_work() {
        let full = |full| Event::Space { full };
        for (at_ms, before, after, owed) in [
            (2000, full(false), full(false), true),
            (2000, full(true), full(true), false),
            (2000, full(true), full(false), true),
            (5900, full(true), full(false), false),
            (2000, full(false), Event::ReadOnly, false),
        ] {
            let (mut script, _, client, _) = with_will(u32::MAX);
            let conn = script.conn(client);
            script.note(Event::Left { conn, keeps_will: true });
            script.end(client, Ending::Closed);
            script.pass(10);
            script.note(before.clone());
            script.pass(at_ms);
            script.note(after.clone());
            script.pass(6500 - at_ms);
            script.reconnect(client);
            assert_eq!(breaks(&script) == ["wills"], owed, "{at_ms} {before:?} {after:?}");
        }
    }

    /// A client that has gone is down when that is in the log.
    #[test]
    fn a_delayed_will_begins_to_wait_when_the_disk_has_space() {
        for (is_full, owed) in [(false, true), (true, false)] {
            let (mut script, _, client, _) = with_will(u32::MAX);
            script.end(client, Ending::GivenUp);
            script.note(Event::Space { full: is_full });
            script.pass(10_000);
            script.note(Event::Space { full: false });
            script.pass(6000);
            script.reconnect(client);
            assert_eq!(breaks(&script) == ["wills"], owed, "{is_full}");
        }
    }
}
