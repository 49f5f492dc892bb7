//! The listeners of one driver, by the place under which the kernel tells of them.
//!
//! Assumes: the driver has the kernel tell of a listener at least at every change.
use std::os::fd::OwnedFd;

use super::Event;
use crate::{id::ListenerId, listener::Listener, time::Millis};

#[derive(Debug, Default)]
pub(super) struct Doors(Vec<Option<Listener>>);

impl Doors {
    /// The place that the next listener gets.
    pub(super) fn next(&self) -> usize {
        self.0.iter().position(Option::is_none).unwrap_or(self.0.len())
    }

    /// Takes a listener to its place.
    pub(super) fn open(&mut self, listener: Listener) {
        let place = self.next();
        if place == self.0.len() {
            self.0.push(None);
        }
        self.0[place] = Some(listener);
    }

    /// The places of these listeners; `None`: of all.
    pub(super) fn places(&self, id: Option<ListenerId>) -> Vec<usize> {
        let open = self.0.iter().enumerate();
        open.filter_map(|(place, door)| {
            let listener = door.as_ref()?;
            id.is_none_or(|id| listener.id() == id).then_some(place)
        })
        .collect()
    }

    /// Closes what is at this place.
    pub(super) fn close(&mut self, place: usize) {
        self.0[place] = None;
    }

    pub(super) fn get(&self, place: usize) -> Option<&Listener> {
        self.0.get(place)?.as_ref()
    }

    pub(super) fn note_ready(&mut self, place: usize) {
        if let Some(Some(listener)) = self.0.get_mut(place) {
            listener.note_ready();
        }
    }

    /// When one of them can accept without a further event.
    pub(super) fn due(&self) -> Option<Millis> {
        self.0.iter().flatten().map(Listener::due).min()
    }

    /// Whether one of them can accept now.
    pub(super) fn can_accept(&self, now: Millis) -> bool {
        self.due().is_some_and(|due| due <= now)
    }

    pub(super) fn accept(&mut self, now: Millis, events: &mut Vec<Event<OwnedFd>>) {
        for listener in self.0.iter_mut().flatten() {
            listener.accept(now, events);
        }
    }
}
