//! The names of messages that a group gets.
//!
//! Owns: how topic and payload tell a name, and how it is read again. Does not know: which messages
//! there are.

/// Which message: of which act, and which of it, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) act: u64,
    pub(super) number: u16,
}

impl Name {
    pub(super) fn topic(self) -> String {
        format!("troupe/{}", self.number % 5)
    }

    pub(super) fn to_payload(self) -> String {
        format!("troupe {} {}", self.act, self.number)
    }

    pub(super) fn of(payload: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(payload).ok()?;
        let (act, number) = text.strip_prefix("troupe ")?.split_once(' ')?;
        Some(Self { act: act.parse().ok()?, number: number.parse().ok()? })
    }
}
