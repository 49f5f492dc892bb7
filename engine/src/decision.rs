//! A decision: the sessions a message goes to, each entry with all that apply needs.
//!
//! One entry, sessions ascending (one session may have several: its own subscriptions and each
//! group that picked it):
//!
//! ```text
//! head    integer   session number minus the one before (the first: minus 0), times 4, plus
//!                   the QoS of this delivery, or 3: flags follow
//! flags   byte      bits 0-1 QoS of this delivery, bit 2 RETAIN as forwarded,
//!                   bit 3 a pick follows, bit 4 subscription identifiers follow, others 0
//! pick    integer   number of the member's shared subscription, within its session
//! ids     integers  how many, then each, in the order to be sent
//! ```
//!
//! So a plain destination takes one byte up to a distance of 31, two up to 4095.

use zzq_types::{QoS, SubscriptionId};

use crate::number::{SessionNumber, SubNumber};
use crate::wire::{Reader, RecordError, put, put_len};

/// One session that a message goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination<'a> {
    /// The incarnation of the session.
    pub session: SessionNumber,
    /// QoS of this delivery: the lower of the message's and the subscription's.
    pub qos: QoS,
    /// The RETAIN flag as it is forwarded.
    pub retain: bool,
    /// The member's shared subscription, if a group picked it.
    pub pick: Option<SubNumber>,
    /// The subscription identifiers that are sent along.
    pub ids: SubscriptionIds<'a>,
}

impl Destination<'_> {
    /// A destination without flags, pick and identifiers.
    pub const fn plain(session: SessionNumber, qos: QoS) -> Self {
        Self { session, qos, retain: false, pick: None, ids: SubscriptionIds::NONE }
    }
}

/// Subscription identifiers of one delivery, encoded: integers one behind the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionIds<'a>(&'a [u8]);

impl<'a> SubscriptionIds<'a> {
    /// None.
    pub const NONE: Self = Self(&[]);

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Identifiers whose encoding was checked before.
    pub(crate) const fn from_checked(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The encoded integers.
    pub(crate) const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Reads a count and so many identifiers.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, RecordError> {
        let count = reader.int()?;
        if count == 0 {
            return Err(RecordError::Value("count of subscription identifiers"));
        }
        let before = *reader;
        for _ in 0..count {
            reader.subscription_id()?;
        }
        let mut whole = before;
        whole.take(before.len() - reader.len()).map(Self)
    }

    /// Writes what [`SubscriptionIds::read`] reads; not for none.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        assert!(!self.is_empty(), "a list without identifiers is not written");
        put_len(out, self.into_iter().count());
        out.extend_from_slice(self.0);
    }
}

/// Subscription identifiers under construction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionIdsBuf(Vec<u8>);

impl SubscriptionIdsBuf {
    /// None.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends an identifier.
    pub fn push(&mut self, id: SubscriptionId) {
        put(&mut self.0, u64::from(id.get()));
    }

    /// The identifiers so far.
    pub fn as_ids(&self) -> SubscriptionIds<'_> {
        SubscriptionIds(&self.0)
    }
}

impl<'a> IntoIterator for SubscriptionIds<'a> {
    type Item = SubscriptionId;
    type IntoIter = SubscriptionIdsIter<'a>;

    fn into_iter(self) -> SubscriptionIdsIter<'a> {
        SubscriptionIdsIter(Reader::new(self.0))
    }
}

/// The identifiers in the order to be sent.
#[derive(Clone, Debug)]
pub struct SubscriptionIdsIter<'a>(Reader<'a>);

impl Iterator for SubscriptionIdsIter<'_> {
    type Item = SubscriptionId;

    fn next(&mut self) -> Option<SubscriptionId> {
        self.0.subscription_id().ok()
    }
}

/// Checked bytes of a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision<'a>(&'a [u8]);

impl<'a> Decision<'a> {
    /// Nobody.
    pub const NOBODY: Self = Self(&[]);

    /// Checks encoded entries.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let mut entries = Destinations::new(bytes);
        while !entries.reader.is_empty() {
            entries.read()?;
        }
        Ok(Self(bytes))
    }

    /// The encoded entries.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether the message goes to nobody.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The destinations, sessions ascending.
    pub const fn iter(self) -> Destinations<'a> {
        Destinations::new(self.0)
    }
}

impl<'a> IntoIterator for Decision<'a> {
    type Item = Destination<'a>;
    type IntoIter = Destinations<'a>;

    fn into_iter(self) -> Destinations<'a> {
        self.iter()
    }
}

/// The destinations of a decision, sessions ascending.
#[derive(Clone, Debug)]
pub struct Destinations<'a> {
    reader: Reader<'a>,
    session: u64,
}

const FLAGS_FOLLOW: u64 = 3;
const FLAG_RETAIN: u8 = 1 << 2;
const FLAG_PICK: u8 = 1 << 3;
const FLAG_IDS: u8 = 1 << 4;
const FLAGS: u8 = 3 | FLAG_RETAIN | FLAG_PICK | FLAG_IDS;

impl<'a> Destinations<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self { reader: Reader::new(bytes), session: 0 }
    }

    fn read(&mut self) -> Result<Destination<'a>, RecordError> {
        const OUT_OF_RANGE: RecordError = RecordError::Value("session number");
        let head = self.reader.int()?;
        self.session = self.session.checked_add(head >> 2).ok_or(OUT_OF_RANGE)?;
        let session = SessionNumber::new(self.session).ok_or(OUT_OF_RANGE)?;
        let low = head & 3;
        if low != FLAGS_FOLLOW {
            let qos = match low {
                0 => QoS::AtMostOnce,
                1 => QoS::AtLeastOnce,
                _ => QoS::ExactlyOnce,
            };
            return Ok(Destination::plain(session, qos));
        }
        let flags = self.reader.byte()?;
        if flags & !FLAGS != 0 || flags & !3 == 0 {
            return Err(RecordError::Value("set of destination flags"));
        }
        let qos = QoS::from_bits(flags & 3).ok_or(RecordError::Value("QoS"))?;
        let pick = match flags & FLAG_PICK {
            0 => None,
            _ => Some(SubNumber::new(self.reader.int32()?)),
        };
        let ids = match flags & FLAG_IDS {
            0 => SubscriptionIds::NONE,
            _ => SubscriptionIds::read(&mut self.reader)?,
        };
        Ok(Destination { session, qos, retain: flags & FLAG_RETAIN != 0, pick, ids })
    }
}

impl<'a> Iterator for Destinations<'a> {
    type Item = Destination<'a>;

    fn next(&mut self) -> Option<Destination<'a>> {
        if self.reader.is_empty() { None } else { self.read().ok() }
    }
}

/// A decision under construction; it is cleared and used again, so that it allocates once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DecisionBuf {
    bytes: Vec<u8>,
    last: u64,
    count: usize,
}

impl DecisionBuf {
    /// An empty one.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), last: 0, count: 0 }
    }

    /// Appends a destination without pick and identifiers.
    ///
    /// # Panics
    /// If `session` is below the one before.
    pub fn push_plain(&mut self, session: SessionNumber, qos: QoS, retain: bool) {
        self.push(session, qos, retain, None, []);
    }

    /// Appends a destination with the identifiers to be sent along.
    ///
    /// # Panics
    /// If `session` is below the one before.
    pub fn push(
        &mut self,
        session: SessionNumber,
        qos: QoS,
        retain: bool,
        pick: Option<SubNumber>,
        ids: impl IntoIterator<Item = SubscriptionId, IntoIter: ExactSizeIterator>,
    ) {
        let ids = ids.into_iter();
        let mut flags = 0;
        flags |= if retain { FLAG_RETAIN } else { 0 };
        flags |= if pick.is_some() { FLAG_PICK } else { 0 };
        flags |= if ids.len() > 0 { FLAG_IDS } else { 0 };
        self.head(session, if flags == 0 { u64::from(qos.bits()) } else { FLAGS_FOLLOW });
        if flags == 0 {
            return;
        }
        self.bytes.push(flags | qos.bits());
        if let Some(pick) = pick {
            put(&mut self.bytes, u64::from(pick.get()));
        }
        if ids.len() > 0 {
            put_len(&mut self.bytes, ids.len());
            for id in ids {
                put(&mut self.bytes, u64::from(id.get()));
            }
        }
    }

    /// The decision so far.
    pub fn as_decision(&self) -> Decision<'_> {
        Decision(&self.bytes)
    }

    /// How many destinations there are.
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Forgets all destinations and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.last = 0;
        self.count = 0;
    }

    fn head(&mut self, session: SessionNumber, low: u64) {
        assert!(session.get() >= self.last, "destinations ascend");
        let delta = session.get() - self.last;
        assert!(delta <= u64::MAX >> 2, "session numbers end at 62 bits");
        put(&mut self.bytes, delta << 2 | low);
        self.last = session.get();
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn session(n: u64) -> SessionNumber {
        SessionNumber::new(n).unwrap()
    }

    #[test]
    fn plain_neighbours_take_one_byte_and_far_ones_two() {
        let mut buf = DecisionBuf::new();
        for (n, len) in [(31, 1), (62, 2), (62 + 32, 4), (62 + 32 + 4095, 6), (4190, 7)] {
            buf.push_plain(session(n), QoS::AtLeastOnce, false);
            assert_eq!(buf.as_decision().as_bytes().len(), len, "{n}");
        }
        assert_eq!((buf.len(), buf.as_decision().iter().count()), (5, 5));
        buf.clear();
        assert!(buf.is_empty() && buf.as_decision().is_empty());
    }

    #[test]
    fn one_session_may_stand_for_itself_and_for_its_groups() {
        let ids = [SubscriptionId::new(1).unwrap(), SubscriptionId::new(268_435_455).unwrap()];
        let mut buf = DecisionBuf::new();
        buf.push_plain(session(9), QoS::AtMostOnce, true);
        buf.push(session(9), QoS::ExactlyOnce, false, Some(SubNumber::new(3)), ids);
        let got: Vec<_> = Decision::parse(buf.as_decision().as_bytes()).unwrap().iter().collect();
        assert_eq!(got.len(), 2);
        assert_eq!((got[0].session, got[0].retain, got[0].pick), (session(9), true, None));
        assert_eq!((got[1].qos, got[1].pick), (QoS::ExactlyOnce, Some(SubNumber::new(3))));
        assert_eq!(got[1].ids.into_iter().collect::<Vec<_>>(), ids);
    }

    #[test]
    fn senseless_bytes_are_refused() {
        for bytes in [
            &[0x01][..],               // session 0
            &[0x04, 0x80],             // cut off
            &[0x07, 0x00],             // flags that say nothing
            &[0x07, 0x07],             // QoS 3
            &[0x07, 0x24],             // an unknown flag
            &[0x07, 0x10, 0x00],       // no identifiers announced as some
            &[0x07, 0x10, 0x01, 0x00], // identifier 0
            &[0x07, 0x10, 0x02, 0x01], // fewer than announced
            &[0x07, 0x08],             // no pick
        ] {
            assert!(Decision::parse(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    #[should_panic(expected = "destinations ascend")]
    fn sessions_must_ascend() {
        let mut buf = DecisionBuf::new();
        buf.push_plain(session(2), QoS::AtMostOnce, false);
        buf.push_plain(session(1), QoS::AtMostOnce, false);
    }

    type Entry = (u64, u8, bool, Option<u32>, Vec<u32>);

    fn entries() -> impl Strategy<Value = Vec<Entry>> {
        let ids = prop::collection::vec(1_u32..=268_435_455, 0..3);
        let entry = (1_u64..1 << 40, 0_u8..3, any::<bool>(), any::<Option<u32>>(), ids);
        prop::collection::vec(entry, 0..20)
    }

    proptest! {
        #[test]
        fn decisions_round_trip(mut entries in entries()) {
            entries.sort();
            let mut buf = DecisionBuf::new();
            for (n, qos, retain, pick, ids) in &entries {
                let ids: Vec<_> = ids.iter().filter_map(|&id| SubscriptionId::new(id)).collect();
                let qos = QoS::from_bits(*qos).unwrap();
                buf.push(session(*n), qos, *retain, pick.map(SubNumber::new), ids);
            }
            let got = Decision::parse(buf.as_decision().as_bytes()).unwrap();
            let got: Vec<Entry> = got
                .iter()
                .map(|to| {
                    let ids = to.ids.into_iter().map(SubscriptionId::get).collect();
                    let pick = to.pick.map(SubNumber::get);
                    (to.session.get(), to.qos.bits(), to.retain, pick, ids)
                })
                .collect();
            prop_assert_eq!(got, entries);
        }

        #[test]
        fn any_bytes_parse_or_err(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(decision) = Decision::parse(&bytes) {
                let mut again = DecisionBuf::new();
                for to in decision {
                    let ids: Vec<_> = to.ids.into_iter().collect();
                    again.push(to.session, to.qos, to.retain, to.pick, ids);
                }
                prop_assert_eq!(again.as_decision(), decision);
            }
        }
    }
}
