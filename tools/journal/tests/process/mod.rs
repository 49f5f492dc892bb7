//! A real broker, in a process of its own that can be killed, and a client that speaks to it.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "it is only part of tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DATA: &str = "ZZQ_JOURNAL_TEST_DATA";
/// The process makes an image each time so many milliseconds have passed.
pub const IMAGE_MS: &str = "ZZQ_JOURNAL_TEST_IMAGE_MS";
/// The process keeps all of its log.
pub const RETAINS: &str = "ZZQ_JOURNAL_TEST_RETAINS";

/// Not a test by itself: what the killed process runs.
#[test]
fn broker_process() {
    let Some(data) = std::env::var_os(DATA) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let context = zzq_broker::Context::new().unwrap();
        let options = zzq_broker::BrokerOptions {
            data_dir: Some(data.into()),
            segment_size: 1 << 20,
            retain_log: zzq_broker::Retention {
                bytes: std::env::var_os(RETAINS).map(|_| u64::MAX),
                age: None,
            },
            ..Default::default()
        };
        let broker = zzq_broker::Broker::new(&context, options).await.unwrap();
        let bound = broker.bind("tcp://127.0.0.1:0").await.unwrap();
        eprintln!("bound {}", bound.addr);
        let every = std::env::var(IMAGE_MS).ok().and_then(|ms| ms.parse().ok());
        let every = every.map_or(Duration::from_hours(1), Duration::from_millis);
        loop {
            tokio::time::sleep(every).await;
            broker.snapshot();
        }
    });
}

/// A broker in a process of its own, and where it listens.
pub struct Broker(pub Child, String);

impl Broker {
    pub fn start(data: &Path) -> Self {
        Self::start_with(data, &[])
    }

    pub fn start_with(data: &Path, environment: &[(&str, &str)]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::broker_process", "--nocapture"])
            .env(DATA, data)
            .envs(environment.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let bound = lines.find_map(|line| Some(line.unwrap().strip_prefix("bound ")?.to_owned()));
        std::thread::spawn(move || lines.for_each(drop));
        Self(child, bound.unwrap())
    }

    pub fn connect(&self) -> Client {
        let stream = TcpStream::connect(&self.1).unwrap();
        stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        Client(stream)
    }

    pub fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Speaks MQTT 3.1.1, in packets of at most 127 bytes.
pub struct Client(TcpStream);

impl Client {
    pub fn send(&mut self, head: u8, parts: &[&[u8]]) {
        let body = parts.concat();
        let mut packet = vec![head, u8::try_from(body.len()).unwrap()];
        packet.extend(body);
        self.0.write_all(&packet).unwrap();
    }

    pub fn expect(&mut self, head: u8) -> Vec<u8> {
        let (found, body) = self.next();
        assert_eq!(found, head);
        body
    }

    pub fn open(mut self, flags: u8, id: &str, will: &[&[u8]]) -> Self {
        let head = [b"\0\x04MQTT\x04".as_slice(), &[flags, 0, 0]].concat();
        let will: Vec<_> = will.iter().map(|text| text_of(text)).collect();
        self.send(0x10, &[&head, &text_of(id.as_bytes()), &will.concat()]);
        assert_eq!(self.expect(0x20)[1], 0);
        self
    }

    pub fn publish(&mut self, topic: &str, payload: &[u8], id: u8) {
        self.send(0x32, &[&text_of(topic.as_bytes()), &[0, id], payload]);
        assert_eq!(self.expect(0x40), [0, id]);
    }

    /// The next packet, whatever it is.
    pub fn next(&mut self) -> (u8, Vec<u8>) {
        let mut front = [0; 2];
        self.0.read_exact(&mut front).unwrap();
        let mut body = vec![0; usize::from(front[1])];
        self.0.read_exact(&mut body).unwrap();
        (front[0], body)
    }

    /// What the next packet is.
    pub fn expect_any(&mut self) -> u8 {
        self.next().0
    }
}

pub fn text_of(text: &[u8]) -> Vec<u8> {
    [&[0, u8::try_from(text.len()).unwrap()], text].concat()
}

/// Ends the writers, also when the test fails.
pub struct OnDrop<'a>(pub &'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
