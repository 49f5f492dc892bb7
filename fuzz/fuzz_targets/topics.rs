//! Topic names and filters of any text: what is accepted keeps the rules of the specification,
//! and matching agrees with a second matcher that recurses over levels.
//!
//! The input is text; its first line is the name, the rest the filter.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zzq_types::{Filter, TopicFilter, TopicName};

fuzz_target!(|text: &str| {
    let (name, filter) = text.split_once('\n').unwrap_or((text, text));
    let name = checked_name(name);
    let filter = checked_filter(filter);
    if let (Some(name), Some(filter)) = (name, filter) {
        let levels = (levels(filter.as_str()), levels(name.as_str()));
        let want = !hidden(levels.0[0], levels.1[0]) && matches(&levels.0, &levels.1);
        assert_eq!(filter.matches(name), want, "{filter} over {name}");
    }
});

fn checked_name(text: &str) -> Option<TopicName<'_>> {
    let good = well_sized(text) && !text.contains(['+', '#', '\0']);
    let name = TopicName::new(text).ok();
    assert_eq!(name.is_some(), good, "{text:?}");
    name
}

/// The filter of a plain or shared subscription.
fn checked_filter(text: &str) -> Option<TopicFilter<'_>> {
    let rest = text.strip_prefix("$share/");
    let (group, plain) = match rest.map(|rest| rest.split_once('/').unwrap_or((rest, ""))) {
        Some((group, plain)) => (Some(group), plain),
        None => (None, text),
    };
    let share = group.is_none_or(|group| !group.is_empty() && !group.contains(['+', '#', '\0']));
    let good = well_sized(text) && share && well_formed(plain);
    match Filter::new(text) {
        Ok(Filter::Plain(filter)) => {
            assert!(good && group.is_none() && filter.as_str() == text, "{text:?}");
            Some(filter)
        }
        Ok(Filter::Shared { group: named, filter }) => {
            assert!(good && group == Some(named) && filter.as_str() == plain, "{text:?}");
            Some(filter)
        }
        Err(error) => {
            assert!(!good, "{text:?}: {error}");
            None
        }
    }
}

fn well_sized(text: &str) -> bool {
    (1..=usize::from(u16::MAX)).contains(&text.len())
}

fn well_formed(filter: &str) -> bool {
    let levels = levels(filter);
    let alone = |level: &&str| level.len() == 1 || !level.contains(['+', '#']);
    let last = |at| at + 1 == levels.len();
    let hashes_last = levels.iter().enumerate().all(|(at, level)| *level != "#" || last(at));
    !filter.is_empty() && !filter.contains('\0') && levels.iter().all(alone) && hashes_last
}

fn levels(text: &str) -> Vec<&str> {
    text.split('/').collect()
}

/// A wildcard in the first level does not see the server's own topics.
fn hidden(filter: &str, name: &str) -> bool {
    name.starts_with('$') && matches!(filter, "+" | "#")
}

fn matches(filter: &[&str], name: &[&str]) -> bool {
    match (filter, name) {
        (["#"], _) | ([], []) => true,
        ([level, filter @ ..], [given, name @ ..]) => {
            (*level == "+" || level == given) && matches(filter, name)
        }
        _ => false,
    }
}
