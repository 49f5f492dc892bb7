//! Echoes, and says what it cost: bytes per second, calls of the system per turn, processor time.
//!
//! `echo bulk [connections] [seconds]` keeps 256 KiB under way on each connection, `echo ping`
//! one message of 64 bytes. The clients are threads of this process and share its cores.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program to look at numbers")]
#![allow(clippy::cast_precision_loss, reason = "figures for people")]
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};
use zzq_lanes::{
    BindOptions, CloseReason, ConnId, Context, Counters, Handler, LaneIndex, LaneIo, Millis,
    PeerInfo,
};

const HIGH_WATER: usize = 512 << 10;

/// Counters, and processor seconds of the lane.
type Cost = Arc<Mutex<(Counters, f64)>>;

struct Echo(Cost);

impl Handler for Echo {
    type Message = ();
    type Carried = ();

    fn accepted(&mut self, _: &mut LaneIo<'_, Self>, _: ConnId, _: &PeerInfo) {}

    fn adopted(&mut self, _: &mut LaneIo<'_, Self>, _: ConnId, _: &PeerInfo, (): ()) {}

    fn bytes(&mut self, io: &mut LaneIo<'_, Self>, conn: ConnId, input: &[u8]) -> usize {
        io.write(conn, input);
        if io.queued_bytes(conn) > HIGH_WATER {
            io.pause(conn);
            io.notify_drained(conn);
        }
        input.len()
    }

    fn drained(&mut self, io: &mut LaneIo<'_, Self>, conn: ConnId) {
        io.resume(conn);
    }

    fn closed(&mut self, _: &mut LaneIo<'_, Self>, _: ConnId, _: CloseReason) {}

    fn message(&mut self, _: &mut LaneIo<'_, Self>, _: LaneIndex, (): ()) {}

    fn woken(&mut self, io: &mut LaneIo<'_, Self>) {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let seconds = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
        *self.0.lock().unwrap() = (io.counters(), seconds);
    }

    fn turn_end(&mut self, _: &mut LaneIo<'_, Self>) -> Option<Millis> {
        None
    }
}

fn pump(mut stream: TcpStream, size: usize, stop: &AtomicBool) {
    let message = vec![7; size];
    let mut back = vec![0; size];
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(&message).unwrap();
        stream.read_exact(&mut back).unwrap();
    }
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number =
        |at: usize, default| args.get(at).map_or(default, |text| text.parse::<u64>().unwrap());
    let bulk = args.get(1).is_none_or(|mode| mode == "bulk");
    let size = if bulk { 256 << 10 } else { 64 };
    let (connections, seconds) = (number(2, if bulk { 2 } else { 50 }), number(3, 3));
    let cost = Cost::default();
    let context = Context::builder().lanes(1).build();
    let lanes = context.spawn(|_| Ok(Echo(Arc::clone(&cost)))).unwrap();
    let bound = lanes.bind("tcp://127.0.0.1:0", BindOptions::default()).wait().unwrap();
    let stop = AtomicBool::new(false);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..connections {
            let stream = TcpStream::connect(bound.addr).unwrap();
            stream.set_nodelay(true).unwrap();
            scope.spawn(|| pump(stream, size, &stop));
        }
        thread::sleep(Duration::from_secs(seconds));
        stop.store(true, Ordering::Relaxed);
    });
    let elapsed = start.elapsed().as_secs_f64();
    lanes.wakers().for_each(zzq_lanes::LaneWaker::wake);
    drop(lanes);
    context.shutdown(Duration::from_secs(1));
    let (counters, cpu) = *cost.lock().unwrap();
    let (turns, calls) = (counters.turns, counters.turns + counters.reads + counters.writes);
    println!("{:.0} MB/s in and out", counters.bytes_in as f64 / 1e6 / elapsed);
    println!("{:.2} calls per turn in {turns} turns", calls as f64 / turns as f64);
    println!("{:.0} bytes per read", counters.bytes_in as f64 / counters.reads as f64);
    println!("{:.0} bytes per write", counters.bytes_out as f64 / counters.writes as f64);
    println!("{:.2} us of the lane per read", cpu * 1e6 / counters.reads as f64);
    println!("{:.0} % of a core", cpu / elapsed * 100.0);
}
