//! The broker closes no connection but for a reason: a stop, a CONNECT of the same client, silence,
//! a log that takes nothing more, a disk that does not give what is owed.
//!
//! So a message that is gone is noticed by whom it is owed to: who cannot be sent it is cut off.
//! MQTT 5 says the reason in DISCONNECT; before there is only the end of the connection.

use zzq_types::ReasonCode;

use super::{Broken, Promise, Subject};
use crate::history::{Ending, Event};
use crate::ledger::{At, ConnFacts, Ledger};

pub(super) const PROMISE: Promise = Promise {
    name: "cut_off",
    says: "no connection is closed by the broker but for a reason that there is",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for (at, entry) in ledger.history.entries.iter().enumerate() {
        let (conn, told) = match &entry.event {
            Event::Dismissed { conn, reason } => (conn, Some(*reason)),
            Event::Ended { conn, how: Ending::Closed } => (conn, None),
            _ => continue,
        };
        let Some(facts) = ledger.conns.get(conn) else { continue };
        let is_why = |reason: &ReasonCode| is_a_reason(ledger, facts, at, *reason);
        let is_for_a_reason = match told {
            Some(reason) => is_why(&reason),
            // It has left, or was told why, or not let in.
            None => facts.left.is_some() || facts.dismissed.is_some() || REASONS.iter().any(is_why),
        };
        if !is_for_a_reason && facts.accepted.is_some() {
            let name = ledger.name(facts.client);
            let told = told.map_or("without a word".into(), |reason| format!("with {reason:?}"));
            let what = format!("{name} was cut off {told} at {} ms", entry.at_ms);
            broken.push(Broken::new(PROMISE, what, &[Subject::Client(facts.client)]));
        }
    }
}

/// Those that there may be.
const REASONS: [ReasonCode; 5] = [
    ReasonCode::SessionTakenOver,
    ReasonCode::ServerShuttingDown,
    ReasonCode::KeepAliveTimeout,
    ReasonCode::QuotaExceeded,
    ReasonCode::UnspecifiedError,
];

fn is_a_reason(ledger: &Ledger<'_>, facts: &ConnFacts, at: At, reason: ReasonCode) -> bool {
    match reason {
        ReasonCode::SessionTakenOver => ledger.later_of(facts).any(|other| other.dialed < at),
        ReasonCode::ServerShuttingDown => ledger.has_stopped(facts, at),
        ReasonCode::KeepAliveTimeout => facts.hello.keep_alive > 0,
        // Nobody has said whether it is still who it was.
        ReasonCode::ServerBusy => ledger.history.may_refuse,
        ReasonCode::QuotaExceeded => ledger.history.may_refuse || ledger.may_be_crowded_out(facts),
        // With the power goes the disk, too, and the broker may have time to say so.
        ReasonCode::UnspecifiedError => {
            facts.unlogged.is_some() || facts.died.is_some() || ledger.may_be_unreadable(facts)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::{AtLeastOnce, AtMostOnce};

    use super::*;
    use crate::history::Hello;
    use crate::ledger::script::{HELLO, Script, breaks};

    #[test]
    fn a_connection_that_is_closed_for_nothing() {
        for (reason, disk_may_fail, fits) in [
            (ReasonCode::UnspecifiedError, false, false),
            (ReasonCode::UnspecifiedError, true, true),
            (ReasonCode::SessionTakenOver, true, false),
            (ReasonCode::ProtocolError, true, false),
        ] {
            let mut script = Script::new();
            script.history.disk_may_fail = disk_may_fail;
            let client = script.client();
            script.connect(client, HELLO, false);
            let conn = script.conn(client);
            script.note(Event::Dismissed { conn, reason });
            script.end(client, Ending::Closed);
            assert_eq!(breaks(&script).is_empty(), fits, "{reason:?} {disk_may_fail}");
        }
    }

    #[test]
    fn a_connection_that_keeps_room_for_too_long() {
        for (lacks_input, lived_ms, fits) in
            [(true, 30_000, true), (true, 29_000, false), (false, 30_000, false)]
        {
            let mut script = Script::new();
            (script.history.lacks_input, script.history.input_patience_ms) = (lacks_input, 30_000);
            let client = script.client();
            script.connect(client, HELLO, false);
            script.pass(lived_ms);
            let conn = script.conn(client);
            script.note(Event::Dismissed { conn, reason: ReasonCode::QuotaExceeded });
            script.end(client, Ending::Closed);
            assert_eq!(breaks(&script).is_empty(), fits, "{lacks_input} {lived_ms}");
        }
    }

    /// Faults are taken back when everything heals: who connects behind that meets none.
    #[test]
    fn a_connection_that_is_closed_for_a_disk_that_has_healed() {
        for (is_healed, fits) in [(false, true), (true, false)] {
            let mut script = Script::new();
            script.history.disk_may_fail = true;
            let client = script.client();
            if is_healed {
                script.note(Event::Healed);
            }
            script.connect(client, HELLO, false);
            let conn = script.conn(client);
            script.note(Event::Dismissed { conn, reason: ReasonCode::UnspecifiedError });
            script.end(client, Ending::Closed);
            assert_eq!(breaks(&script).is_empty(), fits, "{is_healed}");
        }
    }

    #[test]
    fn a_connection_that_ends_without_a_word() {
        for (left, is_read_only, fits) in
            [(false, false, false), (true, false, true), (false, true, true)]
        {
            let mut script = Script::new();
            let client = script.client();
            script.connect(client, HELLO, false);
            let conn = script.conn(client);
            if left {
                script.note(Event::Left { conn, keeps_will: false });
            }
            if is_read_only {
                script.note(Event::ReadOnly);
            }
            script.end(client, Ending::Closed);
            assert_eq!(breaks(&script).is_empty(), fits, "{left} {is_read_only}");
        }
    }

    /// Who needs no log is served without one, until it asks for what needs it.
    #[test]
    fn a_connection_that_a_failed_log_serves() {
        for (asks, fits) in [(AtMostOnce, false), (AtLeastOnce, true)] {
            let mut script = Script::new();
            let client = script.client();
            script.note(Event::ReadOnly);
            script.connect(client, Hello { clean: true, expiry_s: 0, ..HELLO }, false);
            let conn = script.conn(client);
            script.publish(client, "a/1", asks);
            script.note(Event::Dismissed { conn, reason: ReasonCode::UnspecifiedError });
            script.end(client, Ending::Closed);
            assert_eq!(breaks(&script).is_empty(), fits, "{asks:?}");
        }
    }

    #[test]
    fn a_connection_that_is_closed_by_a_stop() {
        for (is_told, fits) in [(true, true), (false, false)] {
            let mut script = Script::new();
            let client = script.client();
            script.connect(client, HELLO, false);
            let conn = script.conn(client);
            if is_told {
                script.note(Event::ToldToStop);
            }
            script.note(Event::Dismissed { conn, reason: ReasonCode::ServerShuttingDown });
            script.end(client, Ending::Closed);
            assert_eq!(breaks(&script).is_empty(), fits, "{is_told}");
        }
    }

    #[test]
    fn a_connection_that_another_one_takes_over() {
        let mut script = Script::new();
        let client = script.client();
        script.connect(client, HELLO, false);
        let conn = script.conn(client);
        script.dial(client, HELLO);
        script.note(Event::Dismissed { conn, reason: ReasonCode::SessionTakenOver });
        script.note(Event::Ended { conn, how: Ending::Closed });
        assert_eq!(breaks(&script), [""; 0]);
    }
}
