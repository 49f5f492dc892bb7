//! A CONNECT is refused for a reason that there is, and then nothing of it is done. One that is
//! larger than what somebody may send who is not let in is always refused.
//!
//! MQTT 5 has words for each reason, MQTT 3 one for all that is not the client's own fault. A
//! connection that ends without CONNACK is no refusal: its CONNECT may have been carried out.
//! Allowed: one that is too large and comes in small pieces is closed without a word.

use zzq_types::ReasonCode;

use super::{Broken, Promise, Subject, has};
use crate::ledger::{At, ConnFacts, Ledger};

pub(super) const PROMISE: Promise = Promise {
    name: "let_in",
    says: "a CONNECT is refused for a reason that there is, and nothing of it is done then",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for facts in ledger.conns.values() {
        let mut tell = |what: String| {
            let what = format!("{} {what}", ledger.name(facts.client));
            broken.push(Broken::new(PROMISE, what, &[Subject::Client(facts.client)]));
        };
        if facts.accepted.is_some() && is_too_large(ledger, facts) {
            tell(format!("was let in by a CONNECT of {} bytes", facts.hello.size));
        }
        if let Some((at, reason)) = facts.refused
            && !is_a_reason(ledger, facts, at, reason)
        {
            tell(format!("was refused with {reason:?} at {} ms", ledger.ms(at)));
        }
        let is_refused = facts.refused.is_some() || is_too_large(ledger, facts);
        if let Some((will, _)) = facts.hello.will.filter(|_| is_refused)
            && ledger.sessions.iter().any(|session| has(session, will))
        {
            tell(format!("was not let in, and its will was published: {will:?}"));
        }
    }
}

fn is_too_large(ledger: &Ledger<'_>, facts: &ConnFacts) -> bool {
    facts.hello.size > ledger.history.max_connect_size
}

//= MQTT5-3.1.4-2
fn is_a_reason(ledger: &Ledger<'_>, facts: &ConnFacts, at: At, reason: ReasonCode) -> bool {
    let history = ledger.history;
    // With the power goes the disk, too, and the broker may have time to say so.
    let is_closed =
        || facts.unlogged.is_some() || facts.died.is_some() || ledger.has_stopped(facts, at);
    match reason {
        ReasonCode::PacketTooLarge => is_too_large(ledger, facts),
        // It stops, its log has failed, or nobody has said whether the client may.
        ReasonCode::ServerUnavailable => {
            let is_any = !facts.hello.version.is_v5();
            let other = is_any && (history.may_refuse || history.disk_may_fail);
            is_closed() || history.may_not_answer && !ledger.is_calm(facts) || other
        }
        // Its session could not be kept.
        ReasonCode::QuotaExceeded => history.may_refuse,
        // What waits for it cannot be read, or could not for the connection before it.
        ReasonCode::UnspecifiedError => history.disk_may_fail,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use zzq_types::QoS::AtLeastOnce;

    use super::*;
    use crate::history::{ClientId, Ending, Event, Hello, Message};
    use crate::ledger::script::{HELLO, Script, breaks};

    #[test]
    fn a_connect_that_is_too_large_is_not_let_in() {
        for (size, fits) in [(300, true), (301, false)] {
            let mut script = Script::new();
            script.history.max_connect_size = 300;
            let client = script.client();
            script.connect(client, Hello { size, ..HELLO }, false);
            assert_eq!(breaks(&script).is_empty(), fits, "{size}");
        }
    }

    #[test]
    fn a_connect_that_is_refused_for_nothing() {
        for (reason, size, fits) in [
            (ReasonCode::PacketTooLarge, 301, true),
            (ReasonCode::PacketTooLarge, 300, false),
            (ReasonCode::ServerUnavailable, 300, false),
            (ReasonCode::NotAuthorized, 300, false),
        ] {
            let mut script = Script::new();
            script.history.max_connect_size = 300;
            let client = script.client();
            let conn = script.dial(client, Hello { size, ..HELLO });
            script.note(Event::Refused { conn, reason });
            script.end(client, Ending::Closed);
            assert_eq!(breaks(&script).is_empty(), fits, "{reason:?} {size}");
        }
    }

    #[test]
    fn a_log_that_has_failed_lets_nobody_in_until_the_next_start() {
        for (starts_again, fits) in [(false, true), (true, false)] {
            let mut script = Script::new();
            let client = script.client();
            script.note(Event::ReadOnly);
            script.pass(10_000);
            if starts_again {
                script.crash();
                script.pass(10_000);
            }
            let conn = script.dial(client, HELLO);
            script.note(Event::Refused { conn, reason: ReasonCode::ServerUnavailable });
            script.end(client, Ending::Closed);
            script.pass(10_000);
            assert_eq!(breaks(&script).is_empty(), fits, "{starts_again}");
        }
    }

    const GUEST: Hello = Hello { clean: true, expiry_s: 0, ..HELLO };

    fn refused(script: &mut Script, client: ClientId, hello: Hello) -> Vec<&'static str> {
        let conn = script.dial(client, hello);
        script.note(Event::Refused { conn, reason: ReasonCode::ServerUnavailable });
        script.end(client, Ending::Closed);
        breaks(script)
    }

    #[test]
    fn a_log_that_has_failed_lets_in_who_needs_none() {
        for (hello, fits) in [(HELLO, true), (GUEST, false)] {
            let mut script = Script::new();
            let client = script.client();
            script.note(Event::ReadOnly);
            assert_eq!(refused(&mut script, client, hello).is_empty(), fits, "{hello:?}");
        }
    }

    /// A session that is to end is in the log, and so is the end of the one that has ended it.
    #[test]
    fn who_had_a_session_needs_the_log_until_that_is_over() {
        for (guests, fits) in [(0, true), (1, true), (2, false)] {
            let mut script = Script::new();
            let client = script.member();
            for _ in 0..guests {
                script.end(client, Ending::GivenUp);
                script.guest_of(client);
            }
            script.end(client, Ending::GivenUp);
            script.note(Event::ReadOnly);
            assert_eq!(refused(&mut script, client, GUEST).is_empty(), fits, "{guests}");
        }
    }

    #[test]
    fn a_broker_that_stops_lets_nobody_in() {
        for (is_told, starts_again, fits) in
            [(true, false, true), (false, false, false), (true, true, false)]
        {
            let mut script = Script::new();
            let client = script.client();
            if is_told {
                script.note(Event::ToldToStop);
            }
            if starts_again {
                script.crash();
            }
            let broken = refused(&mut script, client, HELLO);
            assert_eq!(broken.is_empty(), fits, "{is_told} {starts_again}");
        }
    }

    #[test]
    fn the_will_of_who_was_not_let_in() {
        for (size, is_refused, fits) in
            [(301, false, false), (300, true, false), (300, false, true)]
        {
            let mut script = Script::new();
            (script.history.max_connect_size, script.history.may_not_answer) = (300, true);
            let reader = script.member();
            script.subscribe(reader, "a/1", AtLeastOnce);
            let client = script.client();
            let message = Script::message(client, "a/1", AtLeastOnce);
            let will = script.history.add_message(Message { is_will: true, ..message });
            let conn = script.dial(client, Hello { will: Some((will, 0)), size, ..HELLO });
            if is_refused {
                script.note(Event::Refused { conn, reason: ReasonCode::ServerUnavailable });
            }
            script.end(client, Ending::Broken);
            script.receive(reader, will, AtLeastOnce);
            assert_eq!(breaks(&script).is_empty(), fits, "{size} {is_refused}");
        }
    }
}
