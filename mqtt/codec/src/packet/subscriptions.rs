//! The lists of filters in SUBSCRIBE and UNSUBSCRIBE, read one by one.
//!
//! Whether a filter is one is each filter's own matter and comes with it: one bad filter spoils
//! neither the packet nor its neighbours.

use alloc::vec::Vec;

use zzq_types::{Filter, FilterError, SubscribeOptions};

use crate::EncodeError;

/// One entry of a SUBSCRIBE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscription<'a> {
    /// The filter as it was sent, `$share` prefix included.
    pub text: &'a str,
    /// The filter, or why it is none.
    pub filter: Result<Filter<'a>, FilterError>,
    /// The options; before MQTT 5 the QoS alone.
    pub options: SubscribeOptions,
}

/// The entries of a SUBSCRIBE, which a decoder has checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subscriptions<'a>(&'a [u8]);

/// The filters of an UNSUBSCRIBE, which a decoder has checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filters<'a>(&'a [u8]);

/// The entries of a SUBSCRIBE in their order.
#[derive(Clone, Debug)]
pub struct SubscriptionsIter<'a>(&'a [u8]);

/// The filters of an UNSUBSCRIBE in their order, each with its text.
#[derive(Clone, Debug)]
pub struct FiltersIter<'a>(&'a [u8]);

/// Entries under construction, for SUBSCRIBE and for UNSUBSCRIBE.
#[derive(Clone, Debug, Default)]
pub struct SubscriptionsBuf {
    subscriptions: Vec<u8>,
    filters: Vec<u8>,
}

impl<'a> Subscriptions<'a> {
    pub(crate) const fn from_checked(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The entries in their order.
    pub const fn iter(self) -> SubscriptionsIter<'a> {
        SubscriptionsIter(self.0)
    }

    /// Whether there is none; a packet has at least one.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(crate) const fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Subscriptions<'a> {
    /// Texts and options alone, as encoders need them.
    pub(crate) fn raw(self) -> impl Iterator<Item = (&'a str, SubscribeOptions)> {
        let mut rest = self.0;
        core::iter::from_fn(move || take_entry(&mut rest))
    }
}

impl<'a> Filters<'a> {
    pub(crate) const fn from_checked(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The filters in their order, each with its text.
    pub const fn iter(self) -> FiltersIter<'a> {
        FiltersIter(self.0)
    }

    /// Whether there is none; a packet has at least one.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(crate) const fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl<'a> IntoIterator for Subscriptions<'a> {
    type Item = Subscription<'a>;
    type IntoIter = SubscriptionsIter<'a>;

    fn into_iter(self) -> SubscriptionsIter<'a> {
        self.iter()
    }
}

impl<'a> IntoIterator for Filters<'a> {
    type Item = (&'a str, Result<Filter<'a>, FilterError>);
    type IntoIter = FiltersIter<'a>;

    fn into_iter(self) -> FiltersIter<'a> {
        self.iter()
    }
}

impl<'a> Iterator for SubscriptionsIter<'a> {
    type Item = Subscription<'a>;

    fn next(&mut self) -> Option<Subscription<'a>> {
        let (text, options) = take_entry(&mut self.0)?;
        Some(Subscription { text, filter: Filter::new(text), options })
    }
}

impl<'a> Iterator for FiltersIter<'a> {
    type Item = (&'a str, Result<Filter<'a>, FilterError>);

    fn next(&mut self) -> Option<Self::Item> {
        let text = take_text(&mut self.0)?;
        Some((text, Filter::new(text)))
    }
}

fn take_entry<'a>(bytes: &mut &'a [u8]) -> Option<(&'a str, SubscribeOptions)> {
    let text = take_text(bytes)?;
    let (&byte, tail) = bytes.split_first()?;
    *bytes = tail;
    Some((text, SubscribeOptions::from_byte(byte).ok()?))
}

/// Takes a string that was checked before.
fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let (len, tail) = bytes.split_first_chunk::<2>()?;
    let (text, tail) = tail.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
    *bytes = tail;
    core::str::from_utf8(text).ok()
}

impl SubscriptionsBuf {
    /// No entry.
    pub const fn new() -> Self {
        Self { subscriptions: Vec::new(), filters: Vec::new() }
    }

    /// Appends an entry. The filter is sent as it is: what the server will make of it is for
    /// [`Filter::new`] to say.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`] above 65 535 bytes; nothing is appended.
    pub fn push(&mut self, filter: &str, options: SubscribeOptions) -> Result<(), EncodeError> {
        let len = u16::try_from(filter.len())
            .map_err(|_| EncodeError::TooLong(crate::Field::Filter, filter.len()))?;
        for list in [&mut self.subscriptions, &mut self.filters] {
            list.extend_from_slice(&len.to_be_bytes());
            list.extend_from_slice(filter.as_bytes());
        }
        self.subscriptions.push(options.to_byte());
        Ok(())
    }

    /// The entries for SUBSCRIBE.
    pub fn subscriptions(&self) -> Subscriptions<'_> {
        Subscriptions(&self.subscriptions)
    }

    /// The same filters for UNSUBSCRIBE.
    pub fn filters(&self) -> Filters<'_> {
        Filters(&self.filters)
    }

    /// Forgets the entries and keeps the memory.
    pub fn clear(&mut self) {
        self.subscriptions.clear();
        self.filters.clear();
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use zzq_types::QoS;

    #[test]
    fn each_filter_carries_its_own_result() {
        let mut buf = SubscriptionsBuf::new();
        let options = SubscribeOptions::with_qos(QoS::AtLeastOnce);
        for filter in ["a/+", "$share/g", "", "$share/g/b", "a#"] {
            buf.push(filter, options).unwrap();
        }
        let read: Vec<_> = buf.subscriptions().iter().map(|entry| entry.filter.is_ok()).collect();
        assert_eq!(read, [true, false, false, true, false]);
        let texts: Vec<_> = buf.filters().iter().map(|(text, _)| text).collect();
        assert_eq!(texts, ["a/+", "$share/g", "", "$share/g/b", "a#"]);
        assert!(buf.subscriptions().iter().all(|entry| entry.options == options));
    }

    #[test]
    fn filters_that_cannot_be_written_leave_no_trace() {
        let mut buf = SubscriptionsBuf::new();
        let long = "x".repeat(65_536);
        assert!(buf.push(&long, SubscribeOptions::default()).is_err());
        assert!(buf.subscriptions().is_empty() && buf.filters().is_empty());
        buf.push("a", SubscribeOptions::default()).unwrap();
        buf.clear();
        assert!(buf.subscriptions().is_empty());
    }
}
