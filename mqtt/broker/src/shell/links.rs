//! The links of a lane, by connection.

use zzq_lanes::ConnId;

use super::link::{Link, Phase};

/// A table of links, as dense as the lane's own of connections.
#[derive(Debug, Default)]
pub(super) struct Links {
    slots: Vec<Option<(ConnId, Box<Link>)>>,
    len: usize,
}

impl Links {
    /// Adds the link of a new connection.
    pub(super) fn insert(&mut self, conn: ConnId, link: Link) {
        let at = conn.index();
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        let before = self.slots[at].replace((conn, Box::new(link)));
        assert!(before.is_none(), "the connection before in this place has ended");
        self.len += 1;
    }

    /// Takes the link of a connection that has ended or moved.
    pub(super) fn remove(&mut self, conn: ConnId) -> Option<Box<Link>> {
        let slot = self.slots.get_mut(conn.index())?;
        if slot.as_ref().is_none_or(|(id, _)| *id != conn) {
            return None;
        }
        self.len -= 1;
        slot.take().map(|(_, link)| link)
    }

    /// The link of a connection.
    #[inline]
    pub(super) fn get(&self, conn: ConnId) -> Option<&Link> {
        match self.slots.get(conn.index()) {
            Some(Some((id, link))) if *id == conn => Some(link),
            _ => None,
        }
    }

    /// The link of a connection.
    #[inline]
    pub(super) fn get_mut(&mut self, conn: ConnId) -> Option<&mut Link> {
        match self.slots.get_mut(conn.index()) {
            Some(Some((id, link))) if *id == conn => Some(link),
            _ => None,
        }
    }

    /// The link of a connection whose session is up.
    #[inline]
    pub(super) fn up_mut(&mut self, conn: ConnId) -> Option<&mut Link> {
        self.get_mut(conn).filter(|link| link.phase == Phase::Up)
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.len
    }
}
