//! What all lanes of a broker share: its options, its counters, the values of `$SYS` topics.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

#[cfg(feature = "tls")]
use zzq_lanes::TlsServer;
#[cfg(feature = "web")]
use zzq_lanes::WebServer;
use zzq_lanes::{Bound, ListenerStats};

use crate::hooks::Hooks;
use crate::metrics::{Counts, ImageMetrics, LaneMetrics, total};
use crate::options::BrokerOptions;
use crate::queue_total::QueueTotal;
use crate::retained_order::RetainedOrder;
use crate::retained_room::RetainedRoom;
use crate::session_total::SessionTotal;
use crate::shell::{AliasRoom, Arrivals, RETAINED};
use crate::standing::Standing;

/// Shared by all lanes of one broker.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: BrokerOptions,
    pub(crate) hooks: Hooks,
    /// One for each lane.
    pub(crate) metrics: Vec<LaneMetrics>,
    pub(crate) images: ImageMetrics,
    /// Where it is bounded.
    pub(crate) retained_room: Option<RetainedRoom>,
    /// Of all queues, where it is bounded.
    pub(crate) queue_total: Option<QueueTotal>,
    pub(crate) session_total: SessionTotal,
    /// Of topic aliases.
    pub(crate) alias_room: Arc<AliasRoom>,
    /// Used without a log.
    pub(crate) retained_order: RetainedOrder,
    /// Of messages between lanes.
    pub(crate) arrivals: Arrivals,
    pub(crate) started: Instant,
    /// Of all lanes, for whoever lets the log go.
    pub(crate) standing: Standing,
    /// The present values, for new subscriptions. Not on the path of messages.
    sys: Mutex<Vec<(String, String)>>,
    /// Endpoints by the tags of their connections. For hooks, when a client connects.
    listeners: Mutex<Vec<Arc<str>>>,
    /// What their listeners count, also of those that are closed.
    doors: Mutex<Vec<Arc<ListenerStats>>>,
    /// What endpoints over TLS are served with, each once.
    #[cfg(feature = "tls")]
    secured: Mutex<Vec<Arc<TlsServer>>>,
    /// Those for WebSocket, also of those that are closed.
    #[cfg(feature = "web")]
    webs: Mutex<Vec<Arc<WebServer>>>,
}

impl Shared {
    /// For a broker with so many lanes.
    pub(crate) fn new(options: BrokerOptions, hooks: Hooks, lanes: u16) -> Self {
        assert!((1..=64).contains(&lanes), "{lanes} lanes");
        Self {
            retained_room: RetainedRoom::new(&options.limits),
            queue_total: QueueTotal::new(options.limits.max_queued_bytes_total, lanes),
            session_total: SessionTotal::new(&options.limits, lanes),
            alias_room: AliasRoom::new(options.limits.max_alias_bytes_total),
            retained_order: RetainedOrder::new(lanes, RETAINED),
            arrivals: Arrivals::new(lanes),
            options,
            hooks,
            metrics: (0..lanes).map(|_| LaneMetrics::default()).collect(),
            images: ImageMetrics::default(),
            started: Instant::now(),
            standing: Standing::new(lanes),
            sys: Mutex::default(),
            listeners: Mutex::default(),
            doors: Mutex::default(),
            #[cfg(feature = "tls")]
            secured: Mutex::default(),
            #[cfg(feature = "web")]
            webs: Mutex::default(),
        }
    }

    pub(crate) fn lanes(&self) -> u16 {
        u16::try_from(self.metrics.len()).unwrap_or(u16::MAX)
    }

    /// What one lane may keep of what the log has too.
    pub(crate) fn store_bytes(&self) -> usize {
        self.options.limits.max_cached_bytes_total / self.metrics.len()
    }

    /// Output that may wait on one lane before its connections are given less each.
    pub(crate) fn output_bytes(&self) -> usize {
        self.options.limits.max_output_bytes_total / self.metrics.len()
    }

    /// Input that may wait on one lane.
    pub(crate) fn input_bytes(&self) -> usize {
        self.options.limits.max_input_bytes_total / self.metrics.len()
    }

    /// How much of it is for those who are not let in, and for nobody else.
    pub(crate) fn connect_bytes(&self) -> usize {
        self.input_bytes() / 4
    }

    /// What one lane may hold for full queues.
    pub(crate) fn held_bytes(&self) -> usize {
        self.options.limits.max_held_bytes_total / self.metrics.len()
    }

    /// A tag for the connections of an endpoint.
    pub(crate) fn add_listener(&self, endpoint: &str) -> u32 {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.push(endpoint.into());
        u32::try_from(listeners.len() - 1).unwrap_or(u32::MAX)
    }

    /// The endpoint is known by its name now, and counts here.
    pub(crate) fn name_listener(&self, tag: u32, bound: &Bound) {
        let Bound { endpoint, stats, .. } = bound;
        self.doors.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(stats));
        #[cfg(feature = "web")]
        self.webs.lock().unwrap_or_else(PoisonError::into_inner).extend(bound.web.clone());
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = listeners.get_mut(tag as usize) {
            *listener = endpoint.to_string().into();
        }
    }

    /// An endpoint is served with this, whose handshakes count here.
    #[cfg(feature = "tls")]
    pub(crate) fn secure(&self, server: &Arc<TlsServer>) {
        let mut secured = self.secured.lock().unwrap_or_else(PoisonError::into_inner);
        if !secured.iter().any(|known| Arc::ptr_eq(known, server)) {
            secured.push(Arc::clone(server));
        }
    }

    /// The endpoint of a tag; empty: there are none, as in a simulation.
    pub(crate) fn listener(&self, tag: u32) -> Arc<str> {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        listeners.get(tag as usize).cloned().unwrap_or_default()
    }

    /// What lanes and listeners have counted.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = total(&self.metrics);
        let doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        doors.iter().for_each(|door| sum.add_listener(door));
        #[cfg(feature = "tls")]
        for server in &*self.secured.lock().unwrap_or_else(PoisonError::into_inner) {
            sum.add_handshakes(&server.stats());
        }
        #[cfg(feature = "web")]
        for server in &*self.webs.lock().unwrap_or_else(PoisonError::into_inner) {
            sum.add_web_handshakes(&server.stats());
        }
        sum
    }

    pub(crate) fn set_sys(&self, values: Vec<(String, String)>) {
        *self.sys.lock().unwrap_or_else(PoisonError::into_inner) = values;
    }

    pub(crate) fn sys(&self) -> Vec<(String, String)> {
        self.sys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
