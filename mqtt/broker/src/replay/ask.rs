//! What a subscription says about where it starts: `$replay/<from>/<filter>`, or the user property
//! `replay-from` beside an ordinary filter.
//!
//! Owns: the words for places and times. Does not know: the log, what time it is.

use zzq_types::{FilterError, Moment, TopicFilter};

/// The user property of SUBSCRIBE.
pub(crate) const PROPERTY: &str = "replay-from";

const PREFIX: &str = "$replay/";

/// Where a subscription starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// With the oldest that is there.
    All,
    /// With this offset.
    Offset(u64),
    /// With this time, in ms since 1970.
    Time(u64),
    /// So many ms ago.
    Ago(u64),
}

/// A filter whose messages come from the past on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask<'a> {
    pub(crate) start: Start,
    pub(crate) filter: TopicFilter<'a>,
}

/// Why a subscription cannot start in the past.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AskError {
    /// Nothing that says where.
    #[error(
        "'{0}' is no start of a replay: write all, @OFFSET, a time as 2026-05-01T12:00:00Z or in \
         ms since 1970, or -SPAN, as in -1h"
    )]
    Start(String),
    /// A start and no filter.
    #[error("a replay is $replay/<from>/<filter>")]
    Shape,
    /// No filter behind it.
    #[error(transparent)]
    Filter(#[from] FilterError),
}

/// What this filter asks for, with the property's value if there is one; `None`: an ordinary
/// subscription.
pub(crate) fn ask<'a>(text: &'a str, property: Option<&str>) -> Result<Option<Ask<'a>>, AskError> {
    if let Some(rest) = text.strip_prefix(PREFIX) {
        let (from, filter) = rest.split_once('/').ok_or(AskError::Shape)?;
        let (start, filter) = (start(from)?, TopicFilter::new(filter)?);
        return Ok(Some(Ask { start, filter }));
    }
    let Some(from) = property else { return Ok(None) };
    Ok(Some(Ask { start: start(from)?, filter: TopicFilter::new(text)? }))
}

/// The filter that topics are matched against.
pub(crate) fn topic_filter(text: &str) -> Option<TopicFilter<'_>> {
    let behind = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('/'));
    TopicFilter::new(behind.map_or(text, |(_, filter)| filter)).ok()
}

/// So many characters are quoted of what is no start: it may be as long as a property, beside each
/// filter of a packet.
const QUOTED: usize = 40;

fn start(text: &str) -> Result<Start, AskError> {
    let failed = || AskError::Start(text.chars().take(QUOTED).collect());
    if text == "all" {
        return Ok(Start::All);
    }
    Ok(match Moment::parse(text).ok_or_else(failed)? {
        Moment::Offset(offset) => Start::Offset(offset),
        Moment::Time(time_ms) => Start::Time(time_ms),
        Moment::Ago(span_ms) => Start::Ago(span_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start_of(text: &str) -> Option<Start> {
        ask(text, None).unwrap().map(|ask| ask.start)
    }

    #[test]
    fn a_start_stands_in_the_filter_or_beside_it() {
        let asked = ask("$replay/@17/news/+/#", None).unwrap().unwrap();
        assert_eq!((asked.start, asked.filter.as_str()), (Start::Offset(17), "news/+/#"));
        let beside = ask("news/#", Some("-1h")).unwrap().unwrap();
        assert_eq!((beside.start, beside.filter.as_str()), (Start::Ago(3_600_000), "news/#"));
        assert_eq!(ask("news/#", None), Ok(None));
        for (text, filter) in [("$replay/all//a", "/a"), ("a", "a")] {
            assert_eq!(topic_filter(text).map(TopicFilter::as_str), Some(filter));
        }
    }

    #[test]
    fn a_start_is_a_place_or_a_time() {
        assert_eq!(start_of("$replay/all/a"), Some(Start::All));
        assert_eq!(start_of("$replay/1700000000000/a"), Some(Start::Time(1_700_000_000_000)));
        let time = Start::Time(1_777_636_800_000);
        assert_eq!(start_of("$replay/2026-05-01T12:00:00Z/a"), Some(time));
        assert_eq!(ask("a", Some("2026-05-01T14:00:00+02:00")).unwrap().unwrap().start, time);
    }

    #[test]
    fn what_is_no_start_is_refused_with_what_to_write() {
        for bad in ["now", "@", "@-1", "@9999999999999999999", "-1", "1h", "+5", "", "2026-05-01"] {
            let error = ask("a", Some(bad)).unwrap_err();
            assert!(error.to_string().contains("@OFFSET"), "{bad}: {error}");
        }
        let long = "x".repeat(usize::from(u16::MAX));
        assert!(ask("a", Some(&long)).unwrap_err().to_string().len() < 200);
        assert_eq!(ask("$replay/all", None), Err(AskError::Shape));
        assert!(matches!(ask("$replay/all/", None), Err(AskError::Filter(_))));
        assert!(matches!(ask("$replay/all/a#", None), Err(AskError::Filter(_))));
    }
}
