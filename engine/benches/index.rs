//! What a match costs among 1 k, 100 k and 1 M filters, and a decision for 1 to 1000 receivers.
//!
//! Before the timings the memory of each index and of the retained store is printed, as the growth
//! of the resident set. Topics are asked in an order that strides through all of them (`cold`), or
//! through 256 of them (`hot`), and were checked before.

#![expect(clippy::unwrap_used, reason = "a bench that cannot go on stops")]
#![expect(clippy::print_stdout, reason = "memory is no timing that criterion would print")]

use std::hint::black_box;
use std::ops::ControlFlow;

use criterion::measurement::WallTime;
use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main,
};
use zzq_engine::{
    DecisionBuf, HashSeed, Index, Publication, Retained, RetainedCursor, RetainedStore, Router,
    SessionFlags, SessionNumber, SubNumber, Subscriber,
};
use zzq_types::{Filter, Lsn, QoS, SubscribeOptions, TopicFilter, TopicName};

const CACHE_BYTES: usize = 1 << 20;
const SIZES: [u32; 3] = [1_000, 100_000, 1_000_000];

/// How the n-th filter looks, and a topic that only it matches.
#[derive(Clone, Copy)]
enum Shape {
    Exact,
    Plus,
    Hash,
    Shared,
}

impl Shape {
    const ALL: [(Self, &str); 4] = [
        (Self::Exact, "exact"),
        (Self::Plus, "plus"),
        (Self::Hash, "hash"),
        (Self::Shared, "shared"),
    ];

    fn filter(self, n: u32) -> String {
        let beginning = format!("plant/{}/device/{n}", n % 100);
        match self {
            Self::Exact => beginning + "/temperature",
            Self::Plus => beginning + "/+/set",
            Self::Hash => beginning + "/#",
            Self::Shared => format!("$share/workers/{beginning}/+"),
        }
    }

    fn topic(self, n: u32) -> String {
        let beginning = format!("plant/{}/device/{n}", n % 100);
        match self {
            Self::Exact | Self::Hash | Self::Shared => beginning + "/temperature",
            Self::Plus => beginning + "/valve/set",
        }
    }
}

fn subscriber(session: u32, sub: u32) -> Subscriber {
    Subscriber {
        session: SessionNumber::new(u64::from(session) + 1).unwrap(),
        lane: 0,
        flags: SessionFlags::CONNECTED,
        since: 0,
        sub: SubNumber::new(sub),
        options: SubscribeOptions::with_qos(QoS::AtLeastOnce),
        id: None,
    }
}

/// An index of `count` filters, each of a session of its own if `apart`, else 100 of each.
fn index(shape: Shape, count: u32, apart: bool, cache_bytes: usize) -> Index {
    let mut index = Index::new(HashSeed(17, 4), cache_bytes);
    for n in 0..count {
        let filter = shape.filter(n);
        let subscriber = if apart { subscriber(n, 0) } else { subscriber(n / 100, n % 100) };
        index.insert(Filter::new(&filter).unwrap(), subscriber);
    }
    index
}

/// Strings in an order that a processor does not guess; they stay until the bench ends.
fn texts(count: u32, of: u32, text: impl Fn(u32) -> String) -> Vec<&'static str> {
    (0..count).map(|n| &*text(n.wrapping_mul(0x9E37_79B1) % of).leak()).collect()
}

fn topics(count: u32, of: u32, topic: impl Fn(u32) -> String) -> Vec<TopicName<'static>> {
    texts(count, of, topic).into_iter().map(|topic| TopicName::new(topic).unwrap()).collect()
}

/// One index with what routes on it.
struct Rig {
    index: Index,
    router: Router,
    out: DecisionBuf,
    topics: Vec<TopicName<'static>>,
    at: usize,
}

impl Rig {
    fn new(index: Index, topics: Vec<TopicName<'static>>) -> Self {
        Self { index, router: Router::new(), out: DecisionBuf::new(), topics, at: 0 }
    }

    fn route(&mut self) -> usize {
        self.at = (self.at + 1) % self.topics.len();
        let publication = publication(self.topics[self.at]);
        self.router.route(&mut self.index, publication, &mut self.out).destinations
    }
}

fn publication(topic: TopicName<'_>) -> Publication<'_> {
    Publication { topic, publisher: None, client_hash: 0, qos: QoS::AtLeastOnce, retain: false }
}

/// The resident set in bytes, pages of 4 KiB assumed.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

fn memory(_: &mut Criterion) {
    for count in [100_000, 1_000_000] {
        for (shape, name) in Shape::ALL {
            for apart in [true, false] {
                let before = resident();
                let index = black_box(index(shape, count, apart, 0));
                let bytes = (resident() - before) / index.filters();
                let sessions = index.sessions();
                println!("{name}: {count} filters of {sessions} sessions: {bytes} bytes a filter");
            }
        }
        let before = resident();
        let store = black_box(retained(count));
        println!("retained: {count} topics: {} bytes a topic", (resident() - before) / store.len());
    }
}

fn matches(c: &mut Criterion) {
    for (shape, name) in Shape::ALL {
        let mut group = c.benchmark_group(format!("match_{name}"));
        for count in SIZES {
            for (cache, bytes) in [("cache", CACHE_BYTES), ("none", 0)] {
                if matches!(shape, Shape::Exact) && bytes == 0 {
                    continue;
                }
                let mut rig = Rig::new(index(shape, count, true, bytes), vec![]);
                for (heat, asked) in [("hot", 256), ("cold", count.min(200_000))] {
                    rig.topics = topics(asked, count, |n| shape.topic(n));
                    group.bench_function(BenchmarkId::new(format!("{heat}/{cache}"), count), |b| {
                        b.iter(|| assert_eq!(rig.route(), 1));
                    });
                }
            }
        }
    }
}

fn misses(c: &mut Criterion) {
    let mut group = c.benchmark_group("miss");
    for (shape, name) in [(Shape::Exact, "exact"), (Shape::Plus, "plus")] {
        for count in SIZES {
            let topics = topics(200_000, count, |n| format!("plant/7/device/{n}/none"));
            let mut rig = Rig::new(index(shape, count, true, CACHE_BYTES), topics);
            group.bench_function(BenchmarkId::new(name, count), |b| {
                b.iter(|| assert_eq!(rig.route(), 0));
            });
        }
    }
}

/// A few filters with wildcards, as most brokers have: is the cache worth it?
fn few(c: &mut Criterion) {
    let mut group = c.benchmark_group("few");
    for wildcards in [1, 3, 10, 100] {
        for (cache, bytes) in [("cache", CACHE_BYTES), ("none", 0)] {
            let mut index = Index::new(HashSeed(17, 4), bytes);
            for n in 0..wildcards {
                let filter = format!("plant/{n}/+/status");
                index.insert(Filter::new(&filter).unwrap(), subscriber(n, 0));
            }
            let topics = topics(256, 256, |n| format!("plant/{}/dev{n}/status", n % wildcards));
            let mut rig = Rig::new(index, topics);
            group.bench_function(BenchmarkId::new(cache, wildcards), |b| {
                b.iter(|| assert_eq!(rig.route(), 1));
            });
        }
    }
}

fn fan_out(c: &mut Criterion) {
    let mut group = c.benchmark_group("fan_out");
    let topic = TopicName::new("news/today").unwrap();
    for count in [1, 10, 1000, 10_000] {
        group.throughput(Throughput::Elements(u64::from(count)));
        for (name, watchers) in [("one_filter", 0), ("with_a_watcher", 1)] {
            let mut index = index(Shape::Hash, 1000, true, CACHE_BYTES);
            for n in 0..count {
                index.insert(Filter::new("news/today").unwrap(), subscriber(n, 1));
            }
            for n in 0..watchers {
                index.insert(Filter::new("#").unwrap(), subscriber(n, 2));
            }
            let mut rig = Rig::new(index, vec![topic]);
            group.bench_function(BenchmarkId::new(name, count), |b| b.iter(|| rig.route()));
            group.bench_function(BenchmarkId::new(format!("{name}/run"), count), |b| {
                let publication = publication(topic);
                b.iter(|| rig.router.route_same(&mut rig.index, publication, &mut rig.out));
            });
        }
    }
}

fn changes(c: &mut Criterion) {
    let mut group = c.benchmark_group("insert_and_remove");
    for (shape, name) in Shape::ALL {
        for count in SIZES {
            let mut index = index(shape, count, true, CACHE_BYTES);
            let one_deeper = |n| (shape.filter(n) + "/x").replace("#/x", "x/#");
            let filters = texts(10_000, count, one_deeper);
            let mut at = 0;
            group.bench_function(BenchmarkId::new(name, count), |b| {
                b.iter(|| {
                    at = (at + 1) % filters.len();
                    let filter = Filter::new(filters[at]).unwrap();
                    let new = subscriber(count + 1, 1);
                    index.insert(filter, new);
                    assert!(index.remove(filter, new.session));
                });
            });
        }
    }
}

fn retained(count: u32) -> RetainedStore {
    let mut store = RetainedStore::new();
    for n in 0..count {
        store.set(TopicName::new(&Shape::Exact.topic(n)).unwrap(), retained_message(n));
    }
    store
}

fn retained_message(n: u32) -> Retained {
    let lsn = Lsn::new(u64::from(n) + 1);
    Retained { lsn, time_ms: 0, expiry: None, qos: QoS::AtLeastOnce, size: 64 }
}

/// Others in the place of those that are there.
fn set_retained(group: &mut BenchmarkGroup<'_, WallTime>, store: &mut RetainedStore, count: u32) {
    let topics = topics(count.min(200_000), count, |n| Shape::Exact.topic(n));
    let mut at = 0;
    group.bench_function(format!("set/{count}"), |b| {
        b.iter(|| {
            at = (at + 1) % topics.len();
            store.set(topics[at], retained_message(7))
        });
    });
}

fn retained_store(c: &mut Criterion) {
    let mut group = c.benchmark_group("retained");
    for count in [10, 1_000, 100_000] {
        set_retained(&mut group, &mut retained(count), count);
    }
    let count = 1_000_000;
    let mut store = retained(count);
    set_retained(&mut group, &mut store, count);
    for (name, filter) in [("#", "plant/7/#"), ("+", "plant/+/device/7/temperature")] {
        group.bench_function(format!("find/{name}"), |b| {
            let filter = TopicFilter::new(filter).unwrap();
            b.iter(|| {
                let mut found = 0;
                let mut cursor = RetainedCursor::START;
                store.matching(filter, &mut cursor, usize::MAX, |_, _| {
                    found += 1;
                    if found < 100 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                });
                found
            });
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(std::time::Duration::from_millis(200))
        .measurement_time(std::time::Duration::from_millis(500))
        .sample_size(20);
    targets = memory, matches, misses, few, fan_out, changes, retained_store
}
criterion_main!(benches);
