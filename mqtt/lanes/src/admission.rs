//! Who may come in: at most so many at once, and at most so many from one address, so that one host
//! cannot take all places. A few more come in to be told that there are as many as there may be.
//!
//! Owns: the places, which all listeners of an application have in common, given back when a
//! connection is over, and what a listener counts. Of those who are turned away it says something
//! at most every ten seconds: a flood must not fill the log.
//! Does not know: sockets.
//! Assumes: any lane takes places, and gives them back.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::time::Millis;

/// A line about those who are turned away comes at most this often.
const QUIET: Duration = Duration::from_secs(10);

/// What is taken at most, at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) all: usize,
    pub(crate) each_address: usize,
    /// Besides these, who is told that there is none.
    pub(crate) excess: usize,
}

/// Which limit a connection is beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// [`crate::BindOptions::max_connections`].
    All,
    /// [`crate::BindOptions::max_connections_each`].
    EachAddress,
}

/// The places that are taken, through whichever listener.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    open: AtomicUsize,
    /// Those that are open, by their origin; empty where addresses are not limited.
    origins: Mutex<HashMap<IpAddr, usize>>,
    /// Those that are open beyond the limits.
    excess: AtomicUsize,
}

/// One more of at most so many. False: there are as many as there may be.
fn enter(open: &AtomicUsize, most: usize) -> bool {
    let more = |open: usize| (open < most).then(|| open + 1);
    open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
}

fn leave(open: &AtomicUsize) {
    let before = open.fetch_sub(1, Ordering::Relaxed);
    assert!(before > 0, "who leaves has entered");
}

impl Taken {
    /// A place among those of one origin. False: it has all that it may have.
    fn enter_from(&self, origin: IpAddr, most: usize) -> bool {
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        let open = origins.entry(origin).or_insert(0);
        let may = *open < most;
        *open += usize::from(may);
        if *open == 0 {
            origins.remove(&origin);
        }
        may
    }

    fn leave_from(&self, origin: IpAddr) {
        let mut origins = self.origins.lock().unwrap_or_else(PoisonError::into_inner);
        let open = origins.get_mut(&origin);
        assert!(open.as_ref().is_some_and(|open| **open > 0), "who leaves has entered");
        let Some(open) = open else { return };
        *open -= 1;
        if *open == 0 {
            origins.remove(&origin);
        }
    }
}

/// What a listener counts. Shared, so that whoever bound it can look.
#[derive(Debug, Default)]
pub struct ListenerStats {
    taken: Arc<Taken>,
    open: AtomicUsize,
    refused: AtomicU64,
    refused_address: AtomicU64,
    faults: AtomicU64,
}

impl ListenerStats {
    /// Connections open now that came through it, within the limits.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Connections turned away because of the limit of all.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Connections turned away because of the limit of their address.
    pub fn refused_address(&self) -> u64 {
        self.refused_address.load(Ordering::Relaxed)
    }

    /// Accepts that failed.
    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    pub(crate) fn add_fault(&self) {
        self.faults.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection's place, given back when dropped.
#[derive(Debug)]
pub struct Admission {
    stats: Arc<ListenerStats>,
    /// `None` for most: each connection keeps one of these.
    place: Option<Box<Place>>,
}

/// Which place is more than one among all.
#[derive(Debug)]
enum Place {
    /// Among those of an address too, where these are limited.
    From(IpAddr),
    /// It is not among them.
    Beyond(Excess),
}

impl Admission {
    pub(crate) fn excess(&self) -> Option<Excess> {
        match self.place.as_deref()? {
            Place::From(_) => None,
            Place::Beyond(limit) => Some(*limit),
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        let taken = &self.stats.taken;
        match self.place.as_deref() {
            Some(Place::Beyond(_)) => return leave(&taken.excess),
            Some(Place::From(origin)) => taken.leave_from(*origin),
            None => {}
        }
        self.stats.open.fetch_sub(1, Ordering::Relaxed);
        leave(&taken.open);
    }
}

/// When to say something about what a flood may bring.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    /// No line before this.
    quiet_until: Millis,
    /// What has happened since the last line.
    unsaid: u64,
}

impl Complaints {
    /// How often it has happened since the last line, this time included, when it is time for one.
    pub(crate) fn complain(&mut self, now: Millis) -> Option<u64> {
        self.unsaid += 1;
        if now < self.quiet_until {
            return None;
        }
        self.quiet_until = now + QUIET;
        Some(std::mem::take(&mut self.unsaid))
    }
}

/// The door of one listener.
#[derive(Debug)]
pub(crate) struct Door {
    places: Places,
    stats: Arc<ListenerStats>,
    complaints: Complaints,
}

impl Door {
    pub(crate) fn new(places: Places, taken: Arc<Taken>) -> Self {
        let stats = Arc::new(ListenerStats { taken, ..ListenerStats::default() });
        Self { places, stats, complaints: Complaints::default() }
    }

    pub(crate) fn stats(&self) -> &Arc<ListenerStats> {
        &self.stats
    }

    /// A place for a connection from `addr`, to a listener at `local`.
    pub(crate) fn admit(
        &mut self,
        now: Millis,
        addr: SocketAddr,
        local: SocketAddr,
    ) -> Option<Admission> {
        let Places { all, each_address, .. } = self.places;
        if !enter(&self.stats.taken.open, all) {
            self.stats.refused.fetch_add(1, Ordering::Relaxed);
            if let Some(turned_away) = self.complaints.complain(now) {
                tracing::warn!(%local, peer = %addr, max_connections = all, turned_away,
                    "turns away new connections: there are as many as --max-connections allows");
            }
            return self.admit_beyond(Excess::All);
        }
        let limited = each_address < all;
        let origin = limited.then(|| origin(addr.ip()));
        if let Some(origin) = origin
            && !self.stats.taken.enter_from(origin, each_address)
        {
            leave(&self.stats.taken.open);
            self.stats.refused_address.fetch_add(1, Ordering::Relaxed);
            if let Some(turned_away) = self.complaints.complain(now) {
                tracing::warn!(%local, peer = %addr, max_connections_each = each_address,
                    turned_away, "turns away new connections: their address has as many as \
                     --max-connections-each allows");
            }
            return self.admit_beyond(Excess::EachAddress);
        }
        self.stats.open.fetch_add(1, Ordering::Relaxed);
        let place = origin.map(|origin| Box::new(Place::From(origin)));
        Some(Admission { stats: Arc::clone(&self.stats), place })
    }

    /// A place for one that is told which limit it is beyond.
    fn admit_beyond(&self, limit: Excess) -> Option<Admission> {
        enter(&self.stats.taken.excess, self.places.excess).then(|| Admission {
            stats: Arc::clone(&self.stats),
            place: Some(Box::new(Place::Beyond(limit))),
        })
    }
}

/// Whom an address belongs to: one host has a whole /64 of IPv6.
fn origin(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(_) => ip,
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(ip: &str) -> SocketAddr {
        SocketAddr::new(ip.parse().unwrap(), 1)
    }

    fn door(all: usize, each_address: usize) -> Door {
        Door::new(Places { all, each_address, excess: 0 }, Arc::default())
    }

    #[test]
    fn listeners_share_the_places_and_count_for_themselves() {
        let taken = Arc::<Taken>::default();
        let places = Places { all: 2, each_address: 1, excess: 0 };
        let mut doors = [(); 2].map(|()| Door::new(places, Arc::clone(&taken)));
        let mut admit = |door: usize, ip| doors[door].admit(Millis(0), from(ip), from("::1"));
        let first = admit(0, "192.0.2.1").unwrap();
        assert!(admit(1, "192.0.2.1").is_none(), "its address has one");
        let _second = admit(1, "192.0.2.2").unwrap();
        assert!(admit(0, "192.0.2.3").is_none(), "there are two");
        drop(first);
        let _third = admit(1, "192.0.2.1").unwrap();
        let counted = doors.map(|door| {
            let stats = door.stats();
            (stats.open(), stats.refused(), stats.refused_address())
        });
        assert_eq!(counted, [(0, 1, 0), (2, 0, 1)]);
    }

    #[test]
    fn one_address_takes_its_share_and_leaves_the_rest_to_others() {
        let mut door = door(4, 2);
        let mut admit = |ip| door.admit(Millis(0), from(ip), from("127.0.0.1"));
        let first = admit("192.0.2.1").unwrap();
        let _second = admit("192.0.2.1").unwrap();
        assert!(admit("192.0.2.1").is_none());
        let _other = admit("192.0.2.2").unwrap();
        drop(first);
        let _third = admit("192.0.2.1").unwrap();
        let _fourth = admit("192.0.2.3").unwrap();
        assert!(admit("192.0.2.4").is_none(), "there are four");
        let stats = door.stats();
        assert_eq!((stats.open(), stats.refused_address(), stats.refused()), (4, 1, 1));
    }

    #[test]
    fn a_few_are_let_in_to_be_told_that_there_is_no_place() {
        let taken = Arc::<Taken>::default();
        let places = Places { all: 2, each_address: 1, excess: 2 };
        let mut doors = [(); 2].map(|()| Door::new(places, Arc::clone(&taken)));
        let mut admit = |door: usize, ip| doors[door].admit(Millis(0), from(ip), from("::1"));
        let excess = |admitted: Option<&Admission>| admitted.unwrap().excess();
        let first = admit(0, "192.0.2.1");
        let second = admit(0, "192.0.2.1");
        assert_eq!((excess(first.as_ref()), excess(second.as_ref())), {
            (None, Some(Excess::EachAddress))
        });
        let _third = admit(1, "192.0.2.2");
        let fourth = admit(1, "192.0.2.3");
        assert_eq!(excess(fourth.as_ref()), Some(Excess::All));
        assert!(admit(1, "192.0.2.4").is_none(), "two are told, through whichever listener");
        drop(second);
        assert_eq!(excess(admit(0, "192.0.2.5").as_ref()), Some(Excess::All));
        drop(first);
        assert_eq!(excess(admit(0, "192.0.2.1").as_ref()), None);
        let counted = doors.map(|door| {
            let stats = door.stats();
            (stats.open(), stats.refused(), stats.refused_address())
        });
        assert_eq!(counted, [(0, 1, 1), (1, 2, 0)]);
    }

    #[test]
    fn addresses_of_one_network_of_a_host_are_one() {
        let mut door = door(9, 1);
        let mut admit = |ip| door.admit(Millis(0), from(ip), from("::1"));
        let _host = admit("2001:db8:1:1::1").unwrap();
        assert!(admit("2001:db8:1:1:ffff::2").is_none());
        assert!(admit("2001:db8:1:2::1").is_some());
    }

    #[test]
    fn nothing_is_kept_of_who_has_left_or_where_addresses_are_not_limited() {
        let mut limited = door(9, 1);
        drop(limited.admit(Millis(0), from("192.0.2.1"), from("::1")));
        assert!(limited.stats().taken.origins.lock().unwrap().is_empty());
        let mut closed = door(9, 0);
        assert!(closed.admit(Millis(0), from("192.0.2.1"), from("::1")).is_none());
        assert!(closed.stats().taken.origins.lock().unwrap().is_empty());
        let mut open = door(9, 9);
        let _one = open.admit(Millis(0), from("192.0.2.1"), from("::1"));
        assert!(open.stats().taken.origins.lock().unwrap().is_empty());
    }

    #[test]
    fn a_flood_is_one_line_and_the_next_says_how_many_there_were() {
        let mut complaints = Complaints::default();
        assert_eq!(complaints.complain(Millis(5)), Some(1));
        assert_eq!(complaints.complain(Millis(6)), None);
        assert_eq!(complaints.complain(Millis(10_004)), None);
        assert_eq!(complaints.complain(Millis(10_005)), Some(3));
    }
}
