//! The filters with wildcards, as a trie over levels.
//!
//! Owns: which of them match a topic. A node's label is one or more levels that no other filter
//! branches off from, so there are at most two nodes for a filter however many levels it has, and
//! the work of a match is bounded by the nodes that agree with the topic. Does not know what hangs
//! on a filter: each has an entry, a number from outside.
//!
//! Holds at all times: every node but the root has an entry or two children.

use super::hash::{TextHasher, spread};
use super::slab::{NONE, Slab};
use super::table::IdTable;
use crate::weight::ALLOCATION;

/// See the file.
#[derive(Debug)]
pub(super) struct Trie {
    nodes: Slab<Node>,
    /// Children whose first level is no wildcard, by parent and that level.
    edges: IdTable,
    root: u32,
    /// Of all labels with the slash before each: what filters have in common counts once.
    label_bytes: usize,
}

#[derive(Debug)]
struct Node {
    /// Levels, joined by `/`; of the root none.
    label: Box<str>,
    parent: u32,
    /// The child whose first level is `+`.
    plus: u32,
    /// The child `#`.
    hash: u32,
    /// How many further children there are, and their numbers xor'd: the number of an only one.
    literals: u32,
    literals_xor: u32,
    entry: u32,
}

/// A node that agrees with the topic so far, and where the rest of the topic begins.
#[derive(Clone, Copy, Debug)]
struct Visit {
    node: u32,
    /// Offset of the next level, [`EXHAUSTED`] behind the last.
    rest: usize,
}

const EXHAUSTED: usize = usize::MAX;

/// Memory of a walk, used again by the next.
#[derive(Debug, Default)]
pub(super) struct Walk(Vec<Visit>);

impl Trie {
    pub(super) fn new() -> Self {
        let mut nodes = Slab::new();
        let root = nodes.insert(Node::new("".into(), NONE));
        Self { nodes, edges: IdTable::new(), root, label_bytes: 0 }
    }

    /// What it takes in memory, about.
    pub(super) const fn memory(&self) -> usize {
        // The root is there without a filter.
        let nodes = self.nodes.len() - 1;
        nodes * (size_of::<Node>() + IdTable::EACH + ALLOCATION) + self.label_bytes
    }

    /// Whether there is no filter.
    pub(super) const fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    /// The entry of a node.
    pub(super) fn entry(&self, node: u32) -> u32 {
        self.nodes[node].entry
    }

    /// The filter of a node.
    pub(super) fn filter(&self, node: u32) -> String {
        let mut labels = Vec::new();
        let mut node = node;
        while node != self.root {
            labels.push(&*self.nodes[node].label);
            node = self.nodes[node].parent;
        }
        labels.reverse();
        labels.join("/")
    }

    /// The node of a filter that has an entry.
    pub(super) fn find(&self, hasher: &TextHasher, filter: &str) -> Option<u32> {
        let (mut node, mut rest) = (self.root, filter);
        loop {
            node = self.child(hasher, node, first_level(rest))?;
            match rest.strip_prefix(&*self.nodes[node].label)? {
                "" => break,
                behind => rest = behind.strip_prefix('/')?,
            }
        }
        (self.nodes[node].entry != NONE).then_some(node)
    }

    /// Gives a filter, which is not there, an entry; says at which node.
    pub(super) fn insert(&mut self, hasher: &TextHasher, filter: &str, entry: u32) -> u32 {
        let node = self.make(hasher, filter);
        let was = core::mem::replace(&mut self.nodes[node].entry, entry);
        assert!(was == NONE && entry != NONE, "a filter has one entry");
        node
    }

    /// Takes the entry of a node away, and the nodes that only led to it.
    pub(super) fn remove(&mut self, hasher: &TextHasher, node: u32) {
        let was = core::mem::replace(&mut self.nodes[node].entry, NONE);
        assert!(was != NONE, "only a filter that has an entry is removed");
        let mut node = node;
        if self.nodes[node].children() == 0 {
            let parent = self.detach(hasher, node);
            self.label_bytes -= self.nodes.remove(node).label.len() + 1;
            node = parent;
        }
        if node != self.root && self.nodes[node].entry == NONE && self.nodes[node].children() == 1 {
            self.merge(hasher, node);
        }
    }

    /// Visits the entry of every filter that matches `topic`, each once.
    //= MQTT311-4.7.2-1
    //= MQTT311-4.7.3-4
    //= MQTT5-4.7.2-1
    //= MQTT5-4.7.3-4
    pub(super) fn matches(
        &self,
        hasher: &TextHasher,
        topic: &str,
        walk: &mut Walk,
        mut visit: impl FnMut(u32),
    ) {
        let stack = &mut walk.0;
        stack.clear();
        let root = &self.nodes[self.root];
        if !topic.starts_with('$') {
            self.wildcards(root, topic, 0, stack, &mut visit);
        }
        self.literal(hasher, self.root, topic, 0, stack, &mut visit);
        while let Some(Visit { node, rest }) = stack.pop() {
            let it = &self.nodes[node];
            if rest == EXHAUSTED {
                if it.entry != NONE {
                    visit(it.entry);
                }
                if it.hash != NONE {
                    visit(self.nodes[it.hash].entry);
                }
                continue;
            }
            self.wildcards(it, topic, rest, stack, &mut visit);
            self.literal(hasher, node, topic, rest, stack, &mut visit);
        }
    }

    /// Goes on to the children `#` and `+...`.
    fn wildcards(
        &self,
        node: &Node,
        topic: &str,
        rest: usize,
        stack: &mut Vec<Visit>,
        visit: &mut impl FnMut(u32),
    ) {
        if node.hash != NONE {
            visit(self.nodes[node.hash].entry);
        }
        if node.plus != NONE {
            self.step(node.plus, topic, rest, stack, visit);
        }
    }

    /// Goes on to the child that begins with the topic's next level.
    fn literal(
        &self,
        hasher: &TextHasher,
        node: u32,
        topic: &str,
        rest: usize,
        stack: &mut Vec<Visit>,
        visit: &mut impl FnMut(u32),
    ) {
        let it = &self.nodes[node];
        let child = match it.literals {
            0 => return,
            // Its label is compared whole below.
            1 => it.literals_xor,
            _ => {
                let Some(child) = self.edge(hasher, node, first_level(&topic[rest..])) else {
                    return;
                };
                child
            }
        };
        self.step(child, topic, rest, stack, visit);
    }

    /// Compares the whole label of a child.
    fn step(
        &self,
        child: u32,
        topic: &str,
        rest: usize,
        stack: &mut Vec<Visit>,
        visit: &mut impl FnMut(u32),
    ) {
        match agree(&self.nodes[child].label, topic, rest) {
            Agreement::None => {}
            Agreement::Label(rest) => stack.push(Visit { node: child, rest }),
            Agreement::All => visit(self.nodes[child].entry),
        }
    }

    /// The child whose label begins with `level`.
    fn child(&self, hasher: &TextHasher, node: u32, level: &str) -> Option<u32> {
        let it = &self.nodes[node];
        match level {
            "+" => (it.plus != NONE).then_some(it.plus),
            "#" => (it.hash != NONE).then_some(it.hash),
            _ => self.edge(hasher, node, level),
        }
    }

    fn edge(&self, hasher: &TextHasher, parent: u32, level: &str) -> Option<u32> {
        self.edges.find(edge_hash(hasher, parent, level), |id| {
            let node = &self.nodes[id];
            node.parent == parent && begins_with_level(&node.label, level)
        })
    }

    /// The node of a filter, with or without an entry; made where it is missing.
    fn make(&mut self, hasher: &TextHasher, filter: &str) -> u32 {
        let (mut node, mut rest) = (self.root, filter);
        loop {
            let Some(child) = self.child(hasher, node, first_level(rest)) else {
                let child = self.nodes.insert(Node::new(rest.into(), node));
                // A label that is split gives up a slash, and one that is joined gets it back.
                self.label_bytes += rest.len() + 1;
                self.attach(hasher, child);
                return child;
            };
            let label = &*self.nodes[child].label;
            let common = common_levels(label, rest);
            node = if common < label.len() { self.split(hasher, child, common) } else { child };
            if common == rest.len() {
                return node;
            }
            rest = &rest[common + 1..];
        }
    }

    /// Puts a node above `node` that takes the first `common` bytes of its label, whole levels.
    fn split(&mut self, hasher: &TextHasher, node: u32, common: usize) -> u32 {
        let label = &self.nodes[node].label;
        assert!(label.as_bytes()[common] == b'/', "labels are split between levels");
        let (upper, lower) = (label[..common].into(), label[common + 1..].into());
        let parent = self.detach(hasher, node);
        let above = self.nodes.insert(Node::new(upper, parent));
        self.attach(hasher, above);
        let it = &mut self.nodes[node];
        it.label = lower;
        it.parent = above;
        self.attach(hasher, node);
        above
    }

    /// Joins a node without an entry with its only child, whose number stays.
    fn merge(&mut self, hasher: &TextHasher, node: u32) {
        let it = &self.nodes[node];
        let child = [it.plus, it.hash].into_iter().find(|&id| id != NONE);
        let child = child.unwrap_or(it.literals_xor);
        self.detach(hasher, child);
        let parent = self.detach(hasher, node);
        let mut label = String::from(self.nodes.remove(node).label);
        let it = &mut self.nodes[child];
        label.push('/');
        label.push_str(&it.label);
        it.label = label.into();
        it.parent = parent;
        self.attach(hasher, child);
    }

    /// Makes a node known to its parent.
    fn attach(&mut self, hasher: &TextHasher, node: u32) {
        let it = &self.nodes[node];
        let (parent, level) = (it.parent, first_level(&it.label));
        let hash = match level {
            "+" | "#" => 0,
            _ => edge_hash(hasher, parent, level),
        };
        let wildcard = it.wildcard();
        let above = &mut self.nodes[parent];
        match wildcard {
            Some(b'+') => above.plus = node,
            Some(_) => above.hash = node,
            None => {
                above.literals += 1;
                above.literals_xor ^= node;
                self.edges.insert(hash, node);
            }
        }
    }

    /// Makes a node unknown to its parent, which it gives.
    fn detach(&mut self, hasher: &TextHasher, node: u32) -> u32 {
        let it = &self.nodes[node];
        let (parent, wildcard) = (it.parent, it.wildcard());
        if wildcard.is_none() {
            self.edges.remove(edge_hash(hasher, parent, first_level(&it.label)), node);
        }
        let above = &mut self.nodes[parent];
        match wildcard {
            Some(b'+') => above.plus = NONE,
            Some(_) => above.hash = NONE,
            None => {
                above.literals -= 1;
                above.literals_xor ^= node;
            }
        }
        parent
    }

    /// Checks what holds at all times.
    #[cfg(test)]
    pub(super) fn check(&self, filters: usize) {
        let mut entries = 0;
        let labels = self.nodes.iter().filter(|(id, _)| *id != self.root);
        let bytes: usize = labels.map(|(_, node)| node.label.len() + 1).sum();
        assert_eq!(bytes, self.label_bytes, "labels are counted");
        for (id, node) in self.nodes.iter() {
            entries += usize::from(node.entry != NONE);
            if id == self.root {
                continue;
            }
            assert!(node.entry != NONE || node.children() >= 2, "{node:?} leads nowhere");
            let levels = node.label.split('/').count();
            let hash = node.label.split('/').position(|level| level == "#");
            assert!(hash.is_none_or(|at| at + 1 == levels), "{node:?}");
        }
        assert_eq!(entries, filters, "every filter has its node");
        assert!(self.nodes.len() <= 2 * filters + 1, "at most two nodes for each filter");
    }
}

impl Node {
    const fn new(label: Box<str>, parent: u32) -> Self {
        Self { label, parent, plus: NONE, hash: NONE, literals: 0, literals_xor: 0, entry: NONE }
    }

    fn children(&self) -> u32 {
        self.literals + u32::from(self.plus != NONE) + u32::from(self.hash != NONE)
    }

    /// The wildcard that the label begins with.
    fn wildcard(&self) -> Option<u8> {
        self.label.bytes().next().filter(|first| matches!(first, b'+' | b'#'))
    }
}

fn edge_hash(hasher: &TextHasher, parent: u32, level: &str) -> u32 {
    spread(u64::from(parent) << 32 | u64::from(hasher.hash(level)))
}

fn first_level(text: &str) -> &str {
    cut(text).0
}

fn begins_with_level(label: &str, level: &str) -> bool {
    label
        .strip_prefix(level)
        .is_some_and(|behind| matches!(behind.bytes().next(), None | Some(b'/')))
}

/// How many bytes two strings have in common in whole levels, without the slash behind.
fn common_levels(one: &str, other: &str) -> usize {
    let levels = one.split('/').zip(other.split('/')).take_while(|(one, other)| one == other);
    let bytes: usize = levels.map(|(level, _)| level.len() + 1).sum();
    assert!(bytes > 0, "a child is found by its first level");
    bytes - 1
}

/// How a label meets the rest of a topic.
enum Agreement {
    /// They differ.
    None,
    /// All of the label, and here the topic goes on.
    Label(usize),
    /// The label ends in `#`, which takes all that is left, or nothing.
    All,
}

fn agree(label: &str, topic: &str, rest: usize) -> Agreement {
    let (mut label, mut at) = (label, rest);
    // Most labels have no wildcard and are the beginning of what is left, or not.
    if let Some(behind) = topic.get(at..).and_then(|left| left.strip_prefix(label)) {
        return match behind.bytes().next() {
            None => Agreement::Label(EXHAUSTED),
            Some(b'/') => Agreement::Label(topic.len() - behind.len() + 1),
            Some(_) => Agreement::None,
        };
    }
    loop {
        let (wanted, behind) = cut(label);
        if wanted == "#" {
            return Agreement::All;
        }
        if at == EXHAUSTED {
            return Agreement::None;
        }
        let (given, left) = cut(&topic[at..]);
        if wanted != "+" && wanted != given {
            return Agreement::None;
        }
        at = if left.is_some() { at + given.len() + 1 } else { EXHAUSTED };
        match behind {
            Some(behind) => label = behind,
            None => return Agreement::Label(at),
        }
    }
}

/// The first level, and what is behind its slash. Levels are short: a plain loop over bytes takes
/// half of what a search for a character does.
fn cut(text: &str) -> (&str, Option<&str>) {
    match text.bytes().position(|byte| byte == b'/') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::super::hash::HashSeed;
    use super::*;

    fn trie(filters: &[&str]) -> (Trie, TextHasher) {
        let (mut trie, hasher) = (Trie::new(), TextHasher::new(HashSeed(7, 9)));
        for (entry, filter) in (0..).zip(filters) {
            trie.insert(&hasher, filter, entry);
        }
        trie.check(filters.len());
        (trie, hasher)
    }

    fn matches(filters: &[&str], topic: &str) -> Vec<u32> {
        let (trie, hasher) = trie(filters);
        let mut found = Vec::new();
        trie.matches(&hasher, topic, &mut Walk::default(), |entry| found.push(entry));
        found.sort_unstable();
        found
    }

    #[test]
    fn wildcards_match_levels() {
        let filters = ["#", "+", "a/+", "a/#", "+/b", "a/+/c", "a/b/#", "+/+/+"];
        assert_eq!(matches(&filters, "a"), [0, 1, 3]);
        assert_eq!(matches(&filters, "a/b"), [0, 2, 3, 4, 6]);
        assert_eq!(matches(&filters, "a/b/c"), [0, 3, 5, 6, 7]);
        assert_eq!(matches(&filters, "b/b"), [0, 4]);
    }

    #[test]
    fn empty_levels_are_levels() {
        let filters = ["a/+/b", "a/#", "+/+", "+", "/+", "//#"];
        assert_eq!(matches(&filters, "a//b"), [0, 1]);
        assert_eq!(matches(&filters, "a"), [1, 3]);
        assert_eq!(matches(&filters, "a/"), [1, 2]);
        assert_eq!(matches(&filters, "/"), [2, 4, 5]);
    }

    #[test]
    fn leading_wildcards_do_not_see_dollar_names() {
        //= MQTT311-4.7.2-1
        //= MQTT5-4.7.2-1
        let filters = ["#", "+/a", "$SYS/#", "$SYS/+", "+/#"];
        assert_eq!(matches(&filters, "$SYS/a"), [2, 3]);
        assert_eq!(matches(&filters, "x/$SYS"), [0, 4]);
    }

    #[test]
    fn levels_are_compared_byte_for_byte() {
        //= MQTT311-4.7.3-4
        //= MQTT5-4.7.3-4
        let filters = ["\u{E9}/+", "e\u{301}/+", "E\u{301}/+"];
        assert_eq!(matches(&filters, "\u{E9}/x"), [0]);
        assert_eq!(matches(&filters, "e\u{301}/x"), [1]);
    }

    #[test]
    fn a_deep_filter_takes_one_node_and_a_branch_two_more() {
        let deep = "a/".repeat(30_000) + "#";
        let (mut trie, hasher) = trie(&[&deep]);
        assert_eq!(trie.nodes.len(), 2);
        let branch = "a/".repeat(20_000) + "+";
        trie.insert(&hasher, &branch, 1);
        trie.check(2);
        assert_eq!(trie.nodes.len(), 4);
        let node = trie.find(&hasher, &branch).unwrap();
        trie.remove(&hasher, node);
        trie.check(1);
        assert_eq!(trie.nodes.len(), 2);
        assert_eq!(trie.find(&hasher, &deep).map(|node| trie.entry(node)), Some(0));
    }

    #[test]
    fn a_filter_that_only_leads_to_others_is_not_found() {
        let (trie, hasher) = trie(&["a/+/b", "a/+/c"]);
        assert!(trie.find(&hasher, "a/+").is_none() && trie.find(&hasher, "a").is_none());
        assert!(trie.find(&hasher, "a/+/b/c").is_none() && trie.find(&hasher, "a/+/bc").is_none());
    }
}
