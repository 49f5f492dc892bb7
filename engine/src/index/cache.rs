//! The match cache: which entries a topic matched last time.
//!
//! Owns: a bounded number of bytes of answers, and what makes an answer old. A new or lost filter
//! with wildcards makes those topics old that share its literal beginning (up to three levels):
//! it leaves a mark under the hash of that beginning, and an answer is good if it is younger than
//! the marks of all beginnings of its topic. So a change costs one mark, however much is cached,
//! and an answer that was checked after the last change costs one comparison. Does not know what
//! an entry is.

use super::hash::TextHasher;
use super::table::IdTable;

/// See the file.
#[derive(Debug)]
pub(super) struct MatchCache {
    by_topic: IdTable,
    answers: Vec<Answer>,
    /// When a filter that begins so last came or went, by hash of its beginning.
    marks: Vec<u64>,
    /// Counts changes, from 1.
    now: u64,
    /// Hashes of topics that missed when there was no room: only what misses twice takes the
    /// place of another.
    missed: Vec<u32>,
    /// Where the search for an answer to give up goes on.
    hand: usize,
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct Answer {
    hash: u32,
    /// Used since the hand last passed.
    used: bool,
    /// Places of the marks of the topic's beginnings; those it does not have repeat the first.
    beginnings: [u16; LEVELS_MAX + 1],
    /// When it was found good; 0 is never.
    checked: u64,
    topic: String,
    entries: Vec<u32>,
}

/// How many levels of a beginning are told apart.
const LEVELS_MAX: usize = 3;
const MARKS: usize = 1 << 12;
const MISSED: usize = 1 << 12;
/// Longer topics and answers are not worth their place.
const TOPIC_MAX: usize = 512;
const ENTRIES_MAX: usize = 512;

const _: () = assert!(MARKS <= 1 << u16::BITS, "a place of a mark fits 16 bits");

impl MatchCache {
    /// A cache of at most this many bytes; none for 0.
    pub(super) const fn new(bytes_max: usize) -> Self {
        Self {
            by_topic: IdTable::new(),
            answers: Vec::new(),
            marks: Vec::new(),
            now: 1,
            missed: Vec::new(),
            hand: 0,
            bytes: 0,
            bytes_max,
        }
    }

    /// The entries that match `topic`, if that is known.
    #[inline]
    pub(super) fn find(&mut self, hash: u32, topic: &str) -> Option<&[u32]> {
        let at = self.place(hash, topic)?;
        let answer = &mut self.answers[at];
        if answer.checked != self.now {
            let marks = &self.marks;
            let young = |&at: &u16| marks.get(usize::from(at)).is_none_or(|&m| m <= answer.checked);
            if answer.checked == 0 || !answer.beginnings.iter().all(young) {
                return None;
            }
            answer.checked = self.now;
        }
        answer.used = true;
        Some(&answer.entries)
    }

    /// Takes the answer for a topic that [`MatchCache::find`] had none for.
    pub(super) fn learn(&mut self, hasher: &TextHasher, hash: u32, topic: &str, entries: &[u32]) {
        if topic.len() > TOPIC_MAX || entries.len() > ENTRIES_MAX || self.bytes_max == 0 {
            return;
        }
        if let Some(at) = self.place(hash, topic) {
            self.fill(at, entries);
            return;
        }
        let Some(at) = self.vacancy(hash, topic.len(), entries.len()) else { return };
        let answer = &mut self.answers[at];
        answer.hash = hash;
        answer.beginnings = beginnings(hasher, topic);
        answer.topic.push_str(topic);
        self.bytes += self.answers[at].topic.capacity();
        let id = u32::try_from(at).unwrap_or(u32::MAX);
        self.by_topic.insert(hash, id);
        self.fill(at, entries);
    }

    /// A filter without wildcards came or went.
    pub(super) fn exact_changed(&mut self, hash: u32, filter: &str) {
        if let Some(at) = self.place(hash, filter) {
            self.answers[at].checked = 0;
        }
    }

    /// A filter with wildcards came or went.
    pub(super) fn wildcard_changed(&mut self, hasher: &TextHasher, filter: &str) {
        if self.answers.is_empty() {
            return;
        }
        if self.marks.is_empty() {
            self.marks = vec![0; MARKS];
        }
        self.now += 1;
        let literal = filter.split('/').take_while(|level| !matches!(*level, "+" | "#"));
        let levels: Vec<_> = literal.take(LEVELS_MAX).map(str::len).collect();
        let place = match levels.len() {
            0 => ROOT,
            n => mark_place(hasher, &filter[..levels.iter().sum::<usize>() + n - 1]),
        };
        self.marks[usize::from(place)] = self.now;
    }

    /// How many bytes the answers take.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    fn place(&self, hash: u32, topic: &str) -> Option<usize> {
        let is = |id: u32| self.answers[id as usize].topic == topic;
        self.by_topic.find(hash, is).map(|id| id as usize)
    }

    fn fill(&mut self, at: usize, entries: &[u32]) {
        let answer = &mut self.answers[at];
        self.bytes -= answer.entries.capacity() * size_of::<u32>();
        answer.entries.clear();
        answer.entries.extend_from_slice(entries);
        self.bytes += answer.entries.capacity() * size_of::<u32>();
        answer.checked = self.now;
        answer.used = false;
    }

    /// Whether the topic missed before, as far as is remembered.
    fn missed_before(&mut self, hash: u32) -> bool {
        if self.missed.is_empty() {
            self.missed = vec![0; MISSED];
        }
        let seen = &mut self.missed[hash as usize % MISSED];
        core::mem::replace(seen, hash) == hash
    }

    /// A place for an answer of this size: a new one, or one given up that was not used lately.
    fn vacancy(&mut self, hash: u32, topic_len: usize, entries_len: usize) -> Option<usize> {
        let need = topic_len + entries_len * size_of::<u32>();
        if self.bytes + need + size_of::<Answer>() <= self.bytes_max {
            self.bytes += size_of::<Answer>();
            self.answers.push(Answer::EMPTY);
            return Some(self.answers.len() - 1);
        }
        if !self.missed_before(hash) {
            return None;
        }
        // Each pass clears what it sees as used, so the second finds something.
        for _ in 0..2 * self.answers.len() {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.answers.len();
            let answer = &mut self.answers[at];
            if !core::mem::take(&mut answer.used) {
                self.give_up(at);
                if self.bytes + need <= self.bytes_max {
                    return Some(at);
                }
            }
        }
        None
    }

    fn give_up(&mut self, at: usize) {
        let answer = core::mem::replace(&mut self.answers[at], Answer::EMPTY);
        self.bytes -= answer.topic.capacity() + answer.entries.capacity() * size_of::<u32>();
        if !answer.topic.is_empty() {
            self.by_topic.remove(answer.hash, u32::try_from(at).unwrap_or(u32::MAX));
        }
    }
}

impl Answer {
    const EMPTY: Self = Self {
        hash: 0,
        used: false,
        beginnings: [ROOT; LEVELS_MAX + 1],
        checked: 0,
        topic: String::new(),
        entries: Vec::new(),
    };
}

/// The mark of filters that begin with a wildcard.
const ROOT: u16 = 0;

fn beginnings(hasher: &TextHasher, topic: &str) -> [u16; LEVELS_MAX + 1] {
    let mut places = [ROOT; LEVELS_MAX + 1];
    let slashes = topic.match_indices('/').map(|(at, _)| at);
    let ends = slashes.chain([topic.len()]);
    for (place, end) in places[1..].iter_mut().zip(ends) {
        *place = mark_place(hasher, &topic[..end]);
    }
    places
}

fn mark_place(hasher: &TextHasher, beginning: &str) -> u16 {
    let place = hasher.hash(beginning) as usize % (MARKS - 1) + 1;
    u16::try_from(place).unwrap_or(ROOT)
}

#[cfg(test)]
mod tests {
    use super::super::hash::HashSeed;
    use super::*;

    struct Rig {
        cache: MatchCache,
        hasher: TextHasher,
    }

    impl Rig {
        fn new(bytes_max: usize) -> Self {
            let hasher = TextHasher::new(HashSeed(3, 4));
            Self { cache: MatchCache::new(bytes_max), hasher }
        }

        fn find(&mut self, topic: &str) -> Option<Vec<u32>> {
            self.cache.find(self.hasher.hash(topic), topic).map(<[u32]>::to_vec)
        }

        fn learn(&mut self, topic: &str, entries: &[u32]) {
            self.cache.learn(&self.hasher, self.hasher.hash(topic), topic, entries);
        }

        fn learn_twice(&mut self, topic: &str, entries: &[u32]) {
            self.learn(topic, entries);
            self.learn(topic, entries);
        }
    }

    #[test]
    fn once_it_is_full_only_what_misses_twice_is_kept() {
        let mut rig = Rig::new(1_000);
        (0..20).for_each(|n| rig.learn(&format!("a/{n}"), &[n]));
        assert!(rig.find("a/0").is_some() && rig.find("a/19").is_none());
        rig.learn("a/19", &[19]);
        rig.learn("a/19", &[19]);
        assert_eq!(rig.find("a/19"), Some(vec![19]));
    }

    #[test]
    fn a_wildcard_filter_makes_topics_old_that_begin_as_it_does() {
        let topics = ["a", "a/b", "a/b/c", "a/b/c/d", "a/x", "b", "/", ""];
        for (filter, old) in [
            ("#", &topics[..]),
            ("+/b", &topics),
            ("a/#", &["a", "a/b", "a/b/c", "a/b/c/d", "a/x"]),
            ("a/b/+", &["a/b", "a/b/c", "a/b/c/d"]),
            ("a/b/c/d/#", &["a/b/c", "a/b/c/d"]),
            ("/+", &["/", ""]),
        ] {
            let mut rig = Rig::new(10_000);
            for topic in topics {
                rig.learn_twice(topic, &[1]);
            }
            rig.cache.wildcard_changed(&rig.hasher, filter);
            for topic in topics {
                let is_old = rig.find(topic).is_none();
                assert_eq!(is_old, old.contains(&topic), "{filter} {topic}");
            }
            for topic in topics {
                rig.learn(topic, &[2]);
            }
            assert!(topics.iter().all(|topic| rig.find(topic).is_some()));
        }
    }

    #[test]
    fn an_exact_filter_makes_one_topic_old() {
        let mut rig = Rig::new(10_000);
        for topic in ["a", "a/b"] {
            rig.learn_twice(topic, &[1]);
        }
        rig.cache.exact_changed(rig.hasher.hash("a"), "a");
        assert_eq!((rig.find("a"), rig.find("a/b")), (None, Some(vec![1])));
        rig.cache.wildcard_changed(&rig.hasher, "x/#");
        assert_eq!((rig.find("a"), rig.find("a/b")), (None, Some(vec![1])));
        rig.learn("a", &[2]);
        assert_eq!(rig.find("a"), Some(vec![2]));
    }

    #[test]
    fn bytes_stay_within_bounds_and_the_used_outlive_the_unused() {
        let mut rig = Rig::new(20_000);
        rig.learn_twice("used", &[7]);
        for n in 0..2000 {
            rig.learn_twice(&format!("topic/{n}"), &[n; 5]);
            assert_eq!(rig.find("used"), Some(vec![7]));
            assert!(rig.cache.bytes() <= 20_000, "{}", rig.cache.bytes());
        }
        assert!(rig.find("topic/1999").is_some() && rig.find("topic/0").is_none());
    }

    #[test]
    fn what_is_too_large_or_when_there_is_no_room_is_not_kept() {
        let mut rig = Rig::new(100_000);
        rig.learn_twice("many", &[0; ENTRIES_MAX + 1]);
        rig.learn_twice(&"long".repeat(TOPIC_MAX), &[]);
        assert_eq!((rig.find("many"), rig.cache.bytes()), (None, 0));
        let mut none = Rig::new(0);
        none.learn_twice("a", &[]);
        assert_eq!(none.find("a"), None);
    }
}
