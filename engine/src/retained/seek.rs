//! Where among topics in byte order the next one may be that a filter matches.
//!
//! Owns: the comparison of one topic with a filter, and what can be skipped from there. The topics
//! below a level lie together, `x/` to before `x0`, but the topic `x` itself does not lie with
//! them: `x!` and the like come between.

use std::ops::Bound;

use zzq_types::TopicFilter;

/// What to do at a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It matches; go on behind it.
    Match,
    /// It does not; go on behind it.
    Behind,
    /// It does not, nor does anything before the target.
    Target,
    /// Nothing from here on matches.
    Done,
}

/// See the file.
#[derive(Debug)]
pub(super) struct Seeker<'a> {
    filter: &'a str,
}

impl<'a> Seeker<'a> {
    pub(super) const fn new(filter: TopicFilter<'a>) -> Self {
        Self { filter: filter.as_str() }
    }

    /// The first string that may match: the literal levels in front.
    pub(super) fn start(&self, target: &mut String) {
        target.clear();
        target.push_str(self.literal());
    }

    /// Whether a search from here has not reached its start.
    pub(super) fn is_before(&self, from: Bound<&str>) -> bool {
        match from {
            Bound::Unbounded => true,
            Bound::Included(topic) | Bound::Excluded(topic) => topic < self.literal(),
        }
    }

    /// The levels before the first wildcard, without the slash behind.
    fn literal(&self) -> &'a str {
        match self.filter.find(['+', '#']) {
            Some(at) => &self.filter[..at.saturating_sub(1)],
            None => self.filter,
        }
    }

    /// Compares a topic, and says where to go on; a target is written where there is one.
    //= MQTT311-4.7.2-1
    //= MQTT5-4.7.2-1
    pub(super) fn next(&self, topic: &str, target: &mut String) -> Next {
        if topic.starts_with('$') && self.filter.starts_with(['+', '#']) {
            return to(target, "%", "");
        }
        // Start of the level being compared, and end of the last level that `+` took.
        let (mut at, mut plus_end) = (0, None);
        let mut wanted = self.filter.split('/').peekable();
        while let Some(level) = wanted.next() {
            if level == "#" {
                return Next::Match;
            }
            let rest = &topic[at..];
            let end = at + rest.find('/').unwrap_or(rest.len());
            if level == "+" {
                plus_end = Some(end);
            } else if *level != topic[at..end] {
                let goes_on = wanted.peek().is_some();
                return differs(topic, at, level, goes_on, plus_end, target);
            }
            if end == topic.len() {
                // The topic has no further level; `#` needs none.
                let rest = wanted.next();
                return if rest.is_none_or(|level| level == "#") {
                    Next::Match
                } else {
                    Next::Behind
                };
            }
            at = end + 1;
        }
        // The topic goes on where the filter ends, and so do all below the same levels.
        to(target, &topic[..at - 1], BEHIND_SLASH)
    }
}

/// What comes next in byte order behind all that a slash begins.
const BEHIND_SLASH: &str = "0";

/// The level of `topic` that starts at `at` is not the literal one that the filter has there.
fn differs(
    topic: &str,
    at: usize,
    level: &str,
    goes_on: bool,
    plus_end: Option<usize>,
    target: &mut String,
) -> Next {
    let rest = &topic[at..];
    if rest < level {
        return to(target, &topic[..at], level);
    }
    // `x!` and the like come before `x/`.
    let sibling = rest.strip_prefix(level).is_some_and(|behind| behind < "/");
    if sibling && goes_on {
        let next = to(target, &topic[..at], level);
        target.push('/');
        return next;
    }
    // Too far for this beginning: the next value that `+` may take.
    match plus_end {
        Some(end) => to(target, &topic[..end], BEHIND_SLASH),
        None => Next::Done,
    }
}

fn to(target: &mut String, beginning: &str, end: &str) -> Next {
    target.clear();
    target.push_str(beginning);
    target.push_str(end);
    Next::Target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_that_does_not_match_says_where_to_go_on() {
        for (filter, topic, next, target) in [
            ("a/b", "a/a/x", Next::Target, "a/b"),
            ("a/b", "a/b", Next::Match, ""),
            ("a/b", "a/b/c", Next::Target, "a/b0"),
            ("a/b", "a/c", Next::Done, ""),
            ("a/b/c", "a/b!", Next::Target, "a/b/"),
            ("a/b", "a/b!", Next::Done, ""),
            ("a/+/c", "a/x", Next::Behind, ""),
            ("a/+/c", "a/x/b", Next::Target, "a/x/c"),
            ("a/+/c", "a/x/d", Next::Target, "a/x0"),
            ("a/+/c", "a/x/c/d", Next::Target, "a/x/c0"),
            ("a/+/c", "b/x/c", Next::Done, ""),
            ("+/+/c", "a/x/d", Next::Target, "a/x0"),
            ("+/b/c", "a/c", Next::Target, "a0"),
            ("a/#", "a", Next::Match, ""),
            ("a/#", "a!", Next::Target, "a/"),
            ("a/#", "a/", Next::Match, ""),
            ("+", "$SYS/x", Next::Target, "%"),
            ("+", "/", Next::Target, "0"),
            ("+/+", "/", Next::Match, ""),
        ] {
            let seeker = Seeker::new(TopicFilter::new(filter).unwrap());
            let mut written = String::new();
            assert_eq!(seeker.next(topic, &mut written), next, "{filter} at {topic}");
            assert_eq!(written, target, "{filter} at {topic}");
            assert!(next != Next::Target || *written > *topic, "a search goes forward");
        }
    }

    #[test]
    fn a_search_starts_at_the_literal_levels() {
        for (filter, start) in
            [("a/b/+", "a/b"), ("a/b", "a/b"), ("#", ""), ("/+", ""), ("a//#", "a/")]
        {
            let seeker = Seeker::new(TopicFilter::new(filter).unwrap());
            let mut target = String::new();
            seeker.start(&mut target);
            assert_eq!(target, start);
        }
    }
}
