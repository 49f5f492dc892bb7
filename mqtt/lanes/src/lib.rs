//! IO lanes: a thread, its connections, its buffers.
//!
//! Owns: sockets, readiness, buffers, rings between lanes, transports.
//! Does not know: MQTT packet types, files.
//!
//! An application is a [`Handler`]: one value for each lane, called with bytes that came in and
//! with a [`LaneIo`] that takes what shall go out. [`Context`] runs lanes as threads over epoll.
//! The same [`Lane`] runs over [`driver::mem::MemDriver`], without sockets, clocks or threads, in
//! tests and in the simulator.

#![forbid(unsafe_code)]

mod app;
mod context;
mod core;
pub mod driver;
mod endpoint;
mod id;
mod io;
mod lane;
mod listener;
mod ring;
mod time;
mod waker;

pub use crate::{
    app::{Close, CloseReason, Handler, PeerInfo},
    context::{Bound, Completion, Context, ContextBuilder, Lanes, Seat},
    core::{BufferTotals, Counters, Limits},
    driver::BusyPoll,
    endpoint::{BindError, DEFAULT_PORT, Endpoint, EndpointError, TcpEndpoint},
    id::{ConnId, LaneIndex, ListenerId, TimerSlot, WatchId},
    io::{LaneIo, Output},
    lane::{Lane, LaneParts, group},
    listener::{Admission, BindOptions, Listener, ListenerStats},
    ring::{Class, Inlet, Outlet, ring},
    time::Millis,
    waker::LaneWaker,
};
