//! Facts that are so, or no longer so, from a record on that is not applied yet.

use std::collections::{BTreeMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::{Handed, SessionNumber};

/// The last word about a fact, and the record that says it.
#[derive(Clone, Copy, Debug)]
struct Word {
    so: bool,
    handed: Handed,
}

/// Facts about small keys.
#[derive(Debug)]
pub(super) struct Pending<K> {
    words: FxHashMap<K, Word>,
    /// Every word that was said, in order; those that were said again since are void.
    order: VecDeque<(Handed, K)>,
}

impl<K: Copy + Eq + Hash> Pending<K> {
    pub(super) fn set(&mut self, key: K, so: bool, handed: Handed) {
        self.words.insert(key, Word { so, handed });
        self.order.push_back((handed, key));
    }

    pub(super) fn get(&self, key: &K) -> Option<bool> {
        self.words.get(key).map(|word| word.so)
    }

    /// State says what records up to `handed` said.
    pub(super) fn forget(&mut self, handed: Handed) {
        while let Some((_, key)) = self.order.pop_front_if(|(said, _)| *said <= handed) {
            if self.words.get(&key).is_some_and(|word| word.handed <= handed) {
                self.words.remove(&key);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

impl<K> Default for Pending<K> {
    fn default() -> Self {
        Self { words: FxHashMap::default(), order: VecDeque::new() }
    }
}

/// Facts about strings of sessions. Peers choose the strings, so they are compared, not hashed.
#[derive(Debug, Default)]
pub(super) struct PendingText {
    words: FxHashMap<SessionNumber, BTreeMap<Arc<str>, Word>>,
    order: VecDeque<(Handed, SessionNumber, Arc<str>)>,
}

impl PendingText {
    pub(super) fn set(&mut self, session: SessionNumber, text: &str, so: bool, handed: Handed) {
        let text: Arc<str> = text.into();
        let words = self.words.entry(session).or_default();
        words.insert(text.clone(), Word { so, handed });
        self.order.push_back((handed, session, text));
    }

    pub(super) fn get(&self, session: SessionNumber, text: &str) -> Option<bool> {
        self.words.get(&session)?.get(text).map(|word| word.so)
    }

    /// State says what records up to `handed` said.
    pub(super) fn forget(&mut self, handed: Handed) {
        while let Some((_, session, text)) = self.order.pop_front_if(|(said, ..)| *said <= handed) {
            let Some(words) = self.words.get_mut(&session) else { continue };
            if words.get(&text).is_some_and(|word| word.handed <= handed) {
                words.remove(&text);
            }
            if words.is_empty() {
                self.words.remove(&session);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}
