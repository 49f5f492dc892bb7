//! A lane at work: one turn after the other, over a driver and with a handler.
//!
//! Assumes: the order within a turn is the order of this file's `turn`; callbacks never nest.
mod handshake;
mod input;
mod output;
mod transfer;

use std::{
    collections::VecDeque,
    sync::mpsc::{Receiver, Sender, channel},
    time::Duration,
};

use self::transfer::Transfer;
use crate::{
    app::{CloseReason, Handler},
    context::Promise,
    core::{BufferTotals, Core, Counters, Limits},
    driver::{Driver, Event, Rest},
    id::{ConnId, LaneIndex, ListenerId, TimerSlot},
    io::LaneIo,
    ring::{Mesh, RingCapacity},
    time::Millis,
    waker::LaneWaker,
};

/// Bytes of one read.
const READ: usize = 64 << 10;
/// Unconsumed input up to this is put before a read in the hot buffer; more is gathered apart.
const CARRY: usize = 16 << 10;

/// What other threads ask of a lane.
pub(crate) enum Command<L> {
    Listen(L, Box<dyn FnOnce(std::io::Result<()>) + Send>),
    Unlisten(ListenerId, Promise<()>),
    Stop { within: Duration },
}

type Outbox<H, D> = VecDeque<(LaneIndex, Transfer<<H as Handler>::Carried, <D as Driver>::Socket>)>;

/// One lane: a thread's worth of connections.
pub struct Lane<H: Handler, D: Driver> {
    core: Core<H>,
    handler: H,
    driver: D,
    hot: Box<[u8]>,
    events: Vec<Event<D::Socket>>,
    transfers: Mesh<Transfer<H::Carried, D::Socket>>,
    /// Moves that found their ring full.
    outbox: Outbox<H, D>,
    commands: Receiver<Command<D::Listener>>,
    /// The lane that takes the next accepted connection.
    placing: u16,
    /// When the handler wants its next turn.
    due: Option<Millis>,
    stop_at: Option<Millis>,
}

/// One lane's share of a group, before it has a handler and a driver.
pub struct LaneParts<H: Handler, D: Driver> {
    lane: LaneIndex,
    limits: Limits,
    waker: LaneWaker,
    mesh: Mesh<H::Message>,
    transfers: Mesh<Transfer<H::Carried, D::Socket>>,
    commands: Receiver<Command<D::Listener>>,
    pub(crate) sender: Sender<Command<D::Listener>>,
}

/// Lanes that know each other: one for each waker, joined by rings.
///
/// # Panics
/// There are more than 65 535.
pub fn group<H: Handler, D: Driver>(wakers: &[LaneWaker], limits: Limits) -> Vec<LaneParts<H, D>> {
    assert!(u16::try_from(wakers.len()).is_ok(), "{} lanes", wakers.len());
    let (slots, reserved) = limits.ring;
    let bytes = limits.ring_bytes / wakers.len().saturating_sub(1).max(1);
    let meshes = Mesh::group(wakers, RingCapacity { slots, reserved, bytes });
    // Accepted sockets leave the reserved half to connections that move, whose input and output are
    // bounded as messages are.
    let capacity = RingCapacity { slots: 256, reserved: 128, bytes };
    let transfers = Mesh::group(wakers, capacity);
    let joined = wakers.iter().zip(meshes).zip(transfers).zip(0u16..);
    joined
        .map(|(((waker, mesh), transfers), lane)| {
            let (sender, commands) = channel();
            let waker = waker.clone();
            LaneParts { lane: LaneIndex(lane), limits, waker, mesh, transfers, commands, sender }
        })
        .collect()
}

impl<H: Handler, D: Driver> LaneParts<H, D> {
    /// Which lane it will be.
    pub fn lane(&self) -> LaneIndex {
        self.lane
    }
}

impl<H: Handler, D: Driver> Lane<H, D> {
    /// Joins the parts. The handler hears of the start in the first turn.
    pub fn new(parts: LaneParts<H, D>, handler: H, driver: D) -> Self {
        let LaneParts { lane, limits, waker, mesh, transfers, commands, .. } = parts;
        Self {
            core: Core::new(lane, limits, mesh, waker),
            handler,
            driver,
            hot: vec![0; CARRY + READ].into_boxed_slice(),
            events: Vec::new(),
            transfers,
            outbox: VecDeque::new(),
            commands,
            placing: lane.0,
            due: None,
            stop_at: None,
        }
    }

    /// Turns until it is told to stop, and then until all is done or the deadline has passed.
    pub fn run(mut self) {
        while self.turn() {}
        self.finish();
    }

    /// Waits for work as long as [`Lane::rest`] says, and does it. False: the lane has stopped;
    /// [`Lane::finish`] follows.
    pub fn turn(&mut self) -> bool {
        let rest = self.rest();
        let mut events = std::mem::take(&mut self.events);
        self.driver.wait(rest, &self.core.waker, &mut events);
        self.core.now = self.driver.now();
        self.core.again = false;
        self.core.held_before = self.core.totals.output_held;
        self.core.counters.turns += 1;
        if self.core.counters.turns == 1 {
            self.call(Handler::started);
        }
        let woken = self.core.waker.take();
        let signalled = self.take_events(&mut events);
        self.events = events;
        if woken || signalled {
            self.call(Handler::woken);
        }
        self.take_commands(woken);
        self.take_messages();
        self.take_transfers();
        self.fire_timers();
        self.make_room();
        self.read_ready();
        let due = self.call(Handler::turn_end);
        self.flush_all();
        let due_behind = self.call(Handler::sent);
        self.core.totals.driver = self.driver.held();
        self.due = due.into_iter().chain(due_behind).min();
        self.post_outbox();
        self.core.mesh.announce();
        self.transfers.announce();
        !self.stopped()
    }

    /// How long the lane may wait before its next turn.
    pub fn rest(&self) -> Rest {
        let core = &self.core;
        let busy = core.again || !core.ready.is_empty() || !core.dirty.is_empty();
        if busy || core.waker.is_notified() {
            return Rest::Now;
        }
        let deadlines = [core.timers.next(), self.due, self.stop_at, core.room.due()];
        match deadlines.into_iter().flatten().min() {
            None | Some(Millis::NEVER) => Rest::Forever,
            Some(due) if due <= core.now => Rest::Now,
            Some(due) => Rest::Until(due),
        }
    }

    /// The application.
    pub fn handler(&self) -> &H {
        &self.handler
    }

    /// The application, to look into or change between turns.
    pub fn handler_mut(&mut self) -> &mut H {
        &mut self.handler
    }

    /// The driver.
    pub fn driver(&self) -> &D {
        &self.driver
    }

    /// The driver, to feed one that lives in memory.
    pub fn driver_mut(&mut self) -> &mut D {
        &mut self.driver
    }

    /// Calls the handler from outside a turn, as the simulator and tests do.
    pub fn with_io<R>(&mut self, what: impl FnOnce(&mut H, &mut LaneIo<'_, H>) -> R) -> R {
        self.call(what)
    }

    /// What the lane holds now.
    pub fn buffered(&mut self) -> BufferTotals {
        LaneIo { core: &mut self.core }.buffered()
    }

    /// What the lane has done so far.
    pub fn counters(&self) -> Counters {
        self.core.counters
    }

    /// Tells the lane to stop within `within` of its time. Said again, it can only shorten that.
    pub fn stop(&mut self, within: Duration) {
        let deadline = self.core.now + within;
        let before = self.stop_at.replace(deadline.min(self.stop_at.unwrap_or(deadline)));
        if before.is_none() {
            self.driver.unlisten(None);
            self.call(Handler::stopping);
            self.stop_handshakes();
        }
    }

    /// Cuts the connections that are left. The last that a lane does.
    ///
    /// # Panics
    /// A connection is left: a defect of the lane.
    pub fn finish(&mut self) {
        let left: Vec<ConnId> = self.core.conns.iter().map(|(id, _)| id).collect();
        for conn in left {
            self.core.doom(conn, CloseReason::Stopped);
        }
        self.settle();
        assert_eq!(self.core.conns.len(), 0, "{} has connections after its end", self.core.lane);
        self.call(Handler::turn_end);
        self.call(Handler::sent);
        self.core.mesh.announce();
    }

    fn stopped(&self) -> bool {
        let idle = self.core.conns.len() == 0 && self.outbox.is_empty() && self.handler.may_stop();
        self.stop_at.is_some_and(|deadline| idle || self.core.now >= deadline)
    }

    /// Calls the handler, then does what it asked for.
    fn call<R>(&mut self, what: impl FnOnce(&mut H, &mut LaneIo<'_, H>) -> R) -> R {
        let result = what(&mut self.handler, &mut LaneIo { core: &mut self.core });
        self.settle();
        result
    }

    /// Whether the kernel signalled the lane itself.
    fn take_events(&mut self, events: &mut Vec<Event<D::Socket>>) -> bool {
        let mut signalled = false;
        for event in events.drain(..) {
            match event {
                Event::Ready { conn, ready } => self.note_ready(conn, ready),
                Event::Accepted(accepted) => self.place(accepted),
                Event::HandshakeDone { conn, peer } => self.handshake_done(conn, peer),
                Event::HandshakeFailed(conn) => self.handshake_failed(conn),
                Event::Watched(watch) => self.call(|handler, io| handler.watched(io, watch)),
                Event::Signalled => signalled = true,
            }
        }
        signalled
    }

    fn take_commands(&mut self, woken: bool) {
        while woken && let Ok(command) = self.commands.try_recv() {
            match command {
                Command::Listen(listener, done) => done(self.driver.listen(listener)),
                Command::Unlisten(id, done) => {
                    self.driver.unlisten(Some(id));
                    done.keep(());
                }
                Command::Stop { within } => self.stop(within),
            }
        }
    }

    fn take_messages(&mut self) {
        // As many as there are lanes, so each index names one.
        for (from, lane) in (0..self.core.mesh.inlets.len()).zip((0u16..).map(LaneIndex)) {
            for _ in 0..self.core.limits.messages_per_turn {
                let inlet = self.core.mesh.inlets[from].as_mut();
                let Some(message) = inlet.and_then(crate::ring::Inlet::pop) else { break };
                self.core.counters.received += 1;
                self.call(|handler, io| handler.message(io, lane, message));
                if self.core.is_swollen() {
                    break;
                }
            }
            if let Some(inlet) = &mut self.core.mesh.inlets[from] {
                self.core.again |= !inlet.is_empty();
                inlet.freed();
            }
        }
    }

    fn fire_timers(&mut self) {
        let now = self.core.now;
        while let Some(id) = self.core.timers.due(now) {
            let conn = self.core.conns.get_mut(id);
            assert!(conn.is_some(), "timer of {id}, which is gone");
            let Some(conn) = conn else { return };
            let [a, b, c, linger] = self.core.timers.fire(id, &mut conn.timers, now);
            if linger {
                self.linger_over(id);
            }
            for (fired, slot) in [(a, TimerSlot::A), (b, TimerSlot::B), (c, TimerSlot::C)] {
                if fired && self.core.open(id).is_some() {
                    self.call(|handler, io| handler.timer(io, id, slot));
                }
            }
        }
    }
}
