//! IO lanes: a thread, its connections, its buffers.
//!
//! Owns: sockets, readiness, buffers, rings between lanes, transports.
//! Does not know: MQTT packet types; files, but for the certificates of a TLS listener.
//!
//! An application is a [`Handler`]: one value for each lane, called with bytes that came in and
//! with a [`LaneIo`] that takes what shall go out. [`Context`] runs lanes as threads over epoll, or
//! over `io_uring` where that is asked for ([`DriverKind`]).
//! The same [`Lane`] runs over [`driver::mem::MemDriver`], without sockets, clocks or threads, in
//! tests and in the simulator.
//!
//! ```
//! use std::{io::{Read, Write}, net::TcpStream, time::Duration};
//! use zzq_lanes::{BindOptions, CloseReason, ConnId, Context};
//! use zzq_lanes::{Handler, LaneIndex, LaneIo, PeerInfo};
//!
//! struct Echo;
//!
//! impl Handler for Echo {
//!     type Message = ();
//!     type Carried = ();
//!     fn accepted(&mut self, _: &mut LaneIo<'_, Self>, _: ConnId, _: &PeerInfo) {}
//!     fn adopted(&mut self, _: &mut LaneIo<'_, Self>, _: ConnId, _: &PeerInfo, (): ()) {}
//!     fn bytes(&mut self, io: &mut LaneIo<'_, Self>, conn: ConnId, input: &[u8]) -> usize {
//!         io.write(conn, input);
//!         input.len()
//!     }
//!     fn closed(&mut self, _: &mut LaneIo<'_, Self>, _: ConnId, _: CloseReason) {}
//!     fn message(&mut self, _: &mut LaneIo<'_, Self>, _: LaneIndex, (): ()) {}
//! }
//!
//! let context = Context::new()?;
//! let lanes = context.spawn(|_| Ok(Echo))?;
//! let bound = lanes.bind("tcp://127.0.0.1:0", BindOptions::default()).wait()?;
//!
//! let mut client = TcpStream::connect(bound.addr)?;
//! client.write_all(b"hello")?;
//! let mut answer = [0; 5];
//! client.read_exact(&mut answer)?;
//! assert_eq!(&answer, b"hello");
//!
//! context.shutdown(Duration::from_secs(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

mod admission;
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
pub mod transport;
mod waker;

#[cfg(feature = "tls")]
pub use crate::transport::tls::{
    ClientCerts, FileFault, HandshakeFault, TlsError, TlsFiles, TlsPart, TlsServer, TlsStats,
};
#[cfg(feature = "web")]
pub use crate::transport::web::{WebFault, WebServer, WebStats};
pub use crate::{
    admission::{Admission, Excess, ListenerStats},
    app::{Close, CloseReason, Handler, PeerInfo},
    context::{Bound, Completion, Context, ContextBuilder, Lanes, Seat},
    core::{BufferTotals, Counters, Limits},
    driver::{BusyPoll, DriverKind},
    endpoint::{
        BindError, DEFAULT_PORT, DEFAULT_TLS_PORT, DEFAULT_WEB_PORTS, Endpoint, EndpointError,
        TcpEndpoint, WebEndpoint,
    },
    id::{ConnId, LaneIndex, ListenerId, TimerSlot, WatchId},
    io::{LaneIo, Output},
    lane::{Lane, LaneParts, group},
    listener::{BindOptions, Listener},
    ring::{Class, Inlet, Outlet, RingCapacity, ring},
    time::Millis,
    transport::{TlsPeer, TlsVersion},
    waker::LaneWaker,
};
