//! Where subscriptions that start in the past stand in the index.
//!
//! A session may have several by one filter, and an ordinary one beside them, each of which gets
//! its own copy of a message, marked with its number. That is what a shared group does, so each of
//! them stands as a group of its own, under a name that no group of clients can have.
//!
//! Owns: that name. Does not know: history.

use zzq_engine::{Index, SessionNumber, Subscriber};
use zzq_types::Filter;

use super::ask::topic_filter;

/// Puts a subscription into the index; `replays`: it starts in the past. A text stands there once.
pub(crate) fn stand(index: &mut Index, text: &str, subscriber: Subscriber, replays: bool) {
    let session = subscriber.session;
    let name = name(session, text);
    match (as_group(&name, text), Filter::new(text)) {
        (Some(group), _) if replays => {
            leave_as_ordinary(index, text, session);
            index.insert(group, subscriber);
        }
        (group, Ok(filter)) => {
            if let Some(group) = group {
                index.remove(group, session);
            }
            index.insert(filter, subscriber);
        }
        _ => {}
    }
}

/// Takes a subscription out of it.
pub(crate) fn leave(index: &mut Index, text: &str, session: SessionNumber) {
    leave_as_ordinary(index, text, session);
    let name = name(session, text);
    if let Some(group) = as_group(&name, text) {
        index.remove(group, session);
    }
}

fn leave_as_ordinary(index: &mut Index, text: &str, session: SessionNumber) {
    if let Ok(filter) = Filter::new(text) {
        index.remove(filter, session);
    }
}

/// A group that a client names has no slash.
fn name(session: SessionNumber, text: &str) -> String {
    format!("/{}/{text}", session.get())
}

fn as_group<'a>(name: &'a str, text: &'a str) -> Option<Filter<'a>> {
    topic_filter(text).map(|filter| Filter::Shared { group: name, filter })
}
