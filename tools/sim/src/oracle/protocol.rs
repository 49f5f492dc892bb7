//! The broker keeps the protocol: acknowledgements name what is under way, identifiers name one
//! message at a time, Receive Maximum is kept, payloads are as they were sent.

use super::{Broken, Promise, Subject};
use crate::history::Event;
use crate::ledger::Ledger;

pub(super) const PROMISE: Promise = Promise {
    name: "protocol",
    says: "no packet comes that the protocol does not allow, and none is changed on its way",
    check,
};

fn check(ledger: &Ledger<'_>, broken: &mut Vec<Broken>) {
    for entry in &ledger.history.entries {
        let Event::Unfit { conn, what } = &entry.event else { continue };
        let Some(facts) = ledger.conns.get(conn) else { continue };
        let what = format!("{} got {what}", ledger.name(facts.client));
        broken.push(Broken::new(PROMISE, what, &[Subject::Client(facts.client)]));
    }
}

#[cfg(test)]
mod tests {
    use crate::history::Event;
    use crate::ledger::script::{Script, breaks};

    #[test]
    fn a_packet_that_does_not_fit() {
        let mut script = Script::new();
        let reader = script.member();
        let conn = script.conn(reader);
        script.note(Event::Unfit { conn, what: "PUBACK 7 for nothing".into() });
        assert_eq!(breaks(&script), ["protocol"]);
    }
}
